/*
 * Workers and their metrics; see worker.h. The parts of a worker belong to its thread. The main thread
 * creates them before it starts, and closes them if it does not. `wake` stays open until worker_free(), since
 * the main thread may send it.
 *
 * Timer: `tick`, every TICK_MS, tells /livez and the watchdog that the loop runs.
 */
#include "app/worker.h"

#include "api/api.h"
#include "app/loop.h"
#include "base/clock.h"
#include "cache/cache.h"
#include "http/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { TICK_MS = 500, CLIENT_NAME_MAX = 32 };

struct worker {
    struct worker_shared *shared;
    int number;
    char client_name[CLIENT_NAME_MAX];
    uv_loop_t loop;
    uv_thread_t thread;
    uv_async_t wake;
    uv_timer_t tick;
    struct cache *cache;
    struct api *api;
    struct http_server *server;
    _Atomic(struct redis_config *) offered; /* to be used next, with a reference; NULL: none */
    struct worker_status status;
};

/* --- metrics --- */

/* clang-format off */
#define IN(layer, name, ...)  METRIC_ROW(struct worker_metrics, layer.name, name, __VA_ARGS__)
#define HTTP_ROW(name, ...)  IN(http, name, __VA_ARGS__)
#define API_ROW(name, ...)   IN(requests, name, __VA_ARGS__)
#define REDIS_ROW(name, ...) IN(redis, name, __VA_ARGS__)
#define CACHE_ROW(name, ...) IN(cache, name, __VA_ARGS__)

static const struct metric TABLE[] = {
    HTTP_METRICS(HTTP_ROW)
    API_METRICS(API_ROW)
    REDIS_METRICS(REDIS_ROW)
    CACHE_METRICS(CACHE_ROW)
    METRIC_ROW(struct worker_metrics, loop_lag, loop_lag_seconds, histogram,
               "Duration of an iteration of a worker's event loop: everything else on the worker waits for it.")
};
/* clang-format on */

enum { TABLE_ROWS = sizeof TABLE / sizeof TABLE[0] };

void worker_metrics_accumulate(struct worker_metrics *to, const struct worker_metrics *from)
{
    metrics_accumulate(&request_metrics_by_status, 1, &to->requests, &from->requests);
    metrics_accumulate(TABLE, TABLE_ROWS, to, from);
}

void worker_metrics_write(struct buf *out, const struct worker_metrics *m)
{
    metrics_write(out, &request_metrics_by_status, 1, &m->requests);
    metrics_write(out, TABLE, TABLE_ROWS, m);
}

/* --- the loop --- */

static void worker_on_connection(void *arg, bool ready)
{
    struct worker *w = arg;
    if (ready)
        atomic_store(&w->status.redis_number, cache_redis_number(w->cache));
    atomic_store(&w->status.redis_lost_ms, ready ? WORKER_REDIS_READY : cache_lost_ms(w->cache));
    (void)uv_async_send(&w->shared->changed);
}

static void worker_on_tick(uv_timer_t *tick)
{
    struct worker *w = tick->data;
    atomic_store_explicit(&w->status.ticked_ms, clock_now_ms(), memory_order_relaxed);
}

/* Without memory the main thread offers them again. */
static void worker_use_offer(struct worker *w)
{
    struct redis_config *offered = atomic_exchange(&w->offered, NULL);
    if (offered != NULL && cache_use_redis(w->cache, offered) != 0)
        log_text(LOG_WARN, "out of memory for a connection to redis", "client", w->client_name);
    redis_config_unref(offered);
}

static void worker_on_wake(uv_async_t *wake)
{
    struct worker *w = wake->data;
    enum phase phase = atomic_load(&w->shared->phase);
    worker_use_offer(w);
    if (phase == PHASE_SERVING || phase == PHASE_ANNOUNCING)
        http_server_accept(w->server);
    if (phase >= PHASE_ANNOUNCING)
        http_server_announce_close(w->server);
    if (phase >= PHASE_FINISHING)
        http_server_finish(w->server);
    if (phase == PHASE_EXITING)
        uv_stop(&w->loop);
}

static void worker_on_cache_closed(void *arg)
{
    struct worker *w = arg;
    uv_stop(&w->loop);
}

