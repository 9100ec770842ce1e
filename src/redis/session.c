/*
 * One connection, and the commands that other nodes execute; see session.h.
 *
 * A command under way is in the connection's queue, or in `redirected` while another node executes it.
 */
#include "redis/session.h"

#include "base/list.h"
#include "base/wait_group.h"
#include "redis/redirect.h"
#include "redis/resp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { IDLE_MAX = 256 }; /* commands whose memory is kept for the next ones: a page is read with 102 */

struct redis_session {
    struct redis_session_options options;
    uv_loop_t *loop;
    struct redis_connection *connection;
    bool clustered;              /* other nodes may have to execute commands */
    struct redirects *redirects; /* NULL until the first is needed */
    struct list redirected;
    struct session_command *idle; /* a stack, by next_idle */
    unsigned idle_count;
    struct wait_group open_parts; /* the connection and the redirects */
    void (*closed)(void *arg);
    void *closed_arg;
};

struct session_command {
    struct redis_session *session;
    struct session_command *next_idle;
    struct list link; /* in `redirected` */
    unsigned how;
    redis_reply_fn fn;
    void *arg;
    struct buf text; /* in a cluster, where it may have to be sent again */
};

struct redis_connection *redis_session_connection(const struct redis_session *s)
{
    return s->connection;
}

/* --- commands --- */

static struct session_command *redis_session_new_command(struct redis_session *s)
{
    struct session_command *command = s->idle;
    if (command == NULL) {
        command = calloc(1, sizeof *command);
        if (command != NULL)
            list_init(&command->link);
        return command;
    }
    s->idle = command->next_idle;
    s->idle_count--;
    return command;
}

static void redis_session_free_command(struct session_command *command)
{
    buf_fini(&command->text);
    free(command);
}

static void redis_session_release(struct redis_session *s, struct session_command *command)
{
    list_remove(&command->link);
    if (s->idle_count == IDLE_MAX) {
        redis_session_free_command(command);
        return;
    }
    command->next_idle = s->idle;
    s->idle = command;
    s->idle_count++;
}

static void redis_session_end(struct session_command *command, const struct redis_reply *reply,
                              enum redis_origin origin)
{
    redis_reply_fn fn = command->fn;
    void *arg = command->arg;
    redis_session_release(command->session, command);
    fn(arg, reply, origin);
}

/* --- other nodes --- */

/* The attempt whose commands these are may have failed, of which on_lost says nothing. */
static void redis_session_on_redirected(void *arg, const struct redis_reply *reply)
{
    struct session_command *command = arg;
    bool usable = redis_connection_is_usable(command->session->connection);
    redis_session_end(command, usable ? reply : NULL, REDIS_ORIGIN_OTHER_NODE);
}

static int redis_session_open_redirects(struct redis_session *s)
{
    const struct redis_connection_options *o = &s->options.connection;
    const struct redirects_options options = {.config = s->options.config,
                                              .client_name = o->client_name,
                                              .metrics = o->metrics,
                                              .loop_lag = o->loop_lag};
    int err = redirects_new(s->loop, &options, &s->redirects);
    if (err == 0)
        wait_group_add(&s->open_parts, 1);
    return err;
}

static int redis_session_redirect(struct session_command *command, const struct redis_address *node)
{
    struct redis_session *s = command->session;
    int err = s->redirects == NULL ? redis_session_open_redirects(s) : 0;
    if (err != 0)
        return err;
    list_append(&s->redirected, &command->link);
    s->options.on_redirect(s->options.connection.arg);
    return redirects_send(s->redirects, node, buf_span(&command->text), redis_session_on_redirected, command);
}

/* Whatever their nodes reply is of an earlier connection, or of an attempt that has failed. */
static void redis_session_fail_redirected(struct redis_session *s)
{
    struct list failed;
    list_init(&failed);
    list_splice(&failed, &s->redirected);
    if (!list_empty(&failed))
        redirects_cancel(s->redirects);
    while (!list_empty(&failed))
        redis_session_end(LIST_ENTRY(failed.next, struct session_command, link), NULL,
                          REDIS_ORIGIN_OTHER_NODE);
}

/* --- sending --- */

/* Redis replied ASK, or a replica of a cluster that something does not exist: *node has the right reply. */
static bool redis_session_is_elsewhere(const struct redis_session *s, const struct redis_reply *reply,
                                       struct redis_address *node)
{
    return s->clustered && reply != NULL && (reply->type == REPLY_ERROR || reply_is_absent(reply)) &&
           redis_connection_elsewhere(s->connection, reply, node);
}

