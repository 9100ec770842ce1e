/*
 * Connections to nodes that errors name, and the commands sent on them; see redirect.h.
 *
 * A command waits in `waiting` for the connection to its node, then in that connection for the reply. A
 * failed command is held in `failed` before its owner is called. The owner sends it again at once, and nodes
 * that refer to each other in a circle would cause an endless loop.
 *
 * One timer ticks every TICK_MS while there is a connection or a failed command, and checks the limits below.
 */
#include "redis/redirect.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/wait_group.h"
#include "redis/cluster.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    ROUTES_MAX = 4, /* the target of a migration, and its predecessors */
    HOPS_MAX = 4,   /* errors that name yet another node, for one command */
    TICK_MS = 50,
    HOLD_MS = 200,   /* how long a failed command is held, and the pause before another connection */
    LIMIT_MS = 1000, /* how long a look-up may take, and then a connection to one address */
    IDLE_MS = 10000, /* how long an idle connection is kept */
};

/* One node, and the connection to it. */
struct route {
    struct redirects *redirects;
    struct redis_address node;
    struct redis_endpoint endpoint;      /* borrows `node` */
    struct redis_connection *connection; /* NULL: none, before the first command and after a loss */
    struct resolver resolver;
    struct redis_replication replication;
    struct log_reasons denials;
    struct list waiting; /* commands that wait for the connection, oldest first */
    unsigned sent;       /* commands that wait for their replies */
    uint64_t used_ms;    /* by the monotonic clock, as lost_ms */
    uint64_t lost_ms;    /* 0: never */
};

struct redirects {
    uv_loop_t *loop;
    struct redirects_options options;
    struct redis_metrics unexposed;  /* not exposed: only the workers' own connections are counted */
    struct route *route[ROUTES_MAX]; /* owned; NULL: none */
    struct list failed;              /* commands that have failed, oldest first */
    unsigned pending;                /* commands, in any state */
    uv_timer_t timer;                /* runs while there is a connection or a command */
    struct wait_group open_parts;    /* the timer and the connections */
};

struct redirected {
    struct list link; /* in `waiting` of its route or in `failed` */
    struct route *route;
    struct redirects *redirects;
    redis_reply_fn fn;
    void *arg;
    uint64_t failed_ms; /* by the monotonic clock */
    int hops;
    size_t len;
    char text[];
};

/* --- the end of a command --- */

static void redirect_end(struct redirected *command, const struct redis_reply *reply)
{
    redis_reply_fn fn = command->fn;
    void *arg = command->arg;
    command->redirects->pending--;
    list_remove(&command->link);
    free(command);
    fn(arg, reply, REDIS_ORIGIN_OUTSIDE);
}

static void redirect_fail(struct redirected *command)
{
    list_remove(&command->link);
    command->failed_ms = clock_now_ms();
    list_append(&command->redirects->failed, &command->link);
}

/* Ends the commands that have failed `ms` ago. A callback may make further commands fail. */
static void redirect_expire(struct redirects *r, uint64_t ms)
{
    uint64_t now = clock_now_ms();
    while (!list_empty(&r->failed)) {
        struct redirected *command = LIST_ENTRY(r->failed.next, struct redirected, link);
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): redirect_end() has removed the one before */
        if (now - command->failed_ms < ms)
            return;
        redirect_end(command, NULL);
    }
}

/* --- sending --- */

static void redirect_send_to(const struct redis_address *node, struct redirected *command);
static int redirect_connect(struct route *route);

static void redirect_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct redirected *command = arg;
    struct route *route = command->route;
    struct redis_address node;
    (void)origin; /* the stream of that connection, which tracks no keys */
    assert(route->sent > 0);
    route->sent--;
    if (reply != NULL && cluster_read_ask(reply, &route->node, &node) && command->hops++ < HOPS_MAX)
        redirect_send_to(&node, command);
    else if (reply == NULL || cluster_is_left(reply) || cluster_is_migrating(reply))
        redirect_fail(command);
    else
        redirect_end(command, reply);
}

