/* The door: who waits for what, until when. See cache.h; how a question is put to Redis is in fetch.c. */
#include "cache/cache.h"

#include "base/clock.h"
#include "cache/fetch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static void on_deadline(uv_timer_t *timer);

/* All deadlines are as far away: a timer that runs already runs out in time, and is not set anew for each. */
static void arm_timer(struct cache *s)
{
    if (list_empty(&s->by_deadline) || uv_is_active((const uv_handle_t *)&s->timer))
        return;
    const struct cache_request *first = LIST_ENTRY(s->by_deadline.next, struct cache_request, deadline);
    uint64_t now = clock_now_ms();
    uv_update_time(s->timer.loop); /* its own idea of now may be as old as the turn of the loop */
    (void)uv_timer_start(&s->timer, on_deadline, first->deadline_ms > now ? first->deadline_ms - now : 1, 0);
}

static void detach(struct cache_request *request)
{
    list_remove(&request->link_in_fetch);
    list_remove(&request->deadline);
    request->fetch = NULL;
    free(request->link);
    request->link = NULL;
}

/* Nobody waits for it any more: if it was not sent, it need not be; otherwise the last of its replies ends
 * it. */
static void release_if_unwanted(struct fetch *f)
{
    bool unsent = !list_empty(&f->link);
    if (list_empty(&f->requests) && unsent)
        fetch_free(f);
}

static enum cache_source source_of(const struct cache_request *request)
{
    return request->shared ? CACHE_SOURCE_COALESCED : CACHE_SOURCE_MISS;
}

/*
 * A deadline counts when it had passed at the look before: since then the loop has polled and read all there
 * was. When this process was stopped and continued, the reply may lie in the socket.
 */
static void on_deadline(uv_timer_t *timer)
{
    struct cache *s = timer->data;
    uint64_t passed_ms = s->looked_ms;
    s->looked_ms = clock_now_ms();
    while (!list_empty(&s->by_deadline)) {
        struct cache_request *r = LIST_ENTRY(s->by_deadline.next, struct cache_request, deadline);
        struct fetch *f = r->fetch;
        if (r->deadline_ms > passed_ms)
            break;
        assert(f != NULL); /* detach() ends both the deadline and the fetch */
        metric_add(&s->options.metrics->request_timeouts_total, 1);
        detach(r);
        release_if_unwanted(f);
        r->done(r->arg, &(struct cache_result){.status = CACHE_UNAVAILABLE, .source = source_of(r)});
    }
    arm_timer(s);
}

/* --- freeing what the cache has dropped --- */

/* Between two looks at the sockets no more than so much is freed: pages take ten microseconds each. */
enum { RECLAIM_STEPS = 128 };

static void on_reclaim(uv_idle_t *idle)
{
    struct cache *s = idle->data;
    (void)entries_reclaim(&s->entries, RECLAIM_STEPS);
    if (!entries_has_excess(&s->entries))
        (void)uv_idle_stop(idle);
}

void cache_schedule_reclaim(struct cache *s)
{
    if (entries_has_excess(&s->entries))
        (void)uv_idle_start(&s->reclaim, on_reclaim); /* fails without a callback only */
}

/* --- fetches --- */

static void on_fetch_ended(struct fetch *f);

/* Sends it, or leaves it waiting for a connection. Returns 0, or -ENOMEM when there is one but nothing could
 * be sent. */
static int dispatch(struct cache *s, struct fetch *f)
{
    list_remove(&f->link);
    if (redis_connection_is_ready(s->redis_connection))
        return fetch_start(f);
    list_append(&s->waiting, &f->link);
    return 0;
}

/* The fetch that will answer: one under way, or a new one. NULL when out of memory. */
static struct fetch *find_fetch(struct cache *s, const struct cache_query *q, struct cache_miss *gap)
{
    bool shared = !gap->needs_auth; /* then the lease is fresh, the connection ready and tracking */
    struct fetch *f = shared ? inflight_find(s, q) : NULL;
    if (f != NULL) {
        page_builder_free(gap->known);
        metric_add(&s->options.metrics->cache_coalesced_total, 1);
        return f;
    }
    f = fetch_new(s, q, gap->needs_auth, gap->known);
    if (f == NULL)
        return NULL;
    f->ended = on_fetch_ended;
    if (shared)
        inflight_add(s, f);
    metric_add(&s->options.metrics->cache_misses_total, 1);
    return f;
}

