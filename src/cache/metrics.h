/* The metrics of the cache, one line each; see base/metrics.h. */
#ifndef CACHE_METRICS_H
#define CACHE_METRICS_H

#include "base/metrics.h"

#define CACHE_METRICS(X)                                                                                     \
    X(redis_commands_total, counter, "Redis commands sent for requests.")                                    \
    X(redis_error_replies_total, counter, "Redis error replies to commands of requests.")                    \
    X(catalogue_missing, gauge, "Workers whose Redis holds no catalogue: neither an index nor API keys.")    \
    X(api_keys_missing, gauge, "Workers whose Redis holds no API keys: each request gets 401.")              \
    X(catalogue_channels, gauge_max, "Channels in the index, read each second.")                             \
    X(cache_hits_total, counter, "Requests answered from the cache.")                                        \
    X(cache_misses_total, counter, "Requests that had to read Redis.")                                       \
    X(cache_coalesced_total, counter,                                                                        \
      "Requests that shared the Redis read of an identical request in flight.")                              \
    X(cache_stale_hits_total, counter, "Requests answered from the cache while Redis was unavailable.")      \
    X(cache_invalidations_total, counter, "Keys invalidated by Redis.")                                      \
    X(cache_flushes_total, counter, "Flushes of the whole cache.")                                           \
    X(cache_evictions_total, counter, "Entries evicted to stay within the cache size.")                      \
    X(cache_audit_failures_total, counter, "Cached entries found changed without an invalidation.")          \
    X(cache_suspended, gauge,                                                                                \
      "Workers whose cache is off until their next Redis connection, after an audit failure.")               \
    X(cache_untracked, gauge, "Workers whose Redis does not track: nothing is cached, or only for the TTL.") \
    X(cache_by_ttl, gauge, "Workers whose Redis does not track, so that cached data is served for the TTL.") \
    X(cache_entries, gauge, "Cached entries.")                                                               \
    X(cache_bytes, gauge, "Bytes used by cached entries, as the allocator counts.")                          \
    X(cache_coded_bytes, gauge, "Of these, bytes of compressed bodies.")                                     \
    X(cache_coded_total, counter, "Bodies compressed for the cache.")                                        \
    X(request_timeouts_total, counter,                                                                       \
      "Requests that Redis did not answer in time, or that waited too long to be read.")                     \
    X(dangling_index_entries_total, counter,                                                                 \
      "Index members left out of a page because their card is missing or broken.")                           \
    X(invalid_values_total, counter, "Stored values served as absent because they do not parse.")            \
    X(catalogue_updated_timestamp_seconds, gauge_max,                                                        \
      "Newest updated_at read from Redis, as seconds since 1970; 0 before the first.")                       \
    X(api_key_next_expiry_timestamp_seconds, gauge_max,                                                      \
      "When the next API key in memory expires, as seconds since 1970; 0: none does.")

struct cache_metrics {
    CACHE_METRICS(METRIC_MEMBER)
};

#endif
