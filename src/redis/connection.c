/*
 * Connection states, handshake and heartbeat; see connection.h.
 */
/* clang-format off */
/*
 *     WAITING -> DISCOVERING -> RESOLVING -> CONNECTING -> HANDSHAKE -> READY
 *      ^  |        ^  |             |          ^  |            |          |
 *      |  v        |  v             v          |  v            v          v
 *      +----------------------- FAILED: pending commands fail -----------------
 *
 *     After FAILED: CONNECTING if the name has another address, DISCOVERING if another Redis is named,
 *     otherwise WAITING, the pause. CLOSED may follow every state.
 */
/* clang-format on */
/*
 * There is a socket only in CONNECTING, HANDSHAKE and READY. Commands are pending only while there is one, so
 * their replies cannot be taken for those of another connection. The exception is FAILED, in which the
 * pending commands end. One timer serves all states:
 *
 *     WAITING     backoff_ms()                         the pause before an attempt
 *     RESOLVING   redis_connection_limit_ms()          the deadline of the look-up
 *     CONNECTING  redis_connection_limit_ms()          the deadline of connection, handshake and acceptance
 *     READY       REDIS_CONNECTION_HEARTBEAT_MS, or    the next heartbeat,
 *                 what is left of the reply timeout    or the deadline of the oldest command,
 *                 SECOND_LOOK_MS                       which counts when it has passed twice
 *
 * The handshake is HELLO (with authentication and client name), SELECT, READONLY at a replica of a cluster,
 * and ROLE. Their replies determine the next step: INFO replication at a replica, CLIENT TRACKING and PING.
 * ROLE and INFO may be denied (server.h). If tracking is refused, or Redis is too old to order invalidations
 * correctly, the connection is used without it. All else must succeed: PING fails while Redis loads its data.
 *
 * ROLE and INFO are repeated with every heartbeat (server.h). A replica that has lost its master, and a
 * server whose role has changed, count as a lost connection. The loss counts from the moment until which the
 * data was known to be valid. An error reply to PING is a lost connection as well (a busy script, a replica
 * with replica-serve-stale-data no).
 */
#include "redis/connection.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/state.h"
#include "base/wait_group.h"
#include "redis/discovery.h"
#include "redis/name_watch.h"
#include "redis/pending.h"
#include "redis/resp.h"
#include "redis/server.h"
#include "redis/socket.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum connection_state { WAITING, DISCOVERING, RESOLVING, CONNECTING, HANDSHAKE, READY, FAILED, CLOSED };

/* The states that may follow each state, as a set of bits; see the drawing above. */
/* clang-format off */
static const unsigned NEXT[] = {
    [WAITING] = STATE(DISCOVERING) | STATE(FAILED) | STATE(CLOSED),
    [DISCOVERING] = STATE(RESOLVING) | STATE(FAILED) | STATE(CLOSED),
    [RESOLVING] = STATE(CONNECTING) | STATE(FAILED) | STATE(CLOSED),
    [CONNECTING] = STATE(HANDSHAKE) | STATE(FAILED) | STATE(CLOSED),
    [HANDSHAKE] = STATE(READY) | STATE(FAILED) | STATE(CLOSED),
    [READY] = STATE(FAILED) | STATE(CLOSED),
    [FAILED] = STATE(WAITING) | STATE(CONNECTING) | STATE(DISCOVERING) | STATE(CLOSED),
    [CLOSED] = 0,
};
/* clang-format on */

struct redis_connection {
    uv_loop_t *loop;
    struct redis_connection_options options;
    enum connection_state state;
    uv_timer_t timer;
    uv_prepare_t flusher;         /* runs once before the loop polls: writes what the iteration has queued */
    struct wait_group open_parts; /* the two handles above, the watch and the discovery */
    struct discovery *discovery;  /* NULL if the address is known */
    struct topology *topology;    /* the discovery's; NULL without one */
    struct redis_endpoint endpoint; /* where this connection leads; borrows */
    struct resolver resolver;
    struct name_watch watch;     /* of the server in use */
    int next_address;            /* the next address of the resolver to be tried */
    unsigned timeouts;           /* servers that took too long, since the connection was last ready */
    struct redis_socket *socket; /* NULL unless CONNECTING or later */
    unsigned failures;           /* failures in a row, for the back-off */
    uint64_t moved_ms;           /* when another server was last named, by the monotonic clock; 0: never */
    struct log_reasons reasons;  /* the reasons logged since the connection was last ready */
    unsigned seed;

    struct pending pending;
    uint64_t unsent_since_ns; /* when the first command since the last flush was queued; 0: there is none */

    /* The handshake. */
    int step;
    int replies_due;                /* replies that are due to the commands of this step */
    const char *no_tracking_reason; /* why this connection does not request tracking; NULL when it does */
    bool tracking;                  /* Redis has agreed to track */
    bool caching_denial_logged;     /* for CLIENT CACHING; logged once in its life */
    struct buf untracked;           /* scratch: a command that Redis must not track */

    /* The heartbeat. Times are by the boot clock. */
    bool has_answered; /* a heartbeat, since it was ready. After a loss before that, another is tried first */
    bool ping_pending;
    uint64_t heartbeat_sent_ms; /* when the heartbeat, or the last step of the handshake, was sent */
    uint64_t last_pong_ms;      /* when the last answered PING was sent */
    uint64_t timeout_ms;        /* when the oldest command was first seen to wait too long; 0: never */
    int reply_heartbeats;       /* heartbeats since the last reply ended, while the next was arriving */

