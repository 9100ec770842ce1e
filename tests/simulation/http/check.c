/*
 * The conditions on responses, ends and deadlines. Each request is handled once, in order, and as it was
 * sent. Each response is complete, and framed as it declares. A connection is closed only by its client, at a
 * deadline, at the limit of connections or in the drain. It has one write's worth of responses in a turn of
 * the loop.
 *
 * Not covered: failing allocations, and a listener that systemd has passed.
 */
#include "http/server.h"
#include "simulation/bytes.h"
#include "simulation/events.h"
#include "simulation/http/scenario.h"
#include "simulation/loop.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A deadline counts at the second tick behind it; what the loop and the process take besides. */
enum { TICKS_MS = 200, SLACK_MS = 60, EARLY_MS = 6, HANDOVER_MS = 1000 };

static uint64_t now_ms(void)
{
    return process_monotonic_ns() / MS;
}

static uint64_t last_stop_ms; /* by the monotonic clock */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* --- what a connection waits for --- */

/* Where the requests end that were handled. */
static size_t handled_end(const struct client *c)
{
    return c->header + (c->handled == 0 ? 0 : c->model.item[c->handled - 1].end);
}

/* The server has read no byte of a request that was not handled. */
static bool waits_for_request(const struct client *c)
{
    const struct tcp *s = c->stream;
    size_t at = handled_end(c);
    if (!s->opened || s->closed || c->exchange != NULL || s->writes > 0 || s->out_end || c->rejected != 0)
        return false;
    if (c->handled > 0 && c->must_close[c->handled - 1])
        return false;
    if (c->header > 0 && s->read < c->header)
        return true; /* the header belongs to no request */
    while (at < s->read && (c->script.data[at] == '\r' || c->script.data[at] == '\n'))
        at++;
    return at >= s->read;
}

static uint64_t waits_since_ms(const struct client *c)
{
    return later(c->stream->opened_ns, later(c->answered_ns, c->stream->written_ns)) / MS;
}

/* While it waits, the server has read empty lines, or of a PROXY protocol header. At the limit, these count
 * as a request for as long as they are in the kernel. */
static bool has_read_other(const struct client *c)
{
    return c->stream->read > (c->handled == 0 ? 0 : handled_end(c));
}

static uint64_t waits_since_at_most_ms(const struct client *c)
{
    return later(waits_since_ms(c), has_read_other(c) ? c->stream->read_ns / MS : 0);
}

static void note_stop(void)
{
    static uint64_t seen_ns;
    if (process_last_stop_ns() != seen_ns && process_last_stop_ns() > 0)
        last_stop_ms = now_ms();
    seen_ns = process_last_stop_ns();
}

static bool stopped_since(uint64_t ms)
{
    note_stop();
    return last_stop_ms + 10 >= ms && last_stop_ms > 0;
}

/* Not earlier than a timeout; a stopped process may see another time. */
static bool has_passed(uint64_t since_ms, uint64_t timeout_ms)
{
    return stopped_since(since_ms) || now_ms() + EARLY_MS >= since_ms + timeout_ms;
}

static bool is_overdue(uint64_t since_ms, uint64_t timeout_ms)
{
    return now_ms() > later(since_ms, last_stop_ms) + timeout_ms + TICKS_MS + SLACK_MS;
}

static uint64_t timeout_of_waiting(const struct client *c)
{
    const struct http_server_options *o = &scenario.options;
    return c->handled == 0 ? o->limits.head_timeout_ms : o->limits.idle_timeout_ms;
}

/* --- turns --- */

/* The server has read a whole request, and nothing keeps it from handling that. */
static bool is_queued(const struct client *c)
{
    const struct tcp *s = c->stream;
    if (!s->opened || s->closed || c->exchange != NULL || s->writes > 0 || s->out_end || c->rejected != 0)
        return false;
    if (c->handled == c->model.items || c->model.item[c->handled].statuses != 0 ||
        (c->handled > 0 && c->must_close[c->handled - 1]))
        return false;
    return s->read >= c->header + c->model.item[c->handled].end;
}

/*
 * The run queue has an order: no client has two turns while another waits for one. And a turn of the loop,
 * after which the sockets are polled, takes 50 us and the last client's. The responses of a client's turn are
 * written together.
 */
