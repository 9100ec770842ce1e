/*
 * Replaces the cache: a catalogue whose objects have versions, and keys that are valid or not. It answers at
 * once, later or never; from the cache or not; coded or not. It also has the rates of keys, by the algorithm
 * of docs/design.md.
 */
#include "base/compress.h"
#include "base/hash.h"
#include "simulation/api/scenario.h"
#include "simulation/events.h"
#include "simulation/loop.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/trace.h"

#include <stdio.h>
#include <string.h>

/* A key that loses its bucket takes another, of which its set has seven. */
enum { VERSIONS = 16, LAST_PAGE = 3, TOGGLES = 2 * (RATE_LIMIT_WAYS - 1) };

static struct {
    bool valid;
    bool counted;              /* it has a bucket */
    uint64_t tat_ns, begun_ns; /* when it is full; when the bucket began, or the one before */
} keys[KEYS];

static const struct api_key_name names[KEYS] = {{5, "alpha"}, {0, ""}, {3, "old"}, {3, "tog"}, {-1, ""}};
static unsigned version[VERSIONS], toggled;
static struct cache_request *pending[STREAMS_MAX];
static struct cache_query queries[STREAMS_MAX];
static char links[STREAMS_MAX][512];

static unsigned below(unsigned n)
{
    return random_below(STREAM_SERVER, n);
}

void answers_begin(void)
{
    memset(version, 0, sizeof version);
    toggled = 0;
    memset(pending, 0, sizeof pending);
    for (int i = 0; i < KEYS; i++) {
        keys[i].valid = i < 2 || i == 3;
        keys[i].counted = false;
        keys[i].tat_ns = keys[i].begun_ns = 0;
    }
}

void answers_change(void)
{
    if (has_fault(FAULT_CHANGES))
        version[below(VERSIONS)]++;
    if (has_fault(FAULT_KEYS) && below(4) == 0 && toggled < TOGGLES) {
        keys[3].valid = !keys[3].valid;
        toggled++;
    }
}

const char *answers_key_name(int key)
{
    return key == 4 ? NULL : names[key].text;
}

/* --- rates: GCRA --- */

static bool is_limited(void)
{
    return scenario.policy.requests > 0;
}

/* To the nanosecond, so nothing is left to choice. A new bucket does not begin before the one before it. */
static void count(struct client *c, int key)
{
    const struct rate_policy *p = &scenario.policy;
    uint64_t each_ns = p->window_s * SECOND / p->requests + (p->window_s * SECOND % p->requests != 0);
    uint64_t at_ns = c->began_ns;
    if (!keys[key].counted) {
        at_ns = at_ns > keys[key].begun_ns ? at_ns : keys[key].begun_ns;
        keys[key].tat_ns = keys[key].begun_ns = at_ns;
    }
    uint64_t from_ns = keys[key].tat_ns > at_ns ? keys[key].tat_ns : at_ns;
    keys[key].counted = true;
    c->refused = from_ns + each_ns > at_ns + each_ns * p->burst;
    c->rate.outcome = c->refused ? RATE_REFUSED : RATE_GRANTED;
    c->rate.remaining = 0;
    TRACE("rate", "%u: key %d, %s", client_number(c), key, c->refused ? "refused" : "granted");
    if (c->refused)
        return;
    keys[key].tat_ns = from_ns + each_ns;
    c->rate.remaining = (uint32_t)((each_ns * p->burst - (keys[key].tat_ns - at_ns)) / each_ns);
}

void answers_handle(struct client *c, uint64_t at_ns)
{
    const struct request *r = &c->request;
    bool needs_key =
        r->target > TARGET_DOCUMENT || (r->target == TARGET_DOCUMENT && scenario.api_options.openapi_auth);
    c->began_ns = at_ns;
    if (!is_limited() || !needs_key || r->key < 0 || r->method > METHOD_HEAD || !keys[r->key].counted)
        return;
    count(c, r->key);
    if (!c->refused || keys[r->key].valid)
        return;
    c->refused = keys[r->key].counted = false;
    c->rate.outcome = RATE_NONE;
}

/* After a query. */
static void count_result(struct client *c, int key, enum cache_status status, bool is_valid)
{
    if (!is_limited())
        return;
    if (status == CACHE_KEY_INVALID && c->rate.outcome != RATE_NONE) {
        keys[key].counted = false;
        c->rate.outcome = RATE_NONE;
    } else if (is_valid && c->rate.outcome == RATE_NONE) {
        count(c, key);
    }
}

/* --- objects --- */

static uint64_t object_of(const struct cache_query *q)
{
    if (q->type == QUERY_CARD_BY_LINK)
        return hash_bytes(q->link, 1);
    return hash_int64(q->number, q->type);
}

void answers_write(struct buf *out, const struct cache_query *q)
{
    uint64_t object = object_of(q);
    buf_printf(out, "{\"success\":true,\"data\":{\"object\":%llu,\"version\":%u}}",
               (unsigned long long)object, version[object % VERSIONS]);
    for (uint64_t i = object % 7 == 0 ? 3000 : 0; i > 0; i--)
        buf_append_char(out, ' ');
}

