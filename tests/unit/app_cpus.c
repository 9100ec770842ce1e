/* Counting processors: what the text of cpu.max grants, and that there is always one. */
#include "app/cpus.h"

#include <limits.h>
#include <sched.h>

#include "unit/check.h"

TEST(a_quota_counts_up_to_whole_processors)
{
    assert_int_equal(cpus_from_cpu_max("100000 100000\n"), 1);
    assert_int_equal(cpus_from_cpu_max("100001 100000\n"), 2);
    assert_int_equal(cpus_from_cpu_max("150000 100000"), 2);
    assert_int_equal(cpus_from_cpu_max("200000 100000\n"), 2);
    assert_int_equal(cpus_from_cpu_max("1000 100000\n"), 1);
    assert_int_equal(cpus_from_cpu_max("1 1000000\n"), 1);
    assert_int_equal(cpus_from_cpu_max("6400000 100000\n"), 64);
    assert_int_equal(cpus_from_cpu_max("50000 25000\n"), 2);
}

TEST(no_quota_is_none_and_so_is_what_is_none)
{
    static const char *const texts[] = {"max 100000\n", "max",         "",           "\n",
                                        "100000",       "100000 ",     "100000 0\n", "0 100000\n",
                                        "-1 100000\n",  "100000 -1\n", "x 100000\n", "100000 x\n"};
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        assert_int_equal(cpus_from_cpu_max(texts[i]), 0);
}

TEST(numbers_beyond_reason_do_not_overflow)
{
    assert_int_equal(cpus_from_cpu_max("9223372036854775807 1\n"), INT_MAX);
    assert_int_equal(cpus_from_cpu_max("9223372036854775807 9223372036854775807\n"), 1);
    assert_int_equal(cpus_from_cpu_max("99999999999999999999999 100000\n"), INT_MAX);
}

TEST(affinity_is_a_limit)
{
    cpu_set_t all;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int count = cpus_available();
    assert_true(count >= 1 && count <= CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cpus_available(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quota_counts_up_to_whole_processors),
        cmocka_unit_test(no_quota_is_none_and_so_is_what_is_none),
        cmocka_unit_test(numbers_beyond_reason_do_not_overflow),
        cmocka_unit_test(affinity_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
