#ifndef COHERENCE_LATENCY_H
#define COHERENCE_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#include "coherence/clock.h"

/*
 * How long answers took, counted in buckets that grow by a quarter of a power of two. One thread counts, any
 * thread reads meanwhile: what came in between two readings is the difference of their counts.
 */

enum { LATENCY_BUCKETS = 4 * 36 };

struct latency {
    _Atomic uint64_t count[LATENCY_BUCKETS];
};

static inline int latency_bucket(int64_t ns)
{
    uint64_t us = ns < 4 * (int64_t)CLOCK_US ? 4 : (uint64_t)ns / CLOCK_US;
    int power = 63 - __builtin_clzll(us); /* 2 or more */
    int bucket = 4 * power + (int)(us >> (power - 2) & 3);
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

static inline void latency_add(struct latency *latency, int64_t ns)
{
    atomic_fetch_add_explicit(&latency->count[latency_bucket(ns)], 1, memory_order_relaxed);
}

/* The upper end of a bucket, in microseconds. */
static inline uint64_t latency_us(int bucket)
{
    int power = bucket / 4;
    return ((uint64_t)(bucket % 4 + 5) << power) >> 2;
}

#endif
