/*
 * Connections that replace each other, and the commands that other nodes execute; see session.h.
 *
 * A pending command is in the queue of its connection, or in the redirects while another node executes it.
 * When its connection is lost, or its attempt fails, it ends in both. So no reply of an earlier connection is
 * taken for a reply of a later one.
 */
#include "redis/session.h"

#include "base/log.h"
#include "base/wait_group.h"
#include "redis/redirect.h"
#include "redis/resp.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* A connection with certain settings, and the connections to other nodes of its cluster. */
struct session_backend {
    struct redis_session *session;
    struct redis_config *config; /* one reference */
    struct redis_connection *connection;
    bool clustered;               /* other nodes may have to execute commands */
    struct redirects *redirects;  /* NULL until the first redirect */
    unsigned commands_outside;    /* commands whose replies the redirects owe */
    struct wait_group open_parts; /* the connection and the redirects */
};

struct redis_session {
    struct redis_session_options options;
    uv_loop_t *loop;
    struct session_backend *current; /* in use; NULL before the first redis_session_use() */
    struct session_backend *next;    /* it is to replace `current`; NULL: none */
    struct redis_replication replication;
    struct wait_group open_backends;
};

/* A command in a cluster: another node may have to execute it. */
struct session_command {
    struct session_backend *backend;
    unsigned how;
    redis_reply_fn fn;
    void *arg;
    size_t len;
    char text[];
};

struct redis_connection *redis_session_connection(const struct redis_session *s)
{
    return s->current->connection;
}

unsigned redis_session_commands_outside(const struct redis_session *s)
{
    return s->current->commands_outside;
}

bool redis_session_tracks_absences(const struct redis_session *s)
{
    return !s->current->clustered;
}

struct redis_config *redis_session_config(const struct redis_session *s)
{
    return s->current->config;
}

/* --- other nodes --- */

static void redis_session_end(struct session_command *command, const struct redis_reply *reply,
                              enum redis_origin origin)
{
    redis_reply_fn fn = command->fn;
    void *arg = command->arg;
    free(command);
    fn(arg, reply, origin);
}

static void redis_session_on_redirected(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct session_command *command = arg;
    command->backend->commands_outside--;
    redis_session_end(command, reply, origin);
}

static int redis_session_open_redirects(struct session_backend *b)
{
    const struct redis_connection_options *o = &b->session->options.connection;
    const struct redirects_options options = {
        .config = b->config, .client_name = o->client_name, .metrics = o->metrics, .loop_lag = o->loop_lag};
    int err = redirects_new(b->session->loop, &options, &b->redirects);
    if (err == 0)
        wait_group_add(&b->open_parts, 1);
    return err;
}

static int redis_session_redirect(struct session_command *command, const struct redis_address *node)
{
    struct session_backend *b = command->backend;
    struct redis_session *s = b->session;
    const struct span text = {command->text, command->len};
    int err = b->redirects == NULL ? redis_session_open_redirects(b) : 0;
    if (err != 0)
        return err;
    if (b == s->current)
        s->options.on_outside_read(s->options.connection.arg);
    b->commands_outside++;
    err = redirects_send(b->redirects, node, text, redis_session_on_redirected, command);
    b->commands_outside -= err != 0;
    return err;
}

/* --- sending --- */

/*
 * Redis replied ASK, or a replica of a cluster replied that something does not exist. *node has the right
 * reply.
 */
static bool redis_session_is_elsewhere(const struct session_backend *b, const struct redis_reply *reply,
                                       struct redis_address *node)
{
    return reply != NULL && (reply->type == REPLY_ERROR || reply_is_absent(reply)) &&
           redis_connection_elsewhere(b->connection, reply, node);
}

static void redis_session_on_reply(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    struct session_command *command = arg;
    struct redis_address node;
    if (!redis_session_is_elsewhere(command->backend, reply, &node))
        redis_session_end(command, reply, origin);
    else if ((command->how & REDIS_SEND_STREAM_ONLY) != 0)
        redis_session_end(command, reply, REDIS_ORIGIN_OUTSIDE);
    else if (redis_session_redirect(command, &node) != 0)
        redis_session_end(command, NULL, REDIS_ORIGIN_OUTSIDE);
}

static int redis_session_send_by(struct redis_connection *c, struct span text, unsigned how,
                                 redis_reply_fn fn, void *arg)
{
    return (how & REDIS_SEND_UNTRACKED) != 0 ? redis_connection_send_untracked(c, text, fn, arg)
                                             : redis_connection_send_command(c, text, fn, arg);
}

