#ifndef COHERENCE_CLOCK_H
#define COHERENCE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Time in nanoseconds by the monotonic clock, and pseudo-random numbers from a state of the thread. */

enum { CLOCK_US = 1000, CLOCK_MS = 1000000, CLOCK_S = 1000000000 };

static inline int64_t clock_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * CLOCK_S + now.tv_nsec;
}

static inline void clock_sleep(int64_t ns)
{
    if (ns <= 0)
        return;
    struct timespec time = {.tv_sec = (time_t)(ns / CLOCK_S), .tv_nsec = (long)(ns % CLOCK_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) != 0)
        continue;
}

/* SplitMix64. */
static inline uint64_t random_next(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15U;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

/* One of 0..n-1. */
static inline int random_below(uint64_t *state, int n)
{
    return (int)((random_next(state) >> 33) % (uint64_t)n);
}

#endif