/* Keeps the link that was asked for, in case the question must be put anew. Returns 0 or -ENOMEM. */
static int keep_link(struct cache_request *request, struct span link)
{
    request->link = malloc(link.len);
    if (request->link == NULL) /* ANALYZER(malloc-leak): the request owns it, and outlives this function */
        return -ENOMEM;
    memcpy(request->link, link.data, link.len);
    request->link_len = link.len;
    return 0;
}

/* True when *answer holds the answer; otherwise the request waits for its fetch. */
static bool ask(struct cache *s, struct cache_request *request, const struct cache_query *params,
                struct cache_result *answer)
{
    struct cache_miss gap;
    struct cache_query q = *params;
    if (cache_lookup(s, &q, answer, &gap))
        return true;
    answer->status = CACHE_OUT_OF_MEMORY;
    if (gap.linked && keep_link(request, params->link) != 0)
        return true;
    struct fetch *f = find_fetch(s, &q, &gap);
    if (f == NULL)
        return true;
    bool unsent = f->owed == 0 && list_empty(&f->requests);
    request->fetch = f;
    request->shared = !unsent;
    list_append(&f->requests, &request->link_in_fetch);
    if (!unsent || dispatch(s, f) == 0)
        return false;
    detach(request);
    fetch_free(f);
    return true;
}

/* Those who wait for a lost fetch ask anew: memory may do, otherwise they wait for the next connection. */
static void ask_anew(struct fetch *f)
{
    struct cache *s = f->cache;
    while (!list_empty(&f->requests)) {
        struct cache_request *r = LIST_ENTRY(f->requests.next, struct cache_request, link_in_fetch);
        struct cache_query q = {r->key, f->target, f->number, {f->link_text, f->link_len}};
        char *link = r->link;
        if (link != NULL)
            q = (struct cache_query){r->key, QUERY_CARD_BY_LINK, 0, {link, r->link_len}};
        struct cache_result answer;
        list_remove(&r->link_in_fetch);
        r->link = NULL;
        bool answered = ask(s, r, &q, &answer);
        free(link);
        if (!answered)
            continue;
        detach(r);
        r->done(r->arg, &answer);
    }
}

static void answer_all(struct fetch *f)
{
    while (!list_empty(&f->requests)) {
        struct cache_request *r = LIST_ENTRY(f->requests.next, struct cache_request, link_in_fetch);
        struct cache_result answer = f->answer;
        answer.source = source_of(r);
        if (answer.body != NULL)
            answer.body = blob_ref(answer.body);
        detach(r);
        r->done(r->arg, &answer);
    }
}

static void on_fetch_ended(struct fetch *f)
{
    inflight_remove(f->cache, f);
    cache_schedule_reclaim(f->cache);
    if (f->lost)
        ask_anew(f);
    else
        answer_all(f);
    fetch_free(f);
}

/* --- the connection --- */

static void on_ready(void *arg)
{
    struct cache *s = arg;
    struct list waiting;
    invalidation_begin(s);
    cache_schedule_reclaim(s);
    list_init(&waiting);
    list_splice(&waiting, &s->waiting);
    while (!list_empty(&waiting)) {
        struct fetch *f = LIST_ENTRY(waiting.next, struct fetch, link);
        if (dispatch(s, f) != 0)
            list_append(&s->waiting, &f->link); /* until its deadline */
    }
    s->options.on_connection(s->options.arg, true);
}

/* The connection is there: what Redis holds decides whether it is taken into use. */
static void on_handshake_done(void *arg)
{
    catalogue_check(arg);
}

static void on_heartbeat(void *arg)
{
    audit_heartbeat(arg);
    catalogue_check(arg);
}

static void on_lost(void *arg)
{
    struct cache *s = arg;
    invalidation_connection_lost(s);
    s->options.on_connection(s->options.arg, false);
}

