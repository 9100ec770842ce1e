/*
 * The connection to the target of a migration, and the commands sent on it; see redirect.h.
 *
 * A command waits in `waiting` for the connection, then in the connection for the reply. A failed command is
 * held in `failed` before its owner is called, since the owner sends it again at once.
 *
 *     HOLD_MS   after a command or the connection has failed: commands end, another connection is possible
 *     IDLE_MS   after the last command has ended: the connection is closed
 */
#include "redis/redirect.h"

#include "redis/cluster.h"

#include <assert.h>
#include <stdlib.h>

enum {
    HOLD_MS = 200,
    LIMIT_MS = 1000, /* how long a look-up may take, and then a connection to one address */
    IDLE_MS = 10000,
};

struct redirected {
    struct redirects *redirects;
    struct list link; /* in `waiting` or `failed` */
    bool stays;
    redis_reply_fn fn;
    void *arg;
    size_t len;
    char text[];
};

/* --- the end of a command --- */

static void redirect_end(struct redirected *command, const struct redis_reply *reply,
                         enum redis_origin origin)
{
    redis_reply_fn fn = command->fn;
    void *arg = command->arg;
    list_remove(&command->link);
    free(command);
    fn(arg, reply, origin);
}

static void redirect_on_timer(uv_timer_t *timer);

static void redirect_start_timer(struct redirects *r, uint64_t ms)
{
    (void)uv_timer_start(&r->timer, redirect_on_timer, ms, 0); /* it fails only on a closing handle */
}

/* Ends a command that was sent to the target, or was to be. */
static void redirect_end_outside(struct redirected *command, const struct redis_reply *reply)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the end of the one before has removed that */
    struct redirects *r = command->redirects;
    if (--r->pending == 0 && !r->pausing)
        redirect_start_timer(r, IDLE_MS);
    redirect_end(command, reply, REDIS_ORIGIN_OUTSIDE);
}

static void redirect_fail(struct redirected *command)
{
    struct redirects *r = command->redirects;
    if (list_empty(&r->failed) && !r->pausing)
        redirect_start_timer(r, HOLD_MS);
    list_remove(&command->link);
    list_append(&r->failed, &command->link);
}

/* None of them fails again before this returns. */
static void redirect_end_failed(struct redirects *r)
{
    while (!list_empty(&r->failed))
        redirect_end_outside(LIST_ENTRY(r->failed.next, struct redirected, link), NULL);
}

/* --- the connection --- */

static void redirect_on_target_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct redirected *command = arg;
    (void)origin; /* the stream of that connection, which tracks no keys */
    if (reply == NULL || cluster_is_left(reply) || cluster_is_migrating(reply))
        redirect_fail(command);
    else
        redirect_end_outside(command, reply);
}

static void redirect_on_asking(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    (void)arg;
    (void)reply; /* if this command fails, so does the command behind it */
    (void)origin;
}

/* Only while the connection is ready. */
static void redirect_send(struct redirected *command)
{
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
    struct redis_connection *c = command->redirects->connection;
    const struct span text = {command->text, command->len};
    int err = redis_connection_send_command(c, SPAN(asking), redirect_on_asking, NULL);
    list_remove(&command->link);
    if (err == 0)
        err = redis_connection_send_command(c, text, redirect_on_target_reply, command);
    if (err != 0)
        redirect_fail(command);
}

static void redirect_on_handshake_done(void *arg)
{
    const struct redirects *r = arg;
    redis_connection_accept(r->connection);
}

static void redirect_on_ready(void *arg)
{
    struct redirects *r = arg;
    while (!list_empty(&r->waiting))
        redirect_send(LIST_ENTRY(r->waiting.next, struct redirected, link));
}

/* All its commands fail. */
static void redirect_disconnect(struct redirects *r)
{
    struct redis_connection *c = r->connection;
    r->connection = NULL;
    while (!list_empty(&r->waiting))
        redirect_fail(LIST_ENTRY(r->waiting.next, struct redirected, link));
    if (c != NULL)
        redis_connection_close(c, wait_group_on_done, r->options.open_parts);
}

