/*
 * Client connections and their exchanges; see server.h and exchange.h. Every entry from the loop ends in
 * http_connection_settle(). A connection has at most one deadline, in a list for each kind, in order of
 * expiry. Those that have sent more requests than are handled at once wait in a run queue.
 */
/* clang-format off */
/*
 *     PROXY      a trusted proxy may send a PROXY protocol header
 *       v
 *      NEW       nothing of a request was read yet
 *       | first byte
 *       v
 *    READING <---------- first byte ------------ IDLE -------------------+
 *       | complete, or rejected                   ^                      | the server finishes, or
 *       v                                         | answered             v the client still reads
 *    HANDLING ------------------------------------+--- the last time ---> ENDING
 *       | the handler returns without answering   |                      | all is written
 *       v                                         |                      v
 *    WAITING -------------------------------------+                  LINGERING
 *
 *    Every state but HANDLING --> CLOSING: the client has disconnected, or a deadline has passed.
 *
 *    deadline   counts from                               when it has passed
 *    OPENING    the acceptance of the connection          closed
 *    IDLE       the last response                         closed; LINGER first if data is unsent in the kernel
 *    HEAD       the first byte of a request, which at     408, the last response; closed if nothing was read
 *               the limit may be unread in the kernel
 *    WRITE      a response that the kernel does not take  reset
 *    LINGER     the shutdown of the sending side          closed; WRITE follows if data is unsent in the kernel
 *    GRACE      the server finishes before a request      closed
 */
/* clang-format on */
/*
 * In WAITING one more read is accepted and kept, then polling stops: stopping and restarting it for every
 * request would cost two system calls. The additional read detects a reset at once.
 *
 * A write may be in progress in any state. Until it is complete nothing is read and no further request
 * begins.
 */
#include "http/server.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/state.h"
#include "http/forwarded.h"
#include "http/listener.h"
#include "http/output.h"
#include "http/parser.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TICK_MS = 100,
    REJECTIONS_MAX = 16, /* connections over the limit that stay open until their client has read its 503 */
    READ_BUFFER = 16 * 1024 /* of one read, and the most input that a connection keeps */
};

/* The first three in the order in which connections are closed for new ones; see http_server_evict. */
enum http_deadline {
    HTTP_OPENING_TIME,
    HTTP_IDLE_TIME,
    HTTP_HEAD_TIME,
    HTTP_WRITE_TIME,
    HTTP_LINGER_TIME,
    HTTP_GRACE_TIME,
    HTTP_DEADLINES,
    HTTP_NO_DEADLINE
};

struct http_server {
    struct http_server_options options;
    struct http_parser_config parser_config;
    uv_loop_t *loop;
    struct http_listener listener;
    uv_poll_t inbox; /* polls the inbox at the balancer */
    uv_timer_t tick;
    uv_idle_t turn;      /* active while there is something to do: then polling does not wait */
    uint64_t tick_ms;    /* the loop's time at the last tick */
    uint64_t overdue_ms; /* and at the one before */
    uint64_t timeout_ms[HTTP_DEADLINES];
    struct list deadlines[HTTP_DEADLINES];
    struct list run_queue;
    char date[HTTP_DATE_LEN + 1];
    struct list open;
    int rejections; /* connections over the limit */
    bool announcing_close;
    bool finishing;
    uint64_t random; /* state of the generator for ages */

    /* Responses to the requests of the connection whose input is being processed. Empty between two callbacks
     * of the loop. */
    struct http_output output;
    char read_buffer[READ_BUFFER];
};

enum connection_state { PROXY, NEW, IDLE, READING, HANDLING, WAITING, ENDING, LINGERING, CLOSING };

struct http_connection {
    uv_tcp_t tcp;
    int fd;
    struct http_server *server;
    struct list link;
    struct list run_link;      /* in the run queue, or in no list */
    struct list deadline_link; /* in that of its kind, or in no list */
    enum http_deadline deadline;
    uint64_t deadline_ms;
    uint64_t retire_ms; /* from then on the next response is the last; the loop's clock */
    struct ip client;   /* the other end, or the client in a PROXY protocol header */

