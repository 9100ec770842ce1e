/* The table finds exactly what is in it, whatever was added and removed before, and however hashes clash. */
#include "base/table.h"

#include <stdlib.h>

#include "unit/check.h"

enum { ENTRIES = 3000, STEPS = 40000, MANY = 200000 };

/* The table never looks into an entry, so any addresses will do. */
static char memory[MANY];

static void *entry(size_t i)
{
    return &memory[i];
}

static bool holds(const struct table *t, uint64_t hash, const void *wanted)
{
    const struct table_slot *slot = table_find(t, hash);
    while (slot != NULL && slot->entry != wanted)
        slot = table_find_next(t, slot);
    return slot != NULL;
}

static uint64_t spread(size_t i)
{
    return i * 0x9E3779B97F4A7C15U;
}

static void add(struct table *t, uint64_t hash, size_t i)
{
    assert_int_equal(table_add(t, hash, entry(i)), 0);
}

/* Adds and removes at random, and looks for all of it time and again. `hashes`: how many there are. */
static void compare_with_a_model(uint64_t hashes, uint64_t factor)
{
    static bool present[ENTRIES];
    struct table t = {.moved = 0};
    uint64_t seed = 7 + hashes;
    size_t count = 0;
    memset(present, 0, sizeof present);
    for (int step = 0; step < STEPS; step++) {
        size_t i = check_random(&seed) % ENTRIES;
        uint64_t hash = i % hashes * factor;
        if (present[i])
            table_remove(&t, hash, entry(i));
        else
            add(&t, hash, i);
        present[i] = !present[i];
        count += present[i] ? 1 : (size_t)-1;
        assert_int_equal(table_used(&t), count);
        if (step % 4000 == 0)
            for (size_t k = 0; k < ENTRIES; k++)
                assert_int_equal(holds(&t, k % hashes * factor, entry(k)), present[k]);
    }
    table_clear(&t);
}

TEST_CASE(random_additions_and_removals_leave_what_is_in_it)
{
    compare_with_a_model(ENTRIES, 0x9E3779B97F4A7C15U);
}

TEST_CASE(entries_whose_hashes_are_equal_are_told_apart)
{
    compare_with_a_model(40, 0x9E3779B97F4A7C15U);
}

TEST_CASE(runs_that_reach_over_the_end_of_the_table_are_kept)
{
    /* All begin at one of the last slots, however large the table has grown. */
    compare_with_a_model(30, UINT64_MAX - 2);
}

TEST_CASE(an_empty_table_holds_nothing)
{
    struct table t = {.moved = 0};
    assert_null(table_find(&t, 5));
    add(&t, 5, 0);
    table_remove(&t, 5, entry(0));
    assert_null(table_find(&t, 5));
    assert_int_equal(table_used(&t), 0);
    table_clear(&t);
}

/* The old slots are left before the new ones are full, so the table is twice as large for a while only. */
TEST_CASE(an_addition_moves_a_few_entries)
{
    struct table t = {.moved = 0};
    for (size_t i = 0; i < MANY; i++) {
        size_t old = t.old.used;
        bool grows = old == 0 && t.now.used == (t.now.mask + 1) / 8 * 7;
        add(&t, spread(i), i);
        if (!grows)
            assert_true(t.old.used <= old && old - t.old.used <= 16);
        assert_true(t.now.used <= (t.now.mask + 1) / 8 * 7);
        if (i % 997 == 0)
            for (size_t k = 0; k <= i; k += 13)
                assert_true(holds(&t, spread(k), entry(k)));
    }
    assert_int_equal(table_used(&t), MANY);
    assert_true(t.now.mask + t.old.mask < (size_t)4 * MANY);
    for (size_t i = 0; i < MANY; i++)
        table_remove(&t, spread(i), entry(i));
    assert_int_equal(table_used(&t), 0);
    table_clear(&t);
}

TEST_CASE(a_cleared_table_is_an_empty_one)
{
    struct table t = {.moved = 0};
    for (size_t i = 0; i < ENTRIES; i++)
        add(&t, spread(i), i);
    table_clear(&t);
    assert_int_equal(table_used(&t), 0);
    assert_null(t.now.at);
    for (size_t i = 0; i < ENTRIES; i++)
        assert_false(holds(&t, spread(i), entry(i)));
    add(&t, spread(1), 1);
    assert_true(holds(&t, spread(1), entry(1)));
    table_clear(&t);
}

/* Twice around, while old and new slots are in use. */
TEST_CASE(walking_meets_each_entry_once_a_round)
{
    static unsigned char met[MANY];
    struct table t = {.moved = 0};
    size_t cursor = 0;
    memset(met, 0, sizeof met);
    assert_null(table_walk(&t, &cursor, 10));
    for (size_t i = 0; i < MANY; i++)
        add(&t, spread(i), i);
    for (size_t i = 0; i < (size_t)2 * MANY; i++) {
        const char *found = table_walk(&t, &cursor, 1000);
        while (found == NULL) /* old slots that are left */
            found = table_walk(&t, &cursor, 1000);
        met[found - memory]++;
    }
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(met[i], 2);
    table_clear(&t);
}
