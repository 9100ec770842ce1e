/* The table of fetches that others may join; see store_internal.h. */
#include "cache/fetch.h"

static struct span link_of(const struct fetch *f)
{
    return (struct span){f->link_text, f->link_len};
}

static uint64_t hash_of(const struct store *s, enum store_target target, int64_t number, struct span link)
{
    if (target == STORE_CARD_BY_LINK)
        return cache_hash(&s->cache, CACHE_LINK, link);
    return cache_hash(&s->cache, target == STORE_PAGE ? CACHE_PAGE : CACHE_CARD, cache_key_of(&number));
}

static uint64_t epoch_of(const struct store *s, enum store_target target)
{
    return target == STORE_PAGE ? s->index_epoch : s->flush_epoch;
}

struct fetch *join_find(struct store *s, const struct store_question *q)
{
    uint64_t epoch = epoch_of(s, q->target);
    const struct table_slot *slot = table_find(&s->joinable, hash_of(s, q->target, q->number, q->link));
    for (; slot != NULL; slot = table_find_next(&s->joinable, slot)) {
        struct fetch *f = slot->entry;
        if (f->join_epoch == epoch && f->target == q->target && f->number == q->number &&
            span_equal(link_of(f), q->link))
            return f;
    }
    return NULL;
}

/* Where there is no memory for it, nobody joins it. */
void join_add(struct store *s, struct fetch *f)
{
    f->join_hash = hash_of(s, f->target, f->number, link_of(f));
    f->join_epoch = epoch_of(s, f->target);
    f->joinable = table_add(&s->joinable, f->join_hash, f) == 0;
}

void join_remove(struct store *s, struct fetch *f)
{
    if (f->joinable)
        table_remove(&s->joinable, f->join_hash, f);
    f->joinable = false;
}