    /* Input that is kept until a response or a write is complete, until the connection's turn in the run
     * queue, or until the rest of a PROXY protocol header arrives. */
    struct buf pending_input;
    enum connection_state state;
    unsigned writing; /* writes in progress; a later response may add another */
    bool polled;      /* the loop reads from the socket */
    bool read_full;   /* the last read filled the buffer: other connections are read before the next */
    bool over_limit;
    bool from_proxy; /* a trusted one */
    bool followed;   /* input of a further request was read with this one */
    struct http_parser parser;
    struct http_exchange exchange; /* in HANDLING and WAITING */
    max_align_t handler_state[];
};

/* --- states --- */

enum { FROM_READING = STATE(HANDLING) | STATE(CLOSING), ANSWERED = STATE(IDLE) | STATE(ENDING) };

static const unsigned NEXT[] = {
    [PROXY] = STATE(NEW) | FROM_READING,
    [NEW] = STATE(READING) | FROM_READING,
    [IDLE] = STATE(READING) | STATE(ENDING) | FROM_READING,
    [READING] = FROM_READING,
    [HANDLING] = STATE(WAITING) | ANSWERED,
    [WAITING] = ANSWERED | STATE(CLOSING),
    [ENDING] = STATE(LINGERING) | STATE(CLOSING),
    [LINGERING] = STATE(CLOSING),
    [CLOSING] = 0,
};

static void http_connection_enter(struct http_connection *c, enum connection_state next)
{
    STATE_ENTER(&c->state, next, NEXT);
}

static bool http_connection_takes_requests(const struct http_connection *c)
{
    return c->state == NEW || c->state == IDLE || c->state == READING;
}

/* --- exchanges --- */

static struct http_connection *http_connection_of_exchange(struct http_exchange *x)
{
    return LIST_ENTRY(x, struct http_connection, exchange);
}

struct ip http_exchange_client(struct http_exchange *x)
{
    const struct http_connection *c = http_connection_of_exchange(x);
    if (c->server->options.trusted_proxies == NULL)
        return c->client;
    return http_forwarded_client(x->request->field[HTTP_FIELD_FORWARDED_FOR], &c->client,
                                 c->server->options.trusted_proxies);
}

/* --- deadlines --- */

static struct http_connection *http_connection_of_deadline(struct list *l)
{
    return LIST_ENTRY(l, struct http_connection, deadline_link);
}

static void http_connection_clear_deadline(struct http_connection *c)
{
    list_remove(&c->deadline_link);
    c->deadline = HTTP_NO_DEADLINE;
}

/* Sets the deadline, or replaces one of another kind. One of the same kind stays. */
static void http_connection_set_deadline(struct http_connection *c, enum http_deadline kind)
{
    if (c->deadline == kind)
        return;
    list_remove(&c->deadline_link);
    c->deadline = kind;
    c->deadline_ms = uv_now(c->server->loop) + c->server->timeout_ms[kind];
    list_append(&c->server->deadlines[kind], &c->deadline_link);
}

/* A deadline counts if it had passed at the previous tick: all sockets were read since. After the process was
 * stopped and continued, input that clients sent in time may still wait there. */
static struct http_connection *http_server_first_expired(struct http_server *s)
{
    for (int i = 0; i < HTTP_DEADLINES; i++) {
        struct list *first = s->deadlines[i].next;
        if (first != &s->deadlines[i] && http_connection_of_deadline(first)->deadline_ms <= s->overdue_ms)
            return http_connection_of_deadline(first);
    }
    return NULL;
}

/* The connection that has had a deadline of these kinds longest. `direct`: those of trusted proxies do not
 * count. */
