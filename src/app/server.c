/* Starting, draining and ending the process; see server.h. */
#include "app/server.h"

#include "app/loop.h"
#include "app/server_internal.h"
#include "base/log.h"
#include "redis/tls.h"
#include "version.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors beside client connections: admin connections and loops; refusals, listener, Redis and loop of
 * each worker.
 */
enum {
    DESCRIPTORS_RESERVED = 512,
    DESCRIPTORS_PER_WORKER = 80,
    REFUSALS_PER_WORKER = 64,
    ADMIN_CONNECTIONS_MAX = 256
};

static void enter(struct server *s, enum server_state next);

static void order_all(struct server *s, enum worker_command order)
{
    for (int i = 0; i < s->worker_count; i++)
        worker_command(s->workers[i], order);
}

static bool all_finished(const struct server *s)
{
    for (int i = 0; i < s->worker_count; i++)
        if (!worker_finished(s->workers[i]))
            return false;
    return true;
}

static void on_changed(uv_async_t *changed)
{
    struct server *s = changed->data;
    if (s->state == SERVER_FINISHING && all_finished(s))
        enter(s, SERVER_EXITING);
}

static void on_timer(uv_timer_t *timer)
{
    struct server *s = timer->data;
    if (s->state == SERVER_ANNOUNCING) {
        enter(s, SERVER_FINISHING);
    } else if (s->state == SERVER_FINISHING) {
        log_text(LOG_WARN, "drain timeout: closing connections with requests under way", NULL, NULL);
        enter(s, SERVER_EXITING);
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *s = handle->data;
    if (s->state != SERVER_SERVING)
        _exit(128 + number); /* asked a second time: at once */
    enter(s, SERVER_ANNOUNCING);
}

/* What can be read again while it runs is read again here: so far nothing. Never ends the process. */
static void on_hangup(uv_signal_t *handle, int number)
{
    (void)handle;
    (void)number;
    log_text(LOG_INFO, "SIGHUP received", "reloaded", "nothing");
}

/* libuv gives a signal its default action back when the handle is closed. Other threads have it blocked, or
 * have ended. */
static void block_hangup(void)
{
    sigset_t hangup;
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &hangup, NULL);
}

static void on_admin_closed(void *arg)
{
    struct server *s = arg;
    s->admin = NULL;
}

/* Closes what keeps the loop running. `changed` and `sighup` stay open until the workers have ended: they may
 * still send the one, and the other must not find its default action. */
static void close_handles(struct server *s)
{
    uv_unref((uv_handle_t *)&s->changed);
    uv_unref((uv_handle_t *)&s->sighup);
    uv_close((uv_handle_t *)&s->timer, NULL);
    uv_close((uv_handle_t *)&s->sigterm, NULL);
    uv_close((uv_handle_t *)&s->sigint, NULL);
    if (s->admin != NULL)
        http_server_close(s->admin, on_admin_closed, s);
}

/* Every change of state passes here. */
static void enter(struct server *s, enum server_state next)
{
    const struct config_values *v = &s->config->values;
    s->state = next;
    switch (next) {
    case SERVER_SERVING:
        break;
    case SERVER_ANNOUNCING:
        log_text(LOG_INFO, "draining: not ready any more, still serving", NULL, NULL);
        order_all(s, WORKER_ANNOUNCE_CLOSE);
        (void)uv_timer_start(&s->timer, on_timer, (uint64_t)v->drain_delay, 0);
        break;
    case SERVER_FINISHING:
        log_text(LOG_INFO, "draining: listeners closed", NULL, NULL);
        order_all(s, WORKER_FINISH);
        (void)uv_timer_start(&s->timer, on_timer, (uint64_t)v->drain_timeout, 0);
        break;
    case SERVER_EXITING:
        order_all(s, WORKER_EXIT);
        close_handles(s);
        break;
    }
}

static int open_handles(struct server *s)
{
    int err = uv_async_init(&s->loop, &s->changed, on_changed);
    if (err != 0)
        return err;
    (void)uv_timer_init(&s->loop, &s->timer); /* neither timers nor signals fail to be made on a new loop */
    (void)uv_signal_init(&s->loop, &s->sigterm);
    (void)uv_signal_init(&s->loop, &s->sigint);
    (void)uv_signal_init(&s->loop, &s->sighup);
    s->changed.data = s->timer.data = s->sigterm.data = s->sigint.data = s;
    err = uv_signal_start(&s->sigterm, on_signal, SIGTERM);
    if (err == 0)
        err = uv_signal_start(&s->sigint, on_signal, SIGINT);
    if (err == 0)
        err = uv_signal_start(&s->sighup, on_hangup, SIGHUP);
    return err;
}

static void log_few_descriptors(int granted, int connections)
{
    struct log_line line;
    if (!log_begin(&line, LOG_WARN, "too few descriptors for max-connections, which is lowered"))
        return;
    log_int(&line, "descriptors", granted);
    log_int(&line, "connections", connections);
    log_end(&line);
}

