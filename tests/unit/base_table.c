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
    struct table t;
    uint64_t seed = 7 + hashes;
    size_t count = 0;
    memset(present, 0, sizeof present);
    assert_int_equal(table_init(&t), 0);
    for (int step = 0; step < STEPS; step++) {
        size_t i = check_random(&seed) % ENTRIES;
        uint64_t hash = i % hashes * factor;
        if (present[i])
            table_remove(&t, hash, entry(i));
        else
            add(&t, hash, i);
        present[i] = !present[i];
        count += present[i] ? 1 : (size_t)-1;
        assert_int_equal(t.used, count);
        if (step % 4000 == 0)
            for (size_t k = 0; k < ENTRIES; k++)
                assert_int_equal(holds(&t, k % hashes * factor, entry(k)), present[k]);
    }
    table_fini(&t);
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
    struct table t;
    assert_int_equal(table_init(&t), 0);
    assert_null(table_find(&t, 5));
    add(&t, 5, 0);
    table_remove(&t, 5, entry(0));
    assert_null(table_find(&t, 5));
    assert_int_equal(t.used, 0);
    table_fini(&t);
}

/* All of a split is within one segment, so what an addition may cost does not depend on how many there are.
 */
TEST_CASE(an_addition_splits_one_segment_at_most)
{
    struct table t;
    assert_int_equal(table_init(&t), 0);
    for (size_t i = 0; i < MANY; i++) {
        size_t before = t.segment_count;
        add(&t, spread(i), i);
        assert_in_range(t.segment_count, before, before + 1);
        assert_true(table_segment_of(&t, spread(i))->used <= TABLE_SEGMENT_SLOTS / 4 * 3);
    }
    assert_int_equal(t.used, MANY);
    assert_true(t.segment_count < (size_t)MANY * 4 / TABLE_SEGMENT_SLOTS);
    assert_int_equal(table_bytes(&t), t.segment_count * sizeof(struct table_segment) +
                                          (t.mask + 1) * sizeof(struct table_segment *));
    for (size_t i = 0; i < MANY; i++)
        assert_true(holds(&t, spread(i), entry(i)));
    for (size_t i = 0; i < MANY; i++)
        table_remove(&t, spread(i), entry(i));
    assert_int_equal(t.used, 0);
    table_fini(&t);
}

/* No bit tells them apart: a segment holds what it can, and the directory does not grow for nothing. */
TEST_CASE(entries_with_one_hash_are_refused_when_their_segment_is_full)
{
    struct table t;
    size_t count = 0;
    assert_int_equal(table_init(&t), 0);
    while (count < MANY && table_add(&t, 77, entry(count)) == 0)
        count++;
    assert_int_equal(count, TABLE_SEGMENT_SLOTS - 1);
    assert_true(t.mask <= 4 * count);
    add(&t, UINT64_MAX, count); /* elsewhere there is room */
    for (size_t i = 0; i < count; i++)
        assert_true(holds(&t, 77, entry(i)));
    table_fini(&t);
}

TEST_CASE(clearing_leaves_all_segments_but_one_to_the_caller)
{
    struct table t;
    struct table_segment *dead = NULL;
    assert_int_equal(table_init(&t), 0);
    for (size_t i = 0; i < ENTRIES; i++)
        add(&t, spread(i), i);
    size_t segments = t.segment_count;
    table_clear(&t, &dead);
    assert_int_equal(t.used, 0);
    for (size_t i = 0; i < ENTRIES; i++)
        assert_false(holds(&t, spread(i), entry(i)));
    for (; dead != NULL; segments--)
        table_free_dead(&dead);
    assert_int_equal(segments, t.segment_count);
    for (size_t i = 0; i < ENTRIES; i++)
        add(&t, spread(i), i);
    for (size_t i = 0; i < ENTRIES; i++)
        assert_true(holds(&t, spread(i), entry(i)));
    table_fini(&t);
}

/* Twice around, over segments that several places of the directory lead to. */
TEST_CASE(walking_meets_each_entry_once_a_round)
{
    static unsigned char met[MANY];
    struct table t;
    size_t cursor = 0;
    memset(met, 0, sizeof met);
    assert_int_equal(table_init(&t), 0);
    assert_null(table_walk(&t, &cursor, 10));
    for (size_t i = 0; i < MANY; i++)
        add(&t, spread(i), i);
    for (size_t i = 0; i < (size_t)2 * MANY; i++) {
        const char *found = table_walk(&t, &cursor, TABLE_SEGMENT_SLOTS);
        assert_non_null(found);
        met[found - memory]++;
    }
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(met[i], 2);
    table_fini(&t);
}
