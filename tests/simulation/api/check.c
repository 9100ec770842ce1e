/*
 * The response that a request must get, by docs/contract.md and docs/openapi.json: its status, its content,
 * and all of its header fields. The query that the cache gets is compared too, and at the end the metrics.
 */
#include "base/hash.h"
#include "base/text.h"
#include "simulation/api/scenario.h"
#include "simulation/bytes.h"
#include "simulation/process.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { FIELDS_MAX = 24, DOCUMENT = 1 };

static struct tag tags[TAGS_MAX];
static unsigned tags_count;

void check_begin(void)
{
    tags_count = 0;
}

struct tag *check_any_tag(unsigned choice)
{
    unsigned n = tags_count < TAGS_MAX ? tags_count : TAGS_MAX;
    return n == 0 ? NULL : &tags[choice % n];
}

/* --- the query --- */

static void check_parameters(const struct client *c, const struct cache_query *q)
{
    const struct request *r = &c->request;
    static const enum cache_query_type types[] = {[TARGET_DOCUMENT] = QUERY_AUTH_ONLY,
                                                  [TARGET_LIST] = QUERY_PAGE,
                                                  [TARGET_ID] = QUERY_CARD,
                                                  [TARGET_LINK] = QUERY_CARD_BY_LINK};
    bool is_looked_for = r->target != TARGET_DOCUMENT && r->is_valid && !r->is_missing &&
                         (r->target != TARGET_LINK || r->link[0] != '\0');
    if (q->type != (is_looked_for ? types[r->target] : QUERY_AUTH_ONLY))
        trace_fail("a query of another kind: %u: %d", client_number(c), (int)q->type);
    if (!is_looked_for)
        return;
    if (r->target == TARGET_LINK ? !span_equal(q->link, span_of(r->link)) : q->number != r->number)
        trace_fail("a query for something else: %u: %lld, %.*s", client_number(c), (long long)q->number,
                   (int)q->link.len, q->link.data);
}

void check_query(const struct client *c, const struct cache_query *q)
{
    const struct request *r = &c->request;
    struct digest digest;
    if (r->key < 0 || r->two_keys || r->method > METHOD_HEAD || r->target <= TARGET_NONE || c->answer.asked ||
        c->refused)
        trace_fail("a query that no request needs: %u", client_number(c));
    digest_sha256(span_of(key_texts[r->key]), &digest);
    if (memcmp(&digest, &q->key, sizeof digest) != 0)
        trace_fail("a query with another key: %u", client_number(c));
    if (q->coding != r->preferred)
        trace_fail("a query for another coding: %u: %d", client_number(c), (int)q->coding);
    check_parameters(c, q);
}

/* --- fields --- */

struct response {
    const struct client *client;
    int status;
    struct span name[FIELDS_MAX], value[FIELDS_MAX];
    unsigned count;
    size_t head;
    uint64_t body; /* hash of the plain content */
    enum coding coding;
    bool is_content; /* 200, or the 304 and 412 in its place */
};

static void read_fields(struct response *p, const char *at, const char *end)
{
    while (at < end) {
        const char *line = memmem(at, (size_t)(end - at), "\r\n", 2);
        const char *colon = memchr(at, ':', (size_t)(line - at));
        if (colon == NULL || p->count == FIELDS_MAX)
            trace_fail("a field is broken: %u", client_number(p->client));
        p->name[p->count] = (struct span){at, (size_t)(colon - at)};
        p->value[p->count++] = span_trim((struct span){colon + 1, (size_t)(line - colon - 1)});
        at = line + 2;
    }
}

/* Takes a field out of those that the response has; absent if it has none. */
static struct span take(struct response *p, const char *name)
{
    for (unsigned i = 0; i < p->count; i++) {
        if (!span_equal(p->name[i], span_of(name)))
            continue;
        struct span value = p->value[i];
        p->count--;
        p->name[i] = p->name[p->count];
        p->value[i] = p->value[p->count];
        return value;
    }
    return SPAN_ABSENT;
}

static struct span expect_some(struct response *p, const char *name)
{
    struct span value = take(p, name);
    if (value.data == NULL)
        trace_fail("a field is missing: %u: %s, %d", client_number(p->client), name, p->status);
    return value;
}

static void expect(struct response *p, const char *name, const char *value)
{
    struct span found = expect_some(p, name);
    if (!span_equal(found, span_of(value)))
        trace_fail("a field has another value: %u: %s: %.*s, expected %s", client_number(p->client), name,
                   (int)found.len, found.data, value);
}

static bool has_condition(const struct condition *c, uint64_t body, unsigned acceptable, bool strong)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->tag[i].body == body && (acceptable >> c->tag[i].coding & 1) != 0 && !(strong && c->weak[i]))
            return true;
    return c->any;
}