    int backlogs; /* backlogs that may not have ended: replies due to redis_connection_on_caught_up() */

    struct redis_server server;                  /* the server of this connection */
    enum redis_role_kind last_role;              /* of a server in use, as far as it was known */
    bool role_denial_logged, link_denial_logged; /* each is logged once in its life */
};

static void redis_connection_enter(struct redis_connection *c, enum connection_state next);

static void redis_connection_log_connection(const struct redis_connection *c, enum log_level level,
                                            const char *message, const char *why)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    struct buf where = BUF_INIT;
    redis_endpoint_describe(&c->endpoint, &where);
    log_str(&line, "redis", buf_span(&where));
    log_str(&line, "client", span_of(c->options.client_name));
    if (why != NULL)
        log_str(&line, "reason", span_of(redis_endpoint_redact(c->options.endpoint, why)));
    log_end(&line);
    buf_fini(&where);
}

/* `error` is the reply to a command that is optional; *logged is true afterwards. */
static void redis_connection_log_denial(const struct redis_connection *c, bool *logged, const char *message,
                                        const struct redis_reply *error)
{
    if (!*logged)
        redis_connection_log_connection(c, LOG_WARN, message, error->str);
    *logged = true;
}

/* --- sending --- */

static void redis_connection_on_prepare(uv_prepare_t *flusher)
{
    struct redis_connection *c = flusher->data;
    (void)uv_prepare_stop(flusher);
    if (c->unsent_since_ns == 0)
        return;
    c->unsent_since_ns = 0;
    redis_socket_flush(c->socket);
}

/*
 * Queues bytes that make `count` commands. The clock is read once for all commands that are written together.
 */
static int redis_connection_queue_bytes(struct redis_connection *c, struct span bytes, size_t count)
{
    int err = pending_reserve(&c->pending, count);
    if (err == 0)
        err = redis_socket_send(c->socket, bytes);
    if (err != 0)
        return err;
    if (c->unsent_since_ns == 0) {
        c->unsent_since_ns = clock_now_ns();
        (void)uv_prepare_start(&c->flusher, redis_connection_on_prepare); /* fails without a callback only */
    }
    return 0;
}

static void redis_connection_expect_reply(struct redis_connection *c, struct pending_command command)
{
    command.sent_ns = c->unsent_since_ns;
    pending_push(&c->pending, command);
}

/* `reply` is NULL if the connection of the command was lost. */
static void redis_connection_end_command(struct redis_connection *c, const struct pending_command *command,
                                         const struct redis_reply *reply)
{
    if (command->own != NULL)
        command->own(c, reply);
    else
        command->fn(command->arg, reply, REDIS_ORIGIN_STREAM);
}

typedef void redis_connection_own_fn(struct redis_connection *c, const struct redis_reply *reply);

/* Queues a command of the connection itself, in any state that has a socket. Frees the buffer. */
static int redis_connection_queue_own(struct redis_connection *c, struct buf *command,
                                      redis_connection_own_fn fn)
{
    int err = buf_error(command);
    if (err == 0)
        err = redis_connection_queue_bytes(c, buf_span(command), 1);
    if (err == 0) {
        redis_connection_expect_reply(c, (struct pending_command){.own = fn});
        c->replies_due += c->state == HANDSHAKE;
    }
    buf_fini(command);
    return err;
}

static int redis_connection_queue_words(struct redis_connection *c, int argc, const char **argv,
                                        redis_connection_own_fn fn)
{
    struct buf command = BUF_INIT;
    command_write(&command, argc, argv);
    return redis_connection_queue_own(c, &command, fn);
}

/* The owner may check the data after the handshake. */
bool redis_connection_is_usable(const struct redis_connection *c)
{
    return c->state == READY || (c->state == HANDSHAKE && c->replies_due == 0);
}

int redis_connection_send_command(struct redis_connection *c, struct span command, redis_reply_fn fn,
                                  void *arg)
{
    int err = redis_connection_is_usable(c) ? redis_connection_queue_bytes(c, command, 1) : -ENOTCONN;
    if (err == 0)
        redis_connection_expect_reply(c, (struct pending_command){.fn = fn, .arg = arg});
    return err;
}

/* Without CLIENT CACHING the read is tracked like any other, which costs Redis memory. */
static void redis_connection_on_caching_reply(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply != NULL && reply->type == REPLY_ERROR)
        redis_connection_log_denial(c, &c->caching_denial_logged,
                                    "redis refuses CLIENT CACHING: it tracks all links that are looked up",
                                    reply);
}

/* CLIENT CACHING NO applies to the next command on the connection, so both are queued or neither. */
int redis_connection_send_untracked(struct redis_connection *c, struct span command, redis_reply_fn fn,
                                    void *arg)
{
    if (!c->tracking || c->options.tracking != REDIS_TRACKING_KEYS || !redis_connection_is_usable(c))
        return redis_connection_send_command(c, command, fn, arg);
    buf_clear(&c->untracked);
    command_write(&c->untracked, 3, (const char *[]){"CLIENT", "CACHING", "NO"});
    buf_append_span(&c->untracked, command);
    int err = buf_error(&c->untracked);
    if (err == 0)
        err = redis_connection_queue_bytes(c, buf_span(&c->untracked), 2);
    if (err != 0)
        return err;
    redis_connection_expect_reply(c, (struct pending_command){.own = redis_connection_on_caching_reply});
    redis_connection_expect_reply(c, (struct pending_command){.fn = fn, .arg = arg});
    return 0;
}

