/*
 * Connections to nodes that errors name, and the commands sent on them; see redirect.h.
 *
 * A command waits in `waiting` for the connection to its node, then in that connection for the reply. A
 * failed command is held in `failed` before its owner is called. The owner sends it again at once, and nodes
 * that refer to each other in a circle would cause an endless loop. Until a command ends or is cancelled it
 * is in `wanted` as well.
 *
 * One timer ticks every TICK_MS while there is a connection or a failed command, and checks the limits below.
 */
#include "redis/redirect.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/wait_group.h"
#include "redis/cluster.h"
#include "redis/resp.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum {
    ROUTES_MAX = 4, /* the master of a replica, the target of a migration, and their predecessors */
    HOPS_MAX = 4,   /* errors that name yet another node, for one command */
    TICK_MS = 50,
    HOLD_MS = 50,    /* how long a failed command is held */
    WAIT_MS = 2000,  /* how long a command waits for a connection */
    IDLE_MS = 10000, /* how long an idle connection is kept */
};

/* A connection to one node. */
struct route {
    struct redirects *redirects;
    struct redis_address place;
    struct redis_endpoint endpoint; /* borrows `place` */
    struct redis_connection *connection;
    struct redis_replication replication;
    struct list waiting; /* commands that wait for the connection, oldest first */
    unsigned sent;       /* commands that wait for their replies */
    uint64_t used_ms;    /* by the monotonic clock */
};

struct redirects {
    uv_loop_t *loop;
    struct redirects_options options;
    struct redis_metrics unexposed;  /* not exposed: only the workers' own connections are counted */
    struct route *route[ROUTES_MAX]; /* owned; NULL: none */
    struct list failed;              /* commands that have failed, oldest first */
    struct list wanted;              /* commands whose replies are wanted, oldest first */
    uv_timer_t timer;                /* runs while there is a connection or a command */
    struct wait_group open_parts;    /* the timer and the connections */
    bool closing;
};

struct redirected {
    struct redirects *redirects;
    struct list link;  /* in `waiting` of its route or in `failed` */
    struct list owned; /* in `wanted`; in no list after it was cancelled */
    struct route *route;
    redis_reply_fn fn;
    void *arg;
    uint64_t since_ms; /* when it began to wait, or failed; by the monotonic clock */
    int hops;
    size_t len;
    char text[];
};

static void redirect_on_timer(uv_timer_t *timer);

/* --- the end of a command --- */

static void redirect_end(struct redirected *command, const struct redis_reply *reply)
{
    redis_reply_fn fn = list_empty(&command->owned) ? NULL : command->fn;
    void *arg = command->arg;
    list_remove(&command->link);
    list_remove(&command->owned);
    free(command);
    if (fn != NULL)
        fn(arg, reply, REDIS_ORIGIN_OUTSIDE);
}

static void redirect_fail(struct redirected *command)
{
    struct redirects *r = command->redirects;
    list_remove(&command->link);
    command->since_ms = clock_now_ms();
    list_append(&r->failed, &command->link);
}

/* Ends the commands that have been in the list for `ms`. A callback may add to the list. */
static void redirect_expire(struct list *list, uint64_t ms)
{
    uint64_t now = clock_now_ms();
    while (!list_empty(list)) {
        struct redirected *command = LIST_ENTRY(list->next, struct redirected, link);
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): redirect_end() has removed the one before */
        if (now - command->since_ms < ms)
            return;
        redirect_end(command, NULL);
    }
}

/* --- sending --- */

static void redirect_send_to(const struct redis_address *node, struct redirected *command);

/* Whether the node says that it is not the right one, or does not know the right one. */
static bool redirect_is_refused(const struct redis_reply *reply)
{
    const struct redis_address unknown = {.port = 0};
    struct redis_address node;
    return cluster_read_error(&unknown, reply, &node) != DISCOVERY_ERROR_OTHER || cluster_is_migrating(reply);
}

static void redirect_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct redirected *command = arg;
    struct route *route = command->route;
    struct redis_address node;
    (void)origin; /* the stream of that connection, which tracks no keys */
    assert(route->sent > 0);
    route->sent--;
    if (route->redirects->closing)
        redirect_end(command, NULL);
    else if (reply != NULL && cluster_read_ask(reply, &route->place, &node) && command->hops++ < HOPS_MAX)
        redirect_send_to(&node, command);
    else if (reply == NULL || redirect_is_refused(reply))
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
    if (err == -ENOTCONN) {
        command->since_ms = route->used_ms;
        list_append(&route->waiting, &command->link);
    } else if (err != 0) {
        redirect_fail(command);
    }
}

