/*
 * The life of a Redis connection as a state machine; see connection.h.
 *
 *     WAITING -> LOCATING -> RESOLVING -> CONNECTING -> GREETING -> READY
 *        ^___________|____________|____________|____________|__________|    (whatever fails goes back there)
 *
 * One timer serves all states: the pause before an attempt, the deadline of an attempt, the heartbeat when
 * ready. A silence that is too long is believed only at a second look, after the loop has polled once more
 * and read all there was: when this process was stopped and continued, the replies may lie in the socket
 * already.
 */
#include "redis/connection_internal.h"

#include "base/clock.h"
#include "redis/command.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

static const char NOT_RESOLVED[] = "the name was not resolved in time";

static void enter(struct redis_connection *c, enum redis_connection_state next);

void redis_connection_log(const struct redis_connection *c, enum log_level level, const char *message,
                          const char *why)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    struct buf where = BUF_INIT;
    redis_endpoint_describe(&c->where, &where);
    log_str(&line, "redis", buf_span(&where));
    log_str(&line, "client", span_of(c->options.client_name));
    if (why != NULL)
        log_str(&line, "reason", span_of(redis_endpoint_redact(c->options.target, why)));
    log_end(&line);
    buf_fini(&where);
}

/* Half of the pause is fixed, half is chance: workers and replicas must not come back in step. */
static uint64_t backoff_ms(struct redis_connection *c)
{
    uint64_t pause = REDIS_CONNECTION_BACKOFF_MIN_MS;
    for (unsigned i = 1; i < c->failures && pause < REDIS_CONNECTION_BACKOFF_MAX_MS; i++)
        pause *= 2;
    if (pause > REDIS_CONNECTION_BACKOFF_MAX_MS)
        pause = REDIS_CONNECTION_BACKOFF_MAX_MS;
    return pause / 2 + (uint64_t)rand_r(&c->seed) % (pause / 2 + 1);
}

/* Tells every command that was not answered, oldest first. They cannot send: the state says not ready. */
static void disappoint_all(struct redis_connection *c)
{
    while (pending_oldest(&c->pending) != NULL) {
        struct pending_command owed = pending_pop(&c->pending);
        owed.fn(owed.arg, NULL);
    }
}

static void count_ready(struct redis_connection *c, bool ready)
{
    if (ready)
        metric_add(&c->options.metrics->redis_connected, 1);
    else
        metric_sub(&c->options.metrics->redis_connected, 1);
    redis_connection_count_role(c, ready);
}

static void drop_socket(struct redis_connection *c)
{
    if (c->socket == NULL)
        return;
    redis_socket_close(c->socket);
    c->socket = NULL;
    c->unsent = false;
    disappoint_all(c);
}

/* Ends what there is, tells those who were told that it is there, and goes on. */
static void leave(struct redis_connection *c, enum redis_connection_state next)
{
    bool was_ready = c->state == REDIS_CONNECTION_READY;
    if (was_ready)
        count_ready(c, false);
    c->state = REDIS_CONNECTION_WAITING;
    if (was_ready)
        c->options.on_lost(c->options.arg);
    drop_socket(c);
    if (c->state == REDIS_CONNECTION_WAITING) /* and not closed by one of those that were told */
        enter(c, next);
}

void redis_connection_fail(struct redis_connection *c, const char *why)
{
    bool was_ready = c->state == REDIS_CONNECTION_READY;
    bool attempting = c->state == REDIS_CONNECTION_CONNECTING || c->state == REDIS_CONNECTION_HANDSHAKE;
    bool more_addresses = attempting && c->next_address < c->resolver.count;
    metric_add(&c->options.metrics->redis_disconnects_total, 1);
    c->failures++;
    bool due = log_reason_is_due(&c->reasons, why, clock_now_ms());
    redis_connection_log(c, was_ready || due ? LOG_WARN : LOG_DEBUG,
                         was_ready ? "redis connection lost" : "redis connection failed", why);
    if (!was_ready && c->state != REDIS_CONNECTION_DISCOVERING && !more_addresses)
        redis_connection_report_failure(c);
    leave(c, more_addresses ? REDIS_CONNECTION_CONNECTING : REDIS_CONNECTION_WAITING);
}