/* --- failure --- */

/* Whether it is a connection to the master in place of a replica. */
static bool redis_connection_stands_in(const struct redis_connection *c)
{
    return c->topology != NULL && topology_stands_in(c->topology);
}

/* The metric is about connections in use. */
static void redis_connection_show_lag(const struct redis_connection *c)
{
    if (c->state == READY)
        metric_set(&c->options.metrics->redis_replica_lag_seconds, c->server.lag_s);
}

static void redis_connection_count_ready(struct redis_connection *c)
{
    metric_add(&c->options.metrics->redis_connected, 1);
    metric_add(&c->options.metrics->redis_role[c->server.role.kind], 1);
    metric_add(&c->options.metrics->redis_stand_ins, redis_connection_stands_in(c));
}

static void redis_connection_uncount_ready(struct redis_connection *c)
{
    struct redis_metrics *m = c->options.metrics;
    metric_sub(&m->redis_connected, 1);
    metric_sub(&m->redis_role[c->server.role.kind], 1);
    metric_sub(&m->redis_stand_ins, redis_connection_stands_in(c));
    metric_set(&m->redis_replica_lag_seconds, 0);
}

/* Fails all pending commands, oldest first. Their callbacks cannot send, as the state is not READY. */
static void redis_connection_drop_socket(struct redis_connection *c)
{
    if (c->socket == NULL)
        return;
    redis_socket_close(c->socket);
    c->socket = NULL;
    c->unsent_since_ns = 0;
    while (pending_oldest(&c->pending) != NULL) {
        struct pending_command command = pending_pop(&c->pending);
        redis_connection_end_command(c, &command, NULL);
    }
}

/* Ends the connection or attempt, reports that to the owner and to pending commands, and changes to `next`.
 */
static void redis_connection_disconnect(struct redis_connection *c, enum connection_state next)
{
    bool was_ready = c->state == READY;
    redis_connection_enter(c, FAILED);
    resolver_leave(&c->resolver);
    if (was_ready) {
        name_watch_stop(&c->watch);
        redis_connection_uncount_ready(c);
        if (c->discovery != NULL)
            discovery_lost(c->discovery);
    }
    if (c->options.on_lost != NULL)
        c->options.on_lost(c->options.state_arg, was_ready);
    redis_connection_drop_socket(c);
    if (c->state == FAILED) /* no callback has closed the connection */
        redis_connection_enter(c, next);
}

/* The numeric address of this attempt; NULL: a local socket. */
static const char *redis_connection_address(const struct redis_connection *c)
{
    bool named = c->endpoint.transport != REDIS_TRANSPORT_UNIX;
    return named ? c->resolver.address[c->next_address - 1] : NULL;
}

/* The server has addresses that were not tried in this attempt. */
static bool redis_connection_has_more_addresses(const struct redis_connection *c)
{
    return c->next_address < c->resolver.count;
}

/* Another server is next, if there is one, unless this one has been in use. */
static void redis_connection_turn_to_another(struct redis_connection *c)
{
    if (c->discovery == NULL || c->state == DISCOVERING)
        return;
    if (c->state != READY)
        discovery_failed(c->discovery);
    else if (!c->has_answered)
        topology_lost_early(c->topology);
}

void redis_connection_fail(struct redis_connection *c, const char *why)
{
    bool was_ready = c->state == READY;
    bool attempting = c->state == CONNECTING || c->state == HANDSHAKE || (was_ready && !c->has_answered);
    bool more_addresses = attempting && redis_connection_has_more_addresses(c);
    metric_add(&c->options.metrics->redis_disconnects_total, 1);
    c->failures++;
    bool due = log_reason_is_due(&c->reasons, why, clock_now_ms());
    redis_connection_log_connection(c, was_ready || due ? LOG_WARN : LOG_DEBUG,
                                    was_ready ? "redis connection lost" : "redis connection failed", why);
    if (!more_addresses)
        redis_connection_turn_to_another(c);
    redis_connection_disconnect(c, more_addresses ? CONNECTING : WAITING);
}

/*
 * The current reply takes too long. Its command gets the oversize error, and the connection is closed. If the
 * command were reported as lost, it would be sent again on the next connection with the same result.
 */
static void redis_connection_fail_reply(struct redis_connection *c)
{
    struct pending_command command = pending_pop(&c->pending);
    metric_add(&c->options.metrics->redis_oversize_replies_total, 1);
    redis_connection_end_command(c, &command, &resp_oversize);
    if (c->state == READY) /* the callback has not closed the connection */
        redis_connection_fail(c, "a reply did not end in time");
}

/* --- the server's role, and its link to the master --- */

/* Updates the metrics when the role of a server in use is not known any more. */
static void redis_connection_recount_role(const struct redis_connection *c, enum redis_role_kind before)
{
    struct redis_metrics *m = c->options.metrics;
    if (c->state != READY || c->server.role.kind == before)
        return;
    metric_sub(&m->redis_role[before], 1);
    metric_add(&m->redis_role[c->server.role.kind], 1);
    redis_connection_show_lag(c);
}

