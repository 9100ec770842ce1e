/* The metrics of the HTTP server, one line each; see base/metrics.h. */
#ifndef HTTP_METRICS_H
#define HTTP_METRICS_H

#include "base/metrics.h"

#define HTTP_METRICS(X)                                                                                 \
    X(requests_rejected_total, counter,                                                                 \
      "Requests refused before routing: malformed, too large, too slow, or one connection too many.")   \
    X(connections_open, gauge, "Client connections open now.")                                          \
    X(connections_accepted_total, counter, "Client connections accepted.")                              \
    X(connections_rejected_total, counter, "Client connections refused because the limit was reached.") \
    X(connections_timed_out_total, counter, "Client connections closed because a deadline passed.")     \
    X(connections_max_age_reached_total, counter, "Client connections ended because of their age.")

struct http_metrics {
    HTTP_METRICS(METRIC_MEMBER)
};

#endif
