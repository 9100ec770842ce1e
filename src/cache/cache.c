/*
 * The cache as a whole; see cache.h. It connects the entries, the API key set, the fetches and the
 * invalidations to one connection to Redis, and holds the requests and their deadlines.
 *
 * A request is looked up (cache_lookup) when it arrives, and again when its wait has ended (cache_get_again).
 * A hit completes it. Otherwise it waits in one of these lists:
 *   - `undrained`: invalidations that Redis sent before the request arrived may wait in the socket;
 *   - a list of the keys: its key must be checked;
 *   - `queue`: a miss, without a connection or while Redis has enough to do (fetches_have_room);
 *   - the list of the fetch that it has begun or joined.
 *
 * Invariant: a request is in one of these lists and in `by_deadline`, or it is complete. While its key is
 * REQUEST_KEY_PENDING, it may be in a list of the keys and in that of a fetch, which does not answer
 * it.
 *
 * | handle   | runs while                  | and then                                                    |
 * | -------- | --------------------------- | ----------------------------------------------------------- |
 * | `timer`  | requests wait               | requests time out whose deadline the loop has read past     |
 * | `polled` | requests are in `undrained` | they are looked up again when the socket is drained,        |
 * |          | or in `queue`               | or when there is room                                       |
 */
#include "cache/cache.h"

#include "base/clock.h"
#include "base/text.h"
#include "base/wait_group.h"
#include "cache/audit.h"
#include "cache/body.h"
#include "cache/encoder.h"
#include "cache/entries.h"
#include "cache/fetch.h"
#include "cache/keys.h"
#include "cache/stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/param.h>

struct cache {
    struct cache_options options;
    struct stream stream;
    struct entries entries;
    struct encoder encoder;
    struct keys keys;
    struct audit audit;
    struct fetches fetches;
    struct commands commands;
    struct value_reports reports;
    struct buf text;          /* scratch for a body, which is copied when its length is known */
    struct cache_parts parts; /* connects the members above with each other */

    struct list by_deadline; /* requests, in order of arrival, since all have the same timeout */
    uv_timer_t timer;        /* runs until the first deadline, and a moment longer */
    uint64_t timer_ended_ms; /* monotonic; when `timer` last ended */

    struct list undrained; /* requests that wait until the socket to Redis is drained, in order of arrival */
    uv_check_t polled;     /* runs after the loop has polled, while there are such requests, or queued ones */

    struct list queue; /* requests that wait for a connection or for room, in order of arrival */

    struct wait_group closing; /* the two handles above, and the handles of the parts */
};

static void cache_on_deadline(uv_timer_t *timer);

/* --- cache hits --- */

/* The result of a look-up, or what must be done before the next one. */
struct lookup {
    enum lookup_outcome {
        LOOKUP_MISS,
        LOOKUP_UNDRAINED, /* invalidations may wait in the socket */
        LOOKUP_UNCHECKED, /* the key must be checked first */
        LOOKUP_HIT
    } outcome;
    enum freshness freshness;
    uint64_t now;               /* by the boot clock */
    struct cache_result result; /* complete after a hit */
    struct lifetime lifetime;   /* how long the entry that was found may be served */
    uint64_t current_ms;        /* when an outdated page was current, by the boot clock; or the maximum */
};

static enum auth_result cache_check_key(struct cache *c, const struct digest *key, enum freshness freshness,
                                        uint64_t now, struct api_key_name *name)
{
    bool may_serve = stream_may_serve_keys(&c->stream, freshness, now);
    return may_serve ? keys_look_up(&c->keys, key, now, name) : AUTH_RESULT_UNKNOWN;
}

bool cache_is_key_invalid(struct cache *c, const struct digest *key, struct api_key_name *name)
{
    uint64_t now = clock_boot_ms();
    struct api_key_name same;
    (void)keys_look_up(&c->keys, key, now, name);
    return cache_check_key(c, key, stream_freshness(&c->stream, now), now, &same) == AUTH_RESULT_INVALID;
}

