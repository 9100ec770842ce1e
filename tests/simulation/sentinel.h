/* Sentinels: servers beside those of replica.h. Each has its own view of which of those is the master. */
#ifndef SIMULATION_SENTINEL_H
#define SIMULATION_SENTINEL_H

#include "simulation/redis.h"

/* SENTINEL. */
void sentinel_query(struct redis *r, struct redis_client *c, const struct command *m);

/* For cases (cases.h): Sentinels name servers data0.test and so on (sentinel announce-hostnames). */
void sentinel_announce_names(void);

/* Sentinels reach the replicas, and take them for healthy, whatever the process meets with. */
void sentinel_see_no_fault(void);

/* Sentinels report this replica as down, which others reach. */
void sentinel_report_down(const struct redis *r);

/* A replica becomes the master, and all Sentinels announce it at once. */
void sentinel_fail_over(void);

#endif
