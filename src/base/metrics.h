/*
 * Counters and gauges, one table for the struct, the exposition and the documentation.
 *
 * Each worker owns one struct metrics and is its only writer; the admin listener reads and adds them up. So
 * an update is a plain load and store (relaxed atomics keep it defined), never a locked instruction.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"
#include "base/loop_lag.h"

#include <stdatomic.h>

/* X(name, type, help): exposed as channeld_<name>. */
#define METRICS(X)                                                                                          \
    X(requests_rejected_total, counter,                                                                     \
      "Requests refused before routing: malformed, too large, too slow, or one connection too many.")       \
    X(connections_open, gauge, "Client connections open now.")                                              \
    X(connections_accepted_total, counter, "Client connections accepted.")                                  \
    X(connections_rejected_total, counter, "Client connections refused because the limit was reached.")     \
    X(connections_timed_out_total, counter, "Client connections closed because a deadline passed.")         \
    X(connections_max_age_reached_total, counter, "Client connections ended because of their age.")         \
    X(redis_commands_total, counter, "Commands sent to Redis for requests.")                                \
    X(redis_error_replies_total, counter, "Error replies of Redis to commands of requests.")                \
    X(catalogue_missing, gauge, "Workers whose Redis holds no catalogue: neither an index nor API keys.")   \
    X(cache_hits_total, counter, "Requests answered from memory.")                                          \
    X(cache_misses_total, counter, "Requests for which Redis was asked.")                                   \
    X(cache_coalesced_total, counter, "Requests that joined one that was already asking Redis the same.")   \
    X(cache_stale_hits_total, counter, "Requests answered from memory while Redis was away.")               \
    X(cache_invalidations_total, counter, "Keys that Redis said have changed.")                             \
    X(cache_flushes_total, counter, "Times that everything cached was dropped at once.")                    \
    X(cache_evictions_total, counter, "Entries dropped to stay within the cache's size.")                   \
    X(cache_audit_failures_total, counter, "Times that a cached entry had changed and Redis did not tell.") \
    X(cache_suspended, gauge,                                                                               \
      "Workers that cache nothing until their next connection, after such a failure.")                      \
    X(cache_entries, gauge, "Entries in the caches.")                                                       \
    X(cache_bytes, gauge, "Bytes that the caches hold, as the allocator counts.")                           \
    X(requests_in_flight, gauge, "Requests that have come and are not answered yet.")                       \
    X(request_timeouts_total, counter, "Requests that Redis did not answer within the request timeout.")    \
    X(dangling_index_entries_total, counter,                                                                \
      "Index members left out of a page because they have no card, or a broken one.")                       \
    X(invalid_values_total, counter, "Stored values that were served as absent because they do not parse.")

/* The same for gauges of which the largest counts, not the sum, where those of several workers are added up.
 */
#define METRICS_LARGEST(X)                        \
    X(catalogue_updated_timestamp_seconds, gauge, \
      "Newest updated_at read from Redis since the start, as seconds since 1970; 0 before the first.")

struct metrics {
#define METRICS_FIELD(name, type, help) _Atomic uint64_t name;
    METRICS(METRICS_FIELD)
    METRICS_LARGEST(METRICS_FIELD)
#undef METRICS_FIELD
    struct loop_lag loop_lag;
};

/* To be called by the owning thread alone. */
static inline void metric_add(_Atomic uint64_t *m, uint64_t n)
{
    uint64_t now = atomic_load_explicit(m, memory_order_relaxed);
    atomic_store_explicit(m, now + n, memory_order_relaxed);
}

static inline void metric_sub(_Atomic uint64_t *m, uint64_t n)
{
    uint64_t now = atomic_load_explicit(m, memory_order_relaxed);
    atomic_store_explicit(m, now - n, memory_order_relaxed);
}

static inline void metric_set(_Atomic uint64_t *m, uint64_t value)
{
    atomic_store_explicit(m, value, memory_order_relaxed);
}

/* From any thread. */
static inline uint64_t metric_get(const _Atomic uint64_t *m)
{
    return atomic_load_explicit(m, memory_order_relaxed);
}

static inline void metrics_turn_begins_at(struct metrics *m, uint64_t now_ns)
{
    loop_lag_begin_at(&m->loop_lag, now_ns);
}

static inline void metrics_turn_begins(struct metrics *m)
{
    loop_lag_begin(&m->loop_lag);
}

/* Adds `from` to `to`, metric by metric (of METRICS_LARGEST the larger). `to` belongs to the caller. */
void metrics_accumulate(struct metrics *to, const struct metrics *from);

/* Writes the head of a metric: `type` is counter, gauge or histogram, `help` without line ends. */
void metrics_write_head(struct buf *out, const char *name, const char *type, const char *help);

/* Writes a metric of one sample. */
void metrics_write_one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value);

/* Writes all metrics in the Prometheus text format, version 0.0.4. */
void metrics_write(struct buf *out, const struct metrics *m);

#endif