/* `e` may be NULL: not cached. */
static inline bool cache_hit_entry(struct cache *c, enum coding coding, struct lookup *l,
                                   const struct entry *e)
{
    if (e == NULL)
        return false;
    if (!entry_is_alive(e, l->now)) {
        entries_drop(&c->entries, (enum entry_kind)e->kind, e->number);
        return false;
    }
    l->lifetime = e->lifetime;
    l->result.status = CACHE_FOUND;
    l->result.body = coding == CODING_IDENTITY ? blob_ref(e->body) : encoder_body(&c->encoder, e, coding);
    return true;
}

/* In an outage a page is served for the stale limit since it was current. */
static bool cache_may_serve_outdated(const struct cache *c, const struct lookup *l,
                                     const struct entry_page *page)
{
    return l->freshness == FRESHNESS_STALE && l->now < page->outdated_ms + c->options.settings.stale_limit_ms;
}

static bool cache_hit_page(struct cache *c, const struct cache_query *q, struct lookup *l)
{
    const struct entry *e = entries_find(&c->entries, ENTRY_PAGE, q->number);
    if (e == NULL || !entries_has_list(&c->entries, entry_page(e)))
        return false;
    const struct entry_page *page = entry_page(e);
    if (page->outdated_ms != 0) {
        if (!cache_may_serve_outdated(c, l, page))
            return false;
        l->current_ms = page->outdated_ms;
    }
    l->result.last_page = page->info.last;
    return cache_hit_entry(c, q->coding, l, e);
}

static inline bool cache_hit(struct cache *c, const struct cache_query *q, struct lookup *l)
{
    switch (q->type) {
    case QUERY_AUTH_ONLY:
        l->result.status = CACHE_FOUND;
        return true;
    case QUERY_CARD:
        return cache_hit_entry(c, q->coding, l, entries_find(&c->entries, ENTRY_CARD, q->number));
    case QUERY_CARD_BY_LINK:
        return cache_hit_entry(c, q->coding, l, entries_find_link(&c->entries, q->link));
    case QUERY_PAGE:
        return cache_hit_page(c, q, l);
    }
    return false;
}

/* Without tracking data may have changed since it was read, other data since the stream was last whole. */
__attribute__((cold)) static void cache_set_age(const struct cache *c, struct lookup *l)
{
    bool tracked = lifetime_is_tracked(l->lifetime);
    uint64_t until_ms = l->lifetime.until_ms;
    uint64_t current_ms =
        tracked ? MIN(l->current_ms, stream_current_ms(&c->stream)) : until_ms - c->options.settings.ttl_ms;
    l->result.age_s = (int64_t)(l->now - current_ms + 999) / 1000;
    l->result.ttl_s = tracked ? -l->result.age_s : (int64_t)(until_ms - l->now) / 1000;
}

/* At FRESHNESS_NONE the key was checked, and there is nothing else to find. */
static void cache_count_hit(struct cache *c, struct lookup *l)
{
    static const enum cache_source sources[] = {[FRESHNESS_NONE] = CACHE_SOURCE_MISS,
                                                [FRESHNESS_STALE] = CACHE_SOURCE_STALE,
                                                [FRESHNESS_TTL] = CACHE_SOURCE_TTL,
                                                [FRESHNESS_FRESH] = CACHE_SOURCE_HIT};
    struct cache_metrics *m = c->options.metrics;
    l->result.source = sources[l->freshness];
    if (l->freshness == FRESHNESS_NONE)
        metric_add(&m->cache_misses_total, 1);
    else if (l->freshness == FRESHNESS_STALE)
        metric_add(&m->cache_stale_hits_total, 1);
    else
        metric_add(&m->cache_hits_total, 1);
    if (l->freshness == FRESHNESS_STALE || l->freshness == FRESHNESS_TTL)
        cache_set_age(c, l);
}

/* Whether invalidations sent before `arrived_ms` may wait in the socket, which is looked at if not known. */
static inline bool cache_is_undrained(struct cache *c, uint64_t arrived_ms)
{
    struct stream *s = &c->stream;
    if (arrived_ms >= s->drained_until_ms)
        s->drained_until_ms =
            redis_connection_drained_until_ms(redis_session_connection(c->parts.session), arrived_ms);
    return arrived_ms >= s->drained_until_ms;
}

/* The key is valid: looks up the data that is queried. Without a fresh cache there may be no data. */
static enum lookup_outcome cache_lookup_data(struct cache *c, const struct cache_query *q, struct lookup *l)
{
    bool may_hit = l->freshness != FRESHNESS_NONE || q->type == QUERY_AUTH_ONLY;
    return may_hit && cache_hit(c, q, l) ? LOOKUP_HIT : LOOKUP_MISS;
}

