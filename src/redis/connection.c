/*
 * The states of a connection, its handshake and heartbeat; see connection.h.
 *
 * One timer serves all states:
 *
 *     BEGINNING   0                                the first step is not taken within redis_connection_new()
 *     RESOLVING   `limit_ms`                       the deadline of the look-up
 *     CONNECTING  `limit_ms`                       the deadline of connection, handshake and acceptance
 *     READY       REDIS_CONNECTION_HEARTBEAT_MS,   the next heartbeat,
 *                 or what is left of the timeout   or the deadline of the oldest command,
 *                 SECOND_LOOK_MS                   which counts when it has passed twice
 *
 * There is a socket only in CONNECTING, HANDSHAKE and READY, and commands are pending only while there is
 * one. They end while no further command is accepted.
 *
 * The handshake is HELLO (with authentication and client name), SELECT and ROLE. Their replies determine the
 * next step: INFO replication at a replica, CLIENT TRACKING and PING. ROLE and INFO may be denied (server.h).
 * If tracking is refused, or Redis is too old to order invalidations correctly, the connection is used
 * without it. All else must succeed: PING fails while Redis loads its data.
 *
 * ROLE and INFO are repeated with every heartbeat (server.h). A replica that has lost its master, and a
 * server whose role has changed, count as a lost connection. The loss counts from the moment until which the
 * data was known to be valid. An error reply to PING is a lost connection as well (a busy script, a replica
 * with replica-serve-stale-data no).
 */
#include "redis/connection.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/state.h"
#include "base/wait_group.h"
#include "redis/resp.h"
#include "redis/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum connection_state { BEGINNING, RESOLVING, CONNECTING, HANDSHAKE, READY, LOST, CLOSED };

/* The states that may follow each state, as a set of bits. CONNECTING follows itself: the next address. */
/* clang-format off */
static const unsigned NEXT[] = {
    [BEGINNING] = STATE(RESOLVING) | STATE(CONNECTING) | STATE(CLOSED),
    [RESOLVING] = STATE(CONNECTING) | STATE(LOST) | STATE(CLOSED),
    [CONNECTING] = STATE(CONNECTING) | STATE(HANDSHAKE) | STATE(LOST) | STATE(CLOSED),
    [HANDSHAKE] = STATE(CONNECTING) | STATE(READY) | STATE(LOST) | STATE(CLOSED),
    [READY] = STATE(LOST) | STATE(CLOSED),
    [LOST] = STATE(CLOSED),
    [CLOSED] = 0,
};
/* clang-format on */

enum { PENDING_CAPACITY_MIN = 64 };

/* A command that waits for its reply. One of the connection itself has `own`; any other has `fn` and `arg`.
 */
struct pending_command {
    void (*own)(struct redis_connection *c, const struct redis_reply *reply);
    redis_reply_fn fn;
    void *arg;
    uint64_t sent_ns; /* monotonic */
};

/* Oldest first: a ring that grows and keeps its memory. */
struct pending {
    struct pending_command *ring; /* owned */
    size_t capacity;              /* a power of two, or 0 */
    size_t head, used;
};

struct redis_connection {
    uv_loop_t *loop;
    struct redis_connection_options options;
    enum connection_state state;
    uv_timer_t timer;
    uv_prepare_t flusher;         /* runs once before the loop polls: writes what the iteration has queued */
    struct wait_group open_parts; /* these two handles */
    char address[RESOLVE_ADDRESSES_MAX][RESOLVE_ADDRESS_SIZE]; /* of the name, in the order of attempts */
    int addresses;
    int next_address;            /* the next one to be tried */
    bool timed_out;              /* a time limit was reached */
    enum redis_failure failure;  /* the kind of the last one */
    struct redis_socket *socket; /* NULL unless CONNECTING or later */

    struct pending pending;
    uint64_t unsent_since_ns; /* when the first command since the last flush was queued; 0: there is none */

