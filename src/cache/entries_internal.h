/* What cache.c and entry_page.c share. */
#ifndef CACHE_ENTRIES_INTERNAL_H
#define CACHE_ENTRIES_INTERNAL_H

#include "cache/entries.h"

/* Bytes that the allocator spends on a block; 0 for NULL. */
size_t entries_block_size(void *block);

/* What is to be kept, before it is. */
struct insert_params {
    enum entry_kind kind;
    bool negative;
    struct span key;
    struct blob *body; /* the entry takes a reference; may be NULL */
};

/* A new entry in the place of any old one; NULL when nothing can be kept. entries_settle is due. */
struct entry *entries_insert(struct entries *c, const struct insert_params *draft);

/* Counts the bytes of a filled entry and makes room for them; the entry may be gone afterwards. */
void entries_settle(struct entries *c, struct entry *e);

/* Counts again after an entry has lost a part. */
void entries_recount(struct entries *c, struct entry *e);

void entries_remove(struct entries *c, struct entry *e);

/* Takes a page out of the lists and frees it; its entry is still whole. NULL is allowed. */
void entries_page_free(struct entries *c, struct entry_page *page);

/* True when no dropping of all pages has come since it was put in. */
static inline bool entries_page_is_current(const struct entries *c, const struct entry_page *page)
{
    return page->epoch == c->page_epoch;
}

/* To be called around an addition to one of the tables: as they grow they take room from what they hold. */
static inline void entries_count_growth(struct entries *c, const struct table *t, size_t bytes_before)
{
    c->positive.used += table_bytes(t) - bytes_before;
}

#endif
