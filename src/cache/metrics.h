/* The metrics of the cache, one line each; see base/metrics.h. */
#ifndef CACHE_METRICS_H
#define CACHE_METRICS_H

#include "base/metrics.h"

#define CACHE_METRICS(X)                                                                                    \
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
    X(request_timeouts_total, counter, "Requests that Redis did not answer within the request timeout.")    \
    X(dangling_index_entries_total, counter,                                                                \
      "Index members left out of a page because they have no card, or a broken one.")                       \
    X(invalid_values_total, counter, "Stored values that were served as absent because they do not parse.") \
    X(catalogue_updated_timestamp_seconds, gauge_max,                                                       \
      "Newest updated_at read from Redis since the start, as seconds since 1970; 0 before the first.")

struct cache_metrics {
    CACHE_METRICS(METRIC_MEMBER)
};

#endif