    /* The handshake. */
    int step;
    int replies_due;                /* replies that are due to the commands of this step */
    const char *no_tracking_reason; /* why this connection does not request tracking; NULL when it does */
    bool tracking;                  /* Redis has agreed to track */
    struct buf untracked;           /* scratch: a command that Redis must not track */

    /* The heartbeat. Times are by the boot clock. */
    bool ping_pending;
    uint64_t heartbeat_sent_ms; /* when the heartbeat, or the last step of the handshake, was sent */
    uint64_t last_pong_ms;      /* when the last answered PING was sent */
    uint64_t timeout_ms;        /* when the oldest command was first seen to wait too long; 0: never */
    int reply_heartbeats;       /* heartbeats since the last reply ended, while the next was arriving */

    int backlogs; /* backlogs that may not have ended: replies due to redis_connection_on_caught_up() */

    struct redis_server server;

    /* The look-ups of the name while the connection is ready. */
    unsigned seed;
    uint64_t look_up_ms;   /* when the next one begins, by the boot clock */
    bool looking_up;       /* one is in progress */
    bool one_decides;      /* the next answer decides alone */
    struct buf elsewhere;  /* the last answer without the address in use, sorted; empty: it had it */
    int answers_elsewhere; /* such answers in a row that were the same */
};

/* --- commands that wait for their replies --- */

/* Makes room for `count` more commands, at most PENDING_CAPACITY_MIN. Returns 0 or -ENOMEM. */
static int pending_reserve(struct pending *q, size_t count)
{
    assert(count <= PENDING_CAPACITY_MIN);
    if (q->used + count <= q->capacity)
        return 0;
    size_t capacity = q->capacity == 0 ? PENDING_CAPACITY_MIN : q->capacity * 2;
    struct pending_command *ring = calloc(capacity, sizeof *ring);
    if (ring == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < q->used; i++)
        ring[i] = q->ring[(q->head + i) & (q->capacity - 1)];
    free(q->ring);
    q->ring = ring;
    q->capacity = capacity;
    q->head = 0;
    return 0;
}

/* pending_reserve must have succeeded since the last call. */
static void pending_push(struct pending *q, struct pending_command command)
{
    assert(q->used < q->capacity);
    q->ring[(q->head + q->used) & (q->capacity - 1)] = command;
    q->used++;
}

/* The oldest command, or NULL. Borrowed until the next change. */
static const struct pending_command *pending_oldest(const struct pending *q)
{
    return q->used == 0 ? NULL : &q->ring[q->head];
}

/* Removes the oldest command; there must be one. */
static struct pending_command pending_pop(struct pending *q)
{
    assert(q->used > 0);
    struct pending_command command = q->ring[q->head];
    q->head = (q->head + 1) & (q->capacity - 1);
    q->used--;
    return command;
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

/* Queues a command of the connection itself, in any state that has a socket. Erases and frees the buffer. */
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
    if (command->data != NULL)
        explicit_bzero(command->data, command->cap); /* HELLO has the password */
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

/* The owner may check the server after the handshake. */
bool redis_connection_is_usable(const struct redis_connection *c)
{
    return c != NULL && (c->state == READY || (c->state == HANDSHAKE && c->replies_due == 0));
}

int redis_connection_send_command(struct redis_connection *c, struct span command, redis_reply_fn fn,
                                  void *arg)
{
    int err = redis_connection_is_usable(c) ? redis_connection_queue_bytes(c, command, 1) : -ENOTCONN;
    if (err == 0)
        redis_connection_expect_reply(c, (struct pending_command){.fn = fn, .arg = arg});
    return err;
}

static void redis_connection_log(const struct redis_connection *c, const char *message, const char *why)
{
    struct log_line line;
    if (!log_begin(&line, LOG_WARN, message))
        return;
    struct buf where = BUF_INIT;
    redis_endpoint_describe(c->options.endpoint, &where);
    log_str(&line, "redis", buf_span(&where));
    log_str(&line, "client", span_of(c->options.client_name));
    log_str(&line, "reason", span_of(redis_endpoint_redact(c->options.endpoint, why)));
    log_end(&line);
    buf_fini(&where);
}

/* `error` is the reply to a command that can be left out. */
static void redis_connection_log_denial(const struct redis_connection *c, const char *message,
                                        const struct redis_reply *error)
{
    if (log_reason_is_due(c->options.denials, message, clock_now_ms()))
        redis_connection_log(c, message, error->str);
}

/* Without CLIENT CACHING the read is tracked like any other, which costs Redis memory. */
static void redis_connection_on_caching_reply(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply != NULL && reply->type == REPLY_ERROR)
        redis_connection_log_denial(c, "redis refuses CLIENT CACHING: it tracks all links that are looked up",
                                    reply);
}

