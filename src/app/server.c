/*
 * Start, drain and exit of the process, and the admin listener; see server.h.
 *
 * Only server_enter() changes the state, in the order of the enum. EXITING stops the main loop. What workers
 * use (inboxes, the rate limit, the handle `changed`) is released in server_release(), after worker_free()
 * has waited for their threads.
 *
 * Timers of the main loop, without that of reload:
 *
 *     timer    ends STARTING (after the time of one request) and ANNOUNCING (drain-delay); in FINISHING it
 *              looks every FINISHED_MS whether all workers have finished, or drain-timeout has passed
 *     status   every second: tells the service manager the status, if it has changed, and the watchdog that
 *              all loops work; more often where half of WatchdogSec= is less
 */
#include "app/server.h"

#include "api/rate_limit.h"
#include "app/health.h"
#include "app/loop.h"
#include "app/reload.h"
#include "app/service_manager.h"
#include "app/worker.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "http/server.h"
#include "version.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors in addition to those of client connections. With fewer than CONNECTIONS_MIN for these the
 * process does not start. */
enum {
    DESCRIPTORS_RESERVED = 320,  /* for admin connections, the main loop, the log, files */
    DESCRIPTORS_PER_WORKER = 40, /* connections over the limit, inbox, Redis, loop */
    ADMIN_CONNECTIONS_MAX = 256,
    CONNECTIONS_MIN = 16
};

struct server {
    struct worker_shared shared;
    uv_loop_t loop;
    uv_timer_t timer, status;
    uv_signal_t sigterm, sigint, sighup;
    int64_t started_s;      /* wall clock */
    uint64_t drain_ends_ms; /* in FINISHING; the loop's clock */
    int max_connections;
    struct http_balancer *admin_balancer;
    struct service_manager manager;
    struct reload *reload;
    struct http_server *admin;
    struct buf admin_body;             /* of its current response */
    struct http_metrics admin_metrics; /* not exposed */
};

/* --- metrics --- */

static void server_write_workers(const struct server *s, struct buf *out)
{
    metrics_write_one(out, "channeld_workers", "gauge", "Worker threads.", (uint64_t)s->shared.worker_count);
    metrics_write_head(out, "channeld_worker_redis_connected", "gauge",
                       "1 while the Redis connection of the worker is ready.");
    for (int i = 0; i < s->shared.worker_count; i++)
        buf_printf(out, "channeld_worker_redis_connected{worker=\"%d\"} %d\n", i,
                   worker_status(s->shared.workers[i])->redis_lost_ms == WORKER_REDIS_READY);
    metrics_write_head(out, "channeld_worker_connections", "gauge",
                       "Open client connections of the worker, without those over the limit.");
    for (int i = 0; i < s->shared.worker_count; i++)
        buf_printf(out, "channeld_worker_connections{worker=\"%d\"} %d\n", i,
                   http_balancer_count(s->shared.balancer, i));
}

static void server_write_metrics(const struct server *s, struct buf *out)
{
    struct worker_metrics sum = {0};
    for (int i = 0; i < s->shared.worker_count; i++)
        worker_metrics_accumulate(&sum, &worker_status(s->shared.workers[i])->metrics);
    worker_metrics_write(out, &sum);
    if (s->shared.key_metrics != NULL)
        key_metrics_write(out, s->shared.key_metrics);
    server_write_workers(s, out);
    reload_write_metrics(s->reload, out);
    metrics_write_one(out, "channeld_ready", "gauge", "1 while /readyz answers 200.",
                      health_is_ready(&s->shared, PHASE_SERVING));
    metrics_write_one(out, "channeld_log_lines_dropped_total", "counter",
                      "Log lines lost: not read in time, or not writable.", log_dropped());
    metrics_write_head(out, "channeld_build_info", "gauge", "Always 1; the version is in the label.");
    buf_append_str(out, "channeld_build_info{version=\"" CHANNELD_VERSION "\"} 1\n");
    process_metrics_write(out, s->started_s);
}

/* --- the admin listener: /livez, /readyz, /startupz, /metrics and /version --- */