static void redis_connection_count_reply(struct redis_connection *c);

/* Called after the reply to ROLE or INFO, in the handshake and with every heartbeat. */
static void redis_connection_on_server_checked(struct redis_connection *c, const char *problem)
{
    if (problem != NULL) {
        redis_server_invalidate(&c->server, c->last_pong_ms);
        redis_connection_fail(c, problem);
    } else if (c->state == HANDSHAKE) {
        redis_connection_count_reply(c);
    }
}

static void redis_connection_on_role(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply == NULL)
        return;
    enum redis_role_kind before = c->server.role.kind;
    enum redis_role_kind wanted =
        c->topology == NULL ? REDIS_ROLE_UNKNOWN : topology_wanted_role(c->topology);
    const char *problem = redis_server_take_role(&c->server, reply, wanted, c->heartbeat_sent_ms);
    if (problem == NULL && c->server.role_denied)
        redis_connection_log_denial(c, &c->role_denial_logged,
                                    "redis denies ROLE: a replica that lost its master cannot be detected",
                                    reply);
    redis_connection_recount_role(c, before);
    if (problem == NULL && c->topology != NULL)
        problem = topology_check_replica(c->topology, &c->server.role.master, c->heartbeat_sent_ms);
    redis_connection_on_server_checked(c, problem);
}

static void redis_connection_on_link(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply == NULL)
        return;
    const char *problem = redis_server_take_link(&c->server, reply, c->heartbeat_sent_ms);
    if (problem == NULL && c->server.link_denied)
        redis_connection_log_denial(c, &c->link_denial_logged,
                                    "redis denies INFO: a master that stopped sending cannot be detected",
                                    reply);
    redis_connection_show_lag(c);
    redis_connection_on_server_checked(c, problem);
}

static int redis_connection_send_role(struct redis_connection *c)
{
    return redis_connection_queue_words(c, 1, (const char *[]){"ROLE"}, redis_connection_on_role);
}

static int redis_connection_send_info(struct redis_connection *c)
{
    return redis_connection_queue_words(c, 2, (const char *[]){"INFO", "replication"},
                                        redis_connection_on_link);
}

/* --- the handshake --- */

/* A master that cannot save to its disk replies to PING with MISCONF, but can still be read. */
static bool redis_connection_refuses(const struct redis_reply *reply)
{
    return reply->type == REPLY_ERROR && !reply_is_error(reply, SPAN("MISCONF "));
}

static void redis_connection_on_step_reply(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply == NULL || c->state != HANDSHAKE)
        return;
    if (redis_connection_refuses(reply))
        redis_connection_fail(c, reply->str);
    else
        redis_connection_count_reply(c);
}

static void redis_connection_on_hello(struct redis_connection *c, const struct redis_reply *reply)
{
    bool accepted = reply != NULL && reply->type != REPLY_ERROR;
    const char *problem = NULL;
    if (accepted) {
        c->no_tracking_reason = redis_server_check_hello(reply);
        problem = redis_server_check_mode(reply, redis_endpoint_is_cluster(c->options.endpoint));
    }
    if (problem != NULL)
        redis_connection_fail(c, problem);
    else
        redis_connection_on_step_reply(c, reply);
}

static void redis_connection_go_untracked(struct redis_connection *c, const char *message, const char *why)
{
    metric_add(&c->options.metrics->redis_tracking_refused_total, 1);
    redis_connection_log_connection(c, LOG_WARN, message, why);
}

static void redis_connection_on_tracking(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply == NULL || c->state != HANDSHAKE)
        return;
    if (redis_server_is_unavailable(reply)) { /* otherwise the whole connection would cache nothing */
        redis_connection_fail(c, reply->str);
        return;
    }
    c->tracking = reply->type != REPLY_ERROR;
    if (!c->tracking)
        redis_connection_go_untracked(c, "redis refuses tracking", reply->str);
    redis_connection_count_reply(c);
}

/* The prefixes of one connection must not overlap. */
static void redis_connection_compose_broadcast(const struct redis_connection_options *o, struct buf *command)
{
    struct buf prefix = BUF_INIT;
    command_begin(command, 4 + 2 * o->tracking_name_count);
    command_add(command, SPAN("CLIENT"));
    command_add(command, SPAN("TRACKING"));
    command_add(command, SPAN("ON"));
    command_add(command, SPAN("BCAST"));
    for (size_t i = 0; i < o->tracking_name_count; i++) {
        buf_clear(&prefix);
        buf_append_span(&prefix, o->tracking_prefix);
        buf_append_span(&prefix, o->tracking_names[i]);
        command_add(command, SPAN("PREFIX"));
        command_add_buf(command, &prefix);
    }
    buf_fini(&prefix);
}

static int redis_connection_send_tracking(struct redis_connection *c)
{
    struct buf command = BUF_INIT;
    if (c->options.tracking == REDIS_TRACKING_OFF)
        return 0;
    if (c->no_tracking_reason != NULL) {
        redis_connection_go_untracked(c, "redis does not send invalidations reliably", c->no_tracking_reason);
        return 0;
    }
    if (c->options.tracking == REDIS_TRACKING_BROADCAST)
        redis_connection_compose_broadcast(&c->options, &command);
    else
        command_write(&command, 4, (const char *[]){"CLIENT", "TRACKING", "ON", "OPTOUT"});
    return redis_connection_queue_own(c, &command, redis_connection_on_tracking);
}