/* CLIENT CACHING NO applies to the next command on the connection, so both are queued or neither. */
int redis_connection_send_untracked(struct redis_connection *c, struct span command, redis_reply_fn fn,
                                    void *arg)
{
    if (!redis_connection_is_usable(c) || !c->tracking || c->options.tracking.mode != REDIS_TRACKING_KEYS)
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

/* Fails all pending commands, oldest first. */
static void redis_connection_drop_socket(struct redis_connection *c)
{
    assert(!redis_connection_is_usable(c));
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

static void redis_connection_lose(struct redis_connection *c, const char *why)
{
    STATE_ENTER(&c->state, LOST, NEXT);
    (void)uv_timer_stop(&c->timer); /* cannot fail */
    resolver_leave(c->options.resolver);
    c->options.on_lost(c->options.arg, why); /* may close the connection, which drops the socket */
    redis_connection_drop_socket(c);
}

static void redis_connection_connect_next(struct redis_connection *c);

void redis_connection_fail(struct redis_connection *c, const char *why)
{
    bool attempting = c->state == CONNECTING || c->state == HANDSHAKE;
    if (!attempting || c->next_address >= c->addresses) {
        redis_connection_lose(c, why);
        return;
    }
    STATE_ENTER(&c->state, CONNECTING, NEXT);
    if (c->options.on_address_failed != NULL)
        c->options.on_address_failed(c->options.arg, why);
    redis_connection_drop_socket(c);
    if (c->state == CONNECTING) /* no callback has closed the connection */
        redis_connection_connect_next(c);
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
        redis_connection_lose(c, "a reply did not end in time");
}

/* --- the server's role, and its link to the master --- */

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
    const char *problem = redis_server_take_role(&c->server, reply, c->options.role, c->heartbeat_sent_ms);
    if (problem == NULL && c->server.role_denied)
        redis_connection_log_denial(c, "redis denies ROLE: a replica that lost its master cannot be detected",
                                    reply);
    if (problem == NULL && c->options.check_role != NULL)
        problem = c->options.check_role(c->options.arg, &c->server, c->heartbeat_sent_ms);
    redis_connection_on_server_checked(c, problem);
}

static void redis_connection_on_link(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply == NULL)
        return;
    const char *problem = redis_server_take_link(&c->server, reply, c->heartbeat_sent_ms);
    if (problem == NULL && c->server.link_denied)
        redis_connection_log_denial(c, "redis denies INFO: a master that stopped sending cannot be detected",
                                    reply);
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
    const char *problem = NULL;
    if (reply != NULL && reply->type != REPLY_ERROR) {
        c->no_tracking_reason = redis_server_check_hello(reply);
        problem = redis_server_check_mode(reply, redis_endpoint_is_cluster(c->options.endpoint));
    }
    if (problem == NULL) {
        redis_connection_on_step_reply(c, reply);
    } else {
        c->failure = REDIS_FAILURE_REJECTED;
        redis_connection_fail(c, problem);
    }
}

static void redis_connection_go_untracked(struct redis_connection *c, const char *message, const char *why)
{
    metric_add(&c->options.metrics->redis_tracking_refused_total, 1);
    redis_connection_log(c, message, why);
}