/* --- connections --- */

/* When the connection is lost, sent commands fail, and waiting ones go on waiting. */
static void redirect_on_ready(void *arg)
{
    struct route *route = arg;
    struct list waiting;
    list_init(&waiting);
    list_splice(&waiting, &route->waiting);
    while (!list_empty(&waiting))
        redirect_send_by(route, LIST_ENTRY(waiting.next, struct redirected, link));
}

static void redirect_on_route_closed(void *arg)
{
    struct route *route = arg;
    struct redirects *r = route->redirects;
    free(route);
    wait_group_done(&r->open_parts);
}

static void redirect_close_route(struct redirects *r, int at)
{
    struct route *route = r->route[at];
    r->route[at] = NULL;
    redis_connection_close(route->connection, redirect_on_route_closed, route);
    assert(route->sent == 0 && list_empty(&route->waiting));
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
    route->place = *node;
    route->endpoint =
        redis_endpoint_at(redis_config_endpoint(r->options.config), route->place.host, route->place.port);
    list_init(&route->waiting);
    const struct redis_connection_options options = {.endpoint = &route->endpoint,
                                                     .tls = redis_config_tls(r->options.config),
                                                     .client_name = r->options.client_name,
                                                     .metrics = &r->unexposed,
                                                     .loop_lag = r->options.loop_lag,
                                                     .replication = &route->replication,
                                                     .on_ready = redirect_on_ready,
                                                     .state_arg = route};
    if (redis_connection_new(r->loop, &options, &route->connection) != 0) {
        free(route);
        return NULL;
    }
    wait_group_add(&r->open_parts, 1);
    r->route[place] = route;
    return route;
}

/* The connection to a node, or NULL when none is possible now. */
static struct route *redirect_route_to(struct redirects *r, const struct redis_address *node)
{
    for (int i = 0; i < ROUTES_MAX; i++)
        if (r->route[i] != NULL && redis_address_equal(&r->route[i]->place, node))
            return r->route[i];
    return redirect_open_route(r, node);
}

static bool redirect_close_if_idle(struct redirects *r, int at)
{
    const struct route *route = r->route[at];
    if (route == NULL)
        return true;
    if (!redirect_is_idle(route) || clock_now_ms() - route->used_ms < IDLE_MS)
        return false;
    redirect_close_route(r, at);
    return true;
}

static void redirect_on_timer(uv_timer_t *timer)
{
    struct redirects *r = timer->data;
    bool idle = true;
    redirect_expire(&r->failed, HOLD_MS);
    for (int i = 0; i < ROUTES_MAX; i++)
        if (r->route[i] != NULL)
            redirect_expire(&r->route[i]->waiting, WAIT_MS);
    for (int i = 0; i < ROUTES_MAX; i++)
        idle = redirect_close_if_idle(r, i) && idle;
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
    list_append(&r->wanted, &copy->owned);
    metric_add(&r->options.metrics->cluster_redirects_total, 1);
    if (!uv_is_active((const uv_handle_t *)&r->timer))
        (void)uv_timer_start(&r->timer, redirect_on_timer, TICK_MS,
                             TICK_MS); /* it fails only on a closing handle */
    redirect_send_to(node, copy);
    return 0;
}

void redirects_cancel(struct redirects *r)
{
    struct list cancelled;
    list_init(&cancelled);
    list_splice(&cancelled, &r->wanted);
    while (!list_empty(&cancelled)) {
        const struct redirected *command = LIST_ENTRY(cancelled.next, struct redirected, owned);
        list_remove(cancelled.next);
        command->fn(command->arg, NULL, REDIS_ORIGIN_OUTSIDE);
    }
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
    list_init(&r->wanted);
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
    assert(list_empty(&r->wanted) && list_empty(&r->failed));
    redis_config_unref(r->options.config);
    free(r);
}

void redirects_close(struct redirects *r, void (*closed)(void *arg), void *arg)
{
    r->closing = true;
    redirect_expire(&r->failed, 0);
    for (int i = 0; i < ROUTES_MAX; i++) {
        if (r->route[i] == NULL)
            continue;
        redirect_expire(&r->route[i]->waiting, 0);
        redirect_close_route(r, i);
    }
    uv_close((uv_handle_t *)&r->timer, redirect_on_timer_closed);
    wait_group_close(&r->open_parts, redirects_free, r, closed, arg);
}