void check_turn(struct client *c)
{
    const uint64_t turn_ns = (uint64_t)50 * 1000;
    uint64_t since_ns = loop_idle_since_ns();
    c->queued_turn = 0;
    if (since_ns == 0 || scenario.servers != 1 || (c->last_turn != 0 && c->flushes == c->stream->flushes))
        return;
    uint64_t turn = ++scenario.turns;
    for (unsigned i = 0; i < streams_count; i++) {
        struct client *o = &scenario.client[i];
        if (o == c || !is_queued(o))
            o->queued_turn = 0;
        else if (o->queued_turn == 0)
            o->queued_turn = turn;
        else if (c->last_turn >= o->queued_turn)
            trace_fail("a client has two turns while another waits: %u, %u waits", client_number(c), i);
    }
    if (process_monotonic_ns() > since_ns + turn_ns && !stopped_since(since_ns / MS))
        trace_fail("a turn of the loop does not end: %u", client_number(c));
    c->last_turn = turn;
    c->flushes = c->stream->flushes;
}

/* --- the limit --- */

static int count_open(void)
{
    int n = 0;
    for (unsigned i = 0; i < streams_count; i++)
        n += streams[i].opened && !streams[i].closed && !scenario.client[i].over_limit;
    return n;
}

static bool at_limit(void)
{
    return http_balancer_total(scenario.balancer) >= scenario.max_connections;
}

static void expect_oldest(const struct client *c)
{
    for (unsigned i = 0; i < streams_count && scenario.servers == 1; i++) {
        const struct client *o = &scenario.client[i];
        if (o == c || !waits_for_request(o) || o->over_limit || has_read_other(o) || streams[i].in.len > 0)
            continue;
        if (c->from_proxy && !o->from_proxy)
            trace_fail("a proxy's connection gives way before others: %u, %u waits", client_number(c), i);
        if (c->from_proxy == o->from_proxy && waits_since_ms(o) + EARLY_MS < waits_since_ms(c) &&
            !stopped_since(waits_since_ms(o)))
            trace_fail("not the oldest connection gives way: %u, %u waits longer", client_number(c), i);
    }
}

static void expect_none_waits(const struct client *c)
{
    if (!at_limit())
        trace_fail("503 below the limit: %u", client_number(c));
    bool passed = streams_inbox_full_ns == 0 || process_monotonic_ns() > streams_inbox_full_ns + SECOND;
    for (unsigned i = 0; i < streams_count && passed && scenario.finishing_ns == 0; i++) {
        const struct client *o = &scenario.client[i];
        if (o != c && waits_for_request(o) && streams[i].in.len == 0 && !o->over_limit &&
            !has_read_other(o) && waits_since_ms(o) + EARLY_MS < now_ms() &&
            !stopped_since(waits_since_ms(o)))
            trace_fail("503 although a connection waits for a request: %u, %u waits", client_number(c), i);
    }
}

/* --- the server closes a connection --- */

static bool is_evicted(const struct client *c)
{
    if (!waits_for_request(c) || c->stream->in.len > 0 || !at_limit())
        return false;
    expect_oldest(c);
    return true;
}

static void on_close(struct tcp *s)
{
    struct client *c = &scenario.client[s - streams];
    uint64_t opened_ms = s->opened_ns / MS;
    uint64_t since_ms = waits_since_ms(c);
    TRACE("close", "%u%s: handled %u of %u, read %zu of %zu%s", client_number(c),
          c->from_proxy ? ", of a proxy" : "", c->handled, c->model.items, s->read, s->arrived,
          at_limit() ? ", at the limit" : "");
    trace_sum(s->read);
    if (scenario.closing || s->reset || c->over_limit)
        return;
    if (s->shutdown_ns > 0) {
        if (!s->ended_read && !has_passed(s->shutdown_ns / MS, HTTP_LINGER_MS))
            trace_fail("a connection lingers too briefly: %u", client_number(c));
        return;
    }
    if (s->write_since_ns > 0 &&
        has_passed(s->write_since_ns / MS, scenario.options.limits.write_timeout_ms)) {
        c->timed_out = true;
        return;
    }
    if (c->exchange != NULL || s->writes > 0 || (s->linger_at_once && stream_unsent(s) > 0))
        trace_fail("a request loses its response: %u", client_number(c));
    if (s->ended_read) {
        if (c->handled < c->model.items && c->model.item[c->handled].statuses == 0 && c->rejected == 0 &&
            s->read == s->arrived)
            trace_fail("a request that was read is not handled: %u", client_number(c));
        return;
    }
    bool waits = waits_for_request(c);
    bool nothing = waits && c->handled == 0;
    if (waits && scenario.finishing_ns > 0 &&
        (c->handled > 0 || has_passed(later(scenario.finishing_ns / MS, opened_ms), HTTP_GRACE_MS)))
        return;
    if (waits && has_passed(since_ms, timeout_of_waiting(c)))
        return;
    if (!nothing && c->from_proxy && c->handled == 0 &&
        has_passed(opened_ms, scenario.options.limits.head_timeout_ms))
        return;
    if (!waits && scenario.finishing_ns > 0 && c->from_proxy && c->handled == 0 && s->read <= c->header + 16)
        return;
    if (!is_evicted(c))
        trace_fail("a connection is closed without a reason: %u", client_number(c));
}

