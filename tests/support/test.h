#ifndef TEST_SUPPORT_TEST_H
#define TEST_SUPPORT_TEST_H

/*
 * What every test includes first: cmocka with the headers it expects to find included before it.
 *
 * Harness functions that return void or a pointer fail the running test when they cannot do their work;
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

#endif