/* Writes the content of the response, and returns its status. */
static int server_answer(struct server *s, const struct http_request *request, const char **type)
{
    struct span path = request->path;
    if (request->method == METHOD_OTHER) {
        buf_append_str(&s->admin_body, "method not allowed\n");
        return 405;
    }
    if (span_equal(path, SPAN("/livez")) || span_equal(path, SPAN("/startupz"))) {
        bool live = health_is_live(&s->shared);
        buf_append_str(&s->admin_body, live ? "ok\n" : "a worker's loop is stuck\n");
        return live ? 200 : 503;
    }
    if (span_equal(path, SPAN("/readyz"))) {
        /* see docs/design.md, Shutdown */
        bool draining_too = span_equal(uri_query_find(request->query, SPAN("exclude")), SPAN("shutdown"));
        buf_printf(&s->admin_body, "%s\n", health_describe(&s->shared, reload_has_failed(s->reload)));
        return health_is_ready(&s->shared, draining_too ? PHASE_ANNOUNCING : PHASE_SERVING) ? 200 : 503;
    }
    if (span_equal(path, SPAN("/version"))) {
        *type = NULL;
        buf_append_str(&s->admin_body, "{\"name\":\"channeld\",\"version\":\"" CHANNELD_VERSION "\"}\n");
        return 200;
    }
    if (span_equal(path, SPAN("/metrics"))) {
        *type = "text/plain; version=0.0.4; charset=utf-8";
        server_write_metrics(s, &s->admin_body);
        return 200;
    }
    /* RFC 9110 section 9.3.7, or as HAProxy sends it */
    if (request->method == METHOD_OPTIONS && (span_equal(path, SPAN("*")) || span_equal(path, SPAN("/"))))
        return 200;
    buf_append_str(&s->admin_body, "not found\n");
    return 404;
}

/* OPTIONS gets 204 where GET would get 200: HAProxy checks by this method unless it is told another one. */
static void server_handle(void *arg, struct http_exchange *x, int status)
{
    struct server *s = arg;
    struct http_response r = {.status = status, .content_type = "text/plain; charset=utf-8"};
    buf_clear(&s->admin_body);
    if (status == 0)
        r.status = server_answer(s, x->request, &r.content_type);
    else
        buf_append_str(&s->admin_body, "request refused\n");
    if (r.status == 200 && x->request->method == METHOD_OPTIONS)
        r.status = 204;
    r.body = buf_error(&s->admin_body) == 0 ? blob_new(buf_span(&s->admin_body)) : NULL;
    if (r.body == NULL)
        r.status = 500;
    http_response_add(&r, SPAN("Cache-Control"), SPAN("no-store"));
    if (r.status == 204 || r.status == 405)
        http_response_add(&r, SPAN("Allow"), SPAN("GET, HEAD, OPTIONS"));
    http_exchange_respond(x, &r);
    blob_unref(r.body);
    buf_fini(&r.fields);
}

/* It has a small connection limit of its own, so that it answers whatever the load on the public listener. */
static int server_admin_open(struct server *s)
{
    const struct http_server_options options = {
        .handler = {.arg = s, .handle = server_handle},
        .metrics = &s->admin_metrics,
        .limits = s->shared.config->values.http,
        .balancer = s->admin_balancer,
        .for_checks = true,
    };
    int err = http_server_new(&s->loop, &options, &s->admin);
    return err == 0 ? http_server_listen(s->admin, &s->shared.config->admin_listen, -1) : err;
}

/* --- service manager --- */

static void server_update_status(struct server *s)
{
    service_manager_set_status(&s->manager, s->shared.phase == PHASE_SERVING,
                               health_describe(&s->shared, reload_has_failed(s->reload)));
}

static void server_on_status(uv_timer_t *status)
{
    struct server *s = status->data;
    server_update_status(s);
    if (s->manager.watchdog_ms > 0 && health_is_live(&s->shared))
        (void)service_manager_notify(&s->manager, "WATCHDOG=1");
}

/* --- phases --- */

enum { FINISHED_MS = 20, START_MAX_MS = 10 * 1000, STATUS_MS = 1000 };

static void server_on_timer(uv_timer_t *timer);

static void server_wake_workers(struct server *s)
{
    for (int i = 0; i < s->shared.worker_count; i++)
        worker_wake(s->shared.workers[i]);
}

/* A start that fails, --check, and a signal before connections of a passed socket are accepted end in
 * PHASE_STARTING. */
static void server_enter(struct server *s, enum phase next)
{
    const struct config_values *v = &s->shared.config->values;
    assert(next == s->shared.phase + 1 || s->shared.phase == PHASE_STARTING);
    s->shared.phase = next;
    (void)uv_timer_stop(&s->timer);
    if (next == PHASE_ANNOUNCING) {
        log_text(LOG_INFO, "draining: not ready, still serving", NULL, NULL);
        (void)uv_timer_start(&s->timer, server_on_timer, (uint64_t)v->drain_delay, 0);
    } else if (next == PHASE_FINISHING) {
        log_text(LOG_INFO, "draining: listeners closed", NULL, NULL);
        s->drain_ends_ms = uv_now(&s->loop) + (uint64_t)v->drain_timeout;
        (void)uv_timer_start(&s->timer, server_on_timer, FINISHED_MS, FINISHED_MS);
    } else if (next == PHASE_EXITING) {
        uv_stop(&s->loop);
    }
    server_wake_workers(s);
    server_update_status(s);
}

