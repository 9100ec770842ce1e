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

/* Number of elements of an array. */
#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