static void on_accept(struct tcp *s)
{
    if (count_open() > scenario.max_connections)
        trace_fail("more connections than the limit: %u", (unsigned)(s - streams));
}

void check_cancel(struct client *c)
{
    const struct tcp *s = c->stream;
    bool slow =
        s->write_since_ns > 0 && has_passed(s->write_since_ns / MS, scenario.options.limits.write_timeout_ms);
    if (!scenario.closing && !s->reset && !slow)
        trace_fail("a request is cancelled although its client is there: %u", client_number(c));
}

/* The method of the request that is rejected, as far as it was read. */
static bool is_head_begun(const struct client *c)
{
    const struct model *m = &c->model;
    size_t at = c->handled < m->items ? m->item[c->handled].start : m->begun_at;
    size_t read = c->stream->read < c->header ? 0 : c->stream->read - c->header;
    return read >= at + 4 && memcmp(m->bytes.data + at, "HEAD", 4) == 0 &&
           (read == at + 4 || !model_is_tchar(m->bytes.data[at + 4]));
}

/* The end of the request has come after its deadline; before it is handled, that may be noticed. */
static bool has_come_late(const struct client *c, const struct model_item *i)
{
    uint64_t begun_ns = c->begun_at <= i->start ? c->begun_ns : c->former_begun_ns;
    return c->sent_ns / MS + EARLY_MS >= begun_ns / MS + scenario.options.limits.head_timeout_ms;
}

void check_rejection(struct client *c, int status)
{
    if (c->rejected != 0 || c->exchange != NULL)
        trace_fail("a rejection at the wrong time: %u", client_number(c));
    c->head_rejected = !c->bad_header && is_head_begun(c);
    if (status == 503) {
        c->over_limit = true;
        if (c->stream->read > 0)
            trace_fail("503 behind a request: %u", client_number(c));
        expect_none_waits(c);
        return;
    }
    if (c->bad_header && status == 400 && c->handled == 0)
        return;
    if (c->handled < c->model.items) {
        const struct model_item *i = &c->model.item[c->handled];
        bool is_long = c->model.bytes.len - i->start > c->model.head_max; /* the limit may be noticed first */
        unsigned allowed = i->statuses | i->may | (is_long && i->statuses != 0 ? S414 | S431 : 0);
        if (status == 408 && has_come_late(c, i))
            return;
        if (allowed == 0 || ((allowed & model_status_bit(status)) == 0 && status != 408))
            trace_fail("a wrong status: %u: %d, allowed is %x, for: %.*s", client_number(c), status,
                       i->statuses, (int)(i->end - i->start), c->model.bytes.data + i->start);
        return;
    }
    if (status != 408 && (c->model.may & model_status_bit(status)) == 0)
        trace_fail("a request is rejected that may be valid: %u: %d", client_number(c), status);
    bool may_have_header =
        c->from_proxy && c->handled == 0; /* which the deadline includes; it begins as an empty line */
    uint64_t begun_ms = (may_have_header ? c->stream->opened_ns : c->begun_ns) / MS;
    if (status == 408 && !has_passed(begun_ms, scenario.options.limits.head_timeout_ms))
        trace_fail("408 too early: %u", client_number(c));
}

void check_no_room(struct client *c)
{
    for (unsigned i = 0; i < streams_count; i++)
        if (streams[i].writes > 0)
            return;
    trace_fail("503 although nothing is unsent: %u", client_number(c));
}

/* --- nothing is late, and not too much is unsent --- */