static struct http_connection *http_server_oldest(struct http_server *s, enum http_deadline first,
                                                  enum http_deadline last, bool direct)
{
    struct http_connection *oldest = NULL;
    uint64_t oldest_ms = UINT64_MAX;
    for (int i = (int)first; i <= (int)last; i++) {
        struct list *l = s->deadlines[i].next;
        while (direct && l != &s->deadlines[i] && http_connection_of_deadline(l)->from_proxy)
            l = l->next;
        if (l == &s->deadlines[i])
            continue;
        uint64_t set_ms = http_connection_of_deadline(l)->deadline_ms - s->timeout_ms[i];
        if (set_ms < oldest_ms) {
            oldest = http_connection_of_deadline(l);
            oldest_ms = set_ms;
        }
    }
    return oldest;
}

/* --- closing --- */

static void http_connection_drop(struct buf *input)
{
    http_parser_erase(input);
    buf_fini(input);
}

static void http_connection_on_closed(uv_handle_t *handle)
{
    struct http_connection *c = handle->data;
    struct http_server *s = c->server;
    list_remove(&c->link);
    s->rejections -= c->over_limit;
    metric_sub(&s->options.metrics->connections_open, 1);
    http_connection_drop(&c->pending_input);
    http_parser_fini(&c->parser);
    free(c);
}

/* The memory is freed in the loop. */
static void http_connection_close(struct http_connection *c)
{
    if (c->state == CLOSING)
        return;
    bool waiting = c->state == WAITING;
    http_connection_enter(c, CLOSING);
    http_connection_clear_deadline(c);
    list_remove(&c->run_link);
    if (waiting)
        c->server->options.handler.cancel(c->server->options.handler.arg, &c->exchange);
    uv_close((uv_handle_t *)&c->tcp, http_connection_on_closed); /* which closes the descriptor at once */
    if (!c->over_limit)
        http_balancer_release(c->server->options.balancer, c->server->options.number);
}

/* --- writing, and waiting for what comes next --- */

static void http_connection_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out);
static void http_connection_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer);
static void http_connection_settle(struct http_connection *c);

static void http_connection_set_polled(struct http_connection *c, bool on)
{
    if (c->polled == on)
        return;
    c->polled = on;
    c->read_full = false;
    if (!on)
        (void)uv_read_stop((uv_stream_t *)&c->tcp);
    else if (uv_read_start((uv_stream_t *)&c->tcp, http_connection_on_alloc, http_connection_on_read) != 0)
        http_connection_close(c);
}

bool http_exchange_has_room(struct http_exchange *x, const struct http_response *r)
{
    const struct http_connection *c = http_connection_of_exchange(x);
    return x->request->method == METHOD_HEAD || http_output_has_room(&c->server->output, r->body);
}

static void http_connection_on_written(uv_write_t *request, int status)
{
    struct http_connection *c = request->handle->data;
    http_output_end_write(request);
    assert(c->writing > 0);
    c->writing--;
    if (c->state == CLOSING)
        return;
    http_connection_clear_deadline(c); /* the next write has its own */
    if (status != 0)
        http_connection_close(c);
    http_connection_settle(c);
}

/* Closing at once would reset the connection if there is something to read, and the client could lose the
 * response (RFC 9112 section 9.6). Where too many linger, what has arrived by now is read. */
static void http_connection_linger(struct http_connection *c)
{
    if (c->over_limit && c->server->rejections > REJECTIONS_MAX) {
        (void)recv(c->fd, c->server->read_buffer, sizeof c->server->read_buffer, MSG_DONTWAIT);
        http_connection_close(c);
        return;
    }
    http_connection_enter(c, LINGERING);
    if (shutdown(c->fd, SHUT_WR) != 0) {
        http_connection_close(c);
        return;
    }
    http_connection_set_deadline(c, HTTP_LINGER_TIME);
    http_connection_set_polled(c, true);
}

