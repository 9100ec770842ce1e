/* Client connections; see connection.h for their states. Every entry from the loop ends in settle(). */
#include "http/connection.h"

#include "base/clock.h"
#include "http/etag.h"
#include "http/forwarded.h"
#include "http/socket.h"

#include <stdlib.h>
#include <unistd.h>

/* --- reading, writing, deadlines --- */

static void settle(struct http_connection *c);
static void set_reading(struct http_connection *c, bool on);
static void take_input(struct http_connection *c, struct span bytes);
static void refuse_unread(struct http_connection *c, int status);

/* libuv goes on reading while the buffer is filled: no memory for more makes it look at the others first. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct http_connection *c = handle->data;
    size_t room = c->has_read ? 0 : sizeof c->server->read_buffer;
    *out = (uv_buf_t){.base = c->server->read_buffer, .len = room};
}

static void keep_input(struct http_connection *c, struct span bytes)
{
    buf_append_span(&c->pending_input, bytes);
    if (buf_error(&c->pending_input) != 0)
        http_connection_close(c);
}

/* More than one request, or at least more than a head. */
static bool is_pipelined(struct span input)
{
    static const char head_end[] = "\r\n\r\n";
    const char *found = memmem(input.data, input.len, head_end, sizeof head_end - 1);
    return found != NULL && found + sizeof head_end - 1 < input.data + input.len;
}

/* An empty line is not the beginning of a request: no deadline is set or cleared for it. */
static struct span skip_empty_lines(struct http_connection *c, struct span input)
{
    bool between = c->state == HTTP_CONNECTION_READING && c->exchange == NULL;
    return between ? span_skip(input, http_skip_empty_lines(input, &c->half_line)) : input;
}

/* Who asks one thing has the answer at once; who asks many stands behind others who do. */
static void on_input(struct http_connection *c, struct span input)
{
    bool behind_others = false;
    if (!list_empty(&c->server->waiting)) {
        input = skip_empty_lines(c, input);
        behind_others = is_pipelined(input);
    }
    if (c->state == HTTP_CONNECTION_READING && !behind_others) {
        take_input(c, input);
        return;
    }
    keep_input(c, input);
    settle(c);
}

/*
 * A trusted proxy may tell whose bytes it passes on, once and before them. While that is incomplete nothing
 * is done: the deadline is that of the connection's first request.
 */
static void on_first_input(struct http_connection *c, struct span input)
{
    size_t used = 0;
    keep_input(c, input);
    if (c->state == HTTP_CONNECTION_CLOSING)
        return;
    enum http_proxy_header found = http_proxy_header_read(buf_span(&c->pending_input), &used, &c->client);
    c->proxy_header_due = found == HTTP_PROXY_NEED_MORE;
    if (found == HTTP_PROXY_INVALID) {
        refuse_unread(c, 400);
    } else if (!c->proxy_header_due) {
        buf_consume(&c->pending_input, used);
        http_connection_resume(c);
    }
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *input)
{
    struct http_connection *c = stream->data;
    c->has_read = n > 0 && (size_t)n == input->len;
    if (n == UV_ENOBUFS) /* see on_alloc() */
        return;
    if (n == UV_EOF && c->state == HTTP_CONNECTION_HANDLING) {
        /* The client may still be waiting for its answer; its end will be read again. */
        set_reading(c, false);
    } else if (n < 0) {
        http_connection_close(c);
    } else if (n > 0 && (c->state == HTTP_CONNECTION_HANDLING || c->state == HTTP_CONNECTION_READING)) {
        const struct span bytes = {input->base, (size_t)n};
        if (c->proxy_header_due)
            on_first_input(c, bytes);
        else
            on_input(c, bytes);
    }
}

static void set_reading(struct http_connection *c, bool on)
{
    if (c->reading == on)
        return;
    c->reading = on;
    c->has_read = false;
    if (!on)
        (void)uv_read_stop((uv_stream_t *)&c->tcp);
    else if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
        http_connection_close(c);
}