static int redis_connection_first_step(struct redis_connection *c)
{
    const struct redis_endpoint *endpoint = c->options.endpoint;
    struct buf command = BUF_INIT;
    redis_endpoint_hello(endpoint, c->options.client_name, &command);
    int err = redis_connection_queue_own(c, &command, redis_connection_on_hello);
    if (err == 0 && redis_endpoint_select(endpoint, &command))
        err = redis_connection_queue_own(c, &command, redis_connection_on_step_reply);
    if (err == 0 && c->topology != NULL && topology_wants_readonly(c->topology))
        err =
            redis_connection_queue_words(c, 1, (const char *[]){"READONLY"}, redis_connection_on_step_reply);
    return err != 0 ? err : redis_connection_send_role(c);
}

static int redis_connection_second_step(struct redis_connection *c)
{
    int err = 0;
    c->heartbeat_sent_ms = c->last_pong_ms = clock_boot_ms();
    if (c->server.role.kind == REDIS_ROLE_REPLICA)
        err = redis_connection_send_info(c);
    if (err == 0)
        err = redis_connection_send_tracking(c);
    return err != 0
               ? err
               : redis_connection_queue_words(c, 1, (const char *[]){"PING"}, redis_connection_on_step_reply);
}

/* Starts the next step of the handshake, when all replies of the previous step have arrived. */
static void redis_connection_next_step(struct redis_connection *c)
{
    static int (*const steps[])(struct redis_connection * c) = {redis_connection_first_step,
                                                                redis_connection_second_step};
    if (c->step < (int)(sizeof steps / sizeof steps[0])) {
        if (steps[c->step++](c) != 0)
            redis_connection_fail(c, "out of memory");
    } else if (c->options.on_handshake_done != NULL) {
        c->options.on_handshake_done(c->options.state_arg);
    } else {
        redis_connection_accept(c);
    }
}

static void redis_connection_count_reply(struct redis_connection *c)
{
    assert(c->replies_due > 0);
    if (--c->replies_due == 0)
        redis_connection_next_step(c);
}

static void redis_connection_begin_handshake(struct redis_connection *c)
{
    c->step = c->replies_due = 0;
    c->tracking = false;
    c->no_tracking_reason = NULL;
    redis_server_init(&c->server, c->options.replication, redis_connection_address(c), c->endpoint.port);
    c->heartbeat_sent_ms = clock_boot_ms();
    if (c->topology != NULL)
        topology_connected(c->topology);
    redis_connection_next_step(c);
}

void redis_connection_accept(struct redis_connection *c)
{
    assert(c->state == HANDSHAKE && c->replies_due == 0);
    redis_connection_enter(c, READY);
}

/* --- the heartbeat --- */

static void redis_connection_on_timer(uv_timer_t *timer);

static void redis_connection_start_timer(struct redis_connection *c, uint64_t ms)
{
    (void)uv_timer_start(&c->timer, redis_connection_on_timer, ms, 0); /* it fails only on a closing handle */
}

static void redis_connection_on_pong(struct redis_connection *c, const struct redis_reply *reply)
{
    c->ping_pending = false;
    if (reply == NULL)
        return;
    if (redis_connection_refuses(reply)) {
        redis_connection_fail(c, reply->str);
        return;
    }
    c->last_pong_ms = c->heartbeat_sent_ms;
    if (c->topology != NULL)
        topology_answered(c->topology);
    c->has_answered = true;
    if (c->options.on_heartbeat != NULL)
        c->options.on_heartbeat(c->options.arg);
}

/* PING comes last: its reply extends the time for which the server's data is trusted. */
static int redis_connection_send_heartbeat(struct redis_connection *c)
{
    if (c->ping_pending)
        return 0;
    c->heartbeat_sent_ms = clock_boot_ms();
    int err = c->server.role_denied ? 0 : redis_connection_send_role(c);
    if (err == 0 && c->server.role.kind == REDIS_ROLE_REPLICA && !c->server.link_denied)
        err = redis_connection_send_info(c);
    if (err == 0)
        err = redis_connection_queue_words(c, 1, (const char *[]){"PING"}, redis_connection_on_pong);
    c->ping_pending = err == 0;
    return err;
}

/*
 * How long the oldest command has waited for its reply. More input of it, or of a push before it, restarts
 * the wait.
 */
static uint64_t redis_connection_waited_ms(const struct redis_connection *c,
                                           const struct redis_socket_progress *progress)
{
    const struct pending_command *oldest = pending_oldest(&c->pending);
    if (oldest == NULL || oldest->sent_ns == c->unsent_since_ns) /* none is written yet */
        return 0;
    uint64_t since_ns = progress->progress_ns > oldest->sent_ns ? progress->progress_ns : oldest->sent_ns;
    return (clock_now_ns() - since_ns) / 1000000;
}