/* RFC 9110 section 13.2.2, where the tag of each coding counts that the client accepts or would get. */
static int status_of_content(const struct response *p)
{
    const struct request *r = &p->client->request;
    unsigned codings = r->acceptable | 1U << p->coding;
    if (r->match.sent && !has_condition(&r->match, p->body, codings, true))
        return 412;
    return r->none_match.sent && has_condition(&r->none_match, p->body, codings, false) ? 304 : 200;
}

/* What has one tag is one content in one coding. */
static void check_tag(struct response *p)
{
    struct span text = expect_some(p, "ETag");
    const struct client *c = p->client;
    for (unsigned i = 0; i < tags_count && i < TAGS_MAX; i++) {
        const struct tag *t = &tags[i];
        bool same_text = span_equal((struct span){t->text, t->len}, text);
        bool same = t->body == p->body && (p->status == 304 || t->coding == p->coding);
        if (same_text && !same)
            trace_fail("an entity tag of something else: %u: %.*s", client_number(c), (int)text.len,
                       text.data);
        if (!same_text && same && p->status == 200)
            trace_fail("another entity tag: %u: %.*s, it was %s", client_number(c), (int)text.len, text.data,
                       t->text);
    }
    if (text.len < 3 || text.len >= sizeof tags->text || text.data[0] != '"')
        trace_fail("no strong entity tag: %u", client_number(c));
    if (p->status != 200)
        return;
    struct tag *t = &tags[tags_count++ % TAGS_MAX];
    *t = (struct tag){.len = text.len, .body = p->body, .coding = p->coding};
    memcpy(t->text, text.data, text.len);
}

static void check_links(struct response *p)
{
    char expected[512];
    long long page = (long long)p->client->request.number;
    long long last = (long long)p->client->answer.last_page;
    int n = snprintf(expected, sizeof expected, "</api/channels/?page=1>; rel=\"first\"");
    if (page > 1)
        n += snprintf(expected + n, sizeof expected - (size_t)n, ", </api/channels/?page=%lld>; rel=\"prev\"",
                      page - 1 < last ? page - 1 : last);
    if (page < last)
        n += snprintf(expected + n, sizeof expected - (size_t)n, ", </api/channels/?page=%lld>; rel=\"next\"",
                      page + 1);
    (void)snprintf(expected + n, sizeof expected - (size_t)n, ", </api/channels/?page=%lld>; rel=\"last\"",
                   last);
    expect(p, "Link", expected);
}

static void check_content_fields(struct response *p)
{
    const struct request *r = &p->client->request;
    const struct answer *a = &p->client->answer;
    bool is_document = r->target == TARGET_DOCUMENT;
    char text[64];
    check_tag(p);
    expect(p, "Cache-Control",
           is_document && !scenario.api_options.openapi_auth ? "no-cache" : "private, no-cache");
    if (r->target == TARGET_LIST)
        check_links(p);
    if (p->status == 200 && p->coding != CODING_IDENTITY)
        expect(p, "Content-Encoding", p->coding == CODING_GZIP ? "gzip" : "zstd");
    if (is_document || (a->source != CACHE_SOURCE_STALE && a->source != CACHE_SOURCE_TTL))
        return;
    (void)snprintf(text, sizeof text, "channeld; hit; ttl=%lld", (long long)a->ttl_s);
    expect(p, "Cache-Status", text);
    (void)snprintf(text, sizeof text, "%lld", (long long)a->age_s);
    expect(p, "Age", text);
}

static void check_error_fields(struct response *p)
{
    const bool has_cors = scenario.api_options.cors_origins.len > 0;
    expect(p, "Cache-Control", "no-store");
    if (p->status == 401)
        expect(p, "WWW-Authenticate", "ApiKey realm=\"channeld\", header=\"X-Api-Key\"");
    if (p->status == 405)
        expect(p, "Allow", has_cors ? "GET, HEAD, OPTIONS" : "GET, HEAD");
    if (p->status == 500)
        expect(p, "Retry-After", "1");
    if (p->status == 429 && number_at(expect_some(p, "Retry-After").data, 9) < 1)
        trace_fail("no time to wait: %u", client_number(p->client));
}