static void set_deadline(struct http_connection *c, enum http_deadline_kind kind)
{
    if (c->deadline.kind != kind)
        http_deadline_set(&c->server->deadlines, &c->deadline, kind, uv_now(c->server->loop));
}

static void on_written(uv_stream_t *stream, int status)
{
    struct http_connection *c = stream->data;
    c->writing--;
    if (c->state == HTTP_CONNECTION_CLOSING)
        return;
    if (status != 0) {
        http_connection_close(c);
    } else if (c->writing == 0) {
        http_deadline_clear(&c->deadline);
        settle(c);
    }
}

static void flush(struct http_connection *c)
{
    int result = http_output_flush(&c->server->output, (uv_stream_t *)&c->tcp, on_written);
    if (result < 0)
        http_connection_close(c);
    else if (result > 0)
        c->writing++;
}

/* Our side is shut; the client's is read to its end. */
static void linger(struct http_connection *c)
{
    c->state = HTTP_CONNECTION_LINGERING;
    if (http_socket_shut(&c->tcp) != 0) {
        http_connection_close(c);
        return;
    }
    set_deadline(c, DEADLINE_LINGER);
    set_reading(c, true);
}

/* Nothing of a request has come, and one was answered before: the connection may end without a loss. */
static bool between_requests(const struct http_connection *c)
{
    return c->state == HTTP_CONNECTION_READING && c->exchange == NULL && c->pending_input.len == 0 &&
           c->served;
}

static enum http_deadline_kind reading_deadline(const struct http_connection *c)
{
    if (c->exchange != NULL)
        return DEADLINE_HEAD;
    if (c->served)
        return DEADLINE_IDLE;
    return c->server->finished != NULL ? DEADLINE_LAST_CALL : DEADLINE_HEAD;
}

/* In its next turn it goes on with what it has sent already. Between requests no deadline is left: the next
 * has come. Within one it stays, or who sends it slowly would have it anew each time. */
static void wait_for_turn(struct http_connection *c)
{
    if (c->exchange == NULL)
        http_deadline_clear(&c->deadline);
    set_reading(c, false);
    list_append(&c->server->waiting, &c->turn);
    http_server_schedule(c->server);
}

/* Writes what there is, then sees to it that the connection waits for the right thing, and not for ever. */
static void settle(struct http_connection *c)
{
    if (c->state == HTTP_CONNECTION_CLOSING) {
        http_output_clear(&c->server->output); /* it must not reach the connection whose turn is next */
        return;
    }
    flush(c);
    if (c->state == HTTP_CONNECTION_CLOSING)
        return;
    if (c->writing > 0) {
        set_reading(c, false);
        set_deadline(c, DEADLINE_WRITE);
        return;
    }
    if (c->server->finished != NULL && between_requests(c))
        c->state = HTTP_CONNECTION_ENDING;
    if (c->state == HTTP_CONNECTION_HANDLING) {
        if (c->pending_input.len > 0) /* one read's worth waits already, and that is enough */
            set_reading(c, false);
        http_deadline_clear(&c->deadline);
    } else if (c->state == HTTP_CONNECTION_READING && c->pending_input.len > 0) {
        wait_for_turn(c);
    } else if (c->state == HTTP_CONNECTION_READING) {
        set_deadline(c, reading_deadline(c));
        set_reading(c, true);
    } else if (c->state == HTTP_CONNECTION_ENDING) {
        linger(c);
    }
}

/* --- requests --- */

static void begin_exchange(struct http_connection *c)
{
    c->exchange->began_ns = clock_now_ns();
    loop_lag_begin_at(c->server->options.loop_lag, c->exchange->began_ns);
}

static void refuse(struct http_connection *c, int status)
{
    c->exchange->close = true;
    begin_exchange(c);
    c->state = HTTP_CONNECTION_HANDLING;
    metric_add(&c->server->options.metrics->requests_rejected_total, 1);
    c->server->options.handler.refuse(c->server->options.handler.arg, c->exchange, status);
}

