/*
 * Requests by route and status, their durations, and outcomes of key checks. One struct per worker, written
 * by that worker alone; the admin listener reads and adds them up.
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

struct request_metrics {
    API_METRICS(METRIC_MEMBER)
    /* The last status stands for any that is not listed. */
    _Atomic uint64_t requests[ROUTE_COUNT][REQUEST_METRICS_STATUS_COUNT + 1];
    struct histogram duration[ROUTE_COUNT];
    _Atomic uint64_t auth[AUTH_OUTCOMES];
    _Atomic uint64_t coded[CODINGS]; /* responses by content coding; those of identity are not counted */
};

/* `duration_ns`: from the complete request to its response. */
void request_metrics_count(struct request_metrics *t, enum route route, int status, uint64_t duration_ns);

static inline void request_metrics_count_key(struct request_metrics *t, enum auth_outcome outcome)
{
    metric_add(&t->auth[outcome], 1);
}

static inline void request_metrics_count_coded(struct request_metrics *t, enum coding coding)
{
    metric_add(&t->coded[coding], 1);
}

/* Adds `from` to `to`, which belongs to the caller. */
void request_metrics_accumulate(struct request_metrics *to, const struct request_metrics *from);

/*
 * Writes the metrics with labels in the Prometheus text format. A status is written once it has occurred, and
 * from the start if alerts use it: 200, 401, 404 and 500 of each route that needs a key, 200 of `openapi`,
 * 500 and 503 of `other`.
 */
void request_metrics_write(struct buf *out, const struct request_metrics *t);

#endif