/* Checks the socket, then the key, and then looks up the data. The request gets the name of its key. */
static struct lookup cache_lookup(struct cache *c, struct cache_request *request)
{
    const struct cache_query *q = &request->query;
    uint64_t now = clock_boot_ms();
    struct lookup l = {.freshness = stream_freshness(&c->stream, now),
                       .now = now,
                       .result = {.key_name = &request->key_name},
                       .lifetime = LIFETIME_TRACKED,
                       .current_ms = UINT64_MAX};
    bool is_fresh = l.freshness == FRESHNESS_FRESH;
    if (is_fresh && cache_is_undrained(c, request->undrained_ms != 0 ? request->undrained_ms : now)) {
        l.outcome = LOOKUP_UNDRAINED;
        return l;
    }
    if (!c->stream.connected)
        request->key_state = REQUEST_KEY_UNCHECKED;
    enum auth_result auth = request->key_state == REQUEST_KEY_VALID
                                ? AUTH_RESULT_VALID
                                : cache_check_key(c, &q->key, l.freshness, now, &request->key_name);
    if (auth == AUTH_RESULT_UNKNOWN) {
        l.outcome = c->stream.connected ? LOOKUP_UNCHECKED : LOOKUP_MISS;
        return l;
    }
    if (auth == AUTH_RESULT_INVALID) {
        l.outcome = LOOKUP_HIT;
        l.result.status = CACHE_KEY_INVALID;
    } else {
        l.outcome = cache_lookup_data(c, q, &l);
    }
    if (l.outcome == LOOKUP_HIT)
        cache_count_hit(c, &l);
    return l;
}

/* --- requests --- */

/* All requests have the same timeout, so a running timer already ends at the first deadline. */
static void cache_arm_timer(struct cache *c)
{
    if (list_empty(&c->by_deadline) || uv_is_active((const uv_handle_t *)&c->timer))
        return;
    const struct cache_request *first = LIST_ENTRY(c->by_deadline.next, struct cache_request, deadline);
    uint64_t now = clock_now_ms();
    uv_update_time(c->timer.loop); /* libuv's time may be as old as the loop iteration */
    (void)uv_timer_start(&c->timer, cache_on_deadline,
                         first->deadline_ms > now ? first->deadline_ms - now : 1, 0);
}

/* A request is complete or cancelled. It has left its list, and now leaves the list of deadlines. */
static void cache_release(struct cache_request *request)
{
    assert(list_empty(&request->waiting) && list_empty(&request->checking));
    list_remove(&request->deadline);
    free(request->link);
    request->link = NULL;
}

static enum cache_source cache_source_of(const struct cache_request *request)
{
    return request->shared ? CACHE_SOURCE_COALESCED : CACHE_SOURCE_MISS;
}

static void cache_time_out(struct cache *c, const struct cache_request *request, struct cache_result *result)
{
    metric_add(&c->options.metrics->request_timeouts_total, 1);
    result->status = CACHE_UNAVAILABLE;
    result->source = cache_source_of(request);
}

/*
 * A request times out if its deadline had passed when the timer ended the previous time. Since then the loop
 * has read all sockets. After a stop of the process (SIGSTOP) the reply may still be in the socket.
 */
static void cache_on_deadline(uv_timer_t *timer)
{
    struct cache *c = timer->data;
    uint64_t passed_ms = c->timer_ended_ms;
    c->timer_ended_ms = clock_now_ms();
    while (!list_empty(&c->by_deadline)) {
        struct cache_request *r = LIST_ENTRY(c->by_deadline.next, struct cache_request, deadline);
        if (r->deadline_ms > passed_ms)
            break;
        struct cache_result result = {.key_name = &r->key_name};
        assert(!list_empty(&r->waiting) || !list_empty(&r->checking)); /* cache_release() ends all */
        cache_cancel(r);
        cache_time_out(c, r, &result);
        r->done(r->arg, &result);
    }
    cache_arm_timer(c);
}

/* Whether the data may be shared, and the lists of cached pages be used. */
static bool cache_is_current(const struct cache *c, const struct lookup *l)
{
    return c->stream.connected && l->freshness != FRESHNESS_NONE;
}

