/*
 * The life of a Redis connection as a state machine; see rconn.h.
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

static void enter(struct rconn *c, enum rconn_state next);

void rconn_log(const struct rconn *c, enum log_level level, const char *message, const char *why)
{
    struct log_line line;
    if (!log_begin(&line, level, message))
        return;
    struct buf where = BUF_INIT;
    redis_target_describe(&c->where, &where);
    log_str(&line, "redis", buf_span(&where));
    log_str(&line, "client", span_of(c->options.client_name));
    if (why != NULL)
        log_str(&line, "reason", span_of(redis_target_discreet(c->options.target, why)));
    log_end(&line);
    buf_fini(&where);
}

/* Half of the pause is fixed, half is chance: workers and replicas must not come back in step. */
static uint64_t backoff_ms(struct rconn *c)
{
    uint64_t pause = RCONN_BACKOFF_MIN_MS;
    for (unsigned i = 1; i < c->failures && pause < RCONN_BACKOFF_MAX_MS; i++)
        pause *= 2;
    if (pause > RCONN_BACKOFF_MAX_MS)
        pause = RCONN_BACKOFF_MAX_MS;
    return pause / 2 + (uint64_t)rand_r(&c->seed) % (pause / 2 + 1);
}

/* Tells every command that was not answered, oldest first. They cannot send: the state says not ready. */
static void disappoint_all(struct rconn *c)
{
    while (expected_oldest(&c->expected) != NULL) {
        struct expected_reply owed = expected_pop(&c->expected);
        owed.fn(owed.arg, NULL);
    }
}

static void count_ready(struct rconn *c, bool ready)
{
    if (ready)
        metric_add(&c->options.metrics->redis_connected, 1);
    else
        metric_sub(&c->options.metrics->redis_connected, 1);
    rconn_count_role(c, ready);
}

static void drop_socket(struct rconn *c)
{
    if (c->socket == NULL)
        return;
    redis_socket_close(c->socket);
    c->socket = NULL;
    c->unsent = false;
    disappoint_all(c);
}

/* Ends what there is, tells those who were told that it is there, and goes on. */
static void leave(struct rconn *c, enum rconn_state next)
{
    bool was_ready = c->state == RCONN_READY;
    if (was_ready)
        count_ready(c, false);
    c->state = RCONN_WAITING;
    if (was_ready)
        c->options.on_lost(c->options.arg);
    drop_socket(c);
    if (c->state == RCONN_WAITING) /* and not closed by one of those that were told */
        enter(c, next);
}

void rconn_fail(struct rconn *c, const char *why)
{
    bool was_ready = c->state == RCONN_READY;
    bool attempting = c->state == RCONN_CONNECTING || c->state == RCONN_GREETING;
    bool more_addresses = attempting && c->next_address < c->resolver.count;
    metric_add(&c->options.metrics->redis_disconnects_total, 1);
    c->failures++;
    bool due = log_reason_is_due(&c->reasons, why, clock_now_ms());
    rconn_log(c, was_ready || due ? LOG_WARN : LOG_DEBUG,
              was_ready ? "redis connection lost" : "redis connection failed", why);
    if (!was_ready && c->state != RCONN_LOCATING && !more_addresses)
        rconn_doubt(c);
    leave(c, more_addresses ? RCONN_CONNECTING : RCONN_WAITING);
}

/* Were the command told of a loss it would be sent again on the next connection, which would end the same
 * way.
 */
void rconn_fail_reply(struct rconn *c)
{
    struct expected_reply owed = expected_pop(&c->expected);
    metric_add(&c->options.metrics->redis_oversize_replies_total, 1);
    owed.fn(owed.arg, &resp_oversize);
    if (c->state == RCONN_READY) /* and not closed by the one that was told */
        rconn_fail(c, "a reply did not end in time");
}

void rconn_move(struct rconn *c, const char *why)
{
    metric_add(&c->options.metrics->redis_moves_total, 1);
    rconn_log(c, LOG_INFO, "redis connection left for another", why);
    c->failures = c->refused = 0;
    resolver_cancel(&c->resolver);
    leave(c, RCONN_LOCATING);
}

void rconn_go(struct rconn *c)
{
    enter(c, RCONN_RESOLVING);
}

static void on_prepare(uv_prepare_t *flusher);

