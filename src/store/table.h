/*
 * Where the cache's entries are found: an open-addressing table of hashes and pointers.
 *
 * A look-up walks over slots that lie side by side and goes to an entry only when all 64 bits of its hash are
 * the ones looked for. With 100,000 entries each step to another place is a wait for the memory, and those
 * waits are most of what a hit costs.
 */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct cache_entry;

struct table_slot {
    uint64_t hash;
    struct cache_entry *entry; /* NULL: the slot is free */
};

struct table {
    struct table_slot *slot; /* owned; NULL in a table that holds nothing */
    size_t capacity;         /* a power of two */
    size_t used;
};

/* Returns 0 or -ENOMEM. table_fini is due in both cases; it does not touch the entries. */
int table_init(struct table *t) __attribute__((warn_unused_result));
void table_fini(struct table *t);

/* Bytes that the table itself takes. */
static inline size_t table_bytes(const struct table *t)
{
    return t->capacity * sizeof *t->slot;
}

/*
 * The next slot with this hash, for a caller who looks at the entry itself: begin at `hash`, go on at the
 * returned slot's index + 1. NULL when there is no other.
 */
static inline struct table_slot *table_next(const struct table *t, uint64_t hash, size_t from)
{
    for (size_t at = from & (t->capacity - 1); t->slot[at].entry != NULL; at = (at + 1) & (t->capacity - 1))
        if (t->slot[at].hash == hash)
            return &t->slot[at];
    return NULL;
}

static inline size_t table_index(const struct table *t, const struct table_slot *slot)
{
    return (size_t)(slot - t->slot);
}

/* Adds an entry that is not in it. Returns 0, or -ENOMEM when there is no room for it. */
int table_add(struct table *t, uint64_t hash, struct cache_entry *entry) __attribute__((warn_unused_result));

/* Takes out an entry that is in it. */
void table_remove(struct table *t, uint64_t hash, const struct cache_entry *entry);

#endif
