/*
 * Random numbers of a simulation. Everything random comes from one seed. Each layer draws from its own
 * stream, so a fault that is switched off does not change the numbers of the others.
 */
#ifndef SIMULATION_RANDOM_H
#define SIMULATION_RANDOM_H

#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

enum stream {
    STREAM_SCENARIO, /* the configuration, and the faults */
    STREAM_WRITER,   /* changes of the catalogue */
    STREAM_CLIENTS,  /* requests */
    STREAM_NET,      /* pieces and delays */
    STREAM_SERVER,   /* the event loop of Redis, its tracking table */
    STREAM_PROCESS,  /* the event loop of the process, the time that its calls take */
    STREAM_SEEDS,    /* getrandom() */
    STREAM_MEMORY,   /* allocations that fail */
    STREAMS
};

void random_begin(uint64_t seed);

uint64_t random_bits(enum stream stream);

/* A number below `count`, which is not 0. */
static inline unsigned random_below(enum stream stream, unsigned count)
{
    return (unsigned)(random_bits(stream) >> 32) % count;
}

/* True once in `count` times. */
static inline bool random_once_in(enum stream stream, unsigned count)
{
    return random_below(stream, count) == 0;
}

/* A duration below `max`, mostly much shorter: its magnitude is random. */
static inline uint64_t random_duration(enum stream stream, uint64_t max)
{
    uint64_t limit = max >> random_below(stream, 12);
    return limit == 0 ? 0 : random_bits(stream) % limit;
}

#endif
