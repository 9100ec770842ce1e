/*
 * A worker: one thread with its own loop, connections, cache, Redis connection and metrics. Nothing crosses
 * threads but what worker_shared and worker_status have, and the settings of Redis.
 */
#ifndef APP_WORKER_H
#define APP_WORKER_H

#include "api/metrics.h"
#include "app/config.h"
#include "cache/metrics.h"
#include "http/metrics.h"
#include "redis/metrics.h"

#include <stdatomic.h>
#include <uv.h>

struct worker;
struct http_balancer;

/* --- Metrics --- */

/* The metrics of one worker, by the layer that counts them. */
struct worker_metrics {
    struct http_metrics http;
    struct request_metrics requests;
    struct redis_metrics redis;
    struct cache_metrics cache;
    struct histogram loop_lag;
};

/* Adds `from` to `to`, which belongs to the caller. */
void worker_metrics_accumulate(struct worker_metrics *to, const struct worker_metrics *from);

/* Appends all of them as /metrics shows them: each as channeld_<name>. */
void worker_metrics_write(struct buf *out, const struct worker_metrics *m);

/* --- The thread --- */

/* The phases of the process, in this order. */
enum phase {
    PHASE_STARTING,   /* until Redis is connected, or was waited for: connections to a passed socket wait */
    PHASE_SERVING,    /* until SIGTERM */
    PHASE_ANNOUNCING, /* for the drain delay: not ready, still serving, with "Connection: close" */
    PHASE_FINISHING,  /* until all connections end, or the drain timeout: listener and idle ones are closed */
    PHASE_EXITING     /* everything is closed, and the threads end */
};

/* What the workers of the process share. Except for the list of them, which is for the main thread alone, it
 * stays as it is while they live. */
struct worker_shared {
    _Atomic enum phase phase; /* the main thread sets it, and wakes them */
    const struct config *config;
    int descriptors; /* limit of the process */
    int listener;    /* a socket to accept from after PHASE_SERVING; -1: each has its own */
    struct http_balancer *balancer;
    struct rate_limit *rate_limit;   /* NULL: none */
    struct key_metrics *key_metrics; /* NULL: not counted */
    atomic_int access_log;           /* see api_options */
    struct worker **workers;         /* those that exist so far */
    int worker_count;
    uv_async_t changed; /* sent when what worker_status says of Redis has changed */
};

#define WORKER_REDIS_READY       UINT64_C(0)
#define WORKER_REDIS_NEVER_READY UINT64_MAX

/* The state of a worker, for other threads. */
struct worker_status {
    /* Boot clock: when its Redis connection was lost (cache_lost_ms), or one of these. */
    _Atomic uint64_t redis_lost_ms;
    _Atomic uint64_t redis_number; /* the settings that its connection uses; 0: it never had one */
    _Atomic uint64_t ticked_ms;    /* monotonic clock; when the timer of the loop last fired */
    struct worker_metrics metrics;
};

/* Creates everything, listens, and starts the thread. Takes a reference to `redis`; `number` is from 0. Owned
 * by the caller. Returns 0 or a negative errno. */
int worker_new(struct worker_shared *shared, struct redis_config *redis, int number, struct worker **out)
    __attribute__((warn_unused_result));

/* Makes it look at the phase of the process. */
void worker_wake(struct worker *w);

/* Switches to these settings of Redis (cache_use_redis) and takes a reference to them. */
void worker_use_redis(struct worker *w, struct redis_config *redis);

const struct worker_status *worker_status(const struct worker *w);

/* In PHASE_EXITING: waits for the thread, and frees. */
void worker_free(struct worker *w);

#endif
