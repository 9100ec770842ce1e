/* The registered tests of a program; see test.h. */

#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TESTS_MAX = 256 };

static struct CMUnitTest quick_tests[TESTS_MAX], slow_tests[TESTS_MAX];
static size_t quick_count, slow_count;
static size_t skipped_count;
static CMFixtureFunction group_setup, group_teardown;

void test_add(const struct CMUnitTest *test, bool slow)
{
    struct CMUnitTest *tests = slow ? slow_tests : quick_tests;
    size_t *count = slow ? &slow_count : &quick_count;
    if (*count == TESTS_MAX)
        abort();
    tests[(*count)++] = *test;
}

void test_set_group(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    group_setup = setup;
    group_teardown = teardown;
}

void test_skip_at(const char *reason, const char *file, int line)
{
    skipped_count++;
    print_error("skipped: %s\n", reason);
    _skip(file, line);
    abort(); /* _skip() does not return */
}

int test_run(int argc, char **argv)
{
    bool asked = argc > 1 && strcmp(argv[1], "--slow") == 0;
    bool slow = asked || quick_count == 0;
    if (argc > 1 + asked)
        cmocka_set_test_filter(argv[1 + asked]);
    size_t count = slow ? slow_count : quick_count;
    int failed = _cmocka_run_group_tests(program_invocation_short_name, slow ? slow_tests : quick_tests,
                                         count, group_setup, group_teardown);
    if (skipped_count > 0)
        print_error("%zu of %zu tests were skipped\n", skipped_count, count);
    if (failed != 0)
        return 1;
    return skipped_count > 0 ? TEST_SKIPPED : 0;
}