/* Where no request was read. */
static void refuse_unread(struct http_connection *c, int status)
{
    c->exchange = http_exchange_take(c);
    if (c->exchange == NULL)
        http_connection_close(c);
    else
        refuse(c, status);
}

static void handle(struct http_connection *c, bool followed)
{
    begin_exchange(c);
    c->exchange->followed = followed;
    c->state = HTTP_CONNECTION_HANDLING;
    c->server->requests++;
    c->server->options.handler.handle(c->server->options.handler.arg, c->exchange);
}

static void invite_content(struct http_connection *c)
{
    if (c->exchange->continued || !http_parser_wants_continue(&c->exchange->parser))
        return;
    c->exchange->continued = true;
    buf_append_str(&c->server->output.heads, "HTTP/1.1 100 Continue\r\n\r\n");
    http_output_add(&c->server->output, NULL);
}

/* Half an empty line before a request is no request. */
static struct span advance_empty_lines(struct http_connection *c, struct span bytes)
{
    bytes = skip_empty_lines(c, bytes);
    if (bytes.len > 0 && c->half_line)
        refuse_unread(c, 400);
    return bytes;
}

/* Reads on in the current request, or begins one; returns what it left of the input. */
static struct span advance(struct http_connection *c, struct span bytes)
{
    if (c->exchange == NULL && (*bytes.data == '\r' || c->half_line))
        return advance_empty_lines(c, bytes);
    if (c->exchange == NULL)
        c->exchange = http_exchange_take(c);
    if (c->exchange == NULL) {
        http_connection_close(c);
        return bytes;
    }
    size_t used = 0;
    enum http_progress progress = http_parser_feed(&c->exchange->parser, bytes, &used);
    if (progress == HTTP_COMPLETE)
        handle(c, used < bytes.len);
    else if (progress == HTTP_REFUSED)
        refuse(c, c->exchange->parser.refusal);
    else
        invite_content(c);
    return span_skip(bytes, used);
}

/* Serves as many requests as one write may answer, if none of them has to wait for its answer. */
static void take_input(struct http_connection *c, struct span bytes)
{
    const struct http_output *output = &c->server->output;
    c->processing = true;
    while (bytes.len > 0 && c->state == HTTP_CONNECTION_READING && !http_output_full(output))
        bytes = advance(c, bytes);
    c->processing = false;
    bool wanted = c->state == HTTP_CONNECTION_HANDLING || c->state == HTTP_CONNECTION_READING;
    if (bytes.len > 0 && wanted)
        keep_input(c, bytes);
    settle(c);
}

void http_connection_resume(struct http_connection *c)
{
    list_remove(&c->turn);
    if (c->state != HTTP_CONNECTION_READING || c->writing > 0 || c->pending_input.len == 0) {
        settle(c);
        return;
    }
    struct buf input = c->pending_input;
    c->pending_input = BUF_INIT;
    take_input(c, buf_span(&input));
    buf_fini(&input);
}

int http_exchange_status(const struct http_exchange *x, const struct http_response *r)
{
    struct span listed = x->parser.request.field[HTTP_FIELD_IF_NONE_MATCH];
    bool conditional = r->status == 200 && r->body != NULL && r->body->has_etag && listed.data != NULL;
    return conditional && http_etag_listed(listed, blob_etag(r->body)) ? 304 : r->status;
}

/*
 * What stands behind the last answer is lost (RFC 9112 section 9.6). So the age of a connection counts when
 * its client has nothing else under way; one that always has gets as long again.
 */
static bool has_retired(const struct http_connection *c)
{
    const struct http_server *s = c->server;
    if (s->ticked_ms < c->retire_ms)
        return false;
    bool followed = c->exchange->followed || c->pending_input.len > 0;
    return !followed || s->ticked_ms - c->retire_ms >= s->options.max_connection_age_ms;
}