/* Joins a fetch in flight. */
static bool cache_join(struct cache *c, struct cache_request *request, const struct lookup *miss)
{
    struct fetch *f = cache_is_current(c, miss) ? fetches_find(&c->fetches, &request->query) : NULL;
    if (f == NULL)
        return false;
    metric_add(&c->options.metrics->cache_coalesced_total, 1);
    request->shared = true;
    fetch_join(f, &request->waiting);
    return true;
}

/* Returns 0 or -ENOMEM. */
static int cache_begin(struct cache *c, struct cache_request *request, const struct lookup *miss)
{
    request->shared = false;
    bool is_fresh = cache_is_current(c, miss);
    return fetch_begin(&c->fetches, &request->query, is_fresh, &request->waiting) != NULL ? 0 : -ENOMEM;
}

static void cache_on_polled(uv_check_t *polled);

/* Lets a request wait without a fetch until it is looked up again. */
static void cache_wait_for_lookup(struct cache *c, struct cache_request *request, enum lookup_outcome outcome)
{
    request->shared = false;
    if (outcome == LOOKUP_UNCHECKED) {
        keys_wait(&c->keys, request);
        return;
    }
    if (outcome == LOOKUP_UNDRAINED) {
        request->undrained_ms = request->undrained_ms != 0 ? request->undrained_ms : clock_boot_ms();
        list_append(&c->undrained, &request->waiting);
    } else {
        request->queued_ms = request->queued_ms != 0 ? request->queued_ms : clock_now_ms();
        list_append(&c->queue, &request->waiting);
    }
    /* The input that has to be read, or brings replies, ends the poll of the loop. */
    (void)uv_check_start(&c->polled, cache_on_polled);
}

static bool cache_may_read(struct cache *c)
{
    return c->stream.connected && fetches_have_room(&c->fetches);
}

/* Requests read in their order of arrival: a new request waits behind all that wait. */
static bool cache_must_queue(struct cache *c, const struct cache_request *request)
{
    return (request->queued_ms == 0 && !list_empty(&c->queue)) || !cache_may_read(c);
}

/* A reply would come too late: most of the timeout was spent in the queue, although Redis was connected. */
static bool cache_is_late(const struct cache *c, const struct cache_request *request)
{
    uint64_t since_ms =
        request->queued_ms > c->stream.connected_ms ? request->queued_ms : c->stream.connected_ms;
    return request->queued_ms != 0 &&
           clock_now_ms() - since_ms > c->options.settings.request_timeout_ms * 3 / 4;
}

/* Returns 0, -ENOMEM, or -ETIMEDOUT if the request has waited too long to be read now. */
static int cache_read_or_wait(struct cache *c, struct cache_request *request, const struct lookup *miss)
{
    if (cache_join(c, request, miss))
        return 0;
    if (!cache_must_queue(c, request))
        return cache_is_late(c, request) ? -ETIMEDOUT : cache_begin(c, request, miss);
    cache_wait_for_lookup(c, request, LOOKUP_MISS);
    return 0;
}

/* A request that waits copies its link, since the caller's is borrowed. Returns 0 or -ENOMEM. */
static int cache_keep_link(struct cache_request *request)
{
    struct span *link = &request->query.link;
    if (link->len == 0 || request->link != NULL)
        return 0;
    request->link = malloc(link->len);
    if (request->link == NULL) /* ANALYZER(malloc-leak): the request owns it, and outlives this function */
        return -ENOMEM;
    memcpy(request->link, link->data, link->len);
    link->data = request->link;
    return 0;
}

/* True when *result is complete; otherwise the request waits. */
static bool cache_try_get(struct cache *c, struct cache_request *request, struct cache_result *result)
{
    const struct lookup l = cache_lookup(c, request);
    *result = l.result;
    if (l.outcome == LOOKUP_HIT)
        return true;
    int err = cache_keep_link(request);
    if (err == 0 && l.outcome == LOOKUP_MISS)
        err = cache_read_or_wait(c, request, &l);
    else if (err == 0)
        cache_wait_for_lookup(c, request, l.outcome);
    if (err == 0)
        return false;
    if (err == -ETIMEDOUT)
        cache_time_out(c, request, result);
    else
        result->status = CACHE_OUT_OF_MEMORY;
    cache_release(request);
    return true;
}