/* Requests use the cache, so the server is closed first, and with it all of them. */
static void worker_close(struct worker *w)
{
    if (w->server != NULL)
        http_server_close(w->server);
    if (w->cache != NULL) {
        cache_close(w->cache, worker_on_cache_closed, w);
        (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    }
}

/* --- beginning and end --- */

static int worker_make_cache(struct worker *w, struct redis_config *redis)
{
    const struct config *c = w->shared->config;
    struct cache_options options = {
        .redis = redis,
        .client_name = w->client_name,
        .keyspace = &c->keyspace,
        .metrics = &w->status.metrics.cache,
        .redis_metrics = &w->status.metrics.redis,
        .settings = c->values.cache,
        .checks_eviction = w->number == 0,
        .stale_keys_limit_ms = (uint64_t)c->stale_keys_limit,
        .on_connection = worker_on_connection,
        .arg = w,
    };
    options.settings.cache_size /= (unsigned)c->workers;
    return cache_new(&w->loop, &options, &w->cache);
}

static int worker_make_api(struct worker *w)
{
    const struct config *c = w->shared->config;
    const struct api_options options = {
        .cache = w->cache,
        .metrics = &w->status.metrics.requests,
        .rate_limit = w->shared->rate_limit,
        .key_metrics = w->shared->key_metrics,
        .hosts = c->hosts,
        .access_log = &w->shared->access_log,
        .settings = c->values.api,
    };
    return api_new(&options, &w->api);
}

static int worker_make_server(struct worker *w)
{
    const struct config *c = w->shared->config;
    const struct config_values *v = &c->values;
    const struct http_server_options options = {
        .handler = api_handler(w->api),
        .metrics = &w->status.metrics.http,
        .limits = v->http,
        .balancer = w->shared->balancer,
        .number = w->number,
        .trusted_proxies = c->trusted_proxies.count > 0 ? &c->trusted_proxies : NULL,
    };
    int err = http_server_new(&w->loop, &options, &w->server);
    return err == 0 ? http_server_listen(w->server, &c->listen, w->shared->listener) : err;
}

static int worker_make_parts(struct worker *w, struct redis_config *redis)
{
    (void)uv_timer_init(&w->loop, &w->tick); /* cannot fail */
    w->wake.data = w->tick.data = w;
    (void)uv_timer_start(&w->tick, worker_on_tick, 0, TICK_MS);
    int err = uv_async_init(&w->loop, &w->wake, worker_on_wake);
    if (err == 0)
        err = worker_make_cache(w, redis);
    if (err == 0)
        err = worker_make_api(w);
    if (err == 0)
        err = worker_make_server(w);
    return err;
}

static void worker_run(void *arg)
{
    struct worker *w = arg;
    loop_measure(&w->status.metrics.loop_lag);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    worker_close(w);
}

static void worker_release(struct worker *w)
{
    loop_close(&w->loop);
    http_server_free(w->server);
    api_free(w->api);
    redis_config_unref(atomic_load(&w->offered));
    free(w);
}

int worker_new(struct worker_shared *shared, struct redis_config *redis, int number, struct worker **out)
{
    struct worker *w = calloc(1, sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    w->shared = shared;
    w->number = number;
    (void)snprintf(w->client_name, sizeof w->client_name, "channeld-%d", number);
    atomic_store(&w->status.redis_lost_ms, WORKER_REDIS_NEVER_READY);
    atomic_store(&w->status.ticked_ms, clock_now_ms());
    int err = loop_open(&w->loop, shared->descriptors);
    if (err != 0) {
        free(w);
        return err;
    }
    err = worker_make_parts(w, redis);
    if (err == 0)
        err = uv_thread_create(&w->thread, worker_run, w);
    if (err != 0) {
        worker_close(w);
        worker_release(w);
        return err;
    }
    *out = w;
    return 0;
}

void worker_wake(struct worker *w)
{
    (void)uv_async_send(&w->wake);
}

void worker_use_redis(struct worker *w, struct redis_config *redis)
{
    redis_config_unref(atomic_exchange(&w->offered, redis_config_ref(redis)));
    worker_wake(w);
}

const struct worker_status *worker_status(const struct worker *w)
{
    return &w->status;
}

void worker_free(struct worker *w)
{
    (void)uv_thread_join(&w->thread);
    worker_release(w);
}