/* The clock is read once for all commands that leave together. */
static int queue(struct rconn *c, struct span command, rconn_reply_fn fn, void *arg)
{
    int err = expected_reserve(&c->expected);
    if (err == 0)
        err = redis_socket_send(c->socket, command);
    if (err != 0)
        return err;
    if (!c->unsent) {
        c->unsent_since_ns = clock_now_ns();
        (void)uv_prepare_start(&c->flusher, on_prepare); /* fails without a callback only */
    }
    c->unsent = true;
    expected_push(&c->expected, (struct expected_reply){fn, arg, c->unsent_since_ns});
    return 0;
}

int rconn_send_now(struct rconn *c, int argc, const char **argv, const size_t *lengths, rconn_reply_fn fn,
                   void *arg)
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
static bool is_usable(const struct rconn *c)
{
    return c->state == RCONN_READY || (c->state == RCONN_GREETING && c->greetings_owed == 0);
}

int rconn_send_command(struct rconn *c, struct span command, rconn_reply_fn fn, void *arg)
{
    return is_usable(c) ? queue(c, command, fn, arg) : -ENOTCONN;
}

int rconn_send(struct rconn *c, int argc, const char **argv, const size_t *lengths, rconn_reply_fn fn,
               void *arg)
{
    if (!is_usable(c))
        return -ENOTCONN;
    return rconn_send_now(c, argc, argv, lengths, fn, arg);
}

static void on_connected(void *arg)
{
    enter(arg, RCONN_GREETING);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct rconn *c = arg;
    c->suspect = false; /* a push does not clear it: commands may be lost where changes are still told */
    c->reply_heartbeats = 0;
    if (expected_oldest(&c->expected) == NULL) {
        rconn_fail(c, reply->type == REDIS_REPLY_ERROR ? reply->str : "a reply that nobody asked for");
        return;
    }
    struct expected_reply owed = expected_pop(&c->expected);
    uint64_t read_ns = c->socket->read_ns;
    metrics_turn_begins_at(c->options.metrics, read_ns);
    histogram_observe(&c->options.metrics->redis_command_duration,
                      read_ns > owed.sent_ns ? read_ns - owed.sent_ns : 0);
    if (resp_is_oversize(reply))
        metric_add(&c->options.metrics->redis_oversize_replies_total, 1);
    owed.fn(owed.arg, reply);
}

static void on_push(void *arg, struct span kind, const redisReply *element)
{
    struct rconn *c = arg;
    if (c->state == RCONN_READY && c->options.on_push != NULL)
        c->options.on_push(c->options.arg, kind, element);
}

static void on_failed(void *arg, const char *why)
{
    struct rconn *c = arg;
    metrics_turn_begins(c->options.metrics);
    rconn_fail(c, why);
}

static void connect_next(struct rconn *c)
{
    bool named = c->where.transport != REDIS_TRANSPORT_UNIX;
    const char *address = named ? c->resolver.address[c->next_address++] : NULL;
    const struct socket_events events = {on_connected, on_reply, on_push, on_failed, c};
    int err = redis_socket_open(c->loop, &c->where, c->options.tls, address, &events, &c->socket);
    if (err != 0)
        rconn_fail(c, strerror(-err));
}

static void free_after_closing(struct rconn *c)
{
    void (*closed)(void *arg) = c->closed;
    void *arg = c->closed_arg;
    expected_fini(&c->expected);
    free(c);
    closed(arg);
}

static void on_resolved(void *arg, const char *error)
{
    struct rconn *c = arg;
    if (c->state != RCONN_RESOLVING)
        return; /* came after its deadline; the next attempt asks again */
    c->next_address = 0;
    if (error != NULL)
        rconn_fail(c, error);
    else
        enter(c, RCONN_CONNECTING);
}

static void resolve(struct rconn *c)
{
    if (c->where.transport == REDIS_TRANSPORT_UNIX) {
        enter(c, RCONN_CONNECTING);
        return;
    }
    if (resolver_take_numeric(&c->resolver, c->where.host)) {
        c->next_address = 0;
        enter(c, RCONN_CONNECTING);
        return;
    }
    if (resolver_busy(&c->resolver)) { /* a look-up that outlived its attempt: wait for it */
        rconn_fail(c, NOT_RESOLVED);
        return;
    }
    int err = resolver_start(&c->resolver, c->loop, c->where.host, on_resolved, c);
    if (err != 0)
        rconn_fail(c, uv_strerror(err));
}

static void on_timer(uv_timer_t *timer);

void rconn_start_timer(struct rconn *c, uint64_t ms)
{
    (void)uv_timer_start(&c->timer, on_timer, ms,
                         0); /* fails only without a callback or on a closing handle */
}