/* Were the command told of a loss it would be sent again on the next connection, which would end the same
 * way.
 */
void redis_connection_fail_reply(struct redis_connection *c)
{
    struct pending_command owed = pending_pop(&c->pending);
    metric_add(&c->options.metrics->redis_oversize_replies_total, 1);
    owed.fn(owed.arg, &resp_oversize);
    if (c->state == REDIS_CONNECTION_READY) /* and not closed by the one that was told */
        redis_connection_fail(c, "a reply did not end in time");
}

void redis_connection_switch(struct redis_connection *c, const char *why)
{
    metric_add(&c->options.metrics->redis_failovers_total, 1);
    redis_connection_log(c, LOG_INFO, "redis connection left for another", why);
    c->failures = c->refused = 0;
    resolver_cancel(&c->resolver);
    leave(c, REDIS_CONNECTION_DISCOVERING);
}

void redis_connection_connect(struct redis_connection *c)
{
    enter(c, REDIS_CONNECTION_RESOLVING);
}

static void on_prepare(uv_prepare_t *flusher);

/* The clock is read once for all commands that leave together. */
static int queue(struct redis_connection *c, struct span command, redis_connection_reply_fn fn, void *arg)
{
    int err = pending_reserve(&c->pending);
    if (err == 0)
        err = redis_socket_send(c->socket, command);
    if (err != 0)
        return err;
    if (!c->unsent) {
        c->unsent_since_ns = clock_now_ns();
        (void)uv_prepare_start(&c->flusher, on_prepare); /* fails without a callback only */
    }
    c->unsent = true;
    pending_push(&c->pending, (struct pending_command){fn, arg, c->unsent_since_ns});
    return 0;
}

int redis_connection_send_now(struct redis_connection *c, int argc, const char **argv, const size_t *lengths,
                              redis_connection_reply_fn fn, void *arg)
{
    struct buf command = BUF_INIT;
    command_write(&command, argc, argv, lengths);
    int err = buf_error(&command);
    if (err == 0)
        err = queue(c, buf_span(&command), fn, arg);
    buf_fini(&command);
    return err;
}

/* Behind the handshake the owner may look around. */
static bool is_usable(const struct redis_connection *c)
{
    return c->state == REDIS_CONNECTION_READY ||
           (c->state == REDIS_CONNECTION_HANDSHAKE && c->handshake_owed == 0);
}

int redis_connection_send_command(struct redis_connection *c, struct span command,
                                  redis_connection_reply_fn fn, void *arg)
{
    return is_usable(c) ? queue(c, command, fn, arg) : -ENOTCONN;
}

int redis_connection_send(struct redis_connection *c, int argc, const char **argv, const size_t *lengths,
                          redis_connection_reply_fn fn, void *arg)
{
    if (!is_usable(c))
        return -ENOTCONN;
    return redis_connection_send_now(c, argc, argv, lengths, fn, arg);
}

static void on_connected(void *arg)
{
    enter(arg, REDIS_CONNECTION_HANDSHAKE);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct redis_connection *c = arg;
    c->timeout_pending =
        false; /* a push does not clear it: commands may be lost where changes are still told */
    c->reply_heartbeats = 0;
    if (pending_oldest(&c->pending) == NULL) {
        redis_connection_fail(c, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                                  : "a reply that nobody asked for");
        return;
    }
    struct pending_command owed = pending_pop(&c->pending);
    uint64_t read_ns = c->socket->read_ns;
    loop_lag_begin_at(c->options.loop_lag, read_ns);
    histogram_observe(&c->options.metrics->redis_command_duration_seconds,
                      read_ns > owed.sent_ns ? read_ns - owed.sent_ns : 0);
    if (resp_is_oversize(reply))
        metric_add(&c->options.metrics->redis_oversize_replies_total, 1);
    owed.fn(owed.arg, reply);
}

