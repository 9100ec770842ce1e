/* Sentinels: servers beside those of replica.h. Each has its own view of which of those is the master. */
#ifndef SIMULATION_SENTINEL_H
#define SIMULATION_SENTINEL_H

#include "simulation/redis.h"

/* SENTINEL, and SUBSCRIBE +switch-master. */
void sentinel_query(struct redis *r, struct redis_client *c, const struct command *m);
void sentinel_subscribe(struct redis *r, struct redis_client *c, const struct command *m);

#endif