void http_exchange_respond(struct http_exchange *x, struct http_response *r)
{
    struct http_connection *c = x->conn;
    struct http_server *s = c->server;
    const struct http_request *request = &x->parser.request;
    r->status = http_exchange_status(x, r);
    bool close = x->close || !request->keep_alive || s->announcing_close;
    if (!close && has_retired(c)) {
        close = true;
        metric_add(&s->options.metrics->connections_max_age_reached_total, 1);
    }
    const struct http_head_context context = {http_date_span(&s->date), request->minor_version, close};
    http_response_write_head(&s->output.heads, r, &context);
    bool bodiless = request->method == METHOD_HEAD || r->status == 304 || r->status == 204;
    http_output_add(&s->output, bodiless ? NULL : r->body);
    http_exchange_give_back(c);
    if (c->writing == 0) /* otherwise it is that of the answers before, which are not taken yet */
        http_deadline_clear(&c->deadline);
    c->served = true;
    c->state = close ? HTTP_CONNECTION_ENDING : HTTP_CONNECTION_READING;
    if (!c->processing)
        http_connection_resume(c);
}

/* --- opening and closing --- */

static void on_closed(uv_handle_t *handle)
{
    struct http_connection *c = handle->data;
    http_server_conn_closed(c->server, c);
    buf_fini(&c->pending_input);
    free(c);
}

void http_connection_close(struct http_connection *c)
{
    if (c->state == HTTP_CONNECTION_CLOSING)
        return;
    loop_lag_begin(c->server->options.loop_lag);
    bool handling = c->state == HTTP_CONNECTION_HANDLING;
    c->state = HTTP_CONNECTION_CLOSING;
    http_deadline_clear(&c->deadline);
    list_remove(&c->turn);
    if (c->exchange != NULL) {
        if (handling)
            c->server->options.handler.abandon(c->server->options.handler.arg, c->exchange);
        http_exchange_give_back(c);
    }
    uv_close((uv_handle_t *)&c->tcp, on_closed);
}

void http_connection_open(struct http_server *s, int fd, struct ip peer, bool over_limit)
{
    struct http_connection *c = calloc(1, sizeof *c);
    if (c == NULL || uv_tcp_init(s->loop, &c->tcp) != 0) {
        free(c);
        close(fd);
        return;
    }
    c->tcp.data = c;
    c->server = s;
    c->over_limit = over_limit;
    c->client = peer;
    c->proxy_header_due = s->limits.forwarded && ip_networks_contain(s->options.trusted_proxies, &peer);
    c->retire_ms = http_server_retire_ms(s);
    http_deadline_init(&c->deadline);
    list_init(&c->turn);
    list_append(&s->conns, &c->link);
    s->open_parts++;
    s->refusals += over_limit;
    atomic_fetch_add_explicit(s->options.open_connections, over_limit ? 0 : 1, memory_order_relaxed);
    metric_add(&s->options.metrics->connections_open, 1);
    if (uv_tcp_open(&c->tcp, fd) != 0) {
        close(fd);
        http_connection_close(c);
    } else if (over_limit) {
        refuse_unread(c, 503);
    } else {
        settle(c);
    }
}

void http_connection_finish(struct http_connection *c)
{
    if (c->state != HTTP_CONNECTION_READING || c->writing > 0)
        return;
    if (between_requests(c))
        http_connection_close(c); /* it has all answers, or the kernel has: there is nothing to linger for */
    else
        set_deadline(c, reading_deadline(c));
}

/* An answer that the kernel still has may be taken as slowly as one that still is here. */
void http_connection_expire(struct http_connection *c)
{
    enum http_deadline_kind kind = c->deadline.kind;
    bool unsent = http_socket_has_unsent(&c->tcp);
    if (kind == DEADLINE_LINGER && unsent) {
        set_deadline(c, DEADLINE_WRITE);
        return;
    }
    if (kind != DEADLINE_LINGER && kind != DEADLINE_LAST_CALL)
        metric_add(&c->server->options.metrics->connections_timed_out_total, 1);
    if (kind == DEADLINE_HEAD && c->exchange != NULL) {
        refuse(c, 408);
        return;
    }
    if (unsent)
        http_socket_drop_unsent(&c->tcp);
    http_connection_close(c);
}
