/* What cases (cases.h) change of the cluster. */
#ifndef SIMULATION_CLUSTER_H
#define SIMULATION_CLUSTER_H

/* Each node has a host name, and replies name it in place of the address. */
void cluster_announce_names(void);

/* The slot does not migrate. */
void cluster_stay(void);

/* This node has none any more: its host is "?". */
void cluster_remove_name(int node);

#endif
