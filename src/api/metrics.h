/* The metrics of requests, in a struct per worker; those by the name of the API key in one, in which all
 * workers count. */
#ifndef API_METRICS_H
#define API_METRICS_H

#include "api/params.h"
#include "base/metrics.h"
#include "http/response.h"
#include "model/api_key.h"

#include <pthread.h>

enum auth_outcome {
    AUTH_VALID,
    AUTH_MISSING,
    AUTH_INVALID,
    AUTH_UNAVAILABLE, /* the key could not be checked */
    AUTH_OUTCOMES
};

/* See base/metrics.h. The values are in the order of enum route, enum auth_outcome, and enum coding behind
 * identity. */
#define API_METRICS(X)                                                                                    \
    X(requests_in_flight, gauge, "Requests received and not yet answered.")                               \
    X(key_rate_limited_total, counter, "Requests refused with 429: beyond the rate of their API key.")    \
    X(key_rate_uncounted_total, counter, "Requests of API keys that no room was left to count: granted.") \
    X(request_duration_seconds, histogram, "Time from the complete request to its response, by route.",   \
      "route", ROUTE_NAMES)                                                                               \
    X(auth_total, counter,                                                                                \
      "API requests by outcome of the key check; unavailable: neither Redis nor the cache could tell.",   \
      "outcome", "valid", "missing", "invalid", "unavailable")                                            \
    X(coded_responses_total, counter,                                                                     \
      "Responses with status 200 that were sent compressed, by content coding.", "coding", "gzip", "zstd")

struct request_metrics {
    API_METRICS(METRIC_MEMBER)
    _Atomic uint64_t requests_total[ROUTE_COUNT][HTTP_STATUS_COUNT];
};

/* The metric by route and status: a row of a table for this struct. */
extern const struct metric request_metrics_by_status;

/* `duration_ns`: from the complete request to its response. */
void request_metrics_count(struct request_metrics *t, enum route route, int status, uint64_t duration_ns);

/* --- By the name of the API key, if the key is valid or has expired --- */

/* The first two places are those of keys without a name, and of "other", as which further names count. A name
 * keeps its place for as long as the process runs. */
enum { KEY_METRICS_NAMES = 200, KEY_METRICS_PLACES = 2 + KEY_METRICS_NAMES };

/* The classes of statuses: 200, 300, 400, and 500 and above; and the reasons of a refusal. */
enum { KEY_CLASSES = 4, KEY_REASONS = 2 };

struct key_metrics {
    pthread_mutex_t lock;              /* held while a name is added */
    atomic_uint used;                  /* places below it have a name that no longer changes */
    uint64_t hash[KEY_METRICS_PLACES]; /* of the name, so that a search compares numbers */
    char name[KEY_METRICS_PLACES][API_KEY_NAME_MAX + 1];
    _Atomic uint64_t requests[KEY_METRICS_PLACES][KEY_CLASSES];
    _Atomic uint64_t refused[KEY_METRICS_PLACES][KEY_REASONS];
};

/* Owned (key_metrics_free); NULL when out of memory. */
struct key_metrics *key_metrics_new(void);
void key_metrics_free(struct key_metrics *m);

/* From any thread; the key is known. */
void key_metrics_count(struct key_metrics *m, const struct api_key_name *name, int status);

void key_metrics_write(struct buf *out, const struct key_metrics *m);

#endif