static enum http_deadline http_connection_deadline_for_input(const struct http_connection *c)
{
    if (c->state == READING)
        return HTTP_HEAD_TIME;
    if (c->server->finishing)
        return HTTP_GRACE_TIME;
    return c->state == IDLE ? HTTP_IDLE_TIME : HTTP_OPENING_TIME;
}

static void http_connection_on_turn(uv_idle_t *turn);

/* Queues the connection to have its pending input processed. Between requests the deadline is cleared, since
 * the next request has arrived. Within a request it stays: otherwise each piece of a slow request would renew
 * it. */
static void http_connection_schedule(struct http_connection *c)
{
    if (c->state != READING)
        http_connection_clear_deadline(c);
    http_connection_set_polled(c, false);
    assert(list_empty(&c->run_link));
    list_append(&c->server->run_queue, &c->run_link);
    (void)uv_idle_start(&c->server->turn, http_connection_on_turn); /* fails only without a callback */
}

static void http_connection_settle(struct http_connection *c)
{
    if (c->state == CLOSING) {
        http_output_clear(&c->server->output); /* shared with the other connections */
        return;
    }
    int result = http_output_flush(&c->server->output, (uv_stream_t *)&c->tcp, http_connection_on_written);
    if (result < 0) {
        http_connection_close(c);
        return;
    }
    c->writing += result > 0;
    if (c->writing > 0) {
        http_connection_set_polled(c, false);
        http_connection_set_deadline(c, HTTP_WRITE_TIME);
        return;
    }
    if (c->server->finishing && c->state == IDLE && c->pending_input.len == 0)
        http_connection_enter(c, ENDING);
    if (c->state == WAITING) {
        if (c->pending_input.len > 0) /* no more than one read is kept */
            http_connection_set_polled(c, false);
        http_connection_clear_deadline(c);
    } else if (http_connection_takes_requests(c) && c->pending_input.len > 0) {
        http_connection_schedule(c);
    } else if (http_connection_takes_requests(c) || c->state == PROXY) {
        http_connection_set_deadline(c, http_connection_deadline_for_input(c));
        http_connection_set_polled(c, true);
    } else if (c->state == ENDING) {
        http_connection_linger(c);
    }
}

/* --- requests --- */

/* Makes the handler answer a request that is complete, or with an error `status`, with which the connection
 * ends. */
static void http_connection_handle(struct http_connection *c, int status)
{
    const struct http_handler *handler = &c->server->options.handler;
    struct http_exchange *x = &c->exchange;
    if (status != 0) {
        http_parser_end_rejected(&c->parser);
        metric_add(&c->server->options.metrics->requests_rejected_total, 1);
    }
    x->began_ns = clock_now_ns();
    http_connection_enter(c, HANDLING);
    handler->handle(handler->arg, x, status);
    assert(status == 0 || c->state == ENDING);
    if (c->state == HANDLING)
        http_connection_enter(c, WAITING);
}

/* Returns the rest of the input. */
static struct span http_connection_advance(struct http_connection *c, struct span input)
{
    size_t used = 0;
    bool ended = http_parser_feed(&c->parser, input, &used);
    if (c->state != READING && c->parser.phase != HTTP_PARSE_NOTHING)
        http_connection_enter(c, READING);
    c->followed = used < input.len;
    if (ended) {
        http_connection_handle(c, c->parser.status);
    } else if (http_parser_wants_continue(&c->parser)) {
        buf_append_str(&c->server->output.heads, "HTTP/1.1 100 Continue\r\n\r\n");
        http_output_add(&c->server->output, NULL);
    }
    return span_skip(input, used);
}

static void http_connection_keep_input(struct http_connection *c, struct span input)
{
    buf_append_span(&c->pending_input, input);
    if (buf_error(&c->pending_input) != 0)
        http_connection_close(c);
}

/*
 * Handles requests until one write is full or one of them waits for its result. While others wait for their
 * turn in the run queue, only one request is handled at once: a client that pipelines waits as well.
 */
