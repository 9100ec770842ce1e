/* Blocking calls: a loop that runs until there is what the caller waits for; see client.h. */
#include "redis/client.h"

#include "base/allocator.h"
#include "base/clock.h"
#include "redis/cluster.h"
#include "redis/connection.h"
#include "redis/resp.h"
#include "redis/server.h"

#include <errno.h>
#include <stdlib.h>

/* Replies of any size are accepted: the program asked for them. */
static const size_t BYTES_MAX = SIZE_MAX / 4;

/* The time limit of the connection to a server that knows the master, with its answer. */
enum { LOCATE_MS = 2 * LOCATOR_LIMIT_MS };

struct redis_client {
    struct redis_config *config; /* one reference; NULL: none yet */

    uv_loop_t loop;
    uv_timer_t alarm;                    /* wakes the loop when the time for a reply has passed */
    struct redis_address master;         /* the last one that was named */
    struct redis_endpoint server;        /* of the connection; borrows the settings or `master` */
    struct redis_connection *connection; /* NULL: not connected, or lost */
    bool is_locator;                     /* the server is queried for the master */
    bool ready;                          /* the connection can be used, or has named the master */
    struct redis_shared shared;
    struct wait_group open; /* connections */

    struct buf text;           /* scratch: the command that is being composed */
    struct buf replies;        /* copies that are owned and were not received yet, oldest first */
    struct redis_reply *reply; /* owned: the last one that was received */
    bool rejected;             /* see redis_client_is_rejected */
    struct buf error;
};

const struct redis_endpoint *redis_client_endpoint(const struct redis_client *c)
{
    return &c->config->endpoint;
}

/* --- failures --- */

const char *redis_client_error(struct redis_client *c)
{
    return buf_message(&c->error);
}

bool redis_client_is_rejected(const struct redis_client *c)
{
    return c->rejected;
}

bool redis_client_is_lost(const struct redis_client *c)
{
    return c->connection == NULL;
}

/* Keeps the reason of a failure. */
static void redis_client_explain(struct redis_client *c, const char *what, const char *why)
{
    buf_clear(&c->error);
    buf_append_str(&c->error, what);
    buf_append_str(&c->error, why);
}

/* --- the connection --- */

/* `reply` becomes that of the oldest command, if it has arrived. */
static void redis_client_take_reply(struct redis_client *c)
{
    free(c->reply);
    c->reply = NULL;
    if (c->replies.len == 0)
        return;
    c->reply = *(struct redis_reply *const *)(const void *)c->replies.data;
    buf_consume(&c->replies, sizeof(void *));
}

/* Forgets the commands whose replies were not received. */
static void redis_client_disconnect(struct redis_client *c)
{
    redis_connection_close(&c->connection);
    do
        redis_client_take_reply(c);
    while (c->reply != NULL);
    buf_clear(&c->replies);
}

/*
 * An attempt has failed. A permanent reason remains while other servers and addresses are tried. The server
 * is named where there may be others: one that was discovered, or one of many addresses.
 */
static void redis_client_on_address_failed(void *arg, const char *why)
{
    struct redis_client *c = arg;
    const struct redis_endpoint *endpoint = redis_client_endpoint(c);
    const struct redis_status *status = redis_connection_status(c->connection);
    const enum redis_failure failure = status->failure;
    struct redis_endpoint server = c->server;
    if (c->rejected)
        return;
    buf_clear(&c->error);
    if (status->addresses > 1)
        server.host = (char *)(uintptr_t)status->address; /* it is only read */
    if (status->addresses > 1 || redis_endpoint_is_discovered(endpoint)) {
        redis_endpoint_describe(&server, &c->error);
        buf_append_str(&c->error, ": ");
    }
    if (failure == REDIS_FAILURE_REFUSED)
        buf_printf(&c->error, "Redis refused: %s", redis_endpoint_redact(endpoint, why));
    else
        buf_printf(&c->error, "%s%s",
                   failure == REDIS_FAILURE_INVALID ? "this is not a Redis server: it has sent " : "", why);
    c->rejected = failure == REDIS_FAILURE_REFUSED ? !redis_server_is_unavailable(span_of(why))
                                                   : failure != REDIS_FAILURE_PASSING;
}