static void server_on_timer(uv_timer_t *timer)
{
    struct server *s = timer->data;
    if (s->shared.phase == PHASE_FINISHING && !http_balancer_is_drained(s->shared.balancer)) {
        if (uv_now(&s->loop) < s->drain_ends_ms)
            return;
        log_text(LOG_WARN, "drain timeout: closing connections with requests in flight", NULL, NULL);
    }
    server_enter(s, s->shared.phase + 1);
}

static void server_on_changed(uv_async_t *changed)
{
    struct server *s = changed->data;
    reload_worker_changed(s->reload);
    if (s->shared.phase == PHASE_STARTING && health_has_seen_redis(&s->shared))
        server_enter(s, PHASE_SERVING);
}

/* The manager waits for the times of the drain and one for the end of the process, or until its own timeout
 * if that is later. */
static void server_on_signal(uv_signal_t *handle, int number)
{
    enum { END_MS = 10 * 1000 };
    struct server *s = handle->data;
    const struct config_values *v = &s->shared.config->values;
    if (s->shared.phase > PHASE_SERVING)
        _exit(128 + number); /* the second signal */
    (void)service_manager_notify(&s->manager, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld",
                                 1000LL * (v->drain_delay + v->drain_timeout + END_MS));
    bool accepts = s->shared.phase == PHASE_SERVING || s->manager.listener < 0;
    server_enter(s, accepts ? PHASE_ANNOUNCING : PHASE_EXITING);
}

static void server_on_hangup(uv_signal_t *handle, int number)
{
    struct server *s = handle->data;
    (void)number;
    if (s->shared.phase == PHASE_SERVING)
        service_manager_reloading(&s->manager);
    reload_now(s->reload);
    server_update_status(s);
}

/* --- start and end --- */

static void server_log_few_descriptors(int granted, int connections)
{
    struct log_line line;
    if (!log_begin(&line, LOG_WARN, "too few descriptors for max-connections, which is lowered"))
        return;
    log_int(&line, "descriptors", granted);
    log_int(&line, "connections", connections);
    log_end(&line);
}

/* Raises the limit of descriptors to the hard limit. If that is too low, max-connections is lowered. Returns
 * 0, or -EMFILE where too few connections are left. */
static int server_share_descriptors(struct server *s, struct buf *error)
{
    struct rlimit limit = {0};
    int wanted = (int)s->shared.config->values.max_connections;
    int least = MIN(wanted, CONNECTIONS_MIN);
    int reserved = DESCRIPTORS_RESERVED + s->shared.config->workers * DESCRIPTORS_PER_WORKER;
    (void)getrlimit(RLIMIT_NOFILE, &limit); /* cannot fail */
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    s->shared.descriptors = (int)MIN(limit.rlim_max, (rlim_t)(reserved + wanted));
    s->max_connections = s->shared.descriptors - reserved;
    if (s->max_connections < least) {
        buf_printf(error, "the limit of open files (ulimit -n) is %d: at least %d are needed",
                   s->shared.descriptors, reserved + least);
        return -EMFILE;
    }
    if (s->max_connections < wanted)
        server_log_few_descriptors(s->shared.descriptors, s->max_connections);
    return 0;
}

static int server_make_workers(struct server *s, struct redis_config *redis)
{
    int count = s->shared.config->workers;
    s->shared.workers = calloc((size_t)count, sizeof(struct worker *));
    int err = s->shared.workers == NULL ? -ENOMEM : 0;
    for (int i = 0; i < count && err == 0; i++) {
        err = worker_new(&s->shared, redis, i, &s->shared.workers[i]);
        s->shared.worker_count += err == 0;
    }
    return err;
}

static int server_fail(const struct server *s, struct buf *error, const char *setting, const char *value,
                       int err)
{
    settings_write_source(error, &s->shared.config->args, setting);
    buf_printf(error, " %s: %s", value, strerror(-err));
    return err;
}

static int server_make_key_counts(struct server *s)
{
    const struct config *c = s->shared.config;
    if (c->key_rate.requests != 0)
        s->shared.rate_limit = rate_limit_new(&c->key_rate, RATE_LIMIT_SETS);
    if (c->values.key_metrics != 0)
        s->shared.key_metrics = key_metrics_new();
    bool made = (c->key_rate.requests == 0 || s->shared.rate_limit != NULL) &&
                (c->values.key_metrics == 0 || s->shared.key_metrics != NULL);
    return made ? 0 : -ENOMEM;
}

static int server_start_signal(struct server *s, uv_signal_t *handle, uv_signal_cb on_signal, int number)
{
    (void)uv_signal_init(&s->loop, handle); /* cannot fail on a new loop */
    handle->data = s;
    return uv_signal_start(handle, on_signal, number);
}