static void http_connection_process_input(struct http_connection *c, struct span input, bool others_wait)
{
    bool more = true;
    while (more && input.len > 0 && http_connection_takes_requests(c) &&
           !http_output_full(&c->server->output)) {
        input = http_connection_advance(c, input);
        more = !others_wait || c->state != IDLE;
    }
    if (input.len > 0 && (http_connection_takes_requests(c) || c->state == WAITING))
        http_connection_keep_input(c, input);
    http_connection_settle(c);
}

static void http_connection_process_pending(struct http_connection *c)
{
    struct buf input = c->pending_input;
    c->pending_input = BUF_INIT;
    http_connection_process_input(c, buf_span(&input), false);
    http_connection_drop(&input);
}

/*
 * True when the connection has reached its maximum age. Requests that were pipelined behind the last response
 * would be lost (RFC 9112 section 9.6), so a connection with further input is kept, but no longer than twice
 * its age.
 */
static bool http_connection_has_retired(const struct http_connection *c)
{
    uint64_t now_ms = c->server->tick_ms;
    if (now_ms < c->retire_ms)
        return false;
    bool followed = c->followed || c->pending_input.len > 0;
    return !followed || now_ms - c->retire_ms >= c->server->options.limits.max_connection_age_ms;
}

void http_exchange_respond(struct http_exchange *x, const struct http_response *r)
{
    struct http_connection *c = http_connection_of_exchange(x);
    struct http_server *s = c->server;
    const struct http_request *request = x->request;
    bool later = c->state == WAITING;
    assert(!later || s->output.count == 0); /* it contains nothing of another connection */
    bool close = !request->keep_alive || s->announcing_close;
    if (!close && http_connection_has_retired(c)) {
        close = true;
        metric_add(&s->options.metrics->connections_max_age_reached_total, 1);
    }
    http_response_write_head(&s->output.heads, r, (struct span){s->date, HTTP_DATE_LEN},
                             request->minor_version, close);
    bool bodiless = request->method == METHOD_HEAD || r->status == 304 || r->status == 204;
    http_output_add(&s->output, bodiless ? NULL : r->body);
    http_parser_end(&c->parser);
    if (c->writing == 0) /* otherwise it is the write deadline of earlier responses */
        http_connection_clear_deadline(c);
    http_connection_enter(c, close ? ENDING : IDLE);
    if (later) /* otherwise http_connection_process_input() does */
        http_connection_settle(c);
}

/* --- reading --- */

/* libuv reads again as long as a read fills the buffer. An empty buffer makes it poll the other sockets
 * first. */
static void http_connection_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct http_connection *c = handle->data;
    size_t room = c->read_full ? 0 : sizeof c->server->read_buffer;
    *out = (uv_buf_t){.base = c->server->read_buffer, .len = room};
}

/* Until the first byte of the request behind the header the connection counts as one that waits. */
static void http_connection_on_proxy_input(struct http_connection *c, struct span input)
{
    http_connection_keep_input(c, input);
    if (c->state == CLOSING)
        return;
    int len = http_proxy_header_read(buf_span(&c->pending_input), &c->client);
    if (len >= 0) {
        http_connection_enter(c, NEW);
        buf_consume(&c->pending_input, (size_t)len);
        http_connection_process_pending(c);
    } else if (len != -EAGAIN) {
        http_connection_handle(c, 400);
        http_connection_settle(c);
    }
}

static void http_connection_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct http_connection *c = stream->data;
    c->read_full = n > 0 && (size_t)n == buffer->len;
    /* not covered: libuv passes 0 only where a socket that was readable is not; see
     * http_connection_on_alloc() */
    if (n == 0 || n == UV_ENOBUFS)
        return;
    const struct span input = {buffer->base, n > 0 ? (size_t)n : 0};
    if (n == UV_EOF && c->state == WAITING)
        http_connection_set_polled(
            c, false); /* a half-closed client still gets its response; EOF will be read again */
    else if (n < 0)
        http_connection_close(c);
    else if (c->state == PROXY)
        http_connection_on_proxy_input(c, input);
    else if (http_connection_takes_requests(c) || c->state == WAITING)
        http_connection_process_input(c, input, !list_empty(&c->server->run_queue));
}