static void redis_client_on_lost(void *arg, const char *why)
{
    struct redis_client *c = arg;
    if (c->ready)
        redis_client_explain(c, "the connection to Redis was lost: ", why);
    else
        redis_client_on_address_failed(c, why);
    redis_connection_close(&c->connection);
}

/* A node that no longer has the slot: later replies on this connection would be no better. */
static const char *redis_client_check_error(void *arg, const struct redis_reply *error)
{
    const struct redis_client *c = arg;
    return redis_endpoint_is_cluster(redis_client_endpoint(c)) && cluster_is_left(error) ? error->str : NULL;
}

/* --- the master that Sentinels or the nodes of a cluster name --- */

/* The answer is a part of the handshake: the next address is tried without one. */
static void redis_client_on_located(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct redis_client *c = arg;
    const struct redis_endpoint *endpoint = redis_client_endpoint(c);
    struct locator_answer answer;
    (void)origin;
    if (reply == NULL)
        return;
    const char *problem = reply->type == REPLY_ERROR
                              ? reply->str
                              : locator_protocol_of(endpoint)->read(endpoint, &c->server, 0, reply, &answer);
    if (problem != NULL) {
        redis_connection_fail(c->connection, problem);
        return;
    }
    c->master = answer.master;
    c->ready = true;
}

/* Sends the command in `text`. */
static void redis_client_send_text(struct redis_client *c, redis_reply_fn fn)
{
    if (buf_error(&c->text) != 0 ||
        redis_connection_send(c->connection, buf_span(&c->text), true, fn, c) != 0)
        redis_connection_fail(c->connection, "out of memory");
}

static void redis_client_on_handshake_done(void *arg)
{
    struct redis_client *c = arg;
    const struct redis_endpoint *endpoint = redis_client_endpoint(c);
    if (c->is_locator) {
        buf_clear(&c->text);
        (void)locator_protocol_of(endpoint)->compose(endpoint, 0, &c->text);
        redis_client_send_text(c, redis_client_on_located);
    } else {
        c->ready = true;
        redis_connection_accept(c->connection);
    }
}

static int redis_client_connect_to(struct redis_client *c, const struct redis_endpoint *server,
                                   bool is_locator, int limit_ms)
{
    bool is_master = !is_locator && redis_endpoint_is_discovered(redis_client_endpoint(c));
    const struct redis_connection_options options = {.endpoint = &c->server,
                                                     .shared = &c->shared,
                                                     .open = &c->open,
                                                     .limit_ms = (uint64_t)limit_ms,
                                                     .queries_only = true,
                                                     .role =
                                                         is_master ? REDIS_ROLE_MASTER : REDIS_ROLE_UNKNOWN,
                                                     .bytes_max = BYTES_MAX,
                                                     .on_address_failed = redis_client_on_address_failed,
                                                     .on_handshake_done = redis_client_on_handshake_done,
                                                     .on_lost = redis_client_on_lost,
                                                     .check_error = redis_client_check_error,
                                                     .arg = c};
    redis_client_disconnect(c);
    c->server = *server;
    c->is_locator = is_locator;
    c->ready = false;
    if (redis_connection_new(&c->loop, &options, &c->connection) != 0)
        redis_client_explain(c, "out of memory", "");
    while (c->connection != NULL && !c->ready)
        (void)uv_run(&c->loop, UV_RUN_ONCE);
    return c->connection != NULL ? 0 : -EIO;
}

