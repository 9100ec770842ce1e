#ifndef COHERENCE_READER_H
#define COHERENCE_READER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coherence/checker.h"
#include "coherence/options.h"

/*
 * Latencies, counted in buckets that grow by a quarter of a power of two. One thread counts, and any thread
 * may read meanwhile. The difference of two readings has the latencies between them.
 */

enum { LATENCY_BUCKETS = 4 * 36 };

struct latency {
    _Atomic uint64_t count[LATENCY_BUCKETS];
};

/* The upper end of a bucket, in microseconds. */
static inline uint64_t latency_us(int bucket)
{
    int power = bucket / 4;
    return ((uint64_t)(bucket % 4 + 5) << power) >> 2;
}

/* A thread that sends requests over several connections as fast as it gets responses, and checks each. */
struct reader {
    const struct options *options;
    struct checker checker;
    int port; /* of channeld, or of the proxy in front of it */
    uint64_t random;
    int poller;
    struct client *clients;
    int first;   /* index of the client that sends first */
    int64_t due; /* when the next batch may be sent, if the rate is limited */
    struct counters counters;
    struct latency latency;
    pthread_t thread;
    atomic_bool *finished;
};

/* Starts it; `finished` tells it to end. */
void reader_start(struct reader *reader, const struct options *options, const struct checker *checker,
                  int number, int port, atomic_bool *finished);

/* Waits for its end, which comes when its last requests have been answered. */
void reader_join(struct reader *reader);

#endif
