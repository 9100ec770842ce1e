/* Putting pages together; see page_builder.h. */
#include "cache/page_builder.h"

#include "cache/fetch.h"

#include <stdlib.h>

struct page_builder *page_builder_new(struct cache *s, int64_t number)
{
    struct page_builder *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->cache = s;
    p->number = number;
    p->index_epoch = s->index_epoch;
    return p;
}

/* What has grown for many pages at a time is given back when there is none any more. */
static void shrink(struct table *t)
{
    struct table_segment *unused = NULL;
    if (t->used > 0 || t->segment_count == 1)
        return;
    table_clear(t, &unused);
    while (unused != NULL)
        table_free_dead(&unused);
}

static void unwatch(struct page_builder *p)
{
    struct cache *s = p->cache;
    for (; p->watched > 0; p->watched--)
        table_remove(&s->page_members, entries_hash_id(&s->entries, p->id[p->watched - 1]), p);
    shrink(&s->page_members);
}

/* A page that cannot be found is as good as overtaken. Where nothing is remembered, nothing needs to be
 * found. */
void page_builder_watch(struct page_builder *p)
{
    struct cache *s = p->cache;
    if (!invalidation_may_store(s))
        return;
    while (p->watched < p->count && !p->invalidated) {
        uint64_t hash = entries_hash_id(&s->entries, p->id[p->watched]);
        p->invalidated = table_add(&s->page_members, hash, p) != 0;
        p->watched += !p->invalidated;
    }
}

bool page_builder_is_overtaken(const struct page_builder *p)
{
    return p->invalidated || p->index_epoch != p->cache->index_epoch;
}

static void drop_items(struct page_builder *p)
{
    for (int i = 0; i < p->count; i++) {
        blob_unref(p->item[i]);
        p->item[i] = NULL;
    }
}

void page_builder_free(struct page_builder *p)
{
    if (p == NULL)
        return;
    unwatch(p);
    drop_items(p);
    free(p);
}

void page_builder_reset(struct page_builder *p)
{
    unwatch(p);
    drop_items(p);
    p->count = p->next = p->strangers = 0;
    p->invalidated = false;
    p->index_epoch = p->cache->index_epoch;
}

int page_builder_gather(struct page_builder *p)
{
    struct cache *s = p->cache;
    int needed = 0;
    for (int i = 0; i < p->count; i++) {
        struct entry *e = entries_find(&s->entries, ENTRY_SUMMARY, entries_key_of(&p->id[i]));
        p->gap[i] = PAGE_GAP_NONE;
        if (e != NULL && e->body != NULL && p->item[i] == NULL)
            p->item[i] = blob_ref(e->body);
        needed += p->item[i] == NULL;
    }
    p->next = 0;
    return needed;
}

int page_builder_next(struct page_builder *p)
{
    while (p->next < p->count && p->item[p->next] != NULL)
        p->next++;
    return p->next < p->count ? p->next++ : -1;
}

bool page_builder_is_incomplete(const struct page_builder *p)
{
    bool incomplete = p->strangers > 0;
    for (int i = 0; i < p->count; i++)
        incomplete = incomplete || p->gap[i] == PAGE_GAP_ABSENT;
    return incomplete;
}

bool page_builder_lacks_something(const struct page_builder *p)
{
    if (p->count == 0)
        return p->entries == 0 || p->number <= page_last(p->entries);
    return page_builder_is_incomplete(p);
}

static const char *describe_gap(enum page_gap gap)
{
    switch (gap) {
    case PAGE_GAP_WRONG_TYPE:
        return "its card is not a hash";
    case PAGE_GAP_OVERSIZE:
        return "its card is too large";
    default:
        return "no card";
    }
}

/* Counts the members of the index that are left out, and logs each id once. */
static void report_gaps(const struct page_builder *p)
{
    struct cache *s = p->cache;
    int left_out = p->strangers;
    for (int i = 0; i < p->count; i++) {
        if (p->gap[i] == PAGE_GAP_NONE)
            continue;
        left_out++;
        fetch_report_left_out(s, p->id[i], describe_gap(p->gap[i]));
    }
    metric_add(&s->options.metrics->dangling_index_entries_total, (uint64_t)left_out);
}

/* The size of the index and the ids were read one after the other; the page must not contradict itself. */
static int64_t last_page(const struct page_builder *p)
{
    int64_t last = page_last(p->entries);
    if (p->has_next && last <= p->number)
        return p->number + 1;
    if (!p->has_next && last > p->number)
        return p->number;
    return last;
}

static void write_items(const struct page_builder *p, struct buf *out, int *written)
{
    for (int i = 0; i < p->count; i++) {
        if (p->item[i] == NULL)
            continue;
        if ((*written)++ > 0)
            buf_append_char(out, ',');
        buf_append(out, p->item[i]->data, p->item[i]->len);
    }
}

struct blob *page_builder_compose(struct page_builder *p, int64_t *last)
{
    struct cache *s = p->cache;
    struct page_info info = {.page = p->number, .last = last_page(p), .has_next = p->has_next};
    struct buf *text = &s->text;
    buf_recycle(text, CACHE_TEXT_KEPT);
    document_begin_page(text);
    write_items(p, text, &info.count);
    document_end_page(text, &info);
    struct blob *body = buf_error(text) == 0 ? blob_new_tagged(buf_span(text)) : NULL;
    if (body != NULL && invalidation_may_store_index(s) && !page_builder_is_overtaken(p))
        entries_put_page(&s->entries, &info, p->id, p->count, body);
    report_gaps(p);
    *last = info.last;
    return body;
}