/* A large reply or push may take longer than the limit while it makes progress, but not without a limit. */
static bool redis_connection_reply_takes_too_long(struct redis_connection *c,
                                                  const struct redis_socket_progress *progress)
{
    if (pending_oldest(&c->pending) == NULL || !(progress->in_reply || progress->in_push))
        return false;
    return ++c->reply_heartbeats > REDIS_CONNECTION_REPLY_HEARTBEATS_MAX;
}

/*
 * A timeout is checked twice, and counts only if the socket was drained in between. After a stop of this
 * process (SIGSTOP) the replies may already be in the socket.
 */
static void redis_connection_heartbeat(struct redis_connection *c)
{
    const struct redis_socket_progress progress = redis_socket_progress(c->socket);
    uint64_t waited = redis_connection_waited_ms(c, &progress);
    bool timed_out = waited >= REDIS_CONNECTION_REPLY_TIMEOUT_MS;
    if (timed_out && c->timeout_ms != 0 &&
        redis_socket_drained_ms(c->socket, c->timeout_ms) > c->timeout_ms) {
        redis_connection_fail(c, "no reply in time");
        return;
    }
    if (!timed_out)
        c->timeout_ms = 0;
    else if (c->timeout_ms == 0)
        c->timeout_ms = clock_boot_ms();
    if (timed_out) {
        redis_connection_start_timer(c, REDIS_CONNECTION_SECOND_LOOK_MS);
        return;
    }
    if (redis_connection_reply_takes_too_long(c, &progress)) {
        if (progress.in_push)
            redis_connection_fail(c, "a push did not end in time");
        else
            redis_connection_fail_reply(c);
        return;
    }
    if (redis_connection_send_heartbeat(c) != 0) {
        redis_connection_fail(c, "out of memory");
        return;
    }
    uint64_t left = REDIS_CONNECTION_REPLY_TIMEOUT_MS - waited;
    redis_connection_start_timer(c,
                                 left < REDIS_CONNECTION_HEARTBEAT_MS ? left : REDIS_CONNECTION_HEARTBEAT_MS);
}

/* The next Redis is looked for at once, unless two servers keep referring to each other. */
static void redis_connection_on_failover(void *arg, const char *why)
{
    struct redis_connection *c = arg;
    redis_connection_log_connection(c, LOG_INFO, "closing the redis connection for a failover", why);
    uint64_t now = clock_now_ms();
    bool again = c->moved_ms != 0 && now - c->moved_ms < REDIS_CONNECTION_BACKOFF_MAX_MS;
    c->failures = again ? c->failures + 1 : 0;
    c->timeouts = 0;
    c->moved_ms = now;
    redis_connection_disconnect(c, again ? WAITING : DISCOVERING);
}

/* --- events of the socket --- */

static void redis_connection_on_connected(void *arg)
{
    redis_connection_enter(arg, HANDSHAKE);
}

/*
 * A node of a cluster does not have the slot. This counts as a loss of the connection before this reply, so
 * that its command is repeated on the next connection.
 */
static bool redis_connection_leave_node(struct redis_connection *c, const struct redis_reply *error)
{
    enum discovery_error kind =
        c->topology == NULL ? DISCOVERY_ERROR_OTHER : topology_handle_error(c->topology, error);
    if (kind == DISCOVERY_ERROR_MOVED)
        redis_connection_on_failover(c, "the slot has moved to another node");
    else if (kind == DISCOVERY_ERROR_DOWN)
        redis_connection_fail(c, error->str);
    return kind != DISCOVERY_ERROR_OTHER;
}

static void redis_connection_on_reply(void *arg, const struct redis_reply *reply, uint64_t read_ns)
{
    struct redis_connection *c = arg;
    /* a push does not clear it: commands may be lost while invalidations are still pushed */
    c->timeout_ms = 0;
    c->reply_heartbeats = 0;
    if (pending_oldest(&c->pending) == NULL) {
        redis_connection_fail(c, reply->type == REPLY_ERROR ? reply->str : "a reply without a command");
        return;
    }
    if (reply->type == REPLY_ERROR && redis_connection_leave_node(c, reply))
        return;
    struct pending_command command = pending_pop(&c->pending);
    loop_lag_begin_at(c->options.loop_lag, read_ns);
    histogram_observe(&c->options.metrics->redis_command_duration_seconds,
                      read_ns > command.sent_ns ? read_ns - command.sent_ns : 0);
    if (resp_is_oversize(reply))
        metric_add(&c->options.metrics->redis_oversize_replies_total, 1);
    redis_connection_end_command(c, &command, reply);
}

static void redis_connection_on_push(void *arg, struct span kind, const struct redis_reply *element)
{
    struct redis_connection *c = arg;
    if (c->state == READY && c->options.on_push != NULL)
        c->options.on_push(c->options.arg, kind, element);
}

/* Any reply suffices, since it is behind everything that Redis had to send. */
static void redis_connection_on_caught_up(struct redis_connection *c, const struct redis_reply *reply)
{
    (void)reply;
    c->backlogs--;
}

/* Nothing is cached that was read before READY. A backlog of the handshake may go on, see become_ready(). */
static void redis_connection_on_backlog(void *arg)
{
    struct redis_connection *c = arg;
    if (c->state != READY)
        return;
    c->backlogs++;
    if (redis_connection_queue_words(c, 1, (const char *[]){"PING"}, redis_connection_on_caught_up) == 0)
        return;
    c->backlogs--;
    redis_connection_fail(c, "out of memory");
}