bool cache_get(struct cache *c, struct cache_request *request, const struct cache_query *query,
               struct cache_result *result)
{
    request->cache = c;
    request->link = NULL;
    request->undrained_ms = request->queued_ms = 0;
    request->key_state = REQUEST_KEY_UNCHECKED;
    request->losses = request->repeats = 0;
    request->lack = REQUEST_LACKS_NOTHING;
    request->query = *query;
    api_key_name_clear(&request->key_name);
    list_init(&request->waiting);
    list_init(&request->checking);
    list_init(&request->deadline);
    if (cache_try_get(c, request, result))
        return true;
    request->deadline_ms = clock_now_ms() + c->options.settings.request_timeout_ms;
    list_append(&c->by_deadline, &request->deadline);
    cache_arm_timer(c);
    return false;
}

void cache_cancel(struct cache_request *request)
{
    if (list_empty(&request->deadline))
        return;
    list_remove(&request->waiting);
    list_remove(&request->checking);
    cache_release(request);
}

/* Called when the wait of a request has ended, or its fetch was lost with the connection. */
static void cache_get_again(struct cache *c, struct cache_request *r)
{
    struct cache_result result;
    if (r->key_state == REQUEST_KEY_PENDING)
        r->key_state = REQUEST_KEY_UNCHECKED;
    if (!cache_try_get(c, r, &result))
        return;
    cache_release(r);
    r->done(r->arg, &result);
}

static void cache_get_waiting_again(struct cache *c, struct cache_request *r)
{
    list_remove(&r->waiting);
    cache_get_again(c, r);
}

/* An iteration may read only a part of the input. Without a connection no request is undrained. */
static void cache_run_undrained(struct cache *c)
{
    while (!list_empty(&c->undrained)) {
        struct cache_request *r = LIST_ENTRY(c->undrained.next, struct cache_request, waiting);
        if (c->stream.connected && cache_is_undrained(c, r->undrained_ms))
            return;
        cache_get_waiting_again(c, r);
    }
}

static void cache_run_queue(struct cache *c)
{
    while (!list_empty(&c->queue) && cache_may_read(c))
        cache_get_waiting_again(c, LIST_ENTRY(c->queue.next, struct cache_request, waiting));
}

static void cache_on_polled(uv_check_t *polled)
{
    struct cache *c = polled->data;
    cache_run_undrained(c);
    cache_run_queue(c);
    if (list_empty(&c->undrained) && list_empty(&c->queue))
        (void)uv_check_stop(polled);
}

static void cache_answer_request(struct cache_request *r, const struct cache_result *fetched)
{
    struct cache_result result = *fetched;
    result.source = cache_source_of(r);
    if (result.key_name == NULL)
        result.key_name = &r->key_name;
    if (result.body != NULL)
        result.body = blob_ref(result.body);
    cache_release(r);
    r->done(r->arg, &result);
}

/*
 * Whether the fetch of the request has now been lost with too many connections. Its reads are sent again. But
 * one of them may be what makes Redis close the connections, as its reply exceeds client-output-buffer-limit.
 */
static bool cache_count_loss(const struct cache *c, struct cache_request *r)
{
    enum { LOSSES_MAX = 3 };
    r->losses += !c->stream.connected;
    return r->losses >= LOSSES_MAX;
}

/* What was read for a request does not count before its key is known to be valid. */
static void cache_on_ended(void *arg, struct list *requests, const struct cache_result *result)
{
    static const struct cache_result unavailable = {.status = CACHE_UNAVAILABLE};
    struct cache *c = arg;
    while (!list_empty(requests)) {
        struct cache_request *r = LIST_ENTRY(requests->next, struct cache_request, waiting);
        list_remove(&r->waiting);
        bool is_given_up = result == NULL && cache_count_loss(c, r);
        if (!list_empty(&r->checking))
            continue;
        bool is_answer = is_given_up || (result != NULL && r->key_state != REQUEST_KEY_PENDING);
        if (is_answer)
            cache_answer_request(r, is_given_up ? &unavailable : result);
        else
            cache_get_again(c, r);
    }
}