/* The bytes of large responses, at least: a write has less than two limits of bytes beside one. */
static void check_unsent(void)
{
    const size_t two_large = (size_t)2 * HTTP_RESPONSE_LARGE;
    size_t unsent = 0;
    size_t largest = 0;
    for (unsigned i = 0; i < streams_count && scenario.servers == 1; i++) {
        for (unsigned w = 0; w < streams[i].writes; w++) {
            size_t rest = streams[i].write[w].rest.len;
            size_t large = rest > two_large ? rest - two_large : 0;
            largest = large > largest ? large : largest;
            unsent += large;
        }
    }
    if (unsent > largest && unsent > scenario.options.limits.unsent_max)
        trace_fail("too much is unsent: %zu", unsent);
}

static void check_one(const struct client *c)
{
    const struct tcp *s = c->stream;
    const struct http_server_options *o = &scenario.options;
    uint64_t since_ms = waits_since_ms(c);
    if (s->accepted && !s->opened && !s->closed && is_overdue(s->accepted_ns / MS, HANDOVER_MS))
        trace_fail("a connection is not opened: %u", client_number(c));
    if (!s->opened || s->closed || s->reset)
        return;
    if (s->write_since_ns > 0 && is_overdue(s->write_since_ns / MS, o->limits.write_timeout_ms))
        trace_fail("the deadline of a response has passed: %u", client_number(c));
    if (s->shutdown_ns > 0 &&
        is_overdue(s->shutdown_ns / MS,
                   HTTP_LINGER_MS +
                       (stream_unsent(s) > 0 || s->window > 0 ? o->limits.write_timeout_ms + TICKS_MS : 0)))
        trace_fail("a connection lingers too long: %u", client_number(c));
    if (s->writes > 0 || s->shutdown_ns > 0 || c->exchange != NULL || c->over_limit)
        return;
    bool has_grace = scenario.finishing_ns > 0 && c->handled == 0;
    if (waits_for_request(c) && s->in.len == 0 && !has_grace &&
        is_overdue(waits_since_at_most_ms(c), timeout_of_waiting(c)))
        trace_fail("the deadline of a connection that waits has passed: %u", client_number(c));
    if (c->handled == c->model.items && c->model.begun && c->rejected == 0 &&
        is_overdue(later(since_ms, c->begun_ns / MS), o->limits.head_timeout_ms))
        trace_fail("the deadline of a request has passed: %u", client_number(c));
    if (c->handled < c->model.items && c->rejected == 0 &&
        !(c->handled > 0 && c->must_close[c->handled - 1]) &&
        is_overdue(later(since_ms, later(s->read_ns, c->sent_ns) / MS), o->limits.head_timeout_ms))
        trace_fail("a request is not handled: %u", client_number(c));
    bool in_header = c->from_proxy && c->handled == 0 && s->read > 0;
    if (scenario.finishing_ns > 0 && waits_for_request(c) && s->in.len == 0 && !in_header &&
        is_overdue(later(scenario.finishing_ns / MS, since_ms), HTTP_GRACE_MS))
        trace_fail("a connection that waits outlives the drain: %u", client_number(c));
}

void check_all(void)
{
    note_stop();
    if (count_open() > scenario.max_connections)
        trace_fail("more connections than the limit");
    check_unsent();
    for (unsigned i = 0; i < streams_count; i++)
        check_one(&scenario.client[i]);
}

/* --- what the client gets --- */

static const char *find_field(const char *head, const char *end, const char *name)
{
    size_t n = strlen(name);
    const char *found = NULL;
    for (const char *at = memchr(head, '\n', (size_t)(end - head)); at != NULL && at + 1 < end;
         at = memchr(at, '\n', (size_t)(end - at))) {
        at++;
        if ((size_t)(end - at) > n && strncasecmp(at, name, n) == 0 && at[n] == ':') {
            if (found != NULL)
                trace_fail("a field is in a response twice: %s", name);
            found = at + n + 2;
        }
    }
    return found;
}

static void check_status(const struct client *c, int status, const struct plan *p)
{
    const struct model_item *i = &c->model.item[c->responses];
    bool is_last = c->responses + 1 == c->handled && c->rejected != 0;
    if (c->responses >= c->handled)
        trace_fail("a response that the application did not give: %u", client_number(c));
    int expected = c->no_room[c->responses] ? 503 : p->status;
    if (is_last ? status != c->rejected : i->statuses != 0 || status != expected)
        trace_fail("a response with another status: %u: %d", client_number(c), status);
}