static void check_origin(struct response *p)
{
    const struct request *r = &p->client->request;
    struct span cors = scenario.api_options.cors_origins;
    bool any = span_equal(cors, SPAN("*"));
    bool varies = cors.len > 0 && !any;
    bool codes = scenario.api_options.compression && (p->status == 200 || p->status == 304);
    if (varies || codes)
        expect(p, "Vary",
               varies && codes ? "Accept-Encoding, Origin"
               : varies        ? "Origin"
                               : "Accept-Encoding");
    bool allowed = cors.len > 0 && (any || r->from_allowed);
    if (allowed && r->two_keys) { /* what was read of the fields is left to choice */
        (void)take(p, "Access-Control-Allow-Origin");
        (void)take(p, "Access-Control-Expose-Headers");
    } else if (allowed) {
        expect(p, "Access-Control-Allow-Origin", any ? "*" : allowed_origin);
        expect(p, "Access-Control-Expose-Headers",
               "Age, Cache-Status, ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id");
    }
    if (p->status == 204)
        expect(p, "Allow", "GET, HEAD, OPTIONS");
    if (p->status != 204 || !allowed || !r->from_origin || !r->is_preflight)
        return;
    expect(p, "Access-Control-Allow-Methods", "GET, HEAD");
    expect(p, "Access-Control-Allow-Headers",
           "Baggage, If-Match, If-None-Match, Traceparent, Tracestate, X-Api-Key, X-Request-Id");
    expect(p, "Access-Control-Max-Age", "86400");
}

static void check_rate(struct response *p)
{
    const struct client *c = p->client;
    const struct rate_policy *policy = &scenario.policy;
    char text[64];
    if (c->rate.outcome != RATE_GRANTED && c->rate.outcome != RATE_REFUSED)
        return;
    (void)snprintf(text, sizeof text, "\"key\";q=%u;w=%u", policy->requests, policy->window_s);
    expect(p, "RateLimit-Policy", text);
    struct span limit = expect_some(p, "RateLimit");
    int n = snprintf(text, sizeof text, "\"key\";r=%u;t=", c->rate.remaining);
    if (!span_starts_with(limit, span_of(text)) || number_at(limit.data + n, limit.len - (size_t)n) < 1)
        trace_fail("another rate: %u: %.*s, expected %s", client_number(c), (int)limit.len, limit.data, text);
}

static void check_request_id(struct response *p)
{
    const struct request *r = &p->client->request;
    if (r->id != NULL && !r->two_keys) {
        expect(p, "X-Request-Id", r->id);
        return;
    }
    if (p->status < 400 && atomic_load(scenario.api_options.access_log) != ACCESS_LOG_ALL)
        return;
    struct span id = expect_some(p, "X-Request-Id");
    if (r->two_keys && r->id != NULL && span_equal(id, span_of(r->id)))
        return;
    if (id.len != 32 || !hex_valid(id))
        trace_fail("no request id: %u: %.*s", client_number(p->client), (int)id.len, id.data);
}

/* --- the response --- */

struct expected {
    int status;
    const char *error; /* NULL: none */
};

static struct expected expected_content(const struct client *c, struct response *p)
{
    const struct request *r = &c->request;
    p->is_content = true;
    p->body = r->target == TARGET_DOCUMENT ? DOCUMENT : c->answer.body;
    p->coding = r->target == TARGET_DOCUMENT ? r->preferred : c->answer.coding;
    int status = status_of_content(p);
    p->is_content = status != 412;
    return (struct expected){status, status == 412 ? "Precondition failed" : NULL};
}

static struct expected expected_of_answer(const struct client *c, struct response *p)
{
    const struct request *r = &c->request;
    if (c->refused)
        return (struct expected){429, "Too many requests"};
    if (!c->answer.given)
        trace_fail("a response without an answer of the cache: %u: %d", client_number(c), p->status);
    if (c->answer.status == CACHE_KEY_INVALID)
        return (struct expected){401, "Invalid or missing API key"};
    if (c->answer.status == CACHE_UNAVAILABLE || c->answer.status == CACHE_OUT_OF_MEMORY)
        return (struct expected){500, "Internal server error"};
    if (r->target == TARGET_LIST && !r->is_valid)
        return (struct expected){400, "Parameter page must be a positive integer"};
    if (r->target == TARGET_ID && !r->is_valid && r->number != 0) /* an integer that no channel has */
        return (struct expected){404, "Channel not found"};
    if (r->target == TARGET_ID && !r->is_valid)
        return (struct expected){400, "Parameter channel_id must be an integer"};
    if (r->target == TARGET_LINK && r->is_missing)
        return (struct expected){400, "Parameter link is required"};
    if (c->answer.status == CACHE_NOT_FOUND || (r->target == TARGET_LINK && r->link[0] == '\0'))
        return (struct expected){404, "Channel not found"};
    return expected_content(c, p);
}

/* In the order of docs/openapi.json: path, method, key, parameters. */
static struct expected expected_of(const struct client *c, struct response *p)
{
    const struct request *r = &c->request;
    if (r->two_keys)
        return (struct expected){400, "Malformed request"};
    if (r->target == TARGET_ELSEWHERE)
        return (struct expected){404, "Path not found: the API is under /api/"};
    if (r->target == TARGET_NONE)
        return (struct expected){404, "Path not found"};
    if (r->method == METHOD_OPTIONS && scenario.api_options.cors_origins.len > 0)
        return (struct expected){204, NULL};
    if (r->method > METHOD_HEAD)
        return (struct expected){405, "Method not allowed"};
    if (r->target == TARGET_DOCUMENT && !scenario.api_options.openapi_auth)
        return expected_content(c, p);
    if (r->key < 0)
        return (struct expected){401, "Invalid or missing API key"};
    return expected_of_answer(c, p);
}

