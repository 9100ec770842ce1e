#ifndef COHERENCE_FAULTS_H
#define COHERENCE_FAULTS_H

#include "coherence/options.h"
#include "coherence/report.h"
#include "coherence/weather.h"
#include "coherence/world.h"
#include "support/redis.h"
#include "support/server.h"

/*
 * Causing faults, one at a time, and seeing each through until channeld is well again. To be called from the
 * thread that started the programs.
 */

struct stage {
    const struct options *options;
    struct world *world;
    struct weather *weather;
    struct report *report;
    struct redis redis;
    bool splits_turns; /* this Redis hands acknowledgements out before the invalidations of the turn are
                          queued */
    struct server server;
};

/* Starts the Redis that the options ask for, and finds out what it is like; prints its version. */
void fault_start_redis(struct stage *stage);

/* Causes it, undoes it, and waits until every worker is connected again. */
void fault_run(struct stage *stage, enum fault_kind kind);

/* Waits until the writers have written the whole catalogue of this generation. */
void fault_await_reload(struct stage *stage);

#endif
