/*
 * Keeping memory true. See cache_internal.h and docs/architecture.md.
 *
 * One connection carries both our reads and Redis' invalidations. Redis queues the invalidations of a turn
 * after that turn's replies and before it writes either, so on the stream
 *   - a reply that is older than a write stands before that write's invalidation: what it said is dropped in
 * time;
 *   - a reply that stands behind an invalidation knows of the write: it may be remembered;
 *   - the writer's acknowledgement does not leave before the invalidation is queued: who has read it is at
 * most one network delay ahead of us. Hence the only rule for what one key says: apply replies and pushes
 * strictly in stream order.
 *
 * The last of these has two exceptions, which cost the rest of the turn but not the order on our stream:
 * Redis and Valkey from version 8 on with io-threads write acknowledgements while the turn goes on, and any
 * Redis does while a script is busy (longer than busy-reply-threshold). A turn that outlasts the lease leaves
 * our PING unanswered or refused: memory then speaks as for a Redis that was lost.
 *
 * A page is made of several keys read one after the other; if one of them is named while it is being put
 * together, it is answered but not remembered. What is written while there is no connection is never told, so
 * a new connection begins with nothing. A change of everything, of the index or of the keys may have left
 * nothing at all: memory is neither used nor dropped for it before a check (catalogue.c).
 */
#include "cache/fetch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"

#include <errno.h>
#include <stdlib.h>

bool invalidation_may_store(const struct cache *s)
{
    return s->options.cache_size > 0 && redis_connection_is_tracking(s->redis_connection) && !s->suspended &&
           (s->catalogue.changes & CHANGE_ALL) == 0;
}

bool invalidation_may_store_index(const struct cache *s)
{
    return invalidation_may_store(s) && (s->catalogue.changes & CHANGE_INDEX) == 0;
}

/* --- what changes --- */

static void overtake(struct cache *s, struct page_builder *p)
{
    if (p->invalidated)
        return;
    p->invalidated = true;
    const struct cache_query q = {.target = QUERY_PAGE, .number = p->number};
    struct fetch *f = inflight_find(s, &q);
    if (f != NULL && f->page == p)
        inflight_remove(s, f);
}

static void unjoin(struct cache *s, const struct cache_query *q)
{
    struct fetch *f = inflight_find(s, q);
    if (f != NULL)
        inflight_remove(s, f);
}

static void card_changed(struct cache *s, int64_t id)
{
    audit_invalidated(s, ENTRY_CARD, id, SPAN_ABSENT);
    entries_drop(&s->entries, ENTRY_CARD, entries_key_of(&id));
    entries_drop(&s->entries, ENTRY_SUMMARY, entries_key_of(&id));
    entries_invalidate_page_of(&s->entries, id);
    unjoin(s, &(struct cache_query){.target = QUERY_CARD, .number = id});
    const struct table_slot *slot = table_find(&s->page_members, entries_hash_id(&s->entries, id));
    for (; slot != NULL; slot = table_find_next(&s->page_members, slot))
        overtake(s, slot->entry);
}

static void link_changed(struct cache *s, struct span link)
{
    audit_invalidated(s, ENTRY_LINK, 0, link);
    entries_drop(&s->entries, ENTRY_LINK, link);
    unjoin(s, &(struct cache_query){.target = QUERY_CARD_BY_LINK, .link = link});
}

static void index_changed(struct cache *s)
{
    s->index_known = false;
    s->index_epoch++; /* pages that are being put together are overtaken, and nobody joins them */
    entries_drop_pages(&s->entries);
}

static void keys_changed(struct cache *s)
{
    api_keys_clear(&s->api_keys);
    s->auth_epoch++;
    api_keys_fetch_begin(s);
}

static void forget_everything(struct cache *s)
{
    metric_add(&s->options.metrics->cache_flushes_total, 1);
    entries_clear(&s->entries);
    index_changed(s);
    s->flush_epoch++; /* nobody joins what is under way */
    api_keys_clear(&s->api_keys);
    s->auth_epoch++;
}

static bool is_named(struct cache *s, struct span key,
                     void (*append)(const struct keyspace *k, struct buf *out))
{
    buf_clear(&s->key);
    append(s->options.keyspace, &s->key);
    return buf_error(&s->key) != 0 || span_equal(buf_span(&s->key), key); /* in doubt: changed */
}