static void on_push(void *arg, struct span kind, const redisReply *element)
{
    struct redis_connection *c = arg;
    if (c->state == REDIS_CONNECTION_READY && c->options.on_push != NULL)
        c->options.on_push(c->options.arg, kind, element);
}

static void on_failed(void *arg, const char *why)
{
    struct redis_connection *c = arg;
    loop_lag_begin(c->options.loop_lag);
    redis_connection_fail(c, why);
}

static void connect_next(struct redis_connection *c)
{
    bool named = c->where.transport != REDIS_TRANSPORT_UNIX;
    const char *address = named ? c->resolver.address[c->next_address++] : NULL;
    const struct socket_events events = {on_connected, on_reply, on_push, on_failed, c};
    int err = redis_socket_open(c->loop, &c->where, c->options.tls, address, &events, &c->socket);
    if (err != 0)
        redis_connection_fail(c, strerror(-err));
}

static void free_after_closing(struct redis_connection *c)
{
    void (*closed)(void *arg) = c->closed;
    void *arg = c->closed_arg;
    pending_fini(&c->pending);
    free(c);
    closed(arg);
}

static void on_resolved(void *arg, const char *error)
{
    struct redis_connection *c = arg;
    if (c->state != REDIS_CONNECTION_RESOLVING)
        return; /* came after its deadline; the next attempt asks again */
    c->next_address = 0;
    if (error != NULL)
        redis_connection_fail(c, error);
    else
        enter(c, REDIS_CONNECTION_CONNECTING);
}

static void resolve(struct redis_connection *c)
{
    if (c->where.transport == REDIS_TRANSPORT_UNIX) {
        enter(c, REDIS_CONNECTION_CONNECTING);
        return;
    }
    if (resolver_take_numeric(&c->resolver, c->where.host)) {
        c->next_address = 0;
        enter(c, REDIS_CONNECTION_CONNECTING);
        return;
    }
    if (resolver_busy(&c->resolver)) { /* a look-up that outlived its attempt: wait for it */
        redis_connection_fail(c, NOT_RESOLVED);
        return;
    }
    int err = resolver_start(&c->resolver, c->loop, c->where.host, on_resolved, c);
    if (err != 0)
        redis_connection_fail(c, uv_strerror(err));
}

static void on_timer(uv_timer_t *timer);

void redis_connection_start_timer(struct redis_connection *c, uint64_t ms)
{
    (void)uv_timer_start(&c->timer, on_timer, ms,
                         0); /* fails only without a callback or on a closing handle */
}

static void on_timer(uv_timer_t *timer)
{
    struct redis_connection *c = timer->data;
    switch (c->state) {
    case REDIS_CONNECTION_WAITING:
        enter(c, REDIS_CONNECTION_DISCOVERING);
        break;
    case REDIS_CONNECTION_RESOLVING:
        redis_connection_fail(c, NOT_RESOLVED);
        break;
    case REDIS_CONNECTION_CONNECTING:
    case REDIS_CONNECTION_HANDSHAKE:
        redis_connection_fail(c, "no connection in time");
        break;
    case REDIS_CONNECTION_READY:
        redis_connection_heartbeat(c);
        break;
    case REDIS_CONNECTION_DISCOVERING: /* has no timer: the watch has its own */
    case REDIS_CONNECTION_CLOSED:
        break;
    }
}

static void become_ready(struct redis_connection *c)
{
    c->failures = c->refused = 0;
    c->reasons = (struct log_reasons){0};
    c->ready_ms = clock_now_ms();
    c->timeout_pending = false;
    c->reply_heartbeats = 0;
    metric_add(&c->options.metrics->redis_connects_total, 1);
    count_ready(c, true);
    redis_connection_log(c, LOG_INFO, "redis connected", NULL);
    redis_connection_start_timer(c, REDIS_CONNECTION_HEARTBEAT_MS);
    c->options.on_ready(c->options.arg);
}