static void redis_connection_on_failed(void *arg, const char *why)
{
    struct redis_connection *c = arg;
    loop_lag_begin(c->options.loop_lag);
    redis_connection_fail(c, why);
}

/* --- states --- */

static void redis_connection_on_found(void *arg, const struct redis_endpoint *endpoint)
{
    struct redis_connection *c = arg;
    c->endpoint = *endpoint;
    redis_connection_enter(c, RESOLVING);
}

static void redis_connection_on_not_found(void *arg, const char *why)
{
    redis_connection_fail(arg, why);
}

static void redis_connection_discover(struct redis_connection *c)
{
    c->endpoint = *c->options.endpoint;
    if (c->discovery == NULL)
        redis_connection_enter(c, RESOLVING);
    else
        discovery_discover(c->discovery);
}

static void redis_connection_on_resolved(void *arg, const char *error)
{
    struct redis_connection *c = arg;
    assert(c->state == RESOLVING);
    if (error != NULL)
        redis_connection_fail(c, error);
    else
        redis_connection_enter(c, CONNECTING);
}

static void redis_connection_resolve(struct redis_connection *c)
{
    c->next_address = 0;
    if (c->endpoint.transport == REDIS_TRANSPORT_UNIX)
        redis_connection_enter(c, CONNECTING);
    else
        resolver_start(&c->resolver, c->loop, c->endpoint.host, redis_connection_on_resolved, c);
}

static void redis_connection_connect_next(struct redis_connection *c)
{
    assert(c->socket == NULL && pending_oldest(&c->pending) == NULL);
    c->next_address++;
    const struct redis_socket_options options = {
        .on_connected = redis_connection_on_connected,
        .on_reply = redis_connection_on_reply,
        .on_push = redis_connection_on_push,
        .on_backlog = redis_connection_on_backlog,
        .on_failed = redis_connection_on_failed,
        .arg = c,
    };
    int err = redis_socket_open(c->loop, &c->endpoint, c->options.tls, redis_connection_address(c), &options,
                                &c->socket);
    if (err != 0)
        redis_connection_fail(c, strerror(-err));
}

/* Without a discovery a failover is a server that has come into use with another role than before. */
static void redis_connection_note_role(struct redis_connection *c)
{
    enum redis_role_kind before = c->last_role;
    if (c->topology != NULL || c->server.role.kind == REDIS_ROLE_UNKNOWN)
        return;
    c->last_role = c->server.role.kind;
    if (before != REDIS_ROLE_UNKNOWN && before != c->last_role)
        metric_add(&c->options.metrics->redis_failovers[REDIS_FAILOVER_ROLE], 1);
}

static void redis_connection_become_ready(struct redis_connection *c)
{
    c->has_answered = false;
    c->failures = c->timeouts = 0;
    c->reasons = (struct log_reasons){0};
    c->timeout_ms = 0;
    c->reply_heartbeats = 0;
    if (c->discovery != NULL)
        discovery_ready(c->discovery);
    redis_connection_note_role(c);
    if (c->options.on_moved != NULL && c->endpoint.transport != REDIS_TRANSPORT_UNIX)
        name_watch_start(&c->watch, c->endpoint.host, redis_connection_address(c));
    metric_add(&c->options.metrics->redis_connects_total, 1);
    redis_connection_count_ready(c);
    redis_connection_log_connection(c, LOG_INFO, "redis connected", NULL);
    redis_connection_start_timer(c, REDIS_CONNECTION_HEARTBEAT_MS);
    c->options.on_ready(c->options.state_arg); /* may close another connection, which resets the lag */
    redis_connection_show_lag(c);
    if (c->state == READY && redis_socket_has_backlog(c->socket))
        redis_connection_on_backlog(c);
}

static void redis_connection_on_timer(uv_timer_t *timer)
{
    struct redis_connection *c = timer->data;
    switch (c->state) {
    case WAITING:
        redis_connection_enter(c, DISCOVERING);
        break;
    case RESOLVING:
        c->timeouts++;
        redis_connection_fail(c, "the name was not resolved in time");
        break;
    case CONNECTING:
    case HANDSHAKE:
        c->timeouts++;
        redis_connection_fail(c, "no connection in time");
        break;
    case READY:
        redis_connection_heartbeat(c);
        break;
    case DISCOVERING: /* without a timer: the discovery has its own */
    case FAILED:
    case CLOSED:
        break;
    }
}

/* The time limit of the next step. If there is another server or address, that one is not kept waiting. */
static uint64_t redis_connection_limit_ms(const struct redis_connection *c)
{
    unsigned servers = c->topology == NULL ? 1 : topology_candidates(c->topology);
    unsigned addresses = c->resolver.count > 1 ? (unsigned)c->resolver.count : 1;
    return backoff_doubled_ms(c->timeouts / (servers * addresses), REDIS_CONNECTION_CONNECT_TIMEOUT_MS,
                              REDIS_CONNECTION_CONNECT_TIMEOUT_MAX_MS);
}

