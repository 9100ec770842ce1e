/*
 * The metrics of requests: by route and status, their durations, and outcomes of key checks. One struct per
 * worker, written by that worker alone; the admin listener reads and adds them up.
 */
#ifndef API_METRICS_H
#define API_METRICS_H

#include "api/params.h"
#include "base/metrics.h"

enum { REQUEST_METRICS_STATUS_COUNT = 17 }; /* statuses that responses have */

/* The outcome of the key check. */
enum auth_outcome {
    AUTH_VALID,
    AUTH_MISSING,
    AUTH_INVALID,
    AUTH_UNAVAILABLE, /* the key could not be checked */
    AUTH_OUTCOMES
};

/* X(name, kind, help): the metrics without labels; see base/metrics.h. */
#define API_METRICS(X)                                                                                 \
    X(requests_in_flight, gauge, "Requests received and not yet answered.")                            \
    X(key_rate_limited_total, counter, "Requests refused with 429: beyond the rate of their API key.") \
    X(key_rate_uncounted_total, counter, "Requests of API keys that no room was left to count: granted.")

/* The values are in the order of enum route, enum auth_outcome, and enum coding behind identity. */
#define API_LABELLED_METRICS(X)                                                                         \
    X(request_duration_seconds, histogram, "Time from the complete request to its response, by route.", \
      "route", ROUTE_NAMES)                                                                             \
    X(auth_total, counter,                                                                              \
      "API requests by outcome of the key check; unavailable: neither Redis nor the cache could tell.", \
      "outcome", "valid", "missing", "invalid", "unavailable")                                          \
    X(coded_responses_total, counter,                                                                   \
      "Responses with status 200 that were sent compressed, by content coding.", "coding", "gzip", "zstd")

struct request_metrics {
    API_METRICS(METRIC_MEMBER)
    API_LABELLED_METRICS(METRIC_ARRAY)
    /* The last status stands for any that is not listed. */
    _Atomic uint64_t requests_total[ROUTE_COUNT][REQUEST_METRICS_STATUS_COUNT + 1];
};

/* The metric by route and status: a row of a table for this struct. */
extern const struct metric request_metrics_by_status;

/* `duration_ns`: from the complete request to its response. */
void request_metrics_count(struct request_metrics *t, enum route route, int status, uint64_t duration_ns);

static inline void request_metrics_count_key(struct request_metrics *t, enum auth_outcome outcome)
{
    metric_add(&t->auth_total[outcome], 1);
}

/* Not identity. */
static inline void request_metrics_count_coded(struct request_metrics *t, enum coding coding)
{
    metric_add(&t->coded_responses_total[coding - 1], 1);
}

#endif
