/* Linear probing with removal by shifting back, so that there are no tombstones; see table.h. */
#include "base/table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { FIRST_SLOTS = 64 };

void table_clear(struct table *t)
{
    free(t->slot);
    *t = (struct table){.slot = NULL};
}

static void table_place(struct table *t, uint64_t hash, void *entry)
{
    size_t i = hash & t->mask;
    while (t->slot[i].entry != NULL)
        i = (i + 1) & t->mask;
    t->slot[i] = (struct table_slot){hash, entry};
    t->used++;
}

void *table_walk(const struct table *t, size_t *cursor, int steps)
{
    while (t->used > 0 && steps-- > 0) {
        void *entry = t->slot[*cursor & t->mask].entry;
        *cursor = (*cursor + 1) & t->mask;
        if (entry != NULL)
            return entry;
    }
    return NULL;
}

/* If there is no memory, searches become longer until there is room for no more. */
static void table_grow(struct table *t)
{
    size_t count = t->slot == NULL ? FIRST_SLOTS : 2 * (t->mask + 1);
    struct table grown = {.slot = calloc(count, sizeof *grown.slot), .mask = count - 1};
    if (grown.slot == NULL)
        return;
    for (size_t i = 0; t->slot != NULL && i <= t->mask; i++)
        if (t->slot[i].entry != NULL)
            table_place(&grown, t->slot[i].hash, t->slot[i].entry);
    free(t->slot);
    *t = grown;
}

int table_add(struct table *t, uint64_t hash, void *entry)
{
    if (t->slot == NULL || t->used >= (t->mask + 1) / 8 * 7)
        table_grow(t);
    if (t->slot == NULL || t->used >= t->mask)
        return -ENOMEM;
    table_place(t, hash, entry);
    return 0;
}

/* The slots that follow without a gap move back, except those that would then lie before their first place.
 */
void table_remove(struct table *t, uint64_t hash, const void *entry)
{
    const struct table_slot *slot = table_find(t, hash);
    while (slot != NULL && slot->entry != entry)
        slot = table_find_next(t, slot);
    assert(slot != NULL); /* or the entry is not in the table */
    size_t hole = (size_t)(slot - t->slot);
    for (size_t i = (hole + 1) & t->mask; t->slot[i].entry != NULL; i = (i + 1) & t->mask) {
        size_t home = t->slot[i].hash & t->mask;
        if (((i - home) & t->mask) < ((i - hole) & t->mask))
            continue;
        t->slot[hole] = t->slot[i];
        hole = i;
    }
    t->slot[hole].entry = NULL;
    t->used--;
}
