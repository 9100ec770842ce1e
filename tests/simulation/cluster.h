/* What cases (cases.h) change of the cluster. */
#ifndef SIMULATION_CLUSTER_H
#define SIMULATION_CLUSTER_H

/* Each node has a host name, and replies name it in place of the address. */
void cluster_announce_names(void);

/* The slot does not migrate. */
void cluster_stay(void);

/* The slot stays long enough for the process to use its owner. */
void cluster_rest(void);

/* This node has none any more: its host is "?". */
void cluster_remove_name(int node);

/* A replica takes over by order. */
void cluster_take_over(int node);

/* This node says for a minute and a half that the other one has the slot. */
void cluster_refer(int node, int other);

/* Migrations of the slot that have ended. */
unsigned cluster_migrations(void);

#endif
