/*
 * Exponential backoff with jitter: the pause before the next attempt at something that has failed. Half of a
 * pause is fixed, half is random, so that workers, replicas and jobs do not retry at the same time.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>
#include <stdlib.h>

/*
 * Milliseconds to wait after the given number of failures in a row: half to all of min_ms after the first, of
 * twice as much after each further one, and of max_ms at most. The seed is the caller's, and changes.
 */
static inline uint64_t backoff_ms(unsigned failures, uint64_t min_ms, uint64_t max_ms, unsigned *seed)
{
    uint64_t pause = min_ms;
    for (unsigned i = 1; i < failures && pause < max_ms; i++)
        pause *= 2;
    if (pause > max_ms)
        pause = max_ms;
    return pause / 2 + (uint64_t)rand_r(seed) % (pause / 2 + 1);
}

#endif