/* --- deadlines that have passed, and turns --- */

/* True while the kernel has bytes that were not sent (SIOCOUTQ), or not read (SIOCINQ). */
static bool http_connection_has(const struct http_connection *c, unsigned long bytes_in_queue)
{
    int bytes = 0;
    (void)ioctl(c->fd, bytes_in_queue, &bytes); /* cannot fail */
    return bytes > 0;
}

/* Makes close() reset the connection and drop unsent data, which the kernel would otherwise retransmit for
 * minutes to a client that does not read. */
static void http_connection_reset_on_close(const struct http_connection *c)
{
    const struct linger at_once = {.l_onoff = 1};
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/* Data that is unsent in the kernel has the write timeout, like a response that is queued here: the client
 * may still read. */
static void http_connection_expire(struct http_connection *c)
{
    enum http_deadline kind = c->deadline;
    bool unsent = http_connection_has(c, SIOCOUTQ);
    if (kind == HTTP_LINGER_TIME && unsent) {
        http_connection_set_deadline(c, HTTP_WRITE_TIME);
        return;
    }
    if (kind == HTTP_IDLE_TIME && unsent) {
        http_connection_enter(c, ENDING);
        http_connection_settle(c);
        return;
    }
    if (kind != HTTP_LINGER_TIME && kind != HTTP_GRACE_TIME)
        metric_add(&c->server->options.metrics->connections_timed_out_total, 1);
    if (kind == HTTP_HEAD_TIME && c->state == READING) {
        http_connection_clear_deadline(c);
        list_remove(&c->run_link);
        http_connection_handle(c, 408);
        http_connection_settle(c);
        return;
    }
    if (unsent)
        http_connection_reset_on_close(c);
    http_connection_close(c);
}

static void http_connection_on_turn(uv_idle_t *turn)
{
    struct http_server *s = turn->data;
    struct http_connection *expired = http_server_first_expired(s);
    if (expired != NULL)
        http_connection_expire(expired);
    if (!list_empty(&s->run_queue)) {
        struct http_connection *c = LIST_ENTRY(s->run_queue.next, struct http_connection, run_link);
        assert(http_connection_takes_requests(c) && c->writing == 0 && c->pending_input.len > 0);
        list_remove(&c->run_link);
        http_connection_process_pending(c);
    } else if (expired == NULL) {
        (void)uv_idle_stop(turn);
    }
}

static void http_connection_on_tick(uv_timer_t *tick)
{
    struct http_server *s = tick->data;
    http_date_write(s->date);
    s->overdue_ms = s->tick_ms;
    s->tick_ms = uv_now(s->loop);
    if (http_server_first_expired(s) != NULL)
        (void)uv_idle_start(&s->turn, http_connection_on_turn);
}

/* --- opening --- */

/* Takes ownership of the socket, which counts at the balancer unless it is over the limit. */
static void http_connection_open(struct http_server *s, const struct http_accepted *accepted, bool over_limit)
{
    const struct http_server_options *o = &s->options;
    struct http_connection *c = calloc(1, sizeof *c + o->handler.state_size);
    if (c == NULL) {
        close(accepted->fd);
        if (!over_limit)
            http_balancer_release(o->balancer, o->number);
        return;
    }
    (void)uv_tcp_init(s->loop, &c->tcp); /* cannot fail: it makes no socket */
    uint64_t max_age_ms = o->limits.max_connection_age_ms;
    c->from_proxy = o->trusted_proxies != NULL && ip_networks_contain(o->trusted_proxies, &accepted->peer);
    c->tcp.data = c;
    c->fd = accepted->fd;
    c->server = s;
    c->over_limit = over_limit;
    c->client = accepted->peer;
    c->state = c->from_proxy ? PROXY : NEW;
    c->retire_ms =
        max_age_ms == 0 ? UINT64_MAX : uv_now(s->loop) + http_connection_age_ms(max_age_ms, &s->random);
    c->deadline = HTTP_NO_DEADLINE;
    c->parser.config = &s->parser_config;
    c->exchange = (struct http_exchange){.request = &c->parser.request, .state = c->handler_state};
    list_init(&c->deadline_link);
    list_init(&c->run_link);
    list_append(&s->open, &c->link);
    s->rejections += over_limit;
    metric_add(&o->metrics->connections_open, 1);
    metric_add(over_limit ? &o->metrics->connections_rejected_total : &o->metrics->connections_accepted_total,
               1);
    if (uv_tcp_open(&c->tcp, accepted->fd) != 0) {
        close(accepted->fd);
        http_connection_close(c);
        return;
    }
    if (over_limit)
        http_connection_handle(c, 503);
    http_connection_settle(c);
}

/* If a request is in the kernel the connection does not wait any more. It gets the deadline of a request, so
 * it is checked once, however many new connections come before it is read. */
static struct http_connection *http_server_next_to_evict(struct http_server *s)
{
    struct http_connection *c = NULL;
    for (int direct = 1; direct >= 0; direct--)
        while ((c = http_server_oldest(s, HTTP_OPENING_TIME, HTTP_IDLE_TIME, direct != 0)) != NULL) {
            if (!http_connection_has(c, SIOCINQ))
                return c;
            http_connection_set_deadline(c, HTTP_HEAD_TIME);
        }
    return s->options.for_checks ? http_server_oldest(s, HTTP_HEAD_TIME, HTTP_GRACE_TIME, false) : NULL;
}

/* If none waits, another one is closed if the server is for checks, even one over the limit. Returns false if
 * nothing was closed. */
static bool http_server_evict(struct http_server *s)
{
    struct http_connection *c = http_server_next_to_evict(s);
    if (c == NULL)
        return false;
    http_connection_close(c);
    metric_add(&s->options.metrics->connections_evicted_total, c->over_limit ? 0 : 1);
    return true;
}

/* At the limit a connection of this server is closed. Another server may take its place first. */
static void http_server_admit(void *arg, const struct http_accepted *accepted)
{
    struct http_server *s = arg;
    const struct http_server_options *o = &s->options;
    enum http_placement placement = HTTP_AT_LIMIT;
    do
        placement = http_balancer_place(o->balancer, o->number, accepted);
    while (placement == HTTP_AT_LIMIT && http_server_evict(s));
    bool over_limit = placement == HTTP_AT_LIMIT;
    if (placement == HTTP_PLACED_HERE ||
        (over_limit && !http_balancer_pass(o->balancer, o->number, accepted)))
        http_connection_open(s, accepted, over_limit);
}

static void http_server_on_inbox(uv_poll_t *inbox, int status, int events)
{
    (void)events;
    struct http_server *s = inbox->data;
    struct http_accepted accepted[HTTP_ACCEPTS];
    if (status != 0)
        return;
    int count = http_balancer_receive(s->options.balancer, s->options.number, accepted, HTTP_ACCEPTS);
    for (int i = 0; i < count; i++)
        if (accepted[i].passes == 0)
            http_connection_open(s, &accepted[i], false);
        else
            http_server_admit(s, &accepted[i]);
}

/* --- the server --- */

static void http_server_init_parts(struct http_server *s)
{
    const struct http_server_options *o = &s->options;
    s->announcing_close = o->for_checks;
    s->parser_config.head_max = o->limits.head_max;
    s->parser_config.body_max = o->limits.body_max;
    s->parser_config.accepts_empty_host = o->for_checks;
    http_parser_config_init(&s->parser_config);
    list_init(&s->open);
    list_init(&s->run_queue);
    for (int i = 0; i < HTTP_DEADLINES; i++)
        list_init(&s->deadlines[i]);
    s->timeout_ms[HTTP_OPENING_TIME] = s->timeout_ms[HTTP_HEAD_TIME] = o->limits.head_timeout_ms;
    s->timeout_ms[HTTP_IDLE_TIME] = o->limits.idle_timeout_ms;
    s->timeout_ms[HTTP_WRITE_TIME] = o->limits.write_timeout_ms;
    s->timeout_ms[HTTP_LINGER_TIME] = HTTP_LINGER_MS;
    s->timeout_ms[HTTP_GRACE_TIME] = HTTP_GRACE_MS;
    http_date_write(s->date);
    s->random = random_seed(s);
    s->output.unsent = &o->metrics->responses_unsent_bytes;
    s->output.unsent_max = o->limits.unsent_max;
}

int http_server_new(uv_loop_t *loop, const struct http_server_options *options, struct http_server **out)
{
    struct http_server *s = calloc(1, sizeof *s);
    int err = s == NULL
                  ? -ENOMEM
                  : uv_poll_init(loop, &s->inbox, http_balancer_inbox(options->balancer, options->number));
    if (err != 0) {
        free(s);
        return err;
    }
    s->loop = loop;
    s->options = *options;
    http_server_init_parts(s);
    (void)uv_timer_init(loop, &s->tick); /* cannot fail, nor can what follows */
    (void)uv_idle_init(loop, &s->turn);
    http_listener_init(&s->listener, loop, http_server_admit, s);
    s->inbox.data = s->tick.data = s->turn.data = s;
    s->tick_ms = uv_now(loop);
    (void)uv_timer_start(&s->tick, http_connection_on_tick, TICK_MS, TICK_MS);
    (void)uv_poll_start(&s->inbox, UV_READABLE, http_server_on_inbox);
    *out = s;
    return 0;
}

int http_server_listen(struct http_server *s, const struct addr *address, int passed)
{
    return http_listener_open(&s->listener, address, passed, s->options.number == 0);
}

void http_server_accept(struct http_server *s)
{
    http_listener_accept(&s->listener);
}

void http_server_announce_close(struct http_server *s)
{
    s->announcing_close = true;
}

/* Idle connections need not linger: all their responses were written. A request in the kernel has begun, and
 * would be reset. */
void http_server_finish(struct http_server *s)
{
    if (s->finishing)
        return;
    http_listener_finish(&s->listener);
    http_balancer_finish(s->options.balancer);
    s->finishing = true;
    for (struct list *idle = &s->deadlines[HTTP_IDLE_TIME]; !list_empty(idle);) {
        struct http_connection *c = http_connection_of_deadline(idle->next);
        if (http_connection_has(c, SIOCINQ))
            http_connection_set_deadline(c, HTTP_GRACE_TIME);
        else
            http_connection_close(c);
    }
    for (struct list *new = &s->deadlines[HTTP_OPENING_TIME]; !list_empty(new);)
        http_connection_set_deadline(http_connection_of_deadline(new->next), HTTP_GRACE_TIME);
}

void http_server_close(struct http_server *s)
{
    for (struct list *l = s->open.next; l != &s->open; l = l->next)
        http_connection_close(LIST_ENTRY(l, struct http_connection, link)); /* it leaves the list later */
    assert(list_empty(&s->run_queue));
    http_listener_close(&s->listener);
    uv_close((uv_handle_t *)&s->inbox, NULL);
    uv_close((uv_handle_t *)&s->tick, NULL);
    uv_close((uv_handle_t *)&s->turn, NULL);
}

void http_server_free(struct http_server *s)
{
    if (s == NULL)
        return;
    assert(list_empty(&s->open));
    http_output_clear(&s->output);
    buf_fini(&s->output.heads);
    free(s);
}