/* Asks for as many descriptors as the system grants, and returns how many that are, at most `enough`. */
static int claim_descriptors(int enough)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return enough;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max == RLIM_INFINITY || limit.rlim_max > (rlim_t)enough ? enough : (int)limit.rlim_max;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

/*
 * If there are too few descriptors, clients get fewer rather than none when it counts: where even the reserve
 * is out of reach, half of them for connections, an eighth for refusals and an eighth for the operator, so
 * that the rest is always there for Redis.
 */
static void share_descriptors(struct server *s)
{
    int workers = s->config->workers;
    int wanted = (int)s->config->values.max_connections;
    int reserved = DESCRIPTORS_RESERVED + workers * DESCRIPTORS_PER_WORKER;
    s->descriptors = claim_descriptors(reserved + wanted);
    s->max_connections = s->descriptors - reserved;
    s->max_refusals = REFUSALS_PER_WORKER;
    s->max_admin_connections = ADMIN_CONNECTIONS_MAX;
    if (s->max_connections < wanted && s->descriptors < 2 * reserved) {
        int eighth = s->descriptors / 8;
        s->max_connections = min_int(s->descriptors / 2, wanted);
        s->max_refusals = min_int(eighth / workers, REFUSALS_PER_WORKER);
        s->max_admin_connections = min_int(eighth, ADMIN_CONNECTIONS_MAX);
    }
    if (s->max_connections < wanted)
        log_few_descriptors(s->descriptors, s->max_connections);
}

static int make_workers(struct server *s)
{
    struct worker_options options = {.config = s->config,
                                     .tls = s->tls,
                                     .open_connections = &s->open_connections,
                                     .max_connections = s->max_connections,
                                     .max_refusals = s->max_refusals,
                                     .descriptors = s->descriptors,
                                     .changed = &s->changed};
    s->workers = calloc((size_t)s->config->workers, sizeof(struct worker *));
    if (s->workers == NULL)
        return -ENOMEM;
    int err = 0;
    for (int i = 0; i < s->config->workers && err == 0; i++) {
        options.number = i;
        err = worker_new(&options, &s->workers[i]);
        s->worker_count += err == 0;
    }
    return err;
}

static int start_workers(struct server *s)
{
    int err = 0;
    for (int i = 0; i < s->worker_count && err == 0; i++)
        err = worker_start(s->workers[i]);
    return err;
}

static int fail(const struct server *s, struct buf *error, const char *setting, const char *value, int err)
{
    config_write_source(s->config, setting, error);
    buf_printf(error, " %s: %s", value, strerror(-err));
    return err;
}

static int start(struct server *s, struct buf *error)
{
    const struct config_values *v = &s->config->values;
    const struct ops_source source = admin_source(s);
    int err = open_handles(s); /* first: what closes them does not ask whether they were opened */
    if (err == 0)
        err = redis_tls_new(&s->config->redis, &v->redis, &s->tls, error);
    if (err == 0)
        err = ops_new(&source, &s->ops);
    if (err != 0)
        return err;
    err = make_workers(s);
    if (err != 0)
        return fail(s, error, "listen", v->listen, err);
    err = admin_open(s);
    if (err != 0)
        return fail(s, error, "admin-listen", v->admin_listen, err);
    return start_workers(s);
}

static void log_started(const struct server *s)
{
    struct log_line line;
    if (!log_begin(&line, LOG_INFO, "channeld started"))
        return;
    log_str(&line, "version", span_of(CHANNELD_VERSION));
    log_str(&line, "listen", span_of(s->config->values.listen));
    log_str(&line, "admin_listen", span_of(s->config->values.admin_listen));
    log_int(&line, "workers", s->worker_count);
    log_end(&line);
}

static void release(struct server *s)
{
    for (int i = 0; i < s->worker_count; i++)
        worker_free(s->workers[i]);
    free(s->workers);
    block_hangup();
    uv_close((uv_handle_t *)&s->changed, NULL);
    uv_close((uv_handle_t *)&s->sighup, NULL);
    (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    int err = uv_loop_close(&s->loop);
    assert(err == 0); /* a handle that was not closed is a leak in our own order of ending */
    (void)err;
    ops_free(s->ops);
    redis_tls_free(s->tls);
    free(s);
}

int server_run(const struct config *config, struct buf *error)
{
    struct server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->config = config;
    share_descriptors(s);
    int err = loop_open(&s->loop, s->descriptors);
    if (err != 0) {
        free(s);
        return err;
    }
    err = start(s, error);
    if (err == 0)
        log_started(s);
    else
        enter(s, SERVER_EXITING);
    (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    release(s);
    if (err == 0)
        log_text(LOG_INFO, "channeld stopped", NULL, NULL);
    return err;
}
