/*
 * Linear probing with removal by shifting back, so that there are no tombstones; see table.h. The low bits of
 * a hash are the place in a segment; the bits above them select the segment.
 */
#include "base/table.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_MASK = TABLE_SEGMENT_SLOTS - 1, FULL = TABLE_SEGMENT_SLOTS / 4 * 3 };

static struct table_segment *table_add_segment(struct table *t, unsigned depth)
{
    struct table_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL)
        return NULL;
    segment->depth = depth;
    if (t->newest != NULL)
        t->newest->next = segment;
    else
        t->oldest = segment;
    t->newest = segment;
    t->segment_count++;
    return segment;
}

int table_init(struct table *t)
{
    *t = (struct table){.directory = NULL};
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): these are pointers */
    t->directory = malloc(sizeof *t->directory);
    struct table_segment *first = table_add_segment(t, 0);
    if (t->directory == NULL || first == NULL)
        return -ENOMEM;
    t->directory[0] = first;
    return 0;
}

void table_free_dead(struct table_segment **dead)
{
    struct table_segment *segment = *dead;
    *dead = segment->next;
    free(segment);
}

void table_reset(struct table *t)
{
    struct table_segment *dead = NULL;
    if (t->directory != NULL)
        table_clear(t, &dead);
    while (dead != NULL)
        table_free_dead(&dead);
}

void table_fini(struct table *t)
{
    while (t->oldest != NULL)
        table_free_dead(&t->oldest);
    free(t->directory);
    *t = (struct table){.directory = NULL};
}

static size_t table_directory_size(const struct table *t)
{
    return t->directory == NULL ? 0 : t->mask + 1;
}

size_t table_bytes(const struct table *t)
{
    return table_directory_size(t) * sizeof(struct table_segment *) +
           t->segment_count * sizeof(struct table_segment);
}

/* --- within a segment --- */

static void table_place(struct table_segment *segment, struct table_slot new)
{
    size_t at = SLOT_MASK & new.hash;
    while (segment->slot[at].entry != NULL)
        at = (at + 1) & SLOT_MASK;
    segment->slot[at] = new;
    segment->used++;
}

/* The slots that follow without a gap move back, except those that would then lie before their first place.
 */
static void table_vacate(struct table_segment *segment, size_t hole)
{
    struct table_slot *slot = segment->slot;
    for (size_t at = (hole + 1) & SLOT_MASK; slot[at].entry != NULL; at = (at + 1) & SLOT_MASK) {
        size_t home = slot[at].hash & SLOT_MASK;
        if (((at - home) & SLOT_MASK) < ((at - hole) & SLOT_MASK))
            continue;
        slot[hole] = slot[at];
        hole = at;
    }
    slot[hole].entry = NULL;
    segment->used--;
}

/* If several places of the directory lead to one segment, its entries are visited at the first of them. */
void *table_walk(const struct table *t, size_t *cursor, int steps)
{
    while (t->used > 0 && steps-- > 0) {
        size_t place = (*cursor >> TABLE_SLOT_BITS) & t->mask;
        const struct table_segment *segment = t->directory[place];
        size_t at = *cursor & SLOT_MASK;
        if (place >> segment->depth != 0) {
            *cursor = (place + 1) << TABLE_SLOT_BITS;
            continue;
        }
        *cursor = (place << TABLE_SLOT_BITS) + at + 1;
        if (segment->slot[at].entry != NULL)
            return segment->slot[at].entry;
    }
    return NULL;
}

/* --- growing --- */

/* Both halves of the larger directory lead to the same segments. More bits cannot distinguish entries with
 * equal hashes: a directory larger than the number of entries would not help. */
static int table_double_directory(struct table *t)
{
    size_t size = table_directory_size(t);
    if (size > t->used)
        return -ENOMEM;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): these are pointers */
    struct table_segment **larger = realloc(t->directory, 2 * size * sizeof *larger);
    if (larger == NULL)
        return -ENOMEM;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression) */
    memcpy(larger + size, larger, size * sizeof *larger);
    t->directory = larger;
    t->mask = 2 * size - 1;
    t->depth++;
    return 0;
}

/* Moves the entries with the next bit of the hash set to a new segment. */
static void table_split(struct table *t, struct table_segment *segment, uint64_t hash)
{
    if (segment->depth == t->depth && table_double_directory(t) != 0)
        return;
    struct table_segment *other = table_add_segment(t, segment->depth + 1);
    if (other == NULL)
        return;
    unsigned bit = segment->depth++;
    for (size_t at = 0; at < TABLE_SEGMENT_SLOTS;) {
        struct table_slot slot = segment->slot[at];
        bool moves = slot.entry != NULL && ((slot.hash >> TABLE_SLOT_BITS >> bit) & 1) != 0;
        if (moves) {
            table_place(other, slot);
            table_vacate(segment, at); /* which may bring another one here */
        }
        at += !moves;
    }
    size_t shared = (size_t)1 << bit;
    for (size_t i = ((hash >> TABLE_SLOT_BITS) & (shared - 1)) | shared; i <= t->mask; i += 2 * shared)
        t->directory[i] = other;
}

/*
 * A segment is split when three slots of four are taken. A segment that cannot be split becomes slower, and
 * is full with one free slot, which ends every search.
 */
int table_add(struct table *t, uint64_t hash, void *entry)
{
    struct table_segment *segment = table_segment_of(t, hash);
    if (segment->used >= FULL) {
        table_split(t, segment, hash);
        segment = table_segment_of(t, hash);
    }
    if (segment->used + 1 >= TABLE_SEGMENT_SLOTS)
        return -ENOMEM;
    table_place(segment, (struct table_slot){hash, entry});
    t->used++;
    return 0;
}

void table_remove(struct table *t, uint64_t hash, const void *entry)
{
    struct table_segment *segment = table_segment_of(t, hash);
    size_t at = hash & SLOT_MASK;
    while (segment->slot[at].entry != entry || segment->slot[at].hash != hash) {
        assert(segment->slot[at].entry != NULL); /* or the entry is not in the table */
        at = (at + 1) & SLOT_MASK;
    }
    table_vacate(segment, at);
    t->used--;
}

void table_clear(struct table *t, struct table_segment **dead)
{
    struct table_segment *kept = t->oldest;
    if (t->newest != kept) {
        t->newest->next = *dead;
        *dead = kept->next;
    }
    if (t->used > 0 || t->newest != kept)
        *kept = (struct table_segment){.depth = 0};
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): these are pointers */
    struct table_segment **smaller = realloc(t->directory, sizeof *smaller);
    if (smaller != NULL)
        t->directory = smaller;
    t->directory[0] = t->newest = kept;
    t->mask = t->used = 0;
    t->depth = 0;
    t->segment_count = 1;
}