static void check_persistence(struct client *c, const struct model_item *i, const char *connection)
{
    bool close = connection != NULL && strncasecmp(connection, "close", 5) == 0;
    bool is_rejection = c->responses + 1 == c->handled && c->rejected != 0;
    uint64_t age_ms = now_ms() - c->stream->opened_ns / MS;
    bool may = is_rejection || !i->keep_alive || scenario.announced_ns > 0 ||
               (scenario.options.limits.max_connection_age_ms > 0 &&
                (process_stopped_ns() > 0 ||
                 age_ms + 110 >= scenario.options.limits.max_connection_age_ms * 9 / 10));
    bool must = is_rejection || !i->keep_alive || c->must_close[c->responses];
    if (close && !may)
        trace_fail("a response ends a connection that persists: %u", client_number(c));
    if (!close && must)
        trace_fail("a response does not say that it is the last: %u", client_number(c));
    if (!close && i->minor == 0 && connection == NULL)
        trace_fail("a client of HTTP/1.0 is not told that the connection persists: %u", client_number(c));
    c->last_seen = close;
}

static void check_continue(struct client *c)
{
    const struct model *m = &c->model;
    bool expects = c->responses < m->items ? m->item[c->responses].expects : m->expects;
    if (!expects || c->continued)
        trace_fail("100 that was not asked for: %u", client_number(c));
    c->continued = true;
}

/* One response at the beginning of c->in. Returns its length, or 0 if it is not complete. */
static size_t check_one_response(struct client *c)
{
    const char *head = c->in.data;
    int status = 0;
    if (c->in.len == 0)
        return 0;
    if (c->last_seen)
        trace_fail("bytes behind the last response: %u", client_number(c));
    const char *end = memmem(head, c->in.len, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    end += 2;
    if (c->in.len < 12 || memcmp(head, "HTTP/1.1 ", 9) != 0 || (status = (int)number_at(head + 9, 3)) < 100)
        trace_fail("no response: %u", client_number(c));
    if (status == 100) {
        check_continue(c);
        return (size_t)(end - head) + 2;
    }
    const struct model_item *i = &c->model.item[c->responses];
    bool is_rejection = c->rejected != 0 && c->responses + 1 == c->handled;
    struct plan p = application_plan(i->text, i->text_len);
    bool is_error = is_rejection || c->no_room[c->responses];
    size_t size = is_error ? 10 : p.size + i->text_len;
    check_status(c, status, &p);
    const char *length = find_field(head, end, "Content-Length");
    if (status == 204 ? length != NULL : length == NULL || number_at(length, (size_t)(end - length)) != size)
        trace_fail("a response has another length: %u", client_number(c));
    if (find_field(head, end, "Date") == NULL)
        trace_fail("a response without Date: %u", client_number(c));
    bool bodiless = status == 204 || (!is_rejection && i->is_head);
    if (is_rejection)
        bodiless = c->head_rejected;
    size_t body = bodiless ? 0 : size;
    size_t total = (size_t)(end + 2 - head) + body;
    if (c->in.len < total)
        return 0;
    size_t text = is_error ? 0 : i->text_len;
    if (body > 0 && memcmp(end + 2, i->text, text) != 0)
        trace_fail("the response of another request: %u", client_number(c));
    for (size_t at = text; at < body; at++)
        if (end[2 + at] != 'x')
            trace_fail("a response is mixed with another: %u", client_number(c));
    check_persistence(c, i, find_field(head, end, "Connection"));
    TRACE("client", "%u gets %d, %zu bytes%s", client_number(c), status, total,
          c->last_seen ? ", the last" : "");
    trace_sum(total);
    c->responses++;
    c->continued = false;
    return total;
}

void check_response(struct client *c)
{
    for (size_t n = check_one_response(c); n > 0; n = check_one_response(c))
        buf_consume(&c->in, n);
}

/* A reset may cost responses where the client has sent more than the server had to read, or does not read. */
void check_end(struct client *c)
{
    const struct tcp *s = c->stream;
    if (s->lost || scenario.closing || c->timed_out)
        return;
    if (c->in.len > 0)
        trace_fail("a response is cut off: %u", client_number(c));
    if (c->responses < c->handled)
        trace_fail("a response is missing: %u", client_number(c));
}

void check_begin(void)
{
    last_stop_ms = 0;
    streams_on_close = on_close;
    streams_on_accept = on_accept;
}
