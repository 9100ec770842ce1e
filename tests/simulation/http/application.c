/* Answers at once, later or never, with bodies of any size. The answer depends on the request only. */
#include "base/hash.h"
#include "simulation/events.h"
#include "simulation/http/scenario.h"
#include "simulation/loop.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <string.h>

struct plan application_plan(const char *text, size_t len)
{
    uint64_t bits = len;
    struct plan p = {.status = 200};
    for (size_t i = 0; i < len; i++)
        bits = (bits ^ (unsigned char)text[i]) * UINT64_C(0x100000001B3);
    bits = random_next(&bits);
    unsigned when = (unsigned)(bits % 16);
    unsigned size = (unsigned)(bits >> 8) % 16;
    if (when >= 9)
        p.delay_ms = when == 15 && size > 8 ? UINT64_MAX : (bits >> 16) % (when < 13 ? 20 : 3000);
    p.size = (bits >> 32) % (size < 12 ? 300 : size < 15 ? 20000 : 400000);
    p.status = (bits >> 60) == 0 ? 204 : 200;
    return p;
}

/* Without the end that does not fit, as the model has it. */
static size_t describe(const struct http_request *r, char out[MODEL_TEXT_MAX])
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "OTHER"};
    char target[MODEL_TEXT_MAX - 32];
    size_t len = 0;
    bool has_query = r->query.data != NULL;
    for (size_t i = 0; i < r->path.len && len + 1 < sizeof target; i++)
        target[len++] = r->path.data[i];
    if (len + 1 < sizeof target)
        target[len++] = has_query ? '?' : '!';
    for (size_t i = 0; has_query && i < r->query.len && len + 1 < sizeof target; i++)
        target[len++] = r->query.data[i];
    return (size_t)snprintf(out, MODEL_TEXT_MAX, "%s %d %.*s", methods[r->method], r->minor_version, (int)len,
                            target);
}

struct client *client_find(const struct ip *ip)
{
    unsigned number = (unsigned)ip->bytes[14] << 8 | ip->bytes[15];
    if (ip->bytes[12] != 10 || number >= streams_count)
        trace_fail("an unknown client");
    struct client *c = &scenario.client[number];
    if (ip->bytes[13] == 1 ? c->header == 0 : ip->bytes[13] != c->stream->ip[1])
        trace_fail("a client's address is wrong: %u", number);
    return c;
}

/* The text, and then as many bytes as are missing. */
static void respond(struct client *c, struct http_exchange *x, int status, size_t size, const char *text,
                    size_t len)
{
    struct buf body = BUF_INIT;
    struct http_response r = {0};
    blob_begin(&body, size + len);
    buf_append(&body, text, len);
    for (size_t i = 0; i < size; i++)
        buf_append_char(&body, 'x');
    struct blob *blob = blob_finish(&body);
    http_response_begin(&r, status, status == 204 ? NULL : blob);
    if (status == 200 && !http_exchange_has_room(x, &r)) {
        check_no_room(c);
        c->no_room[c->handled - 1] = true;
        blob_unref(blob);
        respond(c, x, 503, 10, "", 0);
        return;
    }
    const struct tcp *s = c->stream;
    uint64_t age_ms = (process_monotonic_ns() - s->opened_ns) / MS;
    uint64_t max_ms = scenario.options.limits.max_connection_age_ms;
    bool is_followed = s->arrived > c->header + c->model.item[c->handled - 1].end;
    bool is_old = max_ms > 0 && (age_ms > 2 * max_ms + max_ms / 5 + 500 ||
                                 (age_ms > max_ms + max_ms / 5 + 500 && !is_followed));
    c->must_close[c->handled - 1] = scenario.announced_ns > 0 || (is_old && process_last_stop_ns() == 0);
    c->exchange = NULL;
    c->answered_ns = process_monotonic_ns();
    http_exchange_respond(x, &r);
    blob_unref(blob);
}

static void answer(struct client *c, struct http_exchange *x)
{
    const struct model_item *i = &c->model.item[c->handled - 1];
    struct plan p = application_plan(i->text, i->text_len);
    respond(c, x, p.status, p.size, i->text, i->text_len);
}

static void on_posted(void *arg)
{
    struct client *c = arg;
    if (!c->answers_now || c->exchange == NULL)
        return;
    c->answers_now = false;
    TRACE("answer", "%u: later", client_number(c));
    answer(c, c->exchange);
}

static void on_due(void *arg, uint64_t number)
{
    struct client *c = arg;
    if (c->exchange == NULL || c->handled != number)
        return;
    c->answers_now = true;
    loop_post(on_posted, c);
}

static void reject(struct client *c, struct http_exchange *x, int status)
{
    TRACE("reject", "%u: %d", client_number(c), status);
    trace_sum((uint64_t)status);
    scenario.rejections++;
    check_rejection(c, status);
    c->rejected = status;
    c->handled++;
    respond(c, x, status, 10, "", 0);
}

static void on_handle(void *arg, struct http_exchange *x, int status)
{
    char text[MODEL_TEXT_MAX];
    struct ip ip = http_exchange_client(x);
    struct client *c = client_find(&ip);
    (void)arg;
    if (status != 0) {
        reject(c, x, status);
        return;
    }
    size_t len = describe(x->request, text);
    TRACE("handle", "%u: %.*s", client_number(c), (int)len, text);
    trace_sum(hash_int64((int64_t)len, client_number(c)));
    scenario.requests++;
    if (c->exchange != NULL)
        trace_fail("two requests of a connection at once: %u", client_number(c));
    if (c->stream->closed || c->rejected != 0)
        trace_fail("a request is handled after the end: %u", client_number(c));
    if (c->handled >= c->model.items || c->model.item[c->handled].statuses != 0)
        trace_fail("a request is handled that there is not: %u %s", client_number(c), text);
    check_turn(c);
    const struct model_item *i = &c->model.item[c->handled++];
    if (i->text_len != len || memcmp(i->text, text, len) != 0)
        trace_fail("a request is not what was sent: %u %s, expected %s", client_number(c), text, i->text);
    if (x->request->keep_alive != i->keep_alive)
        trace_fail("a request persists or not, wrongly: %u %s", client_number(c), text);
    struct plan p = application_plan(i->text, i->text_len);
    if (p.delay_ms == 0) {
        answer(c, x);
        return;
    }
    c->exchange = x;
    if (p.delay_ms != UINT64_MAX)
        events_add_in(p.delay_ms * MS, on_due, c, c->handled);
}

static void on_cancel(void *arg, struct http_exchange *x)
{
    (void)arg;
    for (unsigned i = 0; i < streams_count; i++) {
        struct client *c = &scenario.client[i];
        if (c->exchange != x)
            continue;
        TRACE("cancel", "%u", client_number(c));
        check_cancel(c);
        c->exchange = NULL;
        return;
    }
    trace_fail("an exchange that nobody waits for");
}

struct http_handler application_handler(void)
{
    return (struct http_handler){.handle = on_handle, .cancel = on_cancel};
}
