/*
 * Keeping memory true. See store_internal.h and docs/architecture.md.
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

bool coherence_keeps(const struct store *s)
{
    return s->options.cache_size > 0 && rconn_is_tracking(s->rconn) && !s->distrusted &&
           (s->catalogue.changes & CHANGE_ALL) == 0;
}

bool coherence_keeps_index(const struct store *s)
{
    return coherence_keeps(s) && (s->catalogue.changes & CHANGE_INDEX) == 0;
}

/* --- what changes --- */

static void overtake(struct store *s, struct page_fetch *p)
{
    if (p->overtaken)
        return;
    p->overtaken = true;
    const struct store_question q = {.target = STORE_PAGE, .number = p->number};
    struct fetch *f = join_find(s, &q);
    if (f != NULL && f->page == p)
        join_remove(s, f);
}

static void unjoin(struct store *s, const struct store_question *q)
{
    struct fetch *f = join_find(s, q);
    if (f != NULL)
        join_remove(s, f);
}

static void card_changed(struct store *s, int64_t id)
{
    audit_told(s, CACHE_CARD, id, SPAN_ABSENT);
    cache_drop(&s->cache, CACHE_CARD, cache_key_of(&id));
    cache_drop(&s->cache, CACHE_SUMMARY, cache_key_of(&id));
    cache_outdate_page_of(&s->cache, id);
    unjoin(s, &(struct store_question){.target = STORE_CARD, .number = id});
    const struct table_slot *slot = table_find(&s->page_members, cache_hash_id(&s->cache, id));
    for (; slot != NULL; slot = table_find_next(&s->page_members, slot))
        overtake(s, slot->entry);
}

static void link_changed(struct store *s, struct span link)
{
    audit_told(s, CACHE_LINK, 0, link);
    cache_drop(&s->cache, CACHE_LINK, link);
    unjoin(s, &(struct store_question){.target = STORE_CARD_BY_LINK, .link = link});
}

static void index_changed(struct store *s)
{
    s->index_known = false;
    s->index_epoch++; /* pages that are being put together are overtaken, and nobody joins them */
    cache_drop_pages(&s->cache);
}

static void keys_changed(struct store *s)
{
    keyring_forget(&s->keyring);
    s->verdict_epoch++;
    keyring_fetch_begin(s);
}

static void forget_everything(struct store *s)
{
    metric_add(&s->options.metrics->cache_flushes_total, 1);
    cache_clear(&s->cache);
    index_changed(s);
    s->flush_epoch++; /* nobody joins what is under way */
    keyring_forget(&s->keyring);
    s->verdict_epoch++;
}

static bool is_named(struct store *s, struct span key,
                     void (*append)(const struct keyspace *k, struct buf *out))
{
    buf_clear(&s->key);
    append(s->options.keyspace, &s->key);
    return buf_error(&s->key) != 0 || span_equal(buf_span(&s->key), key); /* in doubt: changed */
}

/* What is under way knows of the change or not: either way it is not remembered, and nobody new joins. */
static void index_told(struct store *s)
{
    s->index_epoch++;
    audit_told(s, CACHE_PAGE, 0, SPAN_ABSENT);
    if (!catalogue_doubt(s, CHANGE_INDEX))
        index_changed(s);
}

static void keys_told(struct store *s)
{
    audit_told(s, CACHE_VERDICT, 0, SPAN_ABSENT);
    if (!catalogue_doubt(s, CHANGE_KEYS))
        keys_changed(s);
}

static void everything_told(struct store *s)
{
    s->index_epoch++;
    s->flush_epoch++;
    audit_forget(s);
    (void)catalogue_doubt(s, CHANGE_ALL);
}

void coherence_apply(struct store *s)
{
    unsigned changes = s->catalogue.changes;
    s->catalogue.changes = 0;
    if ((changes & CHANGE_ALL) != 0) {
        forget_everything(s);
        keyring_fetch_begin(s);
    } else {
        if ((changes & CHANGE_INDEX) != 0)
            index_changed(s);
        if ((changes & CHANGE_KEYS) != 0)
            keys_changed(s);
    }
    store_reclaim_later(s);
}

static void key_changed(struct store *s, struct span key)
{
    int64_t id = 0;
    struct span card = keyspace_card_id(s->options.keyspace, key);
    struct span link = keyspace_link_of(s->options.keyspace, key);
    metrics_turn_begins(s->options.metrics);
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
void coherence_push(struct store *s, struct span kind, const redisReply *element)
{
    if (is_deaf() || s->distrusted || !span_equal(kind, SPAN("invalidate")))
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

void coherence_distrust(struct store *s)
{
    s->distrusted = true;
    s->coherent = false;
    s->catalogue.changes = 0;
    metric_set(&s->options.metrics->cache_suspended, 1);
    forget_everything(s);
    store_reclaim_later(s);
}

void coherence_begin(struct store *s)
{
    s->catalogue.changes = 0;
    s->catalogue.missing = s->distrusted = false;
    metric_set(&s->options.metrics->cache_suspended, 0);
    audit_forget(s);
    metric_set(&s->options.metrics->catalogue_missing, 0);
    forget_everything(s);
    s->coherent = coherence_keeps(s);
    if (s->coherent)
        keyring_fetch_begin(s);
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
void coherence_lost(struct store *s)
{
    uint64_t leased = rconn_proven_ms(s->rconn) + COHERENCE_LEASE_MS;
    s->lost_ms = earlier(clock_boot_ms(), earlier(leased, rconn_good_ms(s->rconn)));
    if (s->catalogue.changes != 0)
        s->lost_ms = earlier(s->lost_ms, s->catalogue.doubted_ms);
    if (s->catalogue.missing)
        s->catalogue.changes = 0;
    else
        coherence_apply(s);
}