int redis_session_send(struct redis_session *s, struct span command, unsigned how, redis_reply_fn fn,
                       void *arg)
{
    struct session_backend *b = (how & REDIS_SEND_NEXT) != 0 ? s->next : s->current;
    if (!b->clustered)
        return redis_session_send_by(b->connection, command, how, fn, arg);
    struct session_command *sent = malloc(sizeof *sent + command.len);
    if (sent == NULL)
        return -ENOMEM;
    *sent = (struct session_command){.backend = b, .how = how, .fn = fn, .arg = arg, .len = command.len};
    (void)span_put(command, sent->text);
    int err = redis_session_send_by(b->connection, command, how, redis_session_on_reply, sent);
    if (err != 0)
        free(sent);
    return err;
}

/* --- backends --- */

static void redis_session_free_backend(void *arg)
{
    struct session_backend *b = arg;
    redis_config_unref(b->config);
    free(b);
}

static void redis_session_close_backend(struct session_backend *b)
{
    redis_connection_close(b->connection, wait_group_on_done, &b->open_parts);
    if (b->redirects != NULL)
        redirects_close(b->redirects, wait_group_on_done, &b->open_parts);
    wait_group_close(&b->open_parts, redis_session_free_backend, b, wait_group_on_done,
                     &b->session->open_backends);
}

static void redis_session_drop_next(struct redis_session *s)
{
    if (s->next != NULL)
        redis_session_close_backend(s->next);
    s->next = NULL;
}

static void redis_session_replace(struct redis_session *s)
{
    struct session_backend *old = s->current;
    s->options.on_replaced(s->options.connection.arg);
    redis_session_close_backend(old); /* its commands fail, and cannot be sent again before on_ready */
    s->current = s->next;
    s->next = NULL;
}

static void redis_session_on_handshake_done(void *arg)
{
    const struct session_backend *b = arg;
    const struct redis_session_options *o = &b->session->options;
    o->on_handshake_done(o->connection.arg, b->connection);
}

static void redis_session_on_ready(void *arg)
{
    const struct session_backend *b = arg;
    struct redis_session *s = b->session;
    if (b == s->next)
        redis_session_replace(s);
    else if (s->next != NULL && s->next->config == b->config)
        redis_session_drop_next(s); /* the name had moved, and was looked up for this connection as well */
    assert(b == s->current);
    s->options.connection.on_ready(s->options.connection.arg);
}

static void redis_session_on_lost(void *arg, bool was_ready)
{
    struct session_backend *b = arg;
    if (was_ready)
        b->session->options.on_lost(b->session->options.connection.arg);
    if (b->redirects != NULL)
        redirects_cancel(b->redirects);
}

static int redis_session_open_backend(struct redis_session *s, struct redis_config *config,
                                      struct session_backend **out);

/* A connection that has not come into use looks its name up with each attempt. */
static void redis_session_on_moved(void *arg)
{
    const struct session_backend *b = arg;
    struct redis_session *s = b->session;
    if (b == s->current && s->next == NULL &&
        redis_session_open_backend(s, s->current->config, &s->next) != 0)
        log_text(LOG_WARN, "out of memory for a connection to redis", "client",
                 s->options.connection.client_name);
}

static int redis_session_open_connection(struct session_backend *b)
{
    struct redis_connection_options options = b->session->options.connection;
    options.endpoint = redis_config_endpoint(b->config);
    options.tls = redis_config_tls(b->config);
    options.replication = &b->session->replication;
    options.on_handshake_done = redis_session_on_handshake_done;
    options.on_ready = redis_session_on_ready;
    options.on_lost = redis_session_on_lost;
    options.on_moved = redis_session_on_moved;
    options.state_arg = b;
    return redis_connection_new(b->session->loop, &options, &b->connection);
}

static int redis_session_open_backend(struct redis_session *s, struct redis_config *config,
                                      struct session_backend **out)
{
    struct session_backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->session = s;
    b->config = config;
    b->clustered = redis_endpoint_is_cluster(redis_config_endpoint(config));
    int err = redis_session_open_connection(b);
    if (err != 0) {
        free(b);
        return err;
    }
    (void)redis_config_ref(config);
    wait_group_add(&b->open_parts, 1);
    wait_group_add(&s->open_backends, 1);
    *out = b;
    return 0;
}

int redis_session_use(struct redis_session *s, struct redis_config *config)
{
    struct session_backend *next = NULL;
    if (s->current == NULL)
        return redis_session_open_backend(s, config, &s->current);
    if (s->next != NULL && s->next->config == config)
        return 0;
    int err = config != s->current->config ? redis_session_open_backend(s, config, &next) : 0;
    if (err != 0)
        return err;
    redis_session_drop_next(s);
    s->next = next;
    return 0;
}

void redis_session_look_up(struct redis_session *s)
{
    redis_connection_look_up(s->current->connection);
}

/* --- beginning and end --- */

int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_session **out)
{
    struct redis_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    s->loop = loop;
    *out = s;
    return 0;
}

void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg)
{
    redis_session_drop_next(s);
    if (s->current != NULL)
        redis_session_close_backend(s->current);
    wait_group_close(&s->open_backends, free, s, closed, arg);
}
