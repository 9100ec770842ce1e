/*
 * Asserts that the bytes and numbers of a cache are the sums of its entries and tables, and that every entry
 * can be found. Takes time in proportion to the entries.
 */
#ifndef TEST_UNIT_ENTRIES_CHECK_H
#define TEST_UNIT_ENTRIES_CHECK_H

#include "base/allocator.h"
#include "base/hash.h"
#include "cache/entries.h"

#include <assert.h>

/* Returns the bytes of the coded bodies. */
static inline size_t entries_check_coded(const struct entry *e)
{
    size_t bytes = 0;
    for (int i = 0; i < CODINGS - 1; i++) {
        struct blob *b = e->coded[i];
        char etag[BLOB_ETAG_MAX];
        if (b == NULL)
            continue;
        bytes += allocator_block_size(blob_block(b));
        assert(b->coding == i + 1 && b->len < e->body->len);
        assert(span_equal(blob_etag(b), blob_etag_coded(e->body, (enum coding)b->coding, etag)));
    }
    return bytes;
}

/* The bytes of an entry without its coded bodies, as the allocator counts, and of its places in tables. */
static inline size_t entries_check_plain(struct entry *e)
{
    size_t slots = e->kind == ENTRY_CARD ? 2 : (size_t)entry_page(e)->member_count + 1;
    return (e->in_headroom ? 0 : allocator_block_size(e)) + allocator_block_size(blob_block(e->body)) +
           slots * 2 * sizeof(struct table_slot);
}

static inline bool entries_check_has(const struct table *t, uint64_t hash, const struct entry *e)
{
    const struct table_slot *slot = table_find(t, hash);
    while (slot != NULL && slot->entry != e)
        slot = table_find_next(t, slot);
    return slot != NULL;
}

static inline void entries_check_live(const struct entries *es, const struct entry *e)
{
    struct span link = {e->link, e->link_len};
    assert(entries_peek(es, (enum entry_kind)e->kind, e->number) == e);
    assert(e->link_len == 0 || entries_check_has(&es->links, hash_bytes(link, es->seed), e));
}

struct entries_sum {
    size_t count, linked, bytes, coded;
};

/* Adds up the entries of a list of nodes. */
static inline struct entries_sum entries_check_list(const struct entries *es, const struct list *list,
                                                    bool live)
{
    struct entries_sum sum = {0};
    for (struct list *at = list->next; at != list; at = at->next) {
        struct sieve_node *node = LIST_ENTRY(at, struct sieve_node, link);
        struct entry *e = LIST_ENTRY(node, struct entry, node);
        if (live)
            entries_check_live(es, e);
        sum.count++;
        sum.linked += e->link_len > 0;
        sum.bytes += entries_check_plain(e) + entries_check_coded(e);
        sum.coded += entries_check_coded(e);
    }
    return sum;
}

static inline void entries_check(const struct entries *es)
{
    struct entries_sum live = entries_check_list(es, &es->sieve.queue, true);
    struct entries_sum dead = entries_check_list(es, &es->dead, false);
    assert(live.count == table_used(&es->table) && live.linked == table_used(&es->links));
    assert(live.count + dead.count == es->metrics->cache_entries);
    assert(live.bytes + dead.bytes == es->used);
    assert(live.coded + dead.coded == es->metrics->cache_coded_bytes);
}

/*
 * The entries of the cache that a program has made last, which is linked with --wrap=entries_init; and in
 * place of that function. For one file of a program.
 */
#ifdef ENTRIES_CHECK_WRAP
static const struct entries *cache_entries;

void __real_entries_init(struct entries *es, size_t budget, struct cache_metrics *metrics);
void __wrap_entries_init(struct entries *es, size_t budget, struct cache_metrics *metrics);

void __wrap_entries_init(struct entries *es, size_t budget, struct cache_metrics *metrics)
{
    cache_entries = es;
    __real_entries_init(es, budget, metrics);
}
#endif

#endif
