/*
 * The states of a connection, its handshake and heartbeat; see connection.h.
 *
 * One timer serves all states:
 *
 *     BEGINNING   0                                the first step is not taken within redis_connection_new()
 *     RESOLVING   REDIS_CONNECTION_RESOLVE_MS      the deadline of the look-up
 *     CONNECTING  `limit_ms`                       the deadline of connection, handshake and acceptance
 *     READY       REDIS_CONNECTION_HEARTBEAT_MS    the next heartbeat
 *
 * There is a socket only in CONNECTING, HANDSHAKE and READY, and commands are pending only while there is
 * one. They end while no further command is accepted.
 */
#include "redis/connection.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/state.h"
#include "redis/resp.h"
#include "redis/tls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/socket.h>

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

enum {
    READ_MAX = 16 * 1024,   /* bytes read at a time; the size of the largest TLS record */
    BACKLOG_MIN = 4 * 1024, /* bytes; fewer never fill the kernel's buffers, however small the segments are */
    TURN_MAX = 128 * 1024   /* bytes; further input waits for the next loop iteration */
};

/* 16 KiB of invalidations take a millisecond. Further input waits for the next loop iteration. */
static const uint64_t TURN_NS = 1000000;

/*
 * The commands of the connection itself: the handshake, and from INFO on the heartbeat. PING comes last: its
 * reply extends the time for which the data of the server is trusted.
 */
enum own_command { HELLO, SELECT, TRACKING, INFO, PING, OWN_COMMANDS };

struct pending_command {
    redis_reply_fn fn; /* NULL: it is `own` */
    void *arg;
    enum own_command own;
    uint64_t sent_ns; /* monotonic */
};

struct redis_connection {
    uv_loop_t *loop;
    struct redis_connection_options options;
    enum connection_state state;
    uv_timer_t timer;
    uv_prepare_t flusher; /* runs once before the loop polls: writes what the iteration has queued */
    int handles;          /* these and `poll`, until they are closed */
    int tried;            /* addresses of the name */
    struct redis_status status;

    /* The attempt at one address. The next one begins when the handle is closed. */
    bool is_open; /* in CONNECTING or later; all input and output is of this attempt */
    uv_poll_t poll;
    redisContext *context; /* freed when the handle is closed: an event may still use it */
    struct resp_parser parser;
    bool polling_writable; /* the kernel has not accepted all commands */
    bool reading;          /* a part of the input that was read may not have been delivered */
    uint64_t drained_ms;   /* when kernel and TLS were last found empty, by the boot clock */
    size_t backlog;        /* bytes read since then */

    struct buf pending;       /* of struct pending_command, oldest first */
    size_t ended;             /* the first of them, which have their replies */
    uint64_t unsent_since_ns; /* when the first command since the last flush was queued; 0: there is none */

    int replies_due;                /* to the commands of the handshake, or of the last heartbeat */
    const char *no_tracking_reason; /* why this server cannot be relied on for tracking; NULL when it can */

    /* Times are by the boot clock. */
    bool heartbeat_due;         /* on_heartbeat must be called */
    uint64_t heartbeat_sent_ms; /* when the heartbeat, or the handshake, was sent */
    uint64_t backlog_ms;        /* when a backlog was last read; a PING that is sent later shows its end */
    int waits;                  /* heartbeats since a reply ended; a command waits since the first of them */
    int silence;                /* those since more of a reply, or of a push before it, has arrived */

    struct resolver resolver; /* of the name: before the first attempt, and while the connection is ready */
    unsigned seed;
    uint64_t look_up_ms;   /* when the next one begins, by the boot clock */
    int answers_elsewhere; /* in a row, without the address in use */
};

/* --- commands that wait for their replies --- */

static int pending_reserve(struct redis_connection *c, size_t count)
{
    if (c->ended * sizeof(struct pending_command) * 2 >= c->pending.len) {
        buf_consume(&c->pending, c->ended * sizeof(struct pending_command));
        c->ended = 0;
    }
    int err = buf_reserve(&c->pending, count * sizeof(struct pending_command));
    c->pending.error = 0;
    return err;
}

static const struct pending_command *pending_oldest(const struct redis_connection *c)
{
    const struct pending_command *all = (const void *)c->pending.data;
    return c->ended * sizeof *all == c->pending.len ? NULL : &all[c->ended];
}

