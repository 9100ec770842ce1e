/*
 * What /metrics shows: the metrics of all layers, as channeld_<name>, and those of the process under the
 * names that all Prometheus clients use.
 */
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

/*
 * Appends process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes,
 * process_open_fds, process_max_fds, process_threads and process_start_time_seconds, without those that /proc
 * does not have.
 */
void process_metrics_write(struct buf *out);

#endif