static void on_timer(uv_timer_t *timer)
{
    struct rconn *c = timer->data;
    switch (c->state) {
    case RCONN_WAITING:
        enter(c, RCONN_LOCATING);
        break;
    case RCONN_RESOLVING:
        rconn_fail(c, NOT_RESOLVED);
        break;
    case RCONN_CONNECTING:
    case RCONN_GREETING:
        rconn_fail(c, "no connection in time");
        break;
    case RCONN_READY:
        rconn_heartbeat(c);
        break;
    case RCONN_LOCATING: /* has no timer: the watch has its own */
    case RCONN_CLOSED:
        break;
    }
}

static void become_ready(struct rconn *c)
{
    c->failures = c->refused = 0;
    c->reasons = (struct log_reasons){0};
    c->ready_ms = clock_now_ms();
    c->suspect = false;
    c->reply_heartbeats = 0;
    metric_add(&c->options.metrics->redis_connects_total, 1);
    count_ready(c, true);
    rconn_log(c, LOG_INFO, "redis connected", NULL);
    rconn_start_timer(c, RCONN_HEARTBEAT_MS);
    c->options.on_ready(c->options.arg);
}

void rconn_greeted(struct rconn *c)
{
    if (c->options.on_greeted != NULL)
        c->options.on_greeted(c->options.arg);
    else
        rconn_accept(c);
}

void rconn_accept(struct rconn *c)
{
    enter(c, RCONN_READY);
}

/* Every change of state passes here. */
static void enter(struct rconn *c, enum rconn_state next)
{
    c->state = next;
    switch (next) {
    case RCONN_WAITING:
        rconn_start_timer(c, backoff_ms(c));
        break;
    case RCONN_LOCATING:
        (void)uv_timer_stop(&c->timer); /* cannot fail */
        rconn_locate(c);
        break;
    case RCONN_RESOLVING:
        rconn_start_timer(c, RCONN_CONNECT_TIMEOUT_MS);
        resolve(c);
        break;
    case RCONN_CONNECTING:
        rconn_start_timer(c, RCONN_CONNECT_TIMEOUT_MS);
        connect_next(c);
        break;
    case RCONN_GREETING:
        rconn_greet(c);
        break;
    case RCONN_READY:
        become_ready(c);
        break;
    case RCONN_CLOSED:
        resolver_cancel(&c->resolver);
        resolver_cancel(&c->masters.side[0]);
        resolver_cancel(&c->masters.side[1]);
        drop_socket(c);
        break;
    }
}

static void on_prepare(uv_prepare_t *flusher)
{
    struct rconn *c = flusher->data;
    (void)uv_prepare_stop(flusher);
    if (!c->unsent || c->socket == NULL)
        return;
    c->unsent = false;
    redis_socket_flush(c->socket);
}

int rconn_new(uv_loop_t *loop, const struct rconn_options *options, struct rconn **out)
{
    struct rconn *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->loop = loop;
    c->options = *options;
    if (getrandom(&c->seed, sizeof c->seed, GRND_NONBLOCK) < 0)
        c->seed = (unsigned)clock_now_ns();
    int err = rconn_follow(c);
    if (err != 0) {
        free(c);
        return err;
    }
    (void)uv_timer_init(loop, &c->timer); /* neither can fail */
    (void)uv_prepare_init(loop, &c->flusher);
    c->timer.data = c->flusher.data = c;
    c->open_handles = c->watch != NULL ? 3 : 2;
    enter(c, RCONN_LOCATING);
    *out = c;
    return 0;
}

static void on_part_closed(void *arg)
{
    struct rconn *c = arg;
    c->open_handles--;
    if (c->open_handles == 0)
        free_after_closing(c);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

void rconn_close(struct rconn *c, void (*closed)(void *arg), void *arg)
{
    if (c->state == RCONN_READY)
        count_ready(c, false);
    c->closed = closed;
    c->closed_arg = arg;
    enter(c, RCONN_CLOSED);
    if (c->watch != NULL)
        sentinel_watch_close(c->watch, on_part_closed, c);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
    uv_close((uv_handle_t *)&c->flusher, on_handle_closed);
}

bool rconn_is_ready(const struct rconn *c)
{
    return c->state == RCONN_READY;
}

bool rconn_is_tracking(const struct rconn *c)
{
    return c->state == RCONN_READY && c->tracking;
}

uint64_t rconn_proven_ms(const struct rconn *c)
{
    return c->proven_ms;
}

uint64_t rconn_good_ms(const struct rconn *c)
{
    return c->good_ms;
}