static struct pending_command pending_pop(struct redis_connection *c)
{
    const struct pending_command *oldest = pending_oldest(c);
    assert(oldest != NULL);
    c->ended++;
    return *oldest;
}

/* --- the socket --- */

static void redis_connection_on_poll(uv_poll_t *poll, int status, int events);

/* `at_ms` is before the check that found the socket empty: what has arrived later may not have been read. */
static void redis_connection_set_drained(struct redis_connection *c, uint64_t at_ms)
{
    assert(at_ms >= c->drained_ms);
    c->drained_ms = at_ms;
    c->backlog = 0;
}

/* The end of the stream, or an error, is input too. Not inline, since its caller is called with every hit. */
__attribute__((noinline)) static void redis_connection_look(struct redis_connection *c)
{
    char byte = 0;
    uint64_t now_ms = clock_boot_ms();
    if (recv(c->context->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
        redis_connection_set_drained(c, now_ms);
}

/* When the socket was last drained. If that was not after `since_ms`, it is checked now. */
static uint64_t redis_connection_drained_ms(struct redis_connection *c, uint64_t since_ms)
{
    if (c->drained_ms <= since_ms && !c->reading)
        redis_connection_look(c);
    return c->drained_ms;
}

/* The context is owned, also after an error. Returns 0 or a negative errno. */
static int redis_connection_connect(struct redis_connection *c)
{
    const struct redis_endpoint *e = c->options.endpoint;
    bool is_path = e->transport == REDIS_TRANSPORT_UNIX;
    redisOptions options = {0};
    options.options = REDIS_OPT_NONBLOCK | REDIS_OPT_NO_PUSH_AUTOFREE;
    if (is_path)
        REDIS_OPTIONS_SET_UNIX(&options, e->path);
    else
        REDIS_OPTIONS_SET_TCP(&options, c->status.address, e->port);
    redisContext *context = c->context = redisConnectWithOptions(&options);
    if (context == NULL)
        return -ENOMEM;
    if (context->err != 0) /* not covered: hiredis leaves errno where it reports REDIS_ERR_IO */
        return context->err == REDIS_ERR_IO && errno != 0 ? -errno : -ECONNREFUSED;
    (void)fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    if (!is_path)
        (void)setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return uv_poll_init(c->loop, &c->poll, context->fd);
}

/* It fails only where another handle has the descriptor. */
static void redis_connection_poll(struct redis_connection *c, bool writable)
{
    c->polling_writable = writable;
    (void)uv_poll_start(&c->poll, UV_READABLE | (writable ? UV_WRITABLE : 0), redis_connection_on_poll);
}

/* Nothing of an earlier attempt (half a reply, a queued command) is left. Returns 0 or a negative errno. */
static int redis_connection_open(struct redis_connection *c)
{
    int err = redis_connection_connect(c);
    if (err != 0) {
        redisFree(c->context);
        return err;
    }
    resp_init(&c->parser);
    if (c->options.bytes_max != 0)
        c->parser.bytes_max = c->options.bytes_max;
    c->reading = false;
    c->drained_ms = c->backlog = 0;
    c->poll.data = c;
    c->handles++;
    c->is_open = true;
    redis_connection_poll(c, true);
    return 0;
}

/* --- sending --- */

static void redis_connection_on_prepare(uv_prepare_t *flusher);

static void redis_connection_flush_later(struct redis_connection *c)
{
    (void)uv_prepare_start(&c->flusher, redis_connection_on_prepare); /* fails without a callback only */
}

/* The clock is read once for all commands that are written together. */
static int redis_connection_reserve(struct redis_connection *c, size_t count, size_t size)
{
    sds output = pending_reserve(c, count) == 0 ? sdsMakeRoomFor(c->context->obuf, size) : NULL;
    if (output == NULL)
        return -ENOMEM;
    c->context->obuf = output;
    if (c->unsent_since_ns == 0) {
        c->unsent_since_ns = clock_now_ns();
        redis_connection_flush_later(c);
    }
    return 0;
}

static void redis_connection_queue(struct redis_connection *c, struct span text,
                                   struct pending_command command)
{
    c->context->obuf = sdscatlen(c->context->obuf, text.data, text.len);
    command.sent_ns = c->unsent_since_ns;
    buf_append(&c->pending, &command, sizeof command);
}

bool redis_connection_is_usable(const struct redis_connection *c)
{
    return c != NULL && (c->state == READY || (c->state == HANDSHAKE && c->replies_due == 0));
}

static void redis_connection_log(const struct redis_connection *c, const char *message, const char *why)
{
    redis_endpoint_log(c->options.endpoint, LOG_WARN, message, "redis", c->options.shared->client_name, why);
}

/* If it is refused, Redis tracks the key that the next command reads. */
static void redis_connection_on_caching(void *arg, const struct redis_reply *reply, enum redis_origin origin)
{
    (void)arg;
    (void)reply;
    (void)origin;
}

int redis_connection_send(struct redis_connection *c, struct span command, bool tracked, redis_reply_fn fn,
                          void *arg)
{
    static const char no_caching[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nCACHING\r\n$2\r\nNO\r\n";
    if (!redis_connection_is_usable(c))
        return -ENOTCONN;
    int err =
        redis_connection_reserve(c, 2, sizeof no_caching + command.len); /* both are queued, or neither */
    if (err != 0)
        return err;
    if (!tracked && c->status.tracking && c->options.tracking.mode == REDIS_TRACKING_KEYS)
        redis_connection_queue(c, SPAN(no_caching),
                               (struct pending_command){.fn = redis_connection_on_caching});
    redis_connection_queue(c, command, (struct pending_command){.fn = fn, .arg = arg});
    return 0;
}

/* --- failure --- */

static void redis_connection_end_command(struct redis_connection *c, const struct pending_command *command,
                                         const struct redis_reply *reply);
static void redis_connection_on_poll_closed(uv_handle_t *poll);

static void redis_connection_drop_socket(struct redis_connection *c)
{
    assert(!redis_connection_is_usable(c));
    if (!c->is_open)
        return;
    uv_close((uv_handle_t *)&c->poll, redis_connection_on_poll_closed);
    c->is_open = false;
    c->unsent_since_ns = 0;
    (void)uv_timer_stop(&c->timer); /* neither can fail */
    (void)uv_prepare_stop(&c->flusher);
    while (pending_oldest(c) != NULL) {
        struct pending_command command = pending_pop(c);
        redis_connection_end_command(c, &command, NULL);
    }
}

static void redis_connection_lose(struct redis_connection *c, const char *why)
{
    STATE_ENTER(&c->state, LOST, NEXT);
    c->options.on_lost(c->options.arg, why);
    assert(c->state == CLOSED);
}

static void redis_connection_connect_next(struct redis_connection *c);

void redis_connection_fail(struct redis_connection *c, const char *why)
{
    bool attempting = c->state == CONNECTING || c->state == HANDSHAKE;
    if (!attempting || c->tried >= c->status.addresses) {
        redis_connection_lose(c, why);
        return;
    }
    STATE_ENTER(&c->state, CONNECTING, NEXT);
    if (c->options.on_address_failed != NULL)
        c->options.on_address_failed(c->options.arg, why);
    bool was_open = c->is_open;
    redis_connection_drop_socket(c);
    if (!was_open && c->state == CONNECTING) /* no callback has closed the connection */
        redis_connection_connect_next(c);
}

/* --- the commands of the handshake, and of the heartbeat --- */

static const char *redis_connection_read_hello(struct redis_connection *c, const struct redis_reply *reply)
{
    c->no_tracking_reason = redis_server_check_hello(reply);
    const char *problem = redis_server_check_mode(reply, redis_endpoint_is_cluster(c->options.endpoint));
    if (problem != NULL)
        c->status.failure = REDIS_FAILURE_REJECTED;
    return problem;
}

/* The prefixes of one connection must not overlap. */
static void redis_connection_compose_broadcast(const struct redis_tracking *tracking, struct buf *out)
{
    struct buf prefix = BUF_INIT;
    command_begin(out, 4 + 2 * tracking->name_count);
    command_add(out, SPAN("CLIENT"));
    command_add(out, SPAN("TRACKING"));
    command_add(out, SPAN("ON"));
    command_add(out, SPAN("BCAST"));
    for (size_t i = 0; i < tracking->name_count; i++) {
        buf_clear(&prefix);
        buf_append_span(&prefix, tracking->prefix);
        buf_append_span(&prefix, tracking->names[i]);
        command_add(out, SPAN("PREFIX"));
        command_add_buf(out, &prefix);
    }
    buf_fini(&prefix);
}

/* Appends nothing if the command is not needed. */
static void redis_connection_compose(const struct redis_connection *c, enum own_command own, struct buf *out)
{
    const struct redis_connection_options *o = &c->options;
    const struct redis_endpoint *e = o->endpoint;
    const char *name = o->shared->client_name;
    if (own == HELLO && e->password != NULL) {
        command_write(out, 7, (const char *[]){"HELLO", "3", "AUTH", e->user, e->password, "SETNAME", name});
    } else if (own == HELLO) {
        command_write(out, 4, (const char *[]){"HELLO", "3", "SETNAME", name});
    } else if (own == SELECT && e->db != 0) {
        command_begin(out, 2);
        command_add(out, SPAN("SELECT"));
        command_add_int(out, e->db);
    } else if (own == TRACKING && o->tracking.mode == REDIS_TRACKING_BROADCAST) {
        redis_connection_compose_broadcast(&o->tracking, out);
    } else if (own == TRACKING && o->tracking.mode == REDIS_TRACKING_KEYS) {
        command_write(out, 4, (const char *[]){"CLIENT", "TRACKING", "ON", "OPTOUT"});
    } else if (own == INFO && (!o->queries_only || o->role != REDIS_ROLE_UNKNOWN) &&
               !c->status.server.info_denied) {
        command_write(out, 2, (const char *[]){"INFO", "replication"});
    } else if (own == PING && !o->queries_only) {
        command_write(out, 1, (const char *[]){"PING"});
    }
}

/* If it is refused for a moment only, the whole connection would cache nothing. */
static const char *redis_connection_read_tracking(struct redis_connection *c, const struct redis_reply *reply)
{
    bool refused = reply->type == REPLY_ERROR;
    if (refused && redis_server_is_unavailable(span_of(reply->str)))
        return reply->str;
    c->status.tracking = !refused && c->no_tracking_reason == NULL;
    if (c->status.tracking)
        return NULL;
    metric_add(&c->options.metrics->redis_tracking_refused_total, 1);
    redis_connection_log(c, refused ? "redis refuses tracking" : "redis does not send invalidations reliably",
                         refused ? reply->str : c->no_tracking_reason);
    return NULL;
}

static const char *redis_connection_read_info(struct redis_connection *c, const struct redis_reply *reply)
{
    struct redis_server *server = &c->status.server;
    const char *problem = redis_server_take_info(server, reply, c->options.role, c->heartbeat_sent_ms);
    if (problem == NULL && server->info_denied)
        redis_connection_log(c, "redis denies INFO: a replica that lost its master cannot be detected",
                             reply->str);
    if (problem == NULL && c->options.check_role != NULL)
        problem = c->options.check_role(c->options.arg, server, c->heartbeat_sent_ms);
    if (problem != NULL)
        server->valid_until_ms = MIN(server->valid_until_ms, c->status.last_pong_ms);
    return problem;
}

/* Returns NULL, or why the server cannot be used. */
static const char *redis_connection_read_own(struct redis_connection *c, enum own_command own,
                                             const struct redis_reply *reply)
{
    if (own == TRACKING)
        return redis_connection_read_tracking(c, reply);
    if (own == INFO)
        return redis_connection_read_info(c, reply);
    /* a master that cannot save to its disk replies to PING with MISCONF, but can still be read */
    if (reply->type == REPLY_ERROR && !(own == PING && reply_is_error(reply, SPAN("MISCONF "))))
        return reply->str;
    if (own == PING)
        c->status.last_pong_ms = c->heartbeat_sent_ms;
    return own == HELLO ? redis_connection_read_hello(c, reply) : NULL;
}

/* Sends these commands from `own` on, as far as they are needed. */
static void redis_connection_send_own(struct redis_connection *c, enum own_command own)
{
    int err = 0;
    struct buf command = BUF_INIT;
    c->heartbeat_sent_ms = clock_boot_ms();
    for (; own < OWN_COMMANDS && err == 0; own++) {
        buf_clear(&command);
        redis_connection_compose(c, own, &command);
        err = buf_error(&command);
        if (err == 0 && command.len > 0)
            err = redis_connection_reserve(c, 1, command.len);
        if (err != 0 || command.len == 0)
            continue;
        redis_connection_queue(c, buf_span(&command), (struct pending_command){.own = own});
        c->replies_due++;
    }
    if (command.data != NULL)
        explicit_bzero(command.data, command.cap); /* HELLO has the password */
    buf_fini(&command);
    if (err != 0)
        redis_connection_fail(c, "out of memory");
}

static void redis_connection_end_own(struct redis_connection *c, enum own_command own,
                                     const struct redis_reply *reply)
{
    bool is_beat = c->heartbeat_due;
    const char *problem = redis_connection_read_own(c, own, reply);
    assert(c->replies_due > 0);
    if (problem != NULL) {
        redis_connection_fail(c, problem);
        return;
    }
    if (--c->replies_due > 0)
        return;
    c->heartbeat_due = false;
    if (c->state == HANDSHAKE)
        c->options.on_handshake_done(c->options.arg);
    else if (is_beat && c->options.on_heartbeat != NULL)
        c->options.on_heartbeat(c->options.arg);
}

static void redis_connection_end_command(struct redis_connection *c, const struct pending_command *command,
                                         const struct redis_reply *reply)
{
    if (command->fn != NULL)
        command->fn(command->arg, reply, REDIS_ORIGIN_STREAM);
    else if (reply != NULL)
        redis_connection_end_own(c, command->own, reply);
}

/* --- the heartbeat --- */

static void redis_connection_on_timer(uv_timer_t *timer);

static void redis_connection_start_timer(struct redis_connection *c, uint64_t ms)
{
    (void)uv_timer_start(&c->timer, redis_connection_on_timer, ms, 0); /* it fails only on a closing handle */
}

/* The time while this process was stopped, or has more input than it reads, does not count. */
static void redis_connection_heartbeat(struct redis_connection *c)
{
    const uint64_t sent_ms = c->heartbeat_sent_ms;
    bool silent =
        c->silence >= REDIS_CONNECTION_SILENCE_MAX && redis_connection_drained_ms(c, sent_ms) > sent_ms;
    if (silent || c->waits >= REDIS_CONNECTION_WAITS_MAX) {
        redis_connection_fail(c, silent ? "no reply in time" : "a reply did not end in time");
        return;
    }
    c->silence++;
    c->waits++;
    c->heartbeat_due = true;
    if (c->replies_due == 0)
        redis_connection_send_own(c, INFO);
}

/* --- the name of the server in use --- */

static void redis_connection_plan_look_up(struct redis_connection *c)
{
    uint64_t mean_ms = REDIS_CONNECTION_LOOK_UP_MS;
    c->look_up_ms = clock_boot_ms() + mean_ms * 3 / 4 + (uint64_t)rand_r(&c->seed) % (mean_ms / 2);
}

/* A look-up that fails changes nothing: a name server that is lost must not cost Redis. */
static void redis_connection_on_looked_up(void *arg, const char *error)
{
    struct redis_connection *c = arg;
    redis_connection_plan_look_up(c);
    if (error != NULL)
        return;
    bool is_same = resolver_has_address(&c->resolver.result, c->status.address);
    c->answers_elsewhere = is_same ? 0 : c->answers_elsewhere + 1;
    if (c->answers_elsewhere < REDIS_CONNECTION_LOOK_UPS_MOVED)
        return;
    if (c->answers_elsewhere == REDIS_CONNECTION_LOOK_UPS_MOVED)
        redis_connection_log(c, "the name of a server in use leads to another address",
                             c->resolver.result.address[0]);
    c->options.on_moved(c->options.arg);
}

static void redis_connection_tick(struct redis_connection *c)
{
    bool is_due = c->options.on_moved != NULL && c->status.addresses > 0 && clock_boot_ms() >= c->look_up_ms;
    redis_connection_start_timer(c, REDIS_CONNECTION_HEARTBEAT_MS);
    if (is_due && c->resolver.query == NULL)
        resolver_start(&c->resolver, c->loop, c->options.endpoint->host, redis_connection_on_looked_up, c);
    if (c->state == READY && !c->options.queries_only)
        redis_connection_heartbeat(c);
}

/* --- events of the socket --- */

static void redis_connection_on_reply(struct redis_connection *c, const struct redis_reply *reply,
                                      uint64_t read_ns)
{
    /* a push does not clear it: commands may be lost while invalidations are still pushed */
    c->waits = c->silence = 0;
    bool error = reply->type == REPLY_ERROR;
    c->status.failure = error ? REDIS_FAILURE_REFUSED : REDIS_FAILURE_PASSING;
    if (pending_oldest(c) == NULL) {
        redis_connection_fail(c, error ? reply->str : "a reply without a command");
        return;
    }
    const char *problem =
        error && c->options.check_error != NULL ? c->options.check_error(c->options.arg, reply) : NULL;
    if (problem != NULL) {
        redis_connection_fail(c, problem);
        return;
    }
    struct pending_command command = pending_pop(c);
    if (c->options.metrics != NULL) {
        histogram_observe(&c->options.metrics->redis_command_duration_seconds,
                          read_ns > command.sent_ns ? read_ns - command.sent_ns : 0);
        if (resp_is_oversize(reply))
            metric_add(&c->options.metrics->redis_oversize_replies_total, 1);
    }
    redis_connection_end_command(c, &command, reply);
}

/* ["invalidate", [key...]] or, for all keys, ["invalidate", nil]. One that is too large concerns all, too. */
static void redis_connection_on_push(struct redis_connection *c, const struct redis_reply *push)
{
    const struct redis_reply *end = reply_next(push);
    const struct redis_reply *key = resp_is_oversize(push) ? push : push + 2;
    if (key != push && (push->elements < 2 || !span_equal(reply_text(&push[1]), SPAN("invalidate"))))
        return;
    for (; key < end && c->state == READY && c->status.tracking; key++)
        if (key->type != REPLY_ARRAY)
            c->options.on_invalidated(c->options.arg, key);
}

static void redis_connection_fail_as(struct redis_connection *c, const char *why, enum redis_failure failure)
{
    c->status.failure = failure;
    redis_connection_fail(c, why);
}

static bool redis_connection_read_available(struct redis_connection *c);

/* The start of TLS, reading or writing has failed. */
static void redis_connection_fail_io(struct redis_connection *c)
{
    bool rejected = c->options.endpoint->tls != NULL && redis_tls_explain(c->context);
    redis_connection_fail_as(c, c->context->errstr,
                             rejected ? REDIS_FAILURE_REJECTED : REDIS_FAILURE_PASSING);
}

/* hiredis' redisBufferWrite frees the output with each write. */
static void redis_connection_on_prepare(uv_prepare_t *flusher)
{
    struct redis_connection *c = flusher->data;
    redisContext *context = c->context;
    (void)uv_prepare_stop(flusher); /* cannot fail */
    c->unsent_since_ns = 0;
    ssize_t n = sdslen(context->obuf) > 0 ? context->funcs->write(context) : 0;
    if (n < 0) {
        if (redis_connection_read_available(c)) /* the server may have sent the reason */
            redis_connection_fail_io(c);
        return;
    }
    if (n > 0)
        (void)sdsrange(context->obuf, n, -1); /* it fails only beyond SSIZE_MAX */
    /* While TLS must read first (its handshake) the socket is always writable, so it waits for input. */
    bool wait_writable =
        sdslen(context->obuf) > 0 && (c->options.endpoint->tls == NULL || !redis_tls_wants_read(context));
    if (wait_writable != c->polling_writable)
        redis_connection_poll(c, wait_writable);
}

/* The first event means that connect() has ended; reading tells how. */
static void redis_connection_begin_handshake(struct redis_connection *c)
{
    const struct redis_endpoint *e = c->options.endpoint;
    if (e->tls != NULL && redis_tls_start(c->context, e->tls, e->host) != 0) {
        redis_connection_fail_io(c);
        return;
    }
    STATE_ENTER(&c->state, HANDSHAKE, NEXT);
    c->replies_due = 0;
    c->status.tracking = false;
    redis_server_init(&c->status.server, &c->options.shared->replication, c->status.address, e->port);
    redis_connection_send_own(c, HELLO);
}

/* `read_ns` is by the monotonic clock. False when the socket is not in use any more. */
static bool redis_connection_deliver(struct redis_connection *c, size_t n, uint64_t read_ns)
{
    const uint64_t arriving = resp_arriving(&c->parser);
    resp_received(&c->parser, n);
    for (;;) {
        const struct redis_reply *reply = NULL;
        switch (resp_parse(&c->parser, &reply)) {
        case RESP_INCOMPLETE:
            if (arriving != 0 && resp_arriving(&c->parser) == arriving)
                c->silence = 0;
            return true;
        case RESP_REPLY:
            redis_connection_on_reply(c, reply, read_ns);
            break;
        case RESP_PUSH:
            redis_connection_on_push(c, reply);
            break;
        case RESP_ERROR:
            redis_connection_fail_as(c, c->parser.error,
                                     c->parser.error == resp_no_memory ? REDIS_FAILURE_PASSING
                                                                       : REDIS_FAILURE_INVALID);
            return false;
        }
        if (!c->is_open)
            return false;
    }
}

/*
 * True when a read that returned `n` bytes has found the socket empty. A short read has not: the end of the
 * stream may be behind it, and TLS returns one record at a time. TLS is empty only if it waits for input.
 */
static bool redis_connection_is_empty_after(const struct redis_connection *c, size_t n)
{
    /* not covered: TLS that is empty waits for input, but while it negotiates new keys */
    return n == 0 && (c->options.endpoint->tls == NULL || redis_tls_wants_read(c->context));
}

/* The process may have been stopped before the read, so the time is taken after it. */
static void redis_connection_count_backlog(struct redis_connection *c, size_t n)
{
    c->backlog += n;
    if (c->state != READY || c->options.queries_only || c->backlog < BACKLOG_MIN)
        return;
    uint64_t now_ms = clock_boot_ms();
    if (now_ms - c->drained_ms > REDIS_CONNECTION_BACKLOG_MS)
        c->backlog_ms = now_ms;
}

/* The server may hold back more than the backlog that was read. */
static bool redis_connection_has_backlog(const struct redis_connection *c)
{
    return c->status.last_pong_ms < c->backlog_ms;
}

/*
 * A read has room for a whole record of TLS, so none stays that no poll reports. False when the socket is not
 * in use any more.
 */
static bool redis_connection_read_available(struct redis_connection *c)
{
    uint64_t began_ns = clock_now_ns();
    bool enough = false;
    c->reading = true;
    for (size_t total = 0; !enough;) {
        uint64_t read_ms = clock_boot_ms();
        char *room = resp_reserve(&c->parser, READ_MAX);
        if (room == NULL) {
            redis_connection_fail_as(c, resp_no_memory, REDIS_FAILURE_PASSING);
            return false;
        }
        ssize_t n = c->context->funcs->read(c->context, room, READ_MAX);
        if (n < 0) {
            redis_connection_fail_io(c);
            return false;
        }
        if (n > 0 && !redis_connection_deliver(c, (size_t)n, clock_now_ns()))
            return false;
        redis_connection_count_backlog(c, (size_t)n);
        bool is_empty = redis_connection_is_empty_after(c, (size_t)n);
        if (is_empty)
            redis_connection_set_drained(c, read_ms);
        total += (size_t)n;
        /* not covered: a socket without input is drained, but while TLS negotiates new keys */
        enough = is_empty || n == 0 || total >= TURN_MAX || clock_now_ns() - began_ns > TURN_NS;
    }
    c->reading = false;
    if (c->backlog == 0 && redis_connection_has_backlog(c) && c->replies_due == 0)
        redis_connection_send_own(c, INFO);
    return c->is_open;
}

static void redis_connection_on_poll(uv_poll_t *poll, int status, int events)
{
    struct redis_connection *c = poll->data;
    if (c->state == CONNECTING)
        redis_connection_begin_handshake(c);
    if (!c->is_open)
        return;
    /* libuv reports every error as EBADF, and stops; reading finds which it is, behind an error reply */
    if ((status != 0 || (events & UV_READABLE) != 0) && !redis_connection_read_available(c))
        return;
    if (status != 0 && c->backlog == 0)
        redis_connection_fail_as(c, uv_strerror(status), REDIS_FAILURE_PASSING);
    else if (status != 0) /* the turn has ended before it */
        redis_connection_poll(c, c->polling_writable);
    else if (sdslen(c->context->obuf) > 0)
        redis_connection_flush_later(c);
}

/* --- attempts --- */

static void redis_connection_connect_next(struct redis_connection *c)
{
    assert(c->state == CONNECTING && !c->is_open && pending_oldest(c) == NULL);
    if (c->status.addresses > 0) {
        unsigned at = (c->options.first_address + (unsigned)c->tried++) % (unsigned)c->status.addresses;
        memcpy(c->status.address, c->resolver.result.address[at], RESOLVE_ADDRESS_SIZE);
    }
    redis_connection_start_timer(c, c->options.limit_ms);
    int err = redis_connection_open(c);
    c->status.failure = err == -EACCES ? REDIS_FAILURE_REJECTED : REDIS_FAILURE_PASSING;
    if (err != 0)
        redis_connection_fail(c, strerror(-err));
}

static void redis_connection_on_resolved(void *arg, const char *error)
{
    struct redis_connection *c = arg;
    assert(c->state == RESOLVING);
    if (error != NULL) {
        redis_connection_lose(c, error);
        return;
    }
    c->status.addresses = c->resolver.result.count;
    STATE_ENTER(&c->state, CONNECTING, NEXT);
    redis_connection_connect_next(c);
}

static void redis_connection_begin(struct redis_connection *c)
{
    bool is_path = c->options.endpoint->transport == REDIS_TRANSPORT_UNIX;
    STATE_ENTER(&c->state, is_path ? CONNECTING : RESOLVING, NEXT);
    redis_connection_start_timer(c, REDIS_CONNECTION_RESOLVE_MS);
    if (is_path)
        redis_connection_connect_next(c);
    else
        resolver_start(&c->resolver, c->loop, c->options.endpoint->host, redis_connection_on_resolved, c);
}

static void redis_connection_on_timer(uv_timer_t *timer)
{
    struct redis_connection *c = timer->data;
    switch (c->state) {
    case BEGINNING:
        redis_connection_begin(c);
        break;
    case RESOLVING:
        redis_connection_lose(c, "the name was not resolved in time");
        break;
    case CONNECTING:
    case HANDSHAKE:
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
    c->handles = 2;
    wait_group_add(c->options.open, 1);
    redis_connection_start_timer(c, 0);
    *out = c;
    return 0;
}

static void redis_connection_on_handle_closed(uv_handle_t *handle)
{
    struct redis_connection *c = handle->data;
    if (--c->handles > 0)
        return;
    assert(pending_oldest(c) == NULL);
    wait_group_done(c->options.open);
    buf_fini(&c->pending);
    free(c);
}

static void redis_connection_on_poll_closed(uv_handle_t *poll)
{
    struct redis_connection *c = poll->data;
    redisFree(c->context);
    resp_fini(&c->parser);
    if (c->state != CONNECTING) {
        redis_connection_on_handle_closed(poll);
        return;
    }
    c->handles--;
    redis_connection_connect_next(c);
}

void redis_connection_close(struct redis_connection **at)
{
    struct redis_connection *c = *at;
    *at = NULL;
    if (c == NULL)
        return;
    STATE_ENTER(&c->state, CLOSED, NEXT);
    resolver_cancel(&c->resolver);
    redis_connection_drop_socket(c);
    uv_close((uv_handle_t *)&c->timer, redis_connection_on_handle_closed);
    uv_close((uv_handle_t *)&c->flusher, redis_connection_on_handle_closed);
}

bool redis_connection_is_ready(const struct redis_connection *c)
{
    return c != NULL && c->state == READY;
}

const struct redis_status *redis_connection_status(const struct redis_connection *c)
{
    return &c->status;
}

uint64_t redis_connection_drained_until_ms(struct redis_connection *c, uint64_t at_ms)
{
    assert(c->state == READY);
    uint64_t drained_ms = redis_connection_drained_ms(c, at_ms - REDIS_CONNECTION_BACKLOG_MS);
    return redis_connection_has_backlog(c) ? 0 : drained_ms + REDIS_CONNECTION_BACKLOG_MS;
}
