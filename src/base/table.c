/* Linear probing with removal by shifting back, so that there are no tombstones; see table.h. */
#include "base/table.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* All old slots are left behind before the new ones are so full that they grow. */
enum { FIRST_SLOTS = 64, MOVED_PER_ADDITION = 16 };

void table_clear(struct table *t)
{
    free(t->now.at);
    free(t->old.at);
    *t = (struct table){.moved = 0};
}

static size_t table_slots_count(const struct table_slots *s)
{
    return s->at == NULL ? 0 : s->mask + 1;
}

static void table_place(struct table_slots *s, struct table_slot new)
{
    size_t i = new.hash & s->mask;
    while (s->at[i].entry != NULL)
        i = (i + 1) & s->mask;
    s->at[i] = new;
    s->used++;
}

/* The slots that follow without a gap move back, except those that would then lie before their first place.
 */
static void table_vacate(struct table_slots *s, size_t hole)
{
    for (size_t i = (hole + 1) & s->mask; s->at[i].entry != NULL; i = (i + 1) & s->mask) {
        size_t home = s->at[i].hash & s->mask;
        if (((i - home) & s->mask) < ((i - hole) & s->mask))
            continue;
        s->at[hole] = s->at[i];
        hole = i;
    }
    s->at[hole].entry = NULL;
    s->used--;
}

static bool table_is_old(const struct table *t, const struct table_slot *slot)
{
    return t->old.at != NULL && slot >= t->old.at && slot <= t->old.at + t->old.mask;
}

struct table_slot *table_find_next(const struct table *t, const struct table_slot *slot)
{
    bool is_old = table_is_old(t, slot);
    const struct table_slots *s = is_old ? &t->old : &t->now;
    struct table_slot *found = table_scan(s, slot->hash, (size_t)(slot - s->at) + 1);
    return found != NULL || is_old ? found : table_scan(&t->old, slot->hash, slot->hash);
}

void *table_walk(const struct table *t, size_t *cursor, int steps)
{
    size_t now = table_slots_count(&t->now);
    size_t all = now + table_slots_count(&t->old);
    while (all > 0 && steps-- > 0) {
        size_t i = *cursor < all ? *cursor : 0;
        void *entry = i < now ? t->now.at[i].entry : t->old.at[i - now].entry;
        *cursor = i + 1 < all ? i + 1 : 0;
        if (entry != NULL)
            return entry;
    }
    return NULL;
}

/* Behind a slot that was vacated there may be another entry now. */
static void table_move_some(struct table *t)
{
    for (int i = 0; i < MOVED_PER_ADDITION && t->old.used > 0; i++) {
        struct table_slot slot = t->old.at[t->moved];
        if (slot.entry == NULL) {
            t->moved++;
            continue;
        }
        table_place(&t->now, slot);
        table_vacate(&t->old, t->moved);
    }
    if (t->old.used > 0)
        return;
    free(t->old.at);
    t->old = (struct table_slots){.at = NULL};
    t->moved = 0;
}

/* If there is no memory, searches become longer until there is room for no more. */
static void table_grow(struct table *t)
{
    size_t count = t->now.at == NULL ? FIRST_SLOTS : 2 * (t->now.mask + 1);
    struct table_slot *at = calloc(count, sizeof *at);
    if (at == NULL)
        return;
    t->old = t->now;
    t->now = (struct table_slots){.at = at, .mask = count - 1};
}

int table_add(struct table *t, uint64_t hash, void *entry)
{
    table_move_some(t);
    if (t->old.at == NULL && t->now.used >= table_slots_count(&t->now) / 8 * 7)
        table_grow(t);
    if (table_used(t) >= t->now.mask)
        return -ENOMEM;
    table_place(&t->now, (struct table_slot){hash, entry});
    return 0;
}

void table_remove(struct table *t, uint64_t hash, const void *entry)
{
    const struct table_slot *slot = table_find(t, hash);
    while (slot != NULL && slot->entry != entry)
        slot = table_find_next(t, slot);
    assert(slot != NULL); /* or the entry is not in the table */
    struct table_slots *s = table_is_old(t, slot) ? &t->old : &t->now;
    table_vacate(s, (size_t)(slot - s->at));
}
