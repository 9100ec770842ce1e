/* The table of fetches that others may join; see store_internal.h. */
#include "store/fetch.h"

static size_t bucket_of(enum store_target target, int64_t number, struct span link)
{
    uint64_t h = (uint64_t)number * 4 + (uint64_t)target;
    for (size_t i = 0; i < link.len; i++)
        h = h * 31 + (unsigned char)link.data[i];
    return (h * 0x9E3779B97F4A7C15U) >> 54;
}

_Static_assert(STORE_JOIN_BUCKETS == 1 << (64 - 54), "the bucket is the top bits of the hash");

static struct span link_of(const struct fetch *f)
{
    return (struct span){f->link_text, f->link_len};
}

static struct fetch **slot_of(struct store *s, const struct fetch *f)
{
    return &s->joinable[bucket_of(f->target, f->number, link_of(f))];
}

struct fetch *join_find(struct store *s, const struct store_question *q)
{
    struct fetch *f = s->joinable[bucket_of(q->target, q->number, q->link)];
    while (f != NULL &&
           !(f->target == q->target && f->number == q->number && span_equal(link_of(f), q->link)))
        f = f->join_chain;
    return f;
}

void join_add(struct store *s, struct fetch *f)
{
    struct fetch **slot = slot_of(s, f);
    f->joinable = true;
    f->join_chain = *slot;
    *slot = f;
}

void join_remove(struct store *s, struct fetch *f)
{
    if (!f->joinable)
        return;
    struct fetch **at = slot_of(s, f);
    while (*at != f)
        at = &(*at)->join_chain;
    *at = f->join_chain;
    f->joinable = false;
}

void join_remove_all(struct store *s)
{
    for (int i = 0; i < STORE_JOIN_BUCKETS; i++)
        while (s->joinable[i] != NULL)
            join_remove(s, s->joinable[i]);
}