static void redis_connection_enter(struct redis_connection *c, enum connection_state next)
{
    STATE_ENTER(&c->state, next, NEXT);
    switch (next) {
    case WAITING:
        redis_connection_start_timer(c, backoff_ms(c->failures, REDIS_CONNECTION_BACKOFF_MIN_MS,
                                                   REDIS_CONNECTION_BACKOFF_MAX_MS, &c->seed));
        break;
    case DISCOVERING:
        (void)uv_timer_stop(&c->timer); /* cannot fail */
        redis_connection_discover(c);
        break;
    case RESOLVING:
        redis_connection_start_timer(c, redis_connection_limit_ms(c));
        redis_connection_resolve(c);
        break;
    case CONNECTING:
        redis_connection_start_timer(c, redis_connection_limit_ms(c));
        redis_connection_connect_next(c);
        break;
    case HANDSHAKE:
        redis_connection_begin_handshake(c);
        break;
    case READY:
        redis_connection_become_ready(c);
        break;
    case FAILED: /* see redis_connection_disconnect() */
        break;
    case CLOSED:
        resolver_cancel(&c->resolver);
        redis_connection_drop_socket(c);
        break;
    }
}

/* --- beginning and end --- */

static void redis_connection_on_moved(void *arg)
{
    struct redis_connection *c = arg;
    if (c->options.on_moved != NULL)
        c->options.on_moved(c->options.state_arg);
}

static int redis_connection_start_discovery(struct redis_connection *c)
{
    const struct redis_connection_options *o = &c->options;
    const struct discovery_options options = {.endpoint = o->endpoint,
                                              .tls = o->tls,
                                              .client_name = o->client_name,
                                              .metrics = o->metrics,
                                              .stale_limit_ms = o->stale_limit_ms,
                                              .seed = (unsigned)rand_r(&c->seed),
                                              .on_found = redis_connection_on_found,
                                              .on_not_found = redis_connection_on_not_found,
                                              .on_failover = redis_connection_on_failover,
                                              .on_moved = redis_connection_on_moved,
                                              .arg = c};
    int err = discovery_new(c->loop, &options, &c->discovery);
    c->topology = err == 0 ? discovery_topology(c->discovery) : NULL;
    return err;
}

int redis_connection_new(uv_loop_t *loop, const struct redis_connection_options *options,
                         struct redis_connection **out)
{
    struct redis_connection *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->loop = loop;
    c->options = *options;
    c->seed = (unsigned)random_seed(c);
    int err = redis_endpoint_is_discovered(options->endpoint) ? redis_connection_start_discovery(c) : 0;
    if (err != 0) {
        free(c);
        return err;
    }
    (void)uv_timer_init(loop, &c->timer); /* neither can fail */
    (void)uv_prepare_init(loop, &c->flusher);
    name_watch_init(&c->watch, loop, options->client_name, redis_connection_on_moved, c);
    c->timer.data = c->flusher.data = c;
    wait_group_add(&c->open_parts, c->discovery != NULL ? 4 : 3);
    redis_connection_enter(c, DISCOVERING);
    *out = c;
    return 0;
}

static void redis_connection_on_handle_closed(uv_handle_t *handle)
{
    struct redis_connection *c = handle->data;
    wait_group_done(&c->open_parts);
}

static void redis_connection_free(void *arg)
{
    struct redis_connection *c = arg;
    assert(pending_oldest(&c->pending) == NULL);
    pending_fini(&c->pending);
    buf_fini(&c->untracked);
    free(c);
}

void redis_connection_close(struct redis_connection *c, void (*closed)(void *arg), void *arg)
{
    if (c->state == READY)
        redis_connection_uncount_ready(c);
    redis_connection_enter(c, CLOSED);
    if (c->discovery != NULL)
        discovery_close(c->discovery, wait_group_on_done, &c->open_parts);
    name_watch_close(&c->watch, wait_group_on_done, &c->open_parts);
    uv_close((uv_handle_t *)&c->timer, redis_connection_on_handle_closed);
    uv_close((uv_handle_t *)&c->flusher, redis_connection_on_handle_closed);
    wait_group_close(&c->open_parts, redis_connection_free, c, closed, arg);
}

void redis_connection_look_up(struct redis_connection *c)
{
    name_watch_look(&c->watch);
    if (c->discovery != NULL)
        discovery_look_up(c->discovery);
}

bool redis_connection_is_ready(const struct redis_connection *c)
{
    return c->state == READY;
}

bool redis_connection_elsewhere(const struct redis_connection *c, const struct redis_reply *reply,
                                struct redis_address *node)
{
    return c->topology != NULL && topology_elsewhere(c->topology, reply, node);
}

bool redis_connection_is_tracking(const struct redis_connection *c)
{
    return c->state == READY && c->tracking;
}

uint64_t redis_connection_drained_until_ms(struct redis_connection *c, uint64_t at_ms)
{
    assert(c->state == READY);
    uint64_t drained_ms = redis_socket_drained_ms(c->socket, at_ms - REDIS_SOCKET_BACKLOG_MS);
    return c->backlogs == 0 ? drained_ms + REDIS_SOCKET_BACKLOG_MS : 0;
}

uint64_t redis_connection_last_pong_ms(const struct redis_connection *c)
{
    return c->last_pong_ms;
}

uint64_t redis_connection_valid_until_ms(const struct redis_connection *c)
{
    uint64_t trusted_ms = c->topology == NULL ? UINT64_MAX : topology_trusted_until_ms(c->topology);
    return c->server.valid_until_ms < trusted_ms ? c->server.valid_until_ms : trusted_ms;
}