int redis_client_connect(struct redis_client *c, int limit_ms)
{
    const struct redis_endpoint *endpoint = redis_client_endpoint(c);
    int err = -EIO;
    c->rejected = false;
    if (!redis_endpoint_is_discovered(endpoint))
        err = redis_client_connect_to(c, endpoint, false, limit_ms);
    for (int i = 0; i < endpoint->discovery.count && err != 0; i++) {
        struct redis_endpoint server = redis_endpoint_server(endpoint, i);
        err = redis_client_connect_to(c, &server, true, LOCATE_MS);
        if (err != 0)
            continue;
        server = redis_endpoint_at(endpoint, c->master.host, c->master.port);
        err = redis_client_connect_to(c, &server, false, limit_ms);
    }
    c->rejected = c->rejected && err != 0;
    return err;
}

/* --- commands and replies --- */

/* `reply` is NULL if the connection was lost, for which there is a reason. */
static void redis_client_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct redis_client *c = arg;
    (void)origin;
    if (reply == NULL)
        return;
    void *copy = reply_copy(reply);
    if (copy != NULL && buf_reserve(&c->replies, sizeof copy) == 0) {
        buf_append(&c->replies, &copy, sizeof copy);
    } else {
        free(copy);
        redis_connection_fail(c->connection, "out of memory");
    }
}

void redis_client_send(struct redis_client *c, size_t count, const struct span *words)
{
    if (c->connection == NULL)
        return;
    buf_clear(&c->text);
    command_begin(&c->text, count);
    for (size_t i = 0; i < count; i++)
        command_add(&c->text, words[i]);
    redis_client_send_text(c, redis_client_on_reply);
}

static void redis_client_on_alarm(uv_timer_t *alarm)
{
    (void)alarm;
}

/*
 * Runs the loop until a reply has arrived. When the time has passed the socket is read once more: the process
 * may have been stopped.
 */
static void redis_client_await(struct redis_client *c, uint64_t limit_ms)
{
    const uint64_t end_ms = clock_now_ms() + limit_ms;
    bool is_late = false;
    uv_update_time(&c->loop);
    (void)uv_timer_start(&c->alarm, redis_client_on_alarm, limit_ms, 0); /* cannot fail */
    while (c->replies.len == 0 && c->connection != NULL && !is_late) {
        is_late = clock_now_ms() >= end_ms;
        (void)uv_run(&c->loop, is_late ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&c->alarm);
    if (c->replies.len > 0 || c->connection == NULL)
        return;
    redis_client_explain(c, "no reply in time", "");
    redis_connection_close(&c->connection);
}

const struct redis_reply *redis_client_receive(struct redis_client *c, int limit_ms)
{
    if (c->replies.len == 0)
        redis_client_await(c, (uint64_t)limit_ms);
    redis_client_take_reply(c);
    if (c->reply == NULL || !redis_endpoint_is_cluster(redis_client_endpoint(c)) ||
        !cluster_is_migrating(c->reply))
        return c->reply;
    redis_client_explain(c, "the keys are migrating to another node of the cluster",
                         ": try again when that has ended");
    return NULL;
}

/* --- beginning and end --- */

void redis_client_use(struct redis_client *c, struct redis_config *config)
{
    redis_client_disconnect(c);
    redis_config_unref(c->config);
    c->config = config;
}

int redis_client_new(const char *client_name, struct redis_client **out)
{
    struct redis_client *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->shared.client_name = client_name;
    int err = uv_replace_allocator(malloc, allocator_realloc_or_exit, calloc, free);
    if (err == 0)
        err = uv_loop_init(&c->loop);
    if (err != 0) {
        free(c);
        return -ENOMEM;
    }
    (void)uv_timer_init(&c->loop, &c->alarm); /* cannot fail */
    *out = c;
    return 0;
}

void redis_client_free(struct redis_client *c)
{
    if (c == NULL)
        return;
    redis_client_use(c, NULL);
    uv_close((uv_handle_t *)&c->alarm, NULL);
    (void)uv_run(&c->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&c->loop);
    buf_fini(&c->text);
    buf_fini(&c->replies);
    buf_fini(&c->error);
    free(c);
}