/* Called when the check of a key has ended. A request whose data is being read waits for it. */
static void cache_on_key_checked(void *arg, struct cache_request *r, const struct cache_result *result)
{
    struct cache *c = arg;
    if (result != NULL) {
        metric_add(&c->options.metrics->cache_misses_total, r->key_state != REQUEST_KEY_PENDING);
        list_remove(&r->waiting);
        cache_answer_request(r, result);
    } else if (list_empty(&r->waiting)) {
        cache_get_again(c, r);
    }
}

/* --- pushes --- */

static void cache_drop_all(void *arg)
{
    struct cache *c = arg;
    entries_clear(&c->entries);
    keys_invalidate(&c->keys);
}

static void cache_card_changed(struct cache *c, int64_t id)
{
    entries_drop(&c->entries, ENTRY_CARD, id);
    entries_drop_summary(&c->entries, id, c->stream.pong_ms);
    fetches_invalidate_card(&c->fetches, id);
}

static bool cache_is_key(const struct cache *c, struct span key, struct span name)
{
    struct span rest = keyspace_rest(c->options.keyspace, key, name);
    return rest.data != NULL && rest.len == 0;
}

static void cache_key_changed(struct cache *c, struct span key)
{
    int64_t id = 0;
    struct span card = keyspace_rest(c->options.keyspace, key, KEYSPACE_CARD);
    metric_add(&c->options.metrics->cache_invalidations_total, 1);
    if (card.data != NULL) {
        if (parse_int64(card, &id) == 0)
            cache_card_changed(c, id);
    } else if (cache_is_key(c, key, KEYSPACE_INDEX)) {
        entries_drop_lists(&c->entries);
    } else if (cache_is_key(c, key, KEYSPACE_API_KEYS) || cache_is_key(c, key, KEYSPACE_API_KEY_INFO)) {
        c->stream.keys_found = 0;
        keys_invalidate(&c->keys);
    }
}

static void cache_on_invalidated(void *arg, const struct redis_reply *key)
{
    struct cache *c = arg;
    if (c->stream.mode != STREAM_TRACKED)
        return;
    if (key->type == REPLY_STRING)
        cache_key_changed(c, reply_text(key));
    else /* null: FLUSHALL, or a full resynchronisation; otherwise a push that is too large */
        stream_flush(&c->stream);
}

/* --- the connection --- */

static void cache_on_handshake_done(void *arg, struct redis_connection *connection)
{
    struct cache *c = arg;
    stream_check(&c->stream, connection);
}

/* What older connections have read is dropped, and a key that was valid then is checked again. */
static void cache_on_ready(void *arg)
{
    struct cache *c = arg;
    stream_connected(&c->stream);
    cache_drop_all(c);
    for (struct list *at = c->by_deadline.next; at != &c->by_deadline; at = at->next)
        LIST_ENTRY(at, struct cache_request, deadline)->key_state = REQUEST_KEY_UNCHECKED;
    fetches_connected(&c->fetches);
    c->options.on_connection(c->options.arg, true);
}

static void cache_on_heartbeat(void *arg)
{
    struct cache *c = arg;
    stream_heartbeat(&c->stream);
    audit_heartbeat(&c->audit);
    keys_heartbeat(&c->keys);
    (void)entries_reclaim(&c->entries, ENTRIES_HEARTBEAT_STEPS);
}

static void cache_on_lost(void *arg)
{
    struct cache *c = arg;
    stream_lost(&c->stream, redis_session_valid_until_ms(c->parts.session));
    c->options.on_connection(c->options.arg, false);
}

/* Pending requests are read again by the next connection, which drops all entries first. */
static void cache_on_replaced(void *arg)
{
    struct cache *c = arg;
    stream_replaced(&c->stream);
}

static void cache_on_outside_read(void *arg)
{
    struct cache *c = arg;
    fetches_read_outside(&c->fetches);
}

static struct redis_tracking cache_tracking(const struct cache_options *o)
{
    if (o->settings.cache_size == 0)
        return (struct redis_tracking){.mode = REDIS_TRACKING_OFF};
    return (struct redis_tracking){.mode = o->settings.tracking == CACHE_TRACKING_BROADCAST
                                               ? REDIS_TRACKING_BROADCAST
                                               : REDIS_TRACKING_KEYS,
                                   .prefix = keyspace_prefix(o->keyspace),
                                   .names = keyspace_cached,
                                   .name_count = KEYSPACE_CACHED};
}

