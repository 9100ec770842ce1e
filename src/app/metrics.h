/* The metrics of a worker, those of all layers, and what /metrics shows of them: each as channeld_<name>. */
#ifndef APP_METRICS_H
#define APP_METRICS_H

#include "api/metrics.h"
#include "base/metrics.h"
#include "cache/metrics.h"
#include "http/metrics.h"
#include "redis/metrics.h"

/* The metrics of one worker, by the layer that counts them. */
struct worker_metrics {
    struct http_metrics http;
    struct request_metrics requests;
    struct redis_metrics redis;
    struct cache_metrics cache;
    struct loop_lag loop_lag;
};

/* Adds `from` to `to`, which belongs to the caller. */
void worker_metrics_accumulate(struct worker_metrics *to, const struct worker_metrics *from);

/* Appends all of them. */
void worker_metrics_write(struct buf *out, const struct worker_metrics *m);

#endif
