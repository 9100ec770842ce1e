/* Linear probing with removal by shifting back, so that there are no tombstones; see table.h. */
#include "store/table.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 1024 };

int table_init(struct table *t)
{
    *t = (struct table){.slot = calloc(FIRST_CAPACITY, sizeof *t->slot)};
    if (t->slot == NULL)
        return -ENOMEM;
    t->capacity = FIRST_CAPACITY;
    return 0;
}

void table_fini(struct table *t)
{
    free(t->slot);
    *t = (struct table){0};
}

static void place(struct table *t, struct table_slot new)
{
    size_t mask = t->capacity - 1;
    size_t at = new.hash &mask;
    while (t->slot[at].entry != NULL)
        at = (at + 1) & mask;
    t->slot[at] = new;
}

static void grow(struct table *t)
{
    struct table larger = {calloc(t->capacity * 2, sizeof *t->slot), t->capacity * 2, t->used};
    if (larger.slot == NULL)
        return;
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slot[i].entry != NULL)
            place(&larger, t->slot[i]);
    free(t->slot);
    *t = larger;
}

/* At most three slots of four are taken. A table that cannot grow gets slower, and full with one slot free:
 * that one ends every search. */
int table_add(struct table *t, uint64_t hash, struct cache_entry *entry)
{
    if (t->used >= t->capacity / 4 * 3)
        grow(t);
    if (t->used + 1 >= t->capacity)
        return -ENOMEM;
    place(t, (struct table_slot){hash, entry});
    t->used++;
    return 0;
}

void table_remove(struct table *t, uint64_t hash, const struct cache_entry *entry)
{
    size_t mask = t->capacity - 1;
    size_t hole = hash & mask;
    while (t->slot[hole].entry != entry)
        hole = (hole + 1) & mask;
    /* What follows without a gap moves back, unless it would come before the place where its search begins.
     */
    for (size_t at = (hole + 1) & mask; t->slot[at].entry != NULL; at = (at + 1) & mask) {
        size_t home = t->slot[at].hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        t->slot[hole] = t->slot[at];
        hole = at;
    }
    t->slot[hole].entry = NULL;
    t->used--;
}