static void redirect_on_lost(void *arg, const char *why)
{
    struct redirects *r = arg;
    (void)why;
    r->pausing = true;
    redirect_start_timer(r, HOLD_MS);
    redirect_disconnect(r);
}

static int redirect_connect(struct redirects *r)
{
    const struct redis_connection_options options = {.endpoint = &r->endpoint,
                                                     .tls = redis_config_tls(r->options.config),
                                                     .client_name = r->options.client_name,
                                                     .resolver = &r->resolver,
                                                     .limit_ms = LIMIT_MS,
                                                     .metrics = &r->unexposed,
                                                     .loop_lag = r->options.loop_lag,
                                                     .replication = &r->replication,
                                                     .denials = &r->denials,
                                                     .on_handshake_done = redirect_on_handshake_done,
                                                     .on_ready = redirect_on_ready,
                                                     .on_lost = redirect_on_lost,
                                                     .arg = r};
    int err = redis_connection_new(r->loop, &options, &r->connection);
    if (err == 0)
        wait_group_add(r->options.open_parts, 1);
    return err;
}

static void redirect_set_target(struct redirects *r, const struct redis_address *target)
{
    if (redis_address_equal(&r->target, target))
        return;
    redirect_disconnect(r);
    resolver_cancel(&r->resolver);
    r->target = *target;
    r->endpoint = redis_endpoint_at(redis_config_endpoint(r->options.config), r->target.host, r->target.port);
}

static void redirect_on_timer(uv_timer_t *timer)
{
    struct redirects *r = timer->data;
    r->pausing = false;
    if (r->pending == 0)
        redirect_disconnect(r);
    redirect_end_failed(r);
}

/* --- commands --- */

static void redirect_send_to(const struct redis_address *target, struct redirected *command)
{
    struct redirects *r = command->redirects;
    r->pending++;
    metric_add(&r->options.metrics->cluster_redirects_total, 1);
    r->options.on_redirect(r->options.arg);
    redirect_set_target(r, target);
    if (redis_connection_is_ready(r->connection))
        redirect_send(command);
    else if (r->connection != NULL || (!r->pausing && redirect_connect(r) == 0))
        list_append(&r->waiting, &command->link);
    else
        redirect_fail(command);
}

void redirects_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct redirected *command = arg;
    struct redis_address target;
    bool is_elsewhere = reply != NULL && cluster_read_ask(reply, command->redirects->options.source, &target);
    if (is_elsewhere && !command->stays)
        redirect_send_to(&target, command);
    else
        redirect_end(command, reply, is_elsewhere ? REDIS_ORIGIN_OUTSIDE : origin);
}

struct redirected *redirects_copy(struct redirects *r, struct span command, bool stays, redis_reply_fn fn,
                                  void *arg)
{
    struct redirected *copy = malloc(sizeof *copy + command.len);
    if (copy == NULL)
        return NULL;
    *copy = (struct redirected){.redirects = r, .stays = stays, .fn = fn, .arg = arg, .len = command.len};
    (void)span_put(command, copy->text);
    list_init(&copy->link);
    return copy;
}

void redirects_fail(struct redirects *r)
{
    redirect_disconnect(r);
    redirect_end_failed(r);
}

/* --- beginning and end --- */

void redirects_init(struct redirects *r, uv_loop_t *loop, const struct redirects_options *options)
{
    *r = (struct redirects){.loop = loop, .options = *options};
    list_init(&r->waiting);
    list_init(&r->failed);
    (void)uv_timer_init(loop, &r->timer); /* cannot fail */
    r->timer.data = r;
    wait_group_add(r->options.open_parts, 1);
}

static void redirect_on_timer_closed(uv_handle_t *timer)
{
    const struct redirects *r = timer->data;
    wait_group_done(r->options.open_parts);
}

void redirects_close(struct redirects *r)
{
    redirects_fail(r);
    assert(r->pending == 0);
    resolver_cancel(&r->resolver);
    uv_close((uv_handle_t *)&r->timer, redirect_on_timer_closed);
}
