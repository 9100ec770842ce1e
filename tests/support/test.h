#ifndef TEST_SUPPORT_TEST_H
#define TEST_SUPPORT_TEST_H

/*
 * Every test includes this first: cmocka, and the registration of tests.
 *
 * A test is defined and registered in one place; tests run in the order of their definitions:
 *
 *     TEST_CASE(keys_are_compared_whole)
 *     {
 *         struct fixture *fixture = *state;
 *         ...
 *     }
 *
 * TEST_CASE_WITH() adds a setup and a teardown for this test, TEST_GROUP() one pair for the whole program.
 * The tests of SLOW_TEST() run when the program is called with --slow, and no others then. A program whose
 * tests are registered needs no main(); one that has its own calls test_run().
 *
 * Support functions that return void or a pointer fail the running test when they cannot do their work;
 * they belong to the test's own thread. Those that return int (0 or a negative errno) never touch cmocka
 * and may be called from any thread.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 * For gcc -fanalyzer and cppcheck (scripts/lint), which do not see that the assertions return only when they
 * hold. The macros of cmocka are functions that always return, as far as a reader of one file can tell.
 */
#ifdef CHANNELD_ANALYSIS
#include <stdio.h>
#include <string.h>
#undef assert_true
#undef assert_false
#undef assert_non_null
#undef assert_null
#undef assert_int_equal
#undef assert_string_equal
#undef fail_msg
void test_stop(void) __attribute__((noreturn));
#define assert_true(c)            ((c) ? (void)0 : test_stop())
#define assert_false(c)           assert_true(!(c))
#define assert_non_null(p)        assert_true((p) != NULL)
#define assert_null(p)            assert_true((p) == NULL)
#define assert_int_equal(a, b)    assert_true((uintmax_t)(a) == (uintmax_t)(b))
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)
#define fail_msg(...)             ((void)printf(__VA_ARGS__), test_stop())
#endif

/* Number of elements of an array. */
#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TEST_CASE(name)                       TEST_DEFINE(name, NULL, NULL, false)
#define TEST_CASE_WITH(name, setup, teardown) TEST_DEFINE(name, setup, teardown, false)
#define SLOW_TEST(name)                       TEST_DEFINE(name, NULL, NULL, true)
#define SLOW_TEST_WITH(name, setup, teardown) TEST_DEFINE(name, setup, teardown, true)

#define TEST_DEFINE(name, setup, teardown, slow)                                    \
    static void name(void **state);                                                 \
    __attribute__((constructor)) static void test_add_##name(void)                  \
    {                                                                               \
        static const struct CMUnitTest test = {#name, name, setup, teardown, NULL}; \
        test_add(&test, slow);                                                      \
    }                                                                               \
    static void name(__attribute__((unused)) void **state)

#define TEST_GROUP(setup, teardown)                               \
    __attribute__((constructor)) static void test_add_group(void) \
    {                                                             \
        test_set_group(setup, teardown);                          \
    }

void test_add(const struct CMUnitTest *test, bool slow);
void test_set_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/*
 * Ends the running test, which cannot run here. Not in a setup or teardown. The reason is printed: what is
 * missing and, if something installs it, what does ("scripts/setup --tools"). scripts/test lists the reasons.
 */
#define test_skip(reason) test_skip_at(reason, __FILE__, __LINE__)
void test_skip_at(const char *reason, const char *file, int line) __attribute__((noreturn));

/* The exit code of a program of which a test was skipped and none failed; cmake/Testing.cmake tells ctest. */
enum { TEST_SKIPPED = 77 };

/* Runs the registered tests; returns the exit code: 0, 1 if a test failed, or TEST_SKIPPED. Arguments:
 * [--slow] [PATTERN], a shell pattern of names. Where all tests are slow ones, they run in any case. */
int test_run(int argc, char **argv);

#endif
