/*
 * Counters, gauges and histograms, and their exposition in the Prometheus text format, version 0.0.4.
 *
 * Each layer lists its metrics in a table: X(name, kind, help), or X(name, kind, help, label, values...). The
 * table defines the members of its struct (METRIC_MEMBER) and the descriptors by which they are added up and
 * written (METRIC_ROW). The kinds:
 *
 *     counter     sums; the name ends in _total
 *     gauge       sums over the workers
 *     gauge_max   the largest value of all workers
 *     histogram   durations in seconds
 *
 * Each worker owns one set of values and is its only writer; the admin listener reads them at any time and
 * adds them up. An update is therefore a plain load and store (relaxed atomics), never a locked instruction.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"

#include <assert.h>
#include <stdatomic.h>

static inline void metric_add(_Atomic uint64_t *m, uint64_t n)
{
    uint64_t now = atomic_load_explicit(m, memory_order_relaxed);
    atomic_store_explicit(m, now + n, memory_order_relaxed);
}

static inline void metric_sub(_Atomic uint64_t *m, uint64_t n)
{
    uint64_t now = atomic_load_explicit(m, memory_order_relaxed);
    assert(now >= n);
    atomic_store_explicit(m, now - n, memory_order_relaxed);
}

static inline void metric_set(_Atomic uint64_t *m, uint64_t value)
{
    atomic_store_explicit(m, value, memory_order_relaxed);
}

static inline uint64_t metric_get(const _Atomic uint64_t *m)
{
    return atomic_load_explicit(m, memory_order_relaxed);
}

enum { HISTOGRAM_BUCKETS = 16 };

/* A reader may see an observation in its bucket and not yet in the sum. */
struct histogram {
    _Atomic uint64_t bucket[HISTOGRAM_BUCKETS]; /* not cumulative; the last has no bound */
    _Atomic uint64_t sum_ns;
};

void histogram_observe(struct histogram *h, uint64_t ns);

enum metric_kind { METRIC_counter, METRIC_gauge, METRIC_gauge_max, METRIC_histogram };

#define METRIC_TYPE_counter   _Atomic uint64_t
#define METRIC_TYPE_gauge     _Atomic uint64_t
#define METRIC_TYPE_gauge_max _Atomic uint64_t
#define METRIC_TYPE_histogram struct histogram

#define METRIC_VALUES(...) ((const char *const[]){__VA_ARGS__})
#define METRIC_COUNT(...)  (sizeof METRIC_VALUES(__VA_ARGS__) / sizeof(char *))

/* clang-format off */
/* A row of a table as a member of a struct: one value, or an array with one for each value of the label. */
#define METRIC_MEMBER(name, kind, help, ...) METRIC_TYPE_##kind name __VA_OPT__([METRIC_COUNT(__VA_ARGS__) - 1]);

#define METRIC_LABEL(name, ...) {(name), METRIC_VALUES(__VA_ARGS__), METRIC_COUNT(__VA_ARGS__)}
/* clang-format on */

struct metric_label {
    const char *name; /* NULL: there is none */
    const char *const *values;
    size_t count;
};

struct metric {
    const char *name; /* as exposed */
    enum metric_kind kind;
    size_t offset;    /* of the value, or of an array with as many dimensions as there are labels */
    const char *help; /* one line */
    struct metric_label label[2];
    /* The values of the second label, as bits, whose series begin with their first event, for which they have
     * no rate; all others begin at 0. */
    uint32_t late;
};

/* clang-format off */
#define METRIC_ROW(type, member, name, kind, help, ...) \
    {"channeld_" #name, METRIC_##kind, offsetof(type, member), help, {__VA_OPT__(METRIC_LABEL(__VA_ARGS__))}, 0},
/* clang-format on */

/* Adds `from` to `to`, which belongs to the caller; both are structs that `table` describes. */
void metrics_accumulate(const struct metric *table, size_t count, void *to, const void *from);

void metrics_write(struct buf *out, const struct metric *table, size_t count, const void *values);

/* For metrics that are in no struct: the head alone, and a metric of one sample. */
void metrics_write_head(struct buf *out, const char *name, const char *type, const char *help);
void metrics_write_one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value);

#endif