static void redis_connection_on_tracking(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply == NULL || c->state != HANDSHAKE)
        return;
    bool refused = reply->type == REPLY_ERROR;
    /* otherwise the whole connection would cache nothing */
    if (refused && redis_server_is_unavailable(span_of(reply->str))) {
        redis_connection_fail(c, reply->str);
        return;
    }
    c->tracking = !refused;
    if (refused)
        redis_connection_go_untracked(c, "redis refuses tracking", reply->str);
    redis_connection_count_reply(c);
}

/* The prefixes of one connection must not overlap. */
static void redis_connection_compose_broadcast(const struct redis_tracking *tracking, struct buf *command)
{
    struct buf prefix = BUF_INIT;
    command_begin(command, 4 + 2 * tracking->name_count);
    command_add(command, SPAN("CLIENT"));
    command_add(command, SPAN("TRACKING"));
    command_add(command, SPAN("ON"));
    command_add(command, SPAN("BCAST"));
    for (size_t i = 0; i < tracking->name_count; i++) {
        buf_clear(&prefix);
        buf_append_span(&prefix, tracking->prefix);
        buf_append_span(&prefix, tracking->names[i]);
        command_add(command, SPAN("PREFIX"));
        command_add_buf(command, &prefix);
    }
    buf_fini(&prefix);
}

static int redis_connection_send_tracking(struct redis_connection *c)
{
    struct buf command = BUF_INIT;
    if (c->options.tracking.mode == REDIS_TRACKING_OFF)
        return 0;
    if (c->no_tracking_reason != NULL) {
        redis_connection_go_untracked(c, "redis does not send invalidations reliably", c->no_tracking_reason);
        return 0;
    }
    if (c->options.tracking.mode == REDIS_TRACKING_BROADCAST)
        redis_connection_compose_broadcast(&c->options.tracking, &command);
    else
        command_write(&command, 4, (const char *[]){"CLIENT", "TRACKING", "ON", "OPTOUT"});
    return redis_connection_queue_own(c, &command, redis_connection_on_tracking);
}

/* An error: the subscription is refused, and not needed. */
static void redis_connection_on_subscribed(struct redis_connection *c, const struct redis_reply *reply)
{
    if (reply != NULL && c->state == HANDSHAKE)
        redis_connection_count_reply(c);
}

/* A push confirms a subscription in place of the reply. False for any other push. */
static bool redis_connection_confirm_subscription(struct redis_connection *c, struct span kind)
{
    const struct pending_command *oldest = pending_oldest(&c->pending);
    if (oldest == NULL || oldest->own != redis_connection_on_subscribed ||
        !span_equal(kind, SPAN("subscribe")))
        return false;
    (void)pending_pop(&c->pending);
    redis_connection_count_reply(c);
    return true;
}

static int redis_connection_first_step(struct redis_connection *c)
{
    const struct redis_endpoint *endpoint = c->options.endpoint;
    struct buf command = BUF_INIT;
    redis_endpoint_hello(endpoint, c->options.client_name, &command);
    int err = redis_connection_queue_own(c, &command, redis_connection_on_hello);
    if (err == 0 && c->options.queries_only && c->options.channel != NULL)
        err = redis_connection_queue_words(c, 2, (const char *[]){"SUBSCRIBE", c->options.channel},
                                           redis_connection_on_subscribed);
    if (err == 0 && redis_endpoint_select(endpoint, &command))
        err = redis_connection_queue_own(c, &command, redis_connection_on_step_reply);
    if (err != 0 || (c->options.queries_only && c->options.role == REDIS_ROLE_UNKNOWN))
        return err;
    return redis_connection_send_role(c);
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
    const int count = c->options.queries_only ? 1 : (int)(sizeof steps / sizeof steps[0]);
    if (c->step == count)
        c->options.on_handshake_done(c->options.arg);
    else if (steps[c->step++](c) != 0)
        redis_connection_fail(c, "out of memory");
}