static void redirect_on_asking(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    (void)arg;
    (void)reply; /* if this command fails, so does the command behind it */
    (void)origin;
}

/* Returns 0, -ENOTCONN before there is a connection, or -ENOMEM. */
static int redirect_send_now(struct route *route, struct redirected *command)
{
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
    const struct span text = {command->text, command->len};
    int err = redis_connection_send_command(route->connection, SPAN(asking), redirect_on_asking, NULL);
    if (err == 0)
        err = redis_connection_send_command(route->connection, text, redirect_on_reply, command);
    if (err == 0)
        route->sent++;
    return err;
}

static void redirect_send_by(struct route *route, struct redirected *command)
{
    command->route = route;
    route->used_ms = clock_now_ms();
    list_remove(&command->link);
    int err = redirect_send_now(route, command);
    if (err == -ENOTCONN && redirect_connect(route) == 0)
        list_append(&route->waiting, &command->link);
    else if (err != 0)
        redirect_fail(command);
}

/* --- connections --- */

static void redirect_on_handshake_done(void *arg)
{
    const struct route *route = arg;
    redis_connection_accept(route->connection);
}

static void redirect_on_ready(void *arg)
{
    struct route *route = arg;
    struct list waiting;
    list_init(&waiting);
    list_splice(&waiting, &route->waiting);
    while (!list_empty(&waiting))
        redirect_send_by(route, LIST_ENTRY(waiting.next, struct redirected, link));
}

/* All its commands fail. */
static void redirect_disconnect(struct route *route)
{
    struct redis_connection *c = route->connection;
    route->connection = NULL;
    while (!list_empty(&route->waiting))
        redirect_fail(LIST_ENTRY(route->waiting.next, struct redirected, link));
    if (c != NULL)
        redis_connection_close(c, wait_group_on_done, &route->redirects->open_parts);
    assert(route->sent == 0);
}

static void redirect_on_lost(void *arg, const char *why)
{
    struct route *route = arg;
    (void)why;
    route->lost_ms = clock_now_ms();
    redirect_disconnect(route);
}

/* Returns 0, or a negative errno if there is no connection, and none is begun now. */
static int redirect_connect(struct route *route)
{
    struct redirects *r = route->redirects;
    if (route->connection != NULL)
        return 0;
    if (route->lost_ms != 0 && clock_now_ms() - route->lost_ms < HOLD_MS)
        return -ENOTCONN;
    const struct redis_connection_options options = {.endpoint = &route->endpoint,
                                                     .tls = redis_config_tls(r->options.config),
                                                     .client_name = r->options.client_name,
                                                     .resolver = &route->resolver,
                                                     .limit_ms = LIMIT_MS,
                                                     .metrics = &r->unexposed,
                                                     .loop_lag = r->options.loop_lag,
                                                     .replication = &route->replication,
                                                     .denials = &route->denials,
                                                     .on_handshake_done = redirect_on_handshake_done,
                                                     .on_ready = redirect_on_ready,
                                                     .on_lost = redirect_on_lost,
                                                     .arg = route};
    int err = redis_connection_new(r->loop, &options, &route->connection);
    if (err == 0)
        wait_group_add(&r->open_parts, 1);
    return err;
}

/* A callback of its connection may still be in progress, but does not use it any more. */
static void redirect_close_route(struct redirects *r, int at)
{
    struct route *route = r->route[at];
    r->route[at] = NULL;
    redirect_disconnect(route);
    resolver_cancel(&route->resolver);
    free(route);
}

static bool redirect_is_idle(const struct route *route)
{
    return route->sent == 0 && list_empty(&route->waiting);
}

/* A free place, or the place of the idle connection that was used least recently; -1: none. */
static int redirect_make_place(struct redirects *r)
{
    int place = -1;
    for (int i = 0; i < ROUTES_MAX; i++) {
        if (r->route[i] == NULL)
            return i;
        bool older = place < 0 || r->route[i]->used_ms < r->route[place]->used_ms;
        if (redirect_is_idle(r->route[i]) && older)
            place = i;
    }
    if (place >= 0)
        redirect_close_route(r, place);
    return place;
}