/* What is under way knows of the change or not: either way it is not remembered, and nobody new joins. */
static void index_told(struct cache *s)
{
    s->index_epoch++;
    audit_invalidated(s, ENTRY_PAGE, 0, SPAN_ABSENT);
    if (!catalogue_defer(s, CHANGE_INDEX))
        index_changed(s);
}

static void keys_told(struct cache *s)
{
    audit_invalidated(s, ENTRY_AUTH, 0, SPAN_ABSENT);
    if (!catalogue_defer(s, CHANGE_KEYS))
        keys_changed(s);
}

static void everything_told(struct cache *s)
{
    s->index_epoch++;
    s->flush_epoch++;
    audit_reset(s);
    (void)catalogue_defer(s, CHANGE_ALL);
}

void invalidation_apply(struct cache *s)
{
    unsigned changes = s->catalogue.changes;
    s->catalogue.changes = 0;
    if ((changes & CHANGE_ALL) != 0) {
        forget_everything(s);
        api_keys_fetch_begin(s);
    } else {
        if ((changes & CHANGE_INDEX) != 0)
            index_changed(s);
        if ((changes & CHANGE_KEYS) != 0)
            keys_changed(s);
    }
    cache_schedule_reclaim(s);
}

static void key_changed(struct cache *s, struct span key)
{
    int64_t id = 0;
    struct span card = keyspace_card_id(s->options.keyspace, key);
    struct span link = keyspace_link_of(s->options.keyspace, key);
    loop_lag_begin(s->options.loop_lag);
    metric_add(&s->options.metrics->cache_invalidations_total, 1);
    if (card.data != NULL) {
        if (parse_int64(card, &id) == 0)
            card_changed(s, id);
    } else if (link.data != NULL) {
        link_changed(s, link);
    } else {
        if (is_named(s, key, keyspace_index))
            index_told(s);
        if (is_named(s, key, keyspace_api_keys))
            keys_told(s);
    }
}

/* Only where tests are to see what deafness looks like. */
static bool is_deaf(void)
{
#ifdef CHANNELD_TEST_HOOKS
    return getenv("CHANNELD_TEST_IGNORE_INVALIDATIONS") != NULL;
#else
    return false;
#endif
}

/*
 * A push that names many keys is applied as its elements arrive. That is right because each element can only
 * drop what is remembered, so applying it early is a drop that comes early. Nothing that is read in between
 * can be remembered wrongly: no reply stands within a push, so whatever is asked for after the first element
 * is answered by a reply behind the last one. And what the rest of the push has yet to name is served as it
 * was before the push, by which no client goes back in time: a newer value is read from behind the push only.
 * When the connection ends within a push, the next one begins with nothing.
 */
void invalidation_push(struct cache *s, struct span kind, const redisReply *element)
{
    if (is_deaf() || s->suspended || !span_equal(kind, SPAN("invalidate")))
        return;
    if (element->type == REDIS_REPLY_STRING) {
        key_changed(s, (struct span){element->str, element->len});
        return;
    }
    /* Null: FLUSHALL, or a replica's full resynchronisation. In doubt (a name too long to be read): the same.
     */
    everything_told(s);
}

/* --- connections --- */

void invalidation_suspend(struct cache *s)
{
    s->suspended = true;
    s->coherent = false;
    s->catalogue.changes = 0;
    metric_set(&s->options.metrics->cache_suspended, 1);
    forget_everything(s);
    cache_schedule_reclaim(s);
}

void invalidation_begin(struct cache *s)
{
    s->catalogue.changes = 0;
    s->catalogue.missing = s->suspended = false;
    metric_set(&s->options.metrics->cache_suspended, 0);
    audit_reset(s);
    metric_set(&s->options.metrics->catalogue_missing, 0);
    forget_everything(s);
    s->coherent = invalidation_may_store(s);
    if (s->coherent)
        api_keys_fetch_begin(s);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * Who was stopped meanwhile notices late: what was known then is as old as the lease tells. What a replica
 * without master served is as old as what it last heard. Where the catalogue is missing memory stays as it
 * was before Redis told of the change.
 */
void invalidation_connection_lost(struct cache *s)
{
    uint64_t leased = redis_connection_last_pong_ms(s->redis_connection) + CACHE_LEASE_MS;
    s->lost_ms = earlier(clock_boot_ms(), earlier(leased, redis_connection_good_ms(s->redis_connection)));
    if (s->catalogue.changes != 0)
        s->lost_ms = earlier(s->lost_ms, s->catalogue.doubted_ms);
    if (s->catalogue.missing)
        s->catalogue.changes = 0;
    else
        invalidation_apply(s);
}