static void on_push(void *arg, struct span kind, const redisReply *element)
{
    invalidation_push(arg, kind, element);
    cache_schedule_reclaim(arg);
}

static int open_connection(struct cache *s, uv_loop_t *loop)
{
    const struct redis_connection_options options = {
        .endpoint = s->options.target,
        .tls = s->options.tls,
        .client_name = s->options.client_name,
        .metrics = s->options.redis_metrics,
        .loop_lag = s->options.loop_lag,
        .stale_limit_ms = s->options.stale_limit_ms < s->options.stale_keys_limit_ms
                              ? s->options.stale_limit_ms
                              : s->options.stale_keys_limit_ms,
        .tracking_prefix = s->options.cache_size > 0 ? keyspace_prefix(s->options.keyspace) : SPAN_ABSENT,
        .on_handshake_done = on_handshake_done,
        .on_ready = on_ready,
        .on_heartbeat = on_heartbeat,
        .on_lost = on_lost,
        .on_push = on_push,
        .arg = s,
    };
    return redis_connection_new(loop, &options, &s->redis_connection);
}

static void fini_tables(struct cache *s)
{
    table_fini(&s->inflight);
    table_fini(&s->page_members);
    entries_fini(&s->entries);
}

int cache_new(uv_loop_t *loop, const struct cache_options *options, struct cache **out)
{
    struct cache *s = calloc(1, sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    list_init(&s->waiting);
    list_init(&s->by_deadline);
    list_init(&s->catalogue.waiting);
    api_keys_init(&s->api_keys);
    int err = entries_init(&s->entries, options->cache_size, options->metrics);
    if (err == 0)
        err = table_init(&s->inflight);
    if (err == 0)
        err = table_init(&s->page_members);
    if (err == 0)
        err = fetch_commands_init(&s->commands, options->keyspace);
    if (err == 0)
        err = open_connection(s, loop);
    if (err != 0) {
        fetch_commands_fini(&s->commands);
        fini_tables(s);
        free(s);
        return err;
    }
    (void)uv_timer_init(loop, &s->timer); /* neither can fail */
    (void)uv_idle_init(loop, &s->reclaim);
    s->timer.data = s->reclaim.data = s;
    *out = s;
    return 0;
}

static void on_part_closed(struct cache *s)
{
    if (--s->open_parts > 0)
        return;
    void (*closed)(void *arg) = s->closed;
    void *arg = s->closed_arg;
    fini_tables(s);
    api_keys_fini(&s->api_keys);
    fetch_commands_fini(&s->commands);
    buf_fini(&s->key);
    buf_fini(&s->command);
    buf_fini(&s->text);
    buf_fini(&s->audit.link);
    free(s);
    closed(arg);
}

static void on_handle_closed(uv_handle_t *handle)
{
    on_part_closed(handle->data);
}

static void on_redis_closed(void *arg)
{
    on_part_closed(arg);
}

void cache_close(struct cache *s, void (*closed)(void *arg), void *arg)
{
    s->closed = closed;
    s->closed_arg = arg;
    s->open_parts = 3;
    redis_connection_close(s->redis_connection, on_redis_closed, s);
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    uv_close((uv_handle_t *)&s->reclaim, on_handle_closed);
}

uint64_t cache_lost_ms(const struct cache *s)
{
    return s->lost_ms;
}

/* --- questions --- */

bool cache_get(struct cache *s, struct cache_request *request, const struct cache_query *params,
               struct cache_result *answer)
{
    request->fetch = NULL;
    request->link = NULL;
    request->key = params->key;
    list_init(&request->link_in_fetch);
    list_init(&request->deadline);
    if (ask(s, request, params, answer))
        return true;
    request->deadline_ms = clock_now_ms() + s->options.request_timeout_ms;
    list_append(&s->by_deadline, &request->deadline);
    arm_timer(s);
    return false;
}

void cache_cancel(struct cache_request *request)
{
    struct fetch *f = request->fetch;
    if (f == NULL)
        return;
    detach(request);
    release_if_unwanted(f);
}