static int cache_open_session(struct cache *c, uv_loop_t *loop)
{
    const struct cache_options *o = &c->options;
    const struct redis_session_options options = {
        .client_name = o->client_name,
        .metrics = o->redis_metrics,
        .stale_limit_ms = MIN(o->settings.stale_limit_ms, o->stale_keys_limit_ms),
        .tracking = cache_tracking(o),
        .on_handshake_done = cache_on_handshake_done,
        .on_ready = cache_on_ready,
        .on_lost = cache_on_lost,
        .on_replaced = cache_on_replaced,
        .on_outside_read = cache_on_outside_read,
        .on_heartbeat = cache_on_heartbeat,
        .on_invalidated = cache_on_invalidated,
        .arg = c,
    };
    return redis_session_new(loop, &options, o->redis, &c->parts.session);
}

/* --- beginning and end --- */

/* Some requests need two batches in a row, and the heartbeat must be answered within its lease. */
static uint64_t cache_delay_limit_ms(const struct cache_options *o)
{
    enum { DELAY_LIMIT_MS = 200 };
    return MIN(o->settings.request_timeout_ms / 10, DELAY_LIMIT_MS);
}

static int cache_init_parts(struct cache *c)
{
    const struct cache_options *o = &c->options;
    c->parts = (struct cache_parts){
        .keyspace = o->keyspace,
        .metrics = o->metrics,
        .stream = &c->stream,
        .entries = &c->entries,
        .keys = &c->keys,
        .fetches = &c->fetches,
        .commands = &c->commands,
        .reports = &c->reports,
        .text = &c->text,
        .ended = cache_on_ended,
        .checked = cache_on_key_checked,
        .drop_all = cache_drop_all,
        .arg = c,
    };
    c->reports.metrics = o->metrics;
    c->audit.parts = &c->parts;
    stream_init(&c->stream, &c->parts, o);
    keys_init(&c->keys, &c->parts);
    entries_init(&c->entries, o->settings.cache_size, o->metrics);
    fetches_init(&c->fetches, &c->parts, cache_delay_limit_ms(o));
    return commands_init(&c->commands, o->keyspace);
}

static void cache_free(void *arg)
{
    struct cache *c = arg;
    fetches_fini(&c->fetches);
    audit_fini(&c->audit);
    commands_fini(&c->commands);
    keys_fini(&c->keys);
    entries_fini(&c->entries);
    buf_fini(&c->text);
    free(c);
}

int cache_new(uv_loop_t *loop, const struct cache_options *options, struct cache **out)
{
    struct cache *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    c->options = *options;
    list_init(&c->by_deadline);
    list_init(&c->undrained);
    list_init(&c->queue);
    int err = cache_init_parts(c);
    if (err == 0)
        err = cache_open_session(c, loop);
    if (err != 0) {
        cache_free(c);
        return err;
    }
    (void)uv_timer_init(loop, &c->timer); /* neither can fail */
    (void)uv_check_init(loop, &c->polled);
    encoder_init(&c->encoder, loop, &c->entries, options->metrics);
    c->timer.data = c->polled.data = c;
    *out = c;
    return 0;
}

static void cache_on_handle_closed(uv_handle_t *handle)
{
    struct cache *c = handle->data;
    wait_group_done(&c->closing);
}

void cache_close(struct cache *c, void (*closed)(void *arg), void *arg)
{
    assert(list_empty(&c->by_deadline));
    wait_group_add(&c->closing, 3);
    encoder_close(&c->encoder, &c->closing);
    redis_session_close(c->parts.session, wait_group_on_done, &c->closing);
    uv_close((uv_handle_t *)&c->timer, cache_on_handle_closed);
    uv_close((uv_handle_t *)&c->polled, cache_on_handle_closed);
    wait_group_close(&c->closing, cache_free, c, closed, arg);
}

int cache_use_redis(struct cache *c, struct redis_config *config)
{
    return redis_session_use(c->parts.session, config);
}

uint64_t cache_redis_number(const struct cache *c)
{
    return redis_session_config(c->parts.session)->number;
}

uint64_t cache_lost_ms(const struct cache *c)
{
    return c->stream.lost_ms;
}