static void redis_session_on_reply(void *arg, const struct redis_reply *reply)
{
    struct session_command *command = arg;
    struct redis_address node;
    if (!redis_session_is_elsewhere(command->session, reply, &node))
        redis_session_end(command, reply, REDIS_ORIGIN_STREAM);
    else if ((command->how & REDIS_SEND_STREAM_ONLY) != 0)
        redis_session_end(command, reply, REDIS_ORIGIN_OTHER_NODE);
    else if (redis_session_redirect(command, &node) != 0)
        redis_session_end(command, NULL, REDIS_ORIGIN_OTHER_NODE);
}

static int redis_session_send_by(struct session_command *command, struct span text)
{
    struct redis_connection *c = command->session->connection;
    return (command->how & REDIS_SEND_UNTRACKED) != 0
               ? redis_connection_send_untracked(c, text, redis_session_on_reply, command)
               : redis_connection_send_command(c, text, redis_session_on_reply, command);
}

int redis_session_send(struct redis_session *s, struct span command, unsigned how, redis_reply_fn fn,
                       void *arg)
{
    struct session_command *sent = redis_session_new_command(s);
    if (sent == NULL)
        return -ENOMEM;
    sent->session = s;
    sent->how = how;
    sent->fn = fn;
    sent->arg = arg;
    buf_clear(&sent->text);
    if (s->clustered)
        buf_append_span(&sent->text, command);
    int err = buf_error(&sent->text);
    if (err == 0)
        err = redis_session_send_by(sent, command);
    if (err != 0)
        redis_session_free_command(sent);
    return err;
}

/* --- events of the connection --- */

static void redis_session_on_handshake_done(void *arg)
{
    struct redis_session *s = arg;
    redis_session_fail_redirected(s);
    s->options.connection.on_handshake_done(s->options.connection.arg);
}

static void redis_session_on_ready(void *arg)
{
    const struct redis_session *s = arg;
    s->options.connection.on_ready(s->options.connection.arg);
}

static void redis_session_on_heartbeat(void *arg)
{
    const struct redis_session *s = arg;
    s->options.connection.on_heartbeat(s->options.connection.arg);
}

static void redis_session_on_lost(void *arg)
{
    struct redis_session *s = arg;
    s->options.connection.on_lost(s->options.connection.arg);
    redis_session_fail_redirected(s);
}

static void redis_session_on_push(void *arg, struct span kind, const struct redis_reply *element)
{
    const struct redis_session *s = arg;
    s->options.connection.on_push(s->options.connection.arg, kind, element);
}

/* --- beginning and end --- */

static int redis_session_open_connection(struct redis_session *s)
{
    struct redis_connection_options options = s->options.connection;
    options.endpoint = redis_config_endpoint(s->options.config);
    options.tls = redis_config_tls(s->options.config);
    options.on_handshake_done = redis_session_on_handshake_done;
    options.on_ready = redis_session_on_ready;
    options.on_heartbeat = redis_session_on_heartbeat;
    options.on_lost = redis_session_on_lost;
    options.on_push = redis_session_on_push;
    options.arg = s;
    return redis_connection_new(s->loop, &options, &s->connection);
}

int redis_session_new(uv_loop_t *loop, const struct redis_session_options *options,
                      struct redis_session **out)
{
    struct redis_session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    s->loop = loop;
    s->clustered = redis_endpoint_is_cluster(redis_config_endpoint(options->config));
    list_init(&s->redirected);
    int err = redis_session_open_connection(s);
    if (err != 0) {
        free(s);
        return err;
    }
    (void)redis_config_ref(options->config);
    wait_group_add(&s->open_parts, 1);
    *out = s;
    return 0;
}

static void redis_session_on_all_closed(void *arg)
{
    struct redis_session *s = arg;
    void (*closed)(void *arg) = s->closed;
    void *closed_arg = s->closed_arg;
    assert(list_empty(&s->redirected));
    while (s->idle != NULL)
        redis_session_free_command(redis_session_new_command(s));
    redis_config_unref(s->options.config);
    free(s);
    closed(closed_arg);
}

static void redis_session_on_part_closed(void *arg)
{
    struct redis_session *s = arg;
    wait_group_done(&s->open_parts);
}

void redis_session_close(struct redis_session *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    redis_connection_close(s->connection, redis_session_on_part_closed, s);
    if (s->redirects != NULL)
        redirects_close(s->redirects, redis_session_on_part_closed, s);
    wait_group_wait(&s->open_parts, redis_session_on_all_closed, s);
}
