/* Putting pages together; see page_fetch.h. */
#include "cache/page_builder.h"

#include "cache/fetch.h"

#include <stdlib.h>

struct page_fetch *page_fetch_new(struct store *s, int64_t number)
{
    struct page_fetch *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->store = s;
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

static void unwatch(struct page_fetch *p)
{
    struct store *s = p->store;
    for (; p->watched > 0; p->watched--)
        table_remove(&s->page_members, cache_hash_id(&s->cache, p->id[p->watched - 1]), p);
    shrink(&s->page_members);
}

/* A page that cannot be found is as good as overtaken. Where nothing is remembered, nothing needs to be
 * found. */
void page_fetch_watch(struct page_fetch *p)
{
    struct store *s = p->store;
    if (!coherence_keeps(s))
        return;
    while (p->watched < p->count && !p->overtaken) {
        uint64_t hash = cache_hash_id(&s->cache, p->id[p->watched]);
        p->overtaken = table_add(&s->page_members, hash, p) != 0;
        p->watched += !p->overtaken;
    }
}

bool page_fetch_is_overtaken(const struct page_fetch *p)
{
    return p->overtaken || p->index_epoch != p->store->index_epoch;
}

static void drop_items(struct page_fetch *p)
{
    for (int i = 0; i < p->count; i++) {
        blob_unref(p->item[i]);
        p->item[i] = NULL;
    }
}

void page_fetch_free(struct page_fetch *p)
{
    if (p == NULL)
        return;
    unwatch(p);
    drop_items(p);
    free(p);
}

void page_fetch_reset(struct page_fetch *p)
{
    unwatch(p);
    drop_items(p);
    p->count = p->next = p->strangers = 0;
    p->overtaken = false;
    p->index_epoch = p->store->index_epoch;
}

int page_fetch_gather(struct page_fetch *p)
{
    struct store *s = p->store;
    int needed = 0;
    for (int i = 0; i < p->count; i++) {
        struct cache_entry *e = cache_find(&s->cache, CACHE_SUMMARY, cache_key_of(&p->id[i]));
        p->gap[i] = PAGE_GAP_NONE;
        if (e != NULL && e->body != NULL && p->item[i] == NULL)
            p->item[i] = blob_ref(e->body);
        needed += p->item[i] == NULL;
    }
    p->next = 0;
    return needed;
}

int page_fetch_next(struct page_fetch *p)
{
    while (p->next < p->count && p->item[p->next] != NULL)
        p->next++;
    return p->next < p->count ? p->next++ : -1;
}

bool page_fetch_is_incomplete(const struct page_fetch *p)
{
    bool incomplete = p->strangers > 0;
    for (int i = 0; i < p->count; i++)
        incomplete = incomplete || p->gap[i] == PAGE_GAP_ABSENT;
    return incomplete;
}

bool page_fetch_lacks_something(const struct page_fetch *p)
{
    if (p->count == 0)
        return p->entries == 0 || p->number <= page_last(p->entries);
    return page_fetch_is_incomplete(p);
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
static void report_gaps(const struct page_fetch *p)
{
    struct store *s = p->store;
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
static int64_t last_page(const struct page_fetch *p)
{
    int64_t last = page_last(p->entries);
    if (p->has_next && last <= p->number)
        return p->number + 1;
    if (!p->has_next && last > p->number)
        return p->number;
    return last;
}

static void write_items(const struct page_fetch *p, struct buf *out, int *written)
{
    for (int i = 0; i < p->count; i++) {
        if (p->item[i] == NULL)
            continue;
        if ((*written)++ > 0)
            buf_append_char(out, ',');
        buf_append(out, p->item[i]->data, p->item[i]->len);
    }
}

struct blob *page_fetch_compose(struct page_fetch *p, int64_t *last)
{
    struct store *s = p->store;
    struct page_info info = {.page = p->number, .last = last_page(p), .has_next = p->has_next};
    struct buf *text = &s->text;
    buf_recycle(text, STORE_TEXT_KEPT);
    document_begin_page(text);
    write_items(p, text, &info.count);
    document_end_page(text, &info);
    struct blob *body = buf_error(text) == 0 ? blob_new_tagged(buf_span(text)) : NULL;
    if (body != NULL && coherence_keeps_index(s) && !page_fetch_is_overtaken(p))
        cache_put_page(&s->cache, &info, p->id, p->count, body);
    report_gaps(p);
    *last = info.last;
    return body;
}