static int server_open_handles(struct server *s)
{
    (void)uv_timer_init(&s->loop, &s->timer); /* cannot fail, nor can the next */
    (void)uv_timer_init(&s->loop, &s->status);
    s->shared.changed.data = s->timer.data = s->status.data = s;
    int err = uv_async_init(&s->loop, &s->shared.changed, server_on_changed);
    if (err == 0)
        err = server_start_signal(s, &s->sigterm, server_on_signal, SIGTERM);
    if (err == 0)
        err = server_start_signal(s, &s->sigint, server_on_signal, SIGINT);
    return err == 0 ? server_start_signal(s, &s->sighup, server_on_hangup, SIGHUP) : err;
}

/* All steps of a start before it listens and connects; --check ends after them. */
static int server_prepare(struct server *s, struct redis_config **redis, struct buf *error)
{
    const struct config *c = s->shared.config;
    int err = service_manager_init(&s->manager, error);
    s->shared.listener = s->manager.listener;
    if (err == 0)
        err = server_open_handles(s);
    if (err == 0)
        err = reload_new(&s->loop, &s->shared, &s->reload, redis, error);
    if (err == 0)
        err = server_make_key_counts(s);
    if (err == 0)
        err = http_balancer_new(c->workers, s->max_connections, &s->shared.balancer);
    if (err == 0)
        err = http_balancer_new(1, ADMIN_CONNECTIONS_MAX, &s->admin_balancer);
    return err;
}

static int server_start(struct server *s, struct redis_config *redis, struct buf *error)
{
    const struct config_values *v = &s->shared.config->values;
    uint64_t watchdog_ms = s->manager.watchdog_ms;
    uint64_t every_ms = watchdog_ms > 0 ? MIN(watchdog_ms, STATUS_MS) : STATUS_MS;
    int err = server_admin_open(s);
    if (err != 0)
        return server_fail(s, error, "admin-listen", v->admin_listen, err);
    err = server_make_workers(s, redis); /* last: they answer from now on */
    if (err != 0)
        return server_fail(s, error, "listen", v->listen, err);
    (void)uv_timer_start(&s->timer, server_on_timer, MIN(v->cache.request_timeout_ms, START_MAX_MS), 0);
    server_update_status(s);
    if (s->manager.fd >= 0)
        (void)uv_timer_start(&s->status, server_on_status, every_ms, every_ms);
    return 0;
}

static void server_log_started(const struct server *s)
{
    const struct addr listen =
        s->manager.listener < 0 ? s->shared.config->listen : addr_local(s->manager.listener);
    char text[ADDR_TEXT_MAX];
    struct log_line line;
    if (!log_begin(&line, LOG_INFO, "channeld started"))
        return;
    log_str(&line, "version", span_of(CHANNELD_VERSION));
    addr_write(&listen, text);
    log_str(&line, "listen", span_of(text));
    if (s->manager.listener >= 0)
        log_str(&line, "listen_passed", SPAN("yes"));
    addr_write(&s->shared.config->admin_listen, text);
    log_str(&line, "admin_listen", span_of(text));
    log_int(&line, "workers", s->shared.worker_count);
    log_end(&line);
}

/* libuv restores the default action of a signal when it is stopped. A further SIGTERM then ends the process
 * at once; SIGHUP must not. */
static void server_stop_signals(struct server *s)
{
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &hangup, NULL);
    (void)uv_signal_stop(&s->sigterm);
    (void)uv_signal_stop(&s->sigint);
}

static void server_release(struct server *s)
{
    server_stop_signals(s);
    atomic_store(&s->shared.phase, PHASE_EXITING);
    server_wake_workers(s);
    for (int i = 0; i < s->shared.worker_count; i++)
        worker_free(s->shared.workers[i]);
    free(s->shared.workers);
    if (s->admin != NULL)
        http_server_close(s->admin);
    loop_close(&s->loop);
    http_server_free(s->admin);
    buf_fini(&s->admin_body);
    rate_limit_free(s->shared.rate_limit);
    http_balancer_free(s->shared.balancer);
    http_balancer_free(s->admin_balancer);
    key_metrics_free(s->shared.key_metrics);
    reload_free(s->reload);
    service_manager_fini(&s->manager);
    free(s);
}

int server_run(const struct config *config, bool check, struct buf *error)
{
    struct redis_config *redis = NULL;
    struct server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->shared.config = config;
    s->started_s = clock_wall_s();
    int err = server_share_descriptors(s, error);
    if (err == 0)
        err = loop_open(&s->loop, s->shared.descriptors);
    if (err != 0) {
        free(s);
        return err;
    }
    err = server_prepare(s, &redis, error);
    if (err == 0 && !check)
        err = server_start(s, redis, error);
    bool started = err == 0 && !check;
    if (started) {
        server_log_started(s);
        (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    }
    server_release(s);
    if (started)
        log_text(LOG_INFO, "channeld stopped", NULL, NULL);
    return err;
}
