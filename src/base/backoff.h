/* Exponential backoff with jitter, so that workers, replicas and jobs do not retry at the same time. */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/param.h>

/* min_ms after no failure, twice as much after each further one, and max_ms at most. */
static inline uint64_t backoff_doubled_ms(unsigned failures, uint64_t min_ms, uint64_t max_ms)
{
    return MIN(min_ms << MIN(failures, 31U), max_ms);
}

/* Half to all of that, from the first failure on. The seed is the caller's, and changes. */
static inline uint64_t backoff_ms(unsigned failures, uint64_t min_ms, uint64_t max_ms, unsigned *seed)
{
    uint64_t pause = backoff_doubled_ms(failures > 0 ? failures - 1 : 0, min_ms, max_ms);
    return pause / 2 + (uint64_t)rand_r(seed) % (pause / 2 + 1);
}

#endif