static void redis_connection_count_reply(struct redis_connection *c)
{
    assert(c->replies_due > 0);
    if (--c->replies_due == 0)
        redis_connection_next_step(c);
}

static void redis_connection_on_connected(void *arg)
{
    struct redis_connection *c = arg;
    STATE_ENTER(&c->state, HANDSHAKE, NEXT);
    c->step = c->replies_due = 0;
    c->tracking = false;
    c->no_tracking_reason = NULL;
    redis_server_init(&c->server, c->options.replication, redis_connection_address(c),
                      c->options.endpoint->port);
    c->heartbeat_sent_ms = clock_boot_ms();
    redis_connection_next_step(c);
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

/* --- the name of the server in use --- */

static void redis_connection_plan_look_up(struct redis_connection *c)
{
    uint64_t mean_ms = REDIS_CONNECTION_LOOK_UP_MS;
    c->look_up_ms = clock_boot_ms() + mean_ms * 3 / 4 + (uint64_t)rand_r(&c->seed) % (mean_ms / 2);
}

static int redis_connection_compare_addresses(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The addresses of an answer in a fixed order, in `text`; nothing if the one in use is among them. */
static void redis_connection_write_elsewhere(const struct redis_connection *c, struct buf *text)
{
    struct resolver *r = c->options.resolver;
    qsort(r->address, (size_t)r->count, sizeof r->address[0], redis_connection_compare_addresses);
    for (int i = 0; i < r->count; i++) {
        if (strcmp(r->address[i], redis_connection_address(c)) == 0) {
            buf_clear(text);
            return;
        }
        buf_printf(text, "%s%s", i > 0 ? " " : "", r->address[i]);
    }
}

static void redis_connection_log_moved(const struct redis_connection *c)
{
    struct log_line line;
    if (!log_begin(&line, LOG_WARN, "the name of a server in use leads to another address"))
        return;
    log_str(&line, "name", span_of(c->options.endpoint->host));
    log_str(&line, "client", span_of(c->options.client_name));
    log_str(&line, "from", span_of(redis_connection_address(c)));
    log_str(&line, "to", buf_span(&c->elsewhere));
    log_end(&line);
}

static void redis_connection_take_look_up(struct redis_connection *c)
{
    const int needed = c->one_decides ? 1 : REDIS_CONNECTION_LOOK_UPS_MOVED;
    const int before = c->answers_elsewhere;
    struct buf answer = BUF_INIT;
    redis_connection_write_elsewhere(c, &answer);
    bool same = span_equal(buf_span(&answer), buf_span(&c->elsewhere));
    buf_fini(&c->elsewhere);
    c->elsewhere = answer;
    c->answers_elsewhere = answer.len == 0 ? 0 : (same ? before : 0) + 1;
    if (c->answers_elsewhere < needed)
        return;
    if (!same || before < needed)
        redis_connection_log_moved(c);
    c->options.on_moved(c->options.arg);
}

/* A look-up that fails changes nothing: a name server that is lost must not cost Redis. */
static void redis_connection_on_looked_up(void *arg, const char *error)
{
    struct redis_connection *c = arg;
    c->looking_up = false;
    redis_connection_plan_look_up(c);
    if (error == NULL)
        redis_connection_take_look_up(c);
    c->one_decides = false;
}

static void redis_connection_look_up_name(struct redis_connection *c)
{
    c->looking_up = true;
    resolver_start(c->options.resolver, c->loop, c->options.endpoint->host, redis_connection_on_looked_up, c);
}

/* A numeric host is not looked up. */
static bool redis_connection_has_name(const struct redis_connection *c)
{
    return c->options.on_moved != NULL && c->addresses > 0 && !resolver_is_numeric(c->options.endpoint->host);
}

/* A look-up in progress may have the answer of before. */
void redis_connection_look_up(struct redis_connection *c)
{
    assert(c->state == READY);
    if (!redis_connection_has_name(c))
        return;
    resolver_cancel(c->options.resolver);
    c->one_decides = true;
    redis_connection_look_up_name(c);
}

static void redis_connection_tick(struct redis_connection *c)
{
    if (!c->looking_up && redis_connection_has_name(c) && clock_boot_ms() >= c->look_up_ms)
        redis_connection_look_up_name(c);
    if (c->options.queries_only)
        redis_connection_start_timer(c, REDIS_CONNECTION_HEARTBEAT_MS);
    else if (c->state == READY)
        redis_connection_heartbeat(c);
}

/* --- events of the socket --- */

static void redis_connection_on_reply(void *arg, const struct redis_reply *reply, uint64_t read_ns)
{
    struct redis_connection *c = arg;
    /* a push does not clear it: commands may be lost while invalidations are still pushed */
    c->timeout_ms = 0;
    c->reply_heartbeats = 0;
    bool error = reply->type == REPLY_ERROR;
    c->failure = error ? REDIS_FAILURE_REFUSED : REDIS_FAILURE_PASSING;
    if (pending_oldest(&c->pending) == NULL) {
        redis_connection_fail(c, error ? reply->str : "a reply without a command");
        return;
    }
    const char *problem =
        error && c->options.check_error != NULL ? c->options.check_error(c->options.arg, reply) : NULL;
    if (problem != NULL) {
        redis_connection_fail(c, problem);
        return;
    }
    struct pending_command command = pending_pop(&c->pending);
    if (c->options.loop_lag != NULL)
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
    if (redis_connection_confirm_subscription(c, kind))
        return;
    bool wanted = c->options.queries_only ? redis_connection_is_usable(c) : c->state == READY;
    if (wanted && c->options.on_push != NULL)
        c->options.on_push(c->options.arg, kind, element);
}

/* Any reply suffices, since it is behind everything that Redis had to send. */
static void redis_connection_on_caught_up(struct redis_connection *c, const struct redis_reply *reply)
{
    (void)reply;
    c->backlogs--;
}

/* Nothing is cached that was read before READY. A backlog of the handshake may go on, see accept(). */
static void redis_connection_on_backlog(void *arg)
{
    struct redis_connection *c = arg;
    if (c->state != READY || c->options.queries_only)
        return;
    c->backlogs++;
    if (redis_connection_queue_words(c, 1, (const char *[]){"PING"}, redis_connection_on_caught_up) == 0)
        return;
    c->backlogs--;
    redis_connection_fail(c, "out of memory");
}

static void redis_connection_on_failed(void *arg, const char *why, enum redis_failure failure)
{
    struct redis_connection *c = arg;
    c->failure = failure;
    if (c->options.loop_lag != NULL)
        loop_lag_begin(c->options.loop_lag);
    redis_connection_fail(c, why);
}

/* --- attempts --- */

const char *redis_connection_address(const struct redis_connection *c)
{
    return c->addresses > 0 ? c->address[c->next_address - 1] : NULL;
}

static void redis_connection_connect_next(struct redis_connection *c)
{
    assert(c->state == CONNECTING && c->socket == NULL && pending_oldest(&c->pending) == NULL);
    c->next_address++;
    redis_connection_start_timer(c, c->options.limit_ms);
    const struct redis_socket_options options = {
        .on_connected = redis_connection_on_connected,
        .on_reply = redis_connection_on_reply,
        .on_push = redis_connection_on_push,
        .on_backlog = redis_connection_on_backlog,
        .on_failed = redis_connection_on_failed,
        .arg = c,
        .bytes_max = c->options.bytes_max,
        .elements_max = c->options.elements_max,
    };
    int err = redis_socket_open(c->loop, c->options.endpoint, c->options.tls, redis_connection_address(c),
                                &options, &c->socket);
    c->failure = err == -EACCES ? REDIS_FAILURE_REJECTED : REDIS_FAILURE_PASSING;
    if (err != 0)
        redis_connection_fail(c, strerror(-err));
}

static void redis_connection_on_resolved(void *arg, const char *error)
{
    struct redis_connection *c = arg;
    const struct resolver *r = c->options.resolver;
    assert(c->state == RESOLVING);
    if (error != NULL) {
        redis_connection_lose(c, error);
        return;
    }
    c->addresses = r->count;
    for (int i = 0; i < r->count; i++)
        memcpy(c->address[i], r->address[(c->options.first_address + (unsigned)i) % (unsigned)r->count],
               sizeof c->address[i]);
    STATE_ENTER(&c->state, CONNECTING, NEXT);
    redis_connection_connect_next(c);
}

static void redis_connection_begin(struct redis_connection *c)
{
    bool is_path = c->options.endpoint->transport == REDIS_TRANSPORT_UNIX;
    STATE_ENTER(&c->state, is_path ? CONNECTING : RESOLVING, NEXT);
    redis_connection_start_timer(c, c->options.limit_ms);
    if (is_path)
        redis_connection_connect_next(c);
    else
        resolver_start(c->options.resolver, c->loop, c->options.endpoint->host, redis_connection_on_resolved,
                       c);
}

static void redis_connection_on_timer(uv_timer_t *timer)
{
    struct redis_connection *c = timer->data;
    switch (c->state) {
    case BEGINNING:
        redis_connection_begin(c);
        break;
    case RESOLVING:
        c->timed_out = true;
        redis_connection_lose(c, "the name was not resolved in time");
        break;
    case CONNECTING:
    case HANDSHAKE:
        c->timed_out = true;
        redis_connection_fail(c, "no connection in time");
        break;
    case READY:
        redis_connection_tick(c);
        break;
    case LOST:
    case CLOSED:
        break;
    }
}

void redis_connection_accept(struct redis_connection *c)
{
    assert(redis_connection_is_usable(c));
    STATE_ENTER(&c->state, READY, NEXT);
    redis_connection_plan_look_up(c);
    redis_connection_start_timer(c, REDIS_CONNECTION_HEARTBEAT_MS);
    if (c->options.on_ready != NULL)
        c->options.on_ready(c->options.arg);
    if (c->state == READY && redis_socket_has_backlog(c->socket))
        redis_connection_on_backlog(c);
}

/* --- beginning and end --- */

int redis_connection_new(uv_loop_t *loop, const struct redis_connection_options *options,
                         struct redis_connection **out)
{
    struct redis_connection *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->loop = loop;
    c->options = *options;
    c->seed = (unsigned)random_seed(c);
    (void)uv_timer_init(loop, &c->timer); /* neither can fail */
    (void)uv_prepare_init(loop, &c->flusher);
    c->timer.data = c->flusher.data = c;
    wait_group_add(&c->open_parts, 2);
    redis_connection_start_timer(c, 0);
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
    free(c->pending.ring);
    buf_fini(&c->untracked);
    buf_fini(&c->elsewhere);
    free(c);
}

void redis_connection_close(struct redis_connection *c, void (*closed)(void *arg), void *arg)
{
    STATE_ENTER(&c->state, CLOSED, NEXT);
    resolver_leave(c->options.resolver);
    redis_connection_drop_socket(c);
    uv_close((uv_handle_t *)&c->timer, redis_connection_on_handle_closed);
    uv_close((uv_handle_t *)&c->flusher, redis_connection_on_handle_closed);
    wait_group_close(&c->open_parts, redis_connection_free, c, closed, arg);
}

bool redis_connection_is_ready(const struct redis_connection *c)
{
    return c != NULL && c->state == READY;
}

int redis_connection_addresses(const struct redis_connection *c)
{
    return c->addresses;
}

bool redis_connection_has_timed_out(const struct redis_connection *c)
{
    return c->timed_out;
}

enum redis_failure redis_connection_failure(const struct redis_connection *c)
{
    return c->failure;
}

bool redis_connection_is_tracking(const struct redis_connection *c)
{
    return c->state == READY && c->tracking;
}

const struct redis_server *redis_connection_server(const struct redis_connection *c)
{
    return &c->server;
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