static void check_text(const struct response *p, const struct expected *e, struct span body)
{
    const struct client *c = p->client;
    char error[128];
    if (e->error != NULL) {
        (void)snprintf(error, sizeof error, "{\"success\":false,\"error\":\"%s\"}", e->error);
        if (!span_equal(body, span_of(error)))
            trace_fail("another error: %u: %.*s, expected %s", client_number(c), (int)body.len, body.data,
                       error);
    } else if (c->request.target == TARGET_DOCUMENT) {
        if (!span_starts_with(body, SPAN("{\"openapi\":\"3.1")))
            trace_fail("no document: %u", client_number(c));
    } else if (p->coding == CODING_IDENTITY && hash_bytes(body, 0) != p->body) {
        trace_fail("another content: %u: %.*s", client_number(c), (int)body.len, body.data);
    }
}

/* The length of the content that follows, or of what would follow to GET. */
static size_t check_length(struct response *p, const struct expected *e)
{
    const struct client *c = p->client;
    if (p->status == 204 || p->status == 304)
        return 0;
    struct span length = expect_some(p, "Content-Length");
    size_t len = number_at(length.data, length.len);
    expect(p, "Content-Type", "application/json");
    if (e->error == NULL && c->request.target != TARGET_DOCUMENT && len != c->answer.len)
        trace_fail("another length: %u: %zu, expected %zu", client_number(c), len, c->answer.len);
    return c->request.method == METHOD_HEAD ? 0 : len;
}

static void check_fields(struct response *p)
{
    const struct request *r = &p->client->request;
    (void)expect_some(p, "Date");
    expect(p, "X-Content-Type-Options", "nosniff");
    if (r->two_keys || r->minor == 0)
        expect(p, "Connection", r->two_keys ? "close" : "keep-alive");
    if (p->is_content)
        check_content_fields(p);
    else if (p->status != 204)
        check_error_fields(p);
    check_origin(p);
    check_rate(p);
    check_request_id(p);
    if (p->count > 0)
        trace_fail("a field too many: %u: %.*s, %d", client_number(p->client), (int)p->name[0].len,
                   p->name[0].data, p->status);
}

size_t check_response(struct client *c)
{
    const char *head = c->in.data;
    struct response p = {.client = c};
    const char *end = c->in.len == 0 ? NULL : memmem(head, c->in.len, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    p.status = (int)number_at(head + 9, 3);
    read_fields(&p, (const char *)memchr(head, '\n', c->in.len) + 1, end + 2);
    struct expected e = expected_of(c, &p);
    if (p.status != e.status)
        trace_fail("another status: %u: %d, expected %d: %.*s", client_number(c), p.status, e.status,
                   (int)c->request.bytes.len, c->request.bytes.data);
    size_t len = check_length(&p, &e);
    size_t total = (size_t)(end + 4 - head) + len;
    if (c->in.len < total)
        return 0;
    if (len > 0)
        check_text(&p, &e, (struct span){end + 4, len});
    check_fields(&p);
    TRACE("client", "%u gets %d, %zu bytes", client_number(c), p.status, total);
    trace_sum((uint64_t)p.status + total);
    scenario.responses++;
    return total;
}

/* --- the end --- */

/* Each response is counted once, and once by the name of its key, if that is known. */
void check_totals(void)
{
    uint64_t requests = 0;
    uint64_t by_key = 0;
    uint64_t expected = 0;
    for (int route = 0; route < ROUTE_COUNT; route++)
        for (int i = 0; i <= REQUEST_METRICS_STATUS_COUNT; i++)
            requests += scenario.metrics.requests_total[route][i];
    if (scenario.metrics.requests_in_flight != 0)
        trace_fail("requests are in flight");
    for (int i = 0; i < KEYS; i++)
        expected += scenario.named[i];
    const struct key_metrics *m = scenario.key_metrics;
    for (int i = KEY_2XX; i <= KEY_5XX; i++) {
        by_key += m->unnamed.of[i];
        for (unsigned name = 0; name < m->used; name++)
            by_key += m->counts[name].of[i];
    }
    if (!has_fault(FAULT_CANCELS) && requests != scenario.responses)
        trace_fail("requests are counted wrongly: %llu of %llu", (unsigned long long)requests,
                   (unsigned long long)scenario.responses);
    if (by_key != expected)
        trace_fail("requests by keys are counted wrongly: %llu of %llu", (unsigned long long)by_key,
                   (unsigned long long)expected);
}