static struct blob *make_body(struct client *c, const struct cache_query *q)
{
    struct buf text = BUF_INIT;
    answers_write(&text, q);
    struct blob *plain = blob_new_headroom(buf_span(&text), 0);
    struct blob *body = plain;
    c->answer.body = hash_bytes(buf_span(&text), 0);
    if (q->coding != CODING_IDENTITY && below(2) == 0) {
        body = blob_new_coded((struct span){text.data, text.len / 2}, q->coding, plain);
        blob_unref(plain);
    }
    c->answer.coding = (enum coding)body->coding;
    c->answer.len = body->len;
    buf_fini(&text);
    return body;
}

static enum cache_status status_of(const struct cache_query *q, int key)
{
    if (has_fault(FAULT_CACHE) && below(12) == 0)
        return below(8) == 0 ? CACHE_OUT_OF_MEMORY : CACHE_UNAVAILABLE;
    if (!keys[key].valid)
        return CACHE_KEY_INVALID;
    if (q->type == QUERY_CARD || q->type == QUERY_CARD_BY_LINK)
        return object_of(q) % 3 == 0 ? CACHE_NOT_FOUND : CACHE_FOUND;
    return CACHE_FOUND;
}

static void make_result(struct client *c, const struct cache_query *q, bool later, struct cache_result *out)
{
    int key = c->request.key;
    *out = (struct cache_result){.status = status_of(q, key), .key_name = &names[key]};
    struct answer *a = &c->answer;
    a->given = true;
    a->status = out->status;
    bool has_body = out->status == CACHE_FOUND && q->type != QUERY_AUTH_ONLY;
    if (out->status == CACHE_FOUND || out->status == CACHE_NOT_FOUND)
        out->source = later ? CACHE_SOURCE_MISS : CACHE_SOURCE_HIT;
    if (has_body && has_fault(FAULT_CACHE) && !later && below(4) == 0) {
        out->source = below(2) == 0 ? CACHE_SOURCE_STALE : CACHE_SOURCE_TTL;
        out->age_s = a->age_s = below(100);
        out->ttl_s = a->ttl_s = (int64_t)below(100) - 50;
    }
    if (has_body)
        out->body = make_body(c, q);
    out->last_page = a->last_page = LAST_PAGE;
    a->source = out->source;
    trace_sum(a->body + out->status);
    TRACE("cache", "%u: %d of key %d", client_number(c), (int)out->status, key);
    bool has_failed = out->status == CACHE_UNAVAILABLE || out->status == CACHE_OUT_OF_MEMORY;
    bool is_named = names[key].len >= 0 && (!has_failed || (keys[key].valid && below(2) == 0));
    count_result(c, key, out->status, out->status != CACHE_KEY_INVALID && (is_named || !has_failed));
    if (is_named)
        scenario.named[key]++;
    else
        out->key_name = NULL;
}

/* --- the functions of cache/cache.h --- */

static void on_posted(void *arg)
{
    struct client *c = arg;
    unsigned n = client_number(c);
    struct cache_request *request = pending[n];
    struct cache_result result;
    if (request == NULL)
        return;
    pending[n] = NULL;
    scenario.current = c;
    make_result(c, &queries[n], true, &result);
    request->done(request->arg, &result);
}

static void on_due(void *arg, uint64_t number)
{
    (void)number;
    loop_post(on_posted, arg);
}

bool cache_get(struct cache *cache, struct cache_request *request, const struct cache_query *query,
               struct cache_result *result)
{
    struct client *c = scenario.current;
    unsigned n = client_number(c);
    (void)cache;
    check_query(c, query);
    c->answer.asked = true;
    if (!has_fault(FAULT_CACHE) || below(3) != 0) {
        make_result(c, query, false, result);
        return true;
    }
    queries[n] = *query;
    memcpy(links[n], query->link.data == NULL ? "" : query->link.data, query->link.len);
    queries[n].link.data = links[n];
    pending[n] = request;
    events_add_in((uint64_t)MS + random_duration(STREAM_SERVER, SECOND), on_due, c, 0);
    return false;
}

void cache_cancel(struct cache_request *request)
{
    for (unsigned i = 0; i < STREAMS_MAX; i++)
        if (pending[i] == request)
            pending[i] = NULL;
    scenario.cancelled++;
}

bool cache_is_key_invalid(struct cache *cache, const struct digest *key, struct api_key_name *name)
{
    int n = scenario.current->request.key;
    (void)cache;
    (void)key;
    *name = names[n];
    if (keys[n].valid)
        scenario.named[n]++;
    return !keys[n].valid;
}

/* --- in place of base/compress.c: coding the document takes longer than a run --- */

struct compressor *compressor_new(void)
{
    static char any;
    return (struct compressor *)&any;
}

void compressor_free(struct compressor *c)
{
    (void)c;
}

size_t compressor_run(struct compressor *c, enum coding coding, struct span in, char *out, size_t room)
{
    size_t len = in.len / (coding + 1U);
    (void)c;
    (void)room;
    memcpy(out, in.data, len);
    return len;
}
