/*
 * Cached pages. A page remembers its channels, and each channel leads back to its page, so that a change of
 * one channel finds the one body it makes untrue. The list of channels stays: only that channel has to be
 * read again.
 */
#include "store/cache_internal.h"

#include <stdlib.h>

static struct cache_member **member_slot(struct cache *c, int64_t id)
{
    uint64_t mixed = ((uint64_t)id ^ c->seed) * 0x9E3779B97F4A7C15U;
    return &c->member_bucket[(mixed >> 40) & (CACHE_MEMBER_BUCKETS - 1)];
}

static void link_member(struct cache *c, struct cache_member *m)
{
    struct cache_member **slot = member_slot(c, m->id);
    m->chain = *slot;
    *slot = m;
}

static void unlink_member(struct cache *c, struct cache_member *m)
{
    struct cache_member **at = member_slot(c, m->id);
    while (*at != m)
        at = &(*at)->chain;
    *at = m->chain;
}

void cache_page_free(struct cache *c, struct cache_page *page)
{
    if (page == NULL)
        return;
    for (int i = 0; i < page->member_count; i++)
        unlink_member(c, &page->member[i]);
    list_remove(&page->link);
    free(page);
}

static struct cache_page *page_new(struct cache *c, const struct page_info *info, const int64_t *ids,
                                   int id_count)
{
    struct cache_page *page = calloc(1, sizeof *page + (size_t)id_count * sizeof page->member[0]);
    if (page == NULL)
        return NULL;
    page->info = *info;
    page->member_count = id_count;
    list_append(&c->pages, &page->link);
    for (int i = 0; i < id_count; i++) {
        page->member[i] = (struct cache_member){NULL, page, ids[i]};
        link_member(c, &page->member[i]);
    }
    return page;
}

void cache_put_page(struct cache *c, const struct page_info *info, const int64_t *ids, int id_count,
                    struct blob *body)
{
    const struct cache_draft draft = {CACHE_PAGE, false, cache_key_of(&info->page), body};
    struct cache_entry *e = cache_insert(c, &draft);
    if (e == NULL)
        return;
    e->page = page_new(c, info, ids, id_count);
    if (e->page == NULL) {
        cache_remove(c, e);
        return;
    }
    e->page->entry = e;
    cache_settle(c, e);
}

void cache_outdate_page_of(struct cache *c, int64_t id)
{
    if (list_empty(&c->pages))
        return;
    for (struct cache_member *m = *member_slot(c, id); m != NULL; m = m->chain) {
        struct cache_entry *e = m->page->entry;
        if (m->id != id || e->body == NULL)
            continue;
        blob_unref(e->body);
        e->body = NULL;
        cache_recount(c, e);
    }
}

void cache_drop_pages(struct cache *c)
{
    while (!list_empty(&c->pages))
        cache_remove(c, LIST_ENTRY(c->pages.next, struct cache_page, link)->entry);
}
