/* What cache.c and cache_page.c share. */
#ifndef CACHE_ENTRIES_INTERNAL_H
#define CACHE_ENTRIES_INTERNAL_H

#include "cache/entries.h"

/* Bytes that the allocator spends on a block; 0 for NULL. */
size_t cache_block_size(void *block);

/* What is to be kept, before it is. */
struct cache_draft {
    enum cache_kind kind;
    bool negative;
    struct span key;
    struct blob *body; /* the entry takes a reference; may be NULL */
};

/* A new entry in the place of any old one; NULL when nothing can be kept. cache_settle is due. */
struct cache_entry *cache_insert(struct cache *c, const struct cache_draft *draft);

/* Counts the bytes of a filled entry and makes room for them; the entry may be gone afterwards. */
void cache_settle(struct cache *c, struct cache_entry *e);

/* Counts again after an entry has lost a part. */
void cache_recount(struct cache *c, struct cache_entry *e);

void cache_remove(struct cache *c, struct cache_entry *e);

/* Takes a page out of the lists and frees it; its entry is still whole. NULL is allowed. */
void cache_page_free(struct cache *c, struct cache_page *page);

/* True when no dropping of all pages has come since it was put in. */
static inline bool cache_page_is_current(const struct cache *c, const struct cache_page *page)
{
    return page->epoch == c->page_epoch;
}

/* To be called around an addition to one of the tables: as they grow they take room from what they hold. */
static inline void cache_count_growth(struct cache *c, const struct table *t, size_t bytes_before)
{
    c->positive.used += table_bytes(t) - bytes_before;
}

#endif
