/* The table finds exactly what is in it, whatever was added and removed before, and however hashes clash. */
#include "store/table.h"

#include <stdlib.h>

#include "unit/check.h"

enum { ENTRIES = 3000, STEPS = 40000 };

/* The table never looks into an entry, so any addresses will do. */
static char memory[ENTRIES];

static struct cache_entry *entry(size_t i)
{
    return (struct cache_entry *)(void *)&memory[i];
}

static bool holds(const struct table *t, uint64_t hash, const struct cache_entry *wanted)
{
    const struct table_slot *slot = table_next(t, hash, hash);
    while (slot != NULL && slot->entry != wanted)
        slot = table_next(t, hash, table_index(t, slot) + 1);
    return slot != NULL;
}

static void add(struct table *t, uint64_t hash, size_t i)
{
    assert_int_equal(table_add(t, hash, entry(i)), 0);
}

/* Adds and removes at random, and looks for all of it time and again. `spread`: how many hashes there are. */
static void compare_with_a_model(uint64_t spread, uint64_t factor)
{
    static bool present[ENTRIES];
    struct table t;
    uint64_t seed = 7 + spread;
    size_t count = 0;
    memset(present, 0, sizeof present);
    assert_int_equal(table_init(&t), 0);
    for (int step = 0; step < STEPS; step++) {
        size_t i = check_random(&seed) % ENTRIES;
        uint64_t hash = i % spread * factor;
        if (present[i])
            table_remove(&t, hash, entry(i));
        else
            add(&t, hash, i);
        present[i] = !present[i];
        count += present[i] ? 1 : (size_t)-1;
        assert_int_equal(t.used, count);
        if (step % 4000 == 0)
            for (size_t k = 0; k < ENTRIES; k++)
                assert_int_equal(holds(&t, k % spread * factor, entry(k)), present[k]);
    }
    table_fini(&t);
}

TEST(random_additions_and_removals_leave_what_is_in_it)
{
    compare_with_a_model(ENTRIES, 0x9E3779B97F4A7C15U);
}

TEST(entries_whose_hashes_are_equal_are_told_apart)
{
    compare_with_a_model(40, 0x9E3779B97F4A7C15U);
}

TEST(runs_that_reach_over_the_end_of_the_table_are_kept)
{
    /* All begin at one of the last slots, however large the table has grown. */
    compare_with_a_model(30, UINT64_MAX - 2);
}

TEST(an_empty_table_holds_nothing)
{
    struct table t;
    assert_int_equal(table_init(&t), 0);
    assert_null(table_next(&t, 5, 5));
    add(&t, 5, 0);
    table_remove(&t, 5, entry(0));
    assert_null(table_next(&t, 5, 5));
    assert_int_equal(t.used, 0);
    table_fini(&t);
}

TEST(it_grows_before_three_of_four_slots_are_taken)
{
    struct table t;
    assert_int_equal(table_init(&t), 0);
    for (size_t i = 0; i < ENTRIES; i++) {
        add(&t, i * 0x9E3779B97F4A7C15U, i);
        assert_true(t.used <= t.capacity / 4 * 3);
    }
    assert_int_equal(table_bytes(&t), t.capacity * sizeof(struct table_slot));
    table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_additions_and_removals_leave_what_is_in_it),
        cmocka_unit_test(entries_whose_hashes_are_equal_are_told_apart),
        cmocka_unit_test(runs_that_reach_over_the_end_of_the_table_are_kept),
        cmocka_unit_test(an_empty_table_holds_nothing),
        cmocka_unit_test(it_grows_before_three_of_four_slots_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
