/* The metrics of the HTTP server, one line each; see base/metrics.h. */
#ifndef HTTP_METRICS_H
#define HTTP_METRICS_H

#include "base/metrics.h"

#define HTTP_METRICS(X)                                                                                    \
    X(requests_rejected_total, counter,                                                                    \
      "Requests rejected before routing: malformed, too large, too slow, or over the connection limit.")   \
    X(connections_open, gauge, "Open client connections.")                                                 \
    X(connections_accepted_total, counter, "Client connections accepted.")                                 \
    X(connections_rejected_total, counter, "Client connections rejected because of the connection limit.") \
    X(connections_evicted_total, counter,                                                                  \
      "Client connections that waited for a request and were closed for a new one, at the limit.")         \
    X(connections_timed_out_total, counter, "Client connections closed by a timeout.")                     \
    X(connections_max_age_reached_total, counter, "Client connections closed because of their age.")       \
    X(responses_unsent_bytes, gauge, "Bytes of large responses that clients have not read yet.")

struct http_metrics {
    HTTP_METRICS(METRIC_MEMBER)
};

#endif
