/* The table of fetches that others may join; see cache_internal.h. */
#include "cache/fetch.h"

static struct span link_of(const struct fetch *f)
{
    return (struct span){f->link_text, f->link_len};
}

static uint64_t hash_of(const struct cache *s, enum cache_query_type target, int64_t number, struct span link)
{
    if (target == QUERY_CARD_BY_LINK)
        return entries_hash(&s->entries, ENTRY_LINK, link);
    return entries_hash(&s->entries, target == QUERY_PAGE ? ENTRY_PAGE : ENTRY_CARD, entries_key_of(&number));
}

static uint64_t epoch_of(const struct cache *s, enum cache_query_type target)
{
    return target == QUERY_PAGE ? s->index_epoch : s->flush_epoch;
}

struct fetch *inflight_find(struct cache *s, const struct cache_query *q)
{
    uint64_t epoch = epoch_of(s, q->target);
    const struct table_slot *slot = table_find(&s->inflight, hash_of(s, q->target, q->number, q->link));
    for (; slot != NULL; slot = table_find_next(&s->inflight, slot)) {
        struct fetch *f = slot->entry;
        if (f->inflight_epoch == epoch && f->target == q->target && f->number == q->number &&
            span_equal(link_of(f), q->link))
            return f;
    }
    return NULL;
}

/* Where there is no memory for it, nobody joins it. */
void inflight_add(struct cache *s, struct fetch *f)
{
    f->inflight_hash = hash_of(s, f->target, f->number, link_of(f));
    f->inflight_epoch = epoch_of(s, f->target);
    f->inflight = table_add(&s->inflight, f->inflight_hash, f) == 0;
}

void inflight_remove(struct cache *s, struct fetch *f)
{
    if (f->inflight)
        table_remove(&s->inflight, f->inflight_hash, f);
    f->inflight = false;
}
