/* Counting requests; see metrics.h. */
#include "api/metrics.h"

#include <stdio.h>

/* The most frequent first. The last stands for any other. */
static const int STATUSES[] = {200, 304, 401, 404, 400, 500, 429, 204, 405,
                               408, 412, 413, 414, 431, 501, 503, 505, 0};
_Static_assert(sizeof STATUSES / sizeof STATUSES[0] == REQUEST_METRICS_STATUS_COUNT + 1,
               "each has a counter");

static int request_metrics_index_of(int status)
{
    int i = 0;
    while (i < REQUEST_METRICS_STATUS_COUNT && STATUSES[i] != status)
        i++;
    return i;
}

void request_metrics_count(struct request_metrics *t, enum route route, int status, uint64_t duration_ns)
{
    metric_add(&t->requests[route][request_metrics_index_of(status)], 1);
    histogram_observe(&t->duration[route], duration_ns);
}

void request_metrics_accumulate(struct request_metrics *to, const struct request_metrics *from)
{
    for (int route = 0; route < ROUTE_COUNT; route++) {
        for (int i = 0; i <= REQUEST_METRICS_STATUS_COUNT; i++)
            metric_add(&to->requests[route][i], metric_get(&from->requests[route][i]));
        histogram_accumulate(&to->duration[route], &from->duration[route]);
    }
    for (int i = 0; i < AUTH_OUTCOMES; i++)
        metric_add(&to->auth[i], metric_get(&from->auth[i]));
    for (int i = 0; i < CODINGS; i++)
        metric_add(&to->coded[i], metric_get(&from->coded[i]));
}

/*
 * The series that alerts and ratios use begin at 0: a series that begins with its first event has no rate for
 * it. Rejected connections have no route.
 */
static bool request_metrics_is_shown_always(int route, int status)
{
    if (route == ROUTE_OPENAPI)
        return status == 200;
    bool is_failure = status == 500 || status == 503;
    return is_failure || (route != ROUTE_NONE && (status == 200 || status == 401 || status == 404));
}

static void request_metrics_write_requests(struct buf *out, const struct request_metrics *t)
{
    metrics_write_head(out, "channeld_requests_total", "counter", "Requests answered, by route and status.");
    for (int route = 0; route < ROUTE_COUNT; route++) {
        for (int i = 0; i <= REQUEST_METRICS_STATUS_COUNT; i++) {
            uint64_t count = metric_get(&t->requests[route][i]);
            if (count > 0 || request_metrics_is_shown_always(route, STATUSES[i]))
                buf_printf(out, "channeld_requests_total{route=\"%s\",status=\"%d\"} %llu\n",
                           route_name((enum route)route), STATUSES[i], (unsigned long long)count);
        }
    }
}

static void request_metrics_write_durations(struct buf *out, const struct request_metrics *t)
{
    metrics_write_head(out, "channeld_request_duration_seconds", "histogram",
                       "Time from the complete request to its response, by route.");
    for (int route = 0; route < ROUTE_COUNT; route++) {
        char labels[64];
        (void)snprintf(labels, sizeof labels, "route=\"%s\"", route_name((enum route)route));
        histogram_write(out, "channeld_request_duration_seconds", labels, &t->duration[route]);
    }
}

static void request_metrics_write_keys(struct buf *out, const struct request_metrics *t)
{
    static const char *const outcomes[AUTH_OUTCOMES] = {"valid", "missing", "invalid", "unavailable"};
    metrics_write_head(
        out, "channeld_auth_total", "counter",
        "API requests by outcome of the key check; unavailable: neither Redis nor the cache could tell.");
    for (int i = 0; i < AUTH_OUTCOMES; i++)
        buf_printf(out, "channeld_auth_total{outcome=\"%s\"} %llu\n", outcomes[i],
                   (unsigned long long)metric_get(&t->auth[i]));
}

static void request_metrics_write_codings(struct buf *out, const struct request_metrics *t)
{
    metrics_write_head(out, "channeld_coded_responses_total", "counter",
                       "Responses with status 200 that were sent compressed, by content coding.");
    for (int i = CODING_IDENTITY + 1; i < CODINGS; i++)
        buf_printf(out, "channeld_coded_responses_total{coding=\"%s\"} %llu\n",
                   coding_name((enum coding)i).data, (unsigned long long)metric_get(&t->coded[i]));
}

void request_metrics_write(struct buf *out, const struct request_metrics *t)
{
    request_metrics_write_requests(out, t);
    request_metrics_write_durations(out, t);
    request_metrics_write_keys(out, t);
    request_metrics_write_codings(out, t);
}