void redis_connection_handshake_done(struct redis_connection *c)
{
    if (c->options.on_handshake_done != NULL)
        c->options.on_handshake_done(c->options.arg);
    else
        redis_connection_accept(c);
}

void redis_connection_accept(struct redis_connection *c)
{
    enter(c, REDIS_CONNECTION_READY);
}

/* Every change of state passes here. */
static void enter(struct redis_connection *c, enum redis_connection_state next)
{
    c->state = next;
    switch (next) {
    case REDIS_CONNECTION_WAITING:
        redis_connection_start_timer(c, backoff_ms(c));
        break;
    case REDIS_CONNECTION_DISCOVERING:
        (void)uv_timer_stop(&c->timer); /* cannot fail */
        redis_connection_discover(c);
        break;
    case REDIS_CONNECTION_RESOLVING:
        redis_connection_start_timer(c, REDIS_CONNECTION_CONNECT_TIMEOUT_MS);
        resolve(c);
        break;
    case REDIS_CONNECTION_CONNECTING:
        redis_connection_start_timer(c, REDIS_CONNECTION_CONNECT_TIMEOUT_MS);
        connect_next(c);
        break;
    case REDIS_CONNECTION_HANDSHAKE:
        redis_connection_handshake(c);
        break;
    case REDIS_CONNECTION_READY:
        become_ready(c);
        break;
    case REDIS_CONNECTION_CLOSED:
        resolver_cancel(&c->resolver);
        resolver_cancel(&c->masters.side[0]);
        resolver_cancel(&c->masters.side[1]);
        drop_socket(c);
        break;
    }
}

static void on_prepare(uv_prepare_t *flusher)
{
    struct redis_connection *c = flusher->data;
    (void)uv_prepare_stop(flusher);
    if (!c->unsent || c->socket == NULL)
        return;
    c->unsent = false;
    redis_socket_flush(c->socket);
}

int redis_connection_new(uv_loop_t *loop, const struct redis_connection_options *options,
                         struct redis_connection **out)
{
    struct redis_connection *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->loop = loop;
    c->options = *options;
    if (getrandom(&c->seed, sizeof c->seed, GRND_NONBLOCK) < 0)
        c->seed = (unsigned)clock_now_ns();
    int err = redis_connection_discovery_init(c);
    if (err != 0) {
        free(c);
        return err;
    }
    (void)uv_timer_init(loop, &c->timer); /* neither can fail */
    (void)uv_prepare_init(loop, &c->flusher);
    c->timer.data = c->flusher.data = c;
    c->open_handles = c->watch != NULL ? 3 : 2;
    enter(c, REDIS_CONNECTION_DISCOVERING);
    *out = c;
    return 0;
}

static void on_part_closed(void *arg)
{
    struct redis_connection *c = arg;
    c->open_handles--;
    if (c->open_handles == 0)
        free_after_closing(c);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

void redis_connection_close(struct redis_connection *c, void (*closed)(void *arg), void *arg)
{
    if (c->state == REDIS_CONNECTION_READY)
        count_ready(c, false);
    c->closed = closed;
    c->closed_arg = arg;
    enter(c, REDIS_CONNECTION_CLOSED);
    if (c->watch != NULL)
        sentinel_watch_close(c->watch, on_part_closed, c);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
    uv_close((uv_handle_t *)&c->flusher, on_handle_closed);
}

bool redis_connection_is_ready(const struct redis_connection *c)
{
    return c->state == REDIS_CONNECTION_READY;
}

bool redis_connection_is_tracking(const struct redis_connection *c)
{
    return c->state == REDIS_CONNECTION_READY && c->tracking;
}

uint64_t redis_connection_last_pong_ms(const struct redis_connection *c)
{
    return c->last_pong_ms;
}

uint64_t redis_connection_good_ms(const struct redis_connection *c)
{
    return c->good_ms;
}
