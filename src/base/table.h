/*
 * A hash table: open addressing over hashes and pointers, in segments. Hashes are the caller's (hash.h).
 *
 * A lookup walks over slots that lie side by side and reads an entry only when all 64 bits of its hash are
 * equal. With 100,000 entries each access to another place is a cache miss of the processor, and those misses
 * are most of what a lookup costs.
 *
 * The table grows by extendible hashing: a directory leads to segments of a fixed size, and a full one is
 * split in two. So an addition moves no more than one segment's slots, however many entries there are, and no
 * block of memory but the directory (8 bytes per segment) grows with the table.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { TABLE_SLOT_BITS = 11, TABLE_SEGMENT_SLOTS = 1 << TABLE_SLOT_BITS };

struct table_slot {
    uint64_t hash;
    void *entry; /* NULL: the slot is free */
};

struct table_segment {
    struct table_segment *next; /* made after this one */
    unsigned depth;             /* bits of the hash that all its entries share */
    unsigned used;
    struct table_slot slot[TABLE_SEGMENT_SLOTS];
};

struct table {
    struct table_segment **directory; /* owned; NULL in a table that holds nothing */
    size_t mask;                      /* the directory's size less one, a power of two less one */
    unsigned depth;                   /* its logarithm */
    size_t used;
    size_t segment_count;
    struct table_segment *oldest, *newest; /* owned */
};

/* Returns 0 or -ENOMEM. Call table_fini in both cases; it does not touch the entries. */
int table_init(struct table *t) __attribute__((warn_unused_result));
void table_fini(struct table *t);

/* Bytes that the table itself takes. */
size_t table_bytes(const struct table *t);

static inline struct table_segment *table_segment_of(const struct table *t, uint64_t hash)
{
    return t->directory[(hash >> TABLE_SLOT_BITS) & t->mask];
}

/* The first slot with this hash from slot `from` on; each search ends at a free slot. */
static inline struct table_slot *table_scan(struct table_segment *segment, uint64_t hash, size_t from)
{
    enum { MASK = TABLE_SEGMENT_SLOTS - 1 };
    for (size_t at = from & MASK; segment->slot[at].entry != NULL; at = (at + 1) & MASK)
        if (segment->slot[at].hash == hash)
            return &segment->slot[at];
    return NULL;
}

/* The first slot with this hash, whose entry the caller compares; NULL when there is none. */
static inline struct table_slot *table_find(const struct table *t, uint64_t hash)
{
    return table_scan(table_segment_of(t, hash), hash, hash);
}

/* The next one with the same hash. The table must not have changed since `slot` was found. */
static inline struct table_slot *table_find_next(const struct table *t, const struct table_slot *slot)
{
    struct table_segment *segment = table_segment_of(t, slot->hash);
    return table_scan(segment, slot->hash, (size_t)(slot - segment->slot) + 1);
}

/*
 * The next entry in the order of the table; *cursor moves on behind it and starts over at the end. NULL when
 * the next `steps` slots are free. Any cursor is valid, 0 is the first.
 */
void *table_walk(const struct table *t, size_t *cursor, int steps);

/* Adds an entry. Returns 0, or -ENOMEM when there is no room for it. */
int table_add(struct table *t, uint64_t hash, void *entry) __attribute__((warn_unused_result));

/* Removes an entry, which must be in it under this hash. */
void table_remove(struct table *t, uint64_t hash, const void *entry);

/*
 * Empties the table in constant time: its segments but one are put in front of those in *dead, whose owner
 * frees them one by one with table_free_dead.
 */
void table_clear(struct table *t, struct table_segment **dead);

/* The same, and frees the segments at once. Also for a table that was never initialised, but is all zeros. */
void table_reset(struct table *t);

/* Frees the first segment of *dead, which is not NULL. */
void table_free_dead(struct table_segment **dead);

#endif
