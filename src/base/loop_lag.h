/*
 * Durations of the turns of an event loop: for that long everything else on the loop waits.
 *
 * A turn lasts from the first thing done in it to the next poll of the sockets. Each entry point of a turn
 * reports its beginning; the first report counts. Of one thread, but for the histogram, which any may read.
 */
#ifndef BASE_LOOP_LAG_H
#define BASE_LOOP_LAG_H

#include "base/clock.h"
#include "base/metrics.h"

struct loop_lag {
    struct histogram turns;
    uint64_t turn_began_ns; /* 0: nothing was done in this turn */
};

/* For a caller that has read the clock anyway. */
static inline void loop_lag_begin_at(struct loop_lag *l, uint64_t now_ns)
{
    if (l->turn_began_ns == 0)
        l->turn_began_ns = now_ns;
}

static inline void loop_lag_begin(struct loop_lag *l)
{
    if (l->turn_began_ns == 0)
        l->turn_began_ns = clock_now_ns();
}

/* Observes the turn, if one has begun. */
static inline void loop_lag_end(struct loop_lag *l)
{
    if (l->turn_began_ns == 0)
        return;
    uint64_t now_ns = clock_now_ns();
    histogram_observe(&l->turns, now_ns > l->turn_began_ns ? now_ns - l->turn_began_ns : 0);
    l->turn_began_ns = 0;
}

#endif
