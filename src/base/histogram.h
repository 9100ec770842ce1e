/*
 * A histogram of durations with fixed buckets, from 50 microseconds to 2.5 seconds, as Prometheus knows them.
 *
 * Like the counters in metrics.h it is written by one thread alone and read by another at any time: a reader
 * may see an observation in its bucket and not yet in the sum.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include "base/buf.h"

#include <stdatomic.h>

/* X(upper bound in microseconds, the same in seconds as it is exposed), ascending. */
#define HISTOGRAM_BOUNDS(X) \
    X(50, "0.00005")        \
    X(100, "0.0001")        \
    X(250, "0.00025")       \
    X(500, "0.0005")        \
    X(1000, "0.001")        \
    X(2500, "0.0025")       \
    X(5000, "0.005")        \
    X(10000, "0.01")        \
    X(25000, "0.025")       \
    X(50000, "0.05")        \
    X(100000, "0.1")        \
    X(250000, "0.25")       \
    X(500000, "0.5")        \
    X(1000000, "1")         \
    X(2500000, "2.5")

#define HISTOGRAM_COUNT(us, text) +1 /* NOLINT(bugprone-macro-parentheses): a summand */
enum { HISTOGRAM_BUCKETS = 0 HISTOGRAM_BOUNDS(HISTOGRAM_COUNT) };
#undef HISTOGRAM_COUNT

struct histogram {
    /* Each for itself; the last is for what is above all bounds. */
    _Atomic uint64_t bucket[HISTOGRAM_BUCKETS + 1];
    _Atomic uint64_t sum_ns;
};

/* To be called by the owning thread alone. */
void histogram_observe(struct histogram *h, uint64_t ns);

/* Adds `from` to `to`, which belongs to the caller. */
void histogram_accumulate(struct histogram *to, const struct histogram *from);

/*
 * Writes the samples of a metric (in seconds) in the Prometheus text format, without its
 * HELP and TYPE. `labels`: as they stand in braces, e.g. `route="list"`; empty for none.
 */
void histogram_write(struct buf *out, const char *name, const char *labels, const struct histogram *h);

#endif
