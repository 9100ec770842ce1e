/*
 * A hash table: open addressing over hashes, which are the caller's (hash.h), and pointers. A lookup reads an
 * entry only when all 64 bits of its hash are equal, since each access is a cache miss of the processor.
 *
 * While a table grows, each addition moves some slots from the old ones to the new ones, so that none takes
 * long.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_slot {
    uint64_t hash;
    void *entry; /* NULL: the slot is free */
};

/* One of them is always free, and ends each search. */
struct table_slots {
    struct table_slot *at; /* owned; NULL: there are none */
    size_t mask;           /* their number less one, a power of two less one */
    size_t used;
};

/* Empty if all is zero. */
struct table {
    struct table_slots now, old; /* no entry is in both */
    size_t moved;                /* all before this one of the old slots are free */
};

/* Frees the slots, not the entries: the table is empty. */
void table_clear(struct table *t);

static inline size_t table_used(const struct table *t)
{
    return t->now.used + t->old.used;
}

/* The first slot with this hash from place `from` on. */
static inline struct table_slot *table_scan(const struct table_slots *s, uint64_t hash, size_t from)
{
    if (s->used == 0)
        return NULL;
    for (size_t i = from & s->mask; s->at[i].entry != NULL; i = (i + 1) & s->mask)
        if (s->at[i].hash == hash)
            return &s->at[i];
    return NULL;
}

/* The first slot with this hash, whose entry the caller compares; NULL when there is none. */
static inline struct table_slot *table_find(const struct table *t, uint64_t hash)
{
    struct table_slot *found = table_scan(&t->now, hash, hash);
    return found != NULL ? found : table_scan(&t->old, hash, hash);
}

/* The next one with the same hash. The table must not have changed since `slot` was found. */
struct table_slot *table_find_next(const struct table *t, const struct table_slot *slot);

/*
 * The next entry in the order of the table; *cursor moves on behind it and starts over at the end. NULL when
 * the next `steps` slots are free. Any cursor is valid, 0 is the first.
 */
void *table_walk(const struct table *t, size_t *cursor, int steps);

/* Adds an entry. Returns 0, or -ENOMEM when there is no room for it. */
int table_add(struct table *t, uint64_t hash, void *entry) __attribute__((warn_unused_result));

/* Removes an entry, which must be in it under this hash. */
void table_remove(struct table *t, uint64_t hash, const void *entry);

#endif