static struct route *redirect_open_route(struct redirects *r, const struct redis_address *node)
{
    int place = redirect_make_place(r);
    struct route *route = place < 0 ? NULL : calloc(1, sizeof *route);
    if (route == NULL)
        return NULL;
    route->redirects = r;
    route->node = *node;
    route->endpoint =
        redis_endpoint_at(redis_config_endpoint(r->options.config), route->node.host, route->node.port);
    list_init(&route->waiting);
    r->route[place] = route;
    return route;
}

/* NULL when there are connections to too many other nodes. */
static struct route *redirect_route_to(struct redirects *r, const struct redis_address *node)
{
    for (int i = 0; i < ROUTES_MAX; i++)
        if (r->route[i] != NULL && redis_address_equal(&r->route[i]->node, node))
            return r->route[i];
    return redirect_open_route(r, node);
}

static void redirect_on_timer(uv_timer_t *timer)
{
    struct redirects *r = timer->data;
    bool idle = true;
    for (int i = 0; i < ROUTES_MAX; i++) {
        const struct route *route = r->route[i];
        if (route != NULL && redirect_is_idle(route) && clock_now_ms() - route->used_ms >= IDLE_MS)
            redirect_close_route(r, i);
        idle = idle && r->route[i] == NULL;
    }
    redirect_expire(r, HOLD_MS);
    if (idle && list_empty(&r->failed))
        (void)uv_timer_stop(timer); /* cannot fail */
}

/* --- commands --- */

static void redirect_send_to(const struct redis_address *node, struct redirected *command)
{
    struct route *route = redirect_route_to(command->redirects, node);
    if (route != NULL)
        redirect_send_by(route, command);
    else
        redirect_fail(command);
}

int redirects_send(struct redirects *r, const struct redis_address *node, struct span command,
                   redis_reply_fn fn, void *arg)
{
    struct redirected *copy = malloc(sizeof *copy + command.len);
    if (copy == NULL)
        return -ENOMEM;
    *copy = (struct redirected){.redirects = r, .fn = fn, .arg = arg, .len = command.len};
    memcpy(copy->text, command.data, command.len);
    list_init(&copy->link);
    r->pending++;
    metric_add(&r->options.metrics->cluster_redirects_total, 1);
    if (!uv_is_active((const uv_handle_t *)&r->timer)) /* it fails only on a closing handle */
        (void)uv_timer_start(&r->timer, redirect_on_timer, TICK_MS, TICK_MS);
    redirect_send_to(node, copy);
    return 0;
}

unsigned redirects_pending(const struct redirects *r)
{
    return r->pending;
}

/* --- beginning and end --- */

int redirects_new(uv_loop_t *loop, const struct redirects_options *options, struct redirects **out)
{
    struct redirects *r = calloc(1, sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    r->loop = loop;
    r->options = *options;
    (void)redis_config_ref(options->config);
    list_init(&r->failed);
    (void)uv_timer_init(loop, &r->timer); /* cannot fail */
    r->timer.data = r;
    wait_group_add(&r->open_parts, 1);
    *out = r;
    return 0;
}

static void redirect_on_timer_closed(uv_handle_t *timer)
{
    struct redirects *r = timer->data;
    wait_group_done(&r->open_parts);
}

static void redirects_free(void *arg)
{
    struct redirects *r = arg;
    assert(r->pending == 0);
    redis_config_unref(r->options.config);
    free(r);
}

void redirects_close(struct redirects *r, void (*closed)(void *arg), void *arg)
{
    for (int i = 0; i < ROUTES_MAX; i++)
        if (r->route[i] != NULL)
            redirect_close_route(r, i);
    redirect_expire(r, 0);
    uv_close((uv_handle_t *)&r->timer, redirect_on_timer_closed);
    wait_group_close(&r->open_parts, redirects_free, r, closed, arg);
}
