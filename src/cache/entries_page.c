/*
 * Cached pages. A page remembers its channels, and each channel leads back to its page, so that a change of
 * one channel finds the one body it makes untrue. The list of channels stays: only that channel has to be
 * read again.
 */
#include "cache/entries_internal.h"

#include <stdlib.h>

/* Each step can be undone, so different ids have different hashes. */
uint64_t entries_hash_id(const struct entries *c, int64_t id)
{
    uint64_t h = ((uint64_t)id ^ c->seed) * 0x9E3779B97F4A7C15U;
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93U;
    return h ^ h >> 32;
}

static void unlink_members(struct entries *c, const struct entry_page *page, int count)
{
    for (int i = 0; i < count; i++)
        table_remove(&c->members, entries_hash_id(c, page->member[i]), page->entry);
}

/* Returns 0 or -ENOMEM; then none is linked. */
static int link_members(struct entries *c, const struct entry_page *page)
{
    int err = 0;
    int linked = 0;
    size_t bytes_before = table_bytes(&c->members);
    while (linked < page->member_count && err == 0) {
        err = table_add(&c->members, entries_hash_id(c, page->member[linked]), page->entry);
        linked += err == 0;
    }
    entries_count_growth(c, &c->members, bytes_before);
    if (err != 0)
        unlink_members(c, page, linked);
    return err;
}

void entries_page_free(struct entries *c, struct entry_page *page)
{
    if (page == NULL)
        return;
    if (entries_page_is_current(c, page))
        unlink_members(c, page, page->member_count);
    list_remove(&page->link);
    free(page);
}

static struct entry_page *page_new(struct entries *c, struct entry *e, const struct page_info *info,
                                   const int64_t *ids, int id_count)
{
    struct entry_page *page = calloc(1, sizeof *page + (size_t)id_count * sizeof page->member[0]);
    if (page == NULL)
        return NULL;
    page->entry = e;
    page->epoch = c->page_epoch;
    page->info = *info;
    page->member_count = id_count;
    if (id_count > 0)
        memcpy(page->member, ids, (size_t)id_count * sizeof page->member[0]);
    if (link_members(c, page) != 0) {
        free(page);
        return NULL;
    }
    list_append(&c->pages, &page->link);
    return page;
}

void entries_put_page(struct entries *c, const struct page_info *info, const int64_t *ids, int id_count,
                      struct blob *body)
{
    const struct insert_params draft = {ENTRY_PAGE, false, entries_key_of(&info->page), body};
    struct entry *e = entries_insert(c, &draft);
    if (e == NULL)
        return;
    e->page = page_new(c, e, info, ids, id_count);
    if (e->page == NULL) {
        entries_remove(c, e);
        return;
    }
    entries_settle(c, e);
}

void entries_invalidate_page_of(struct entries *c, int64_t id)
{
    if (list_empty(&c->pages))
        return;
    const struct table_slot *slot = table_find(&c->members, entries_hash_id(c, id));
    for (; slot != NULL; slot = table_find_next(&c->members, slot)) {
        struct entry *e = slot->entry;
        if (e->body == NULL)
            continue;
        blob_unref(e->body);
        e->body = NULL;
        entries_recount(c, e);
    }
}
