/*
 * Requests in hostile shapes: each is answered as RFC 9112 wants it, whole and byte by byte, and what
 * follows it is never taken for a request where it is none.
 */

#include <stdlib.h>
#include <string.h>

#include "hostile/shapes.h"

FIXTURE(3, NULL)

static int count_wrong(struct fixture *fixture, const struct shape *list, size_t piece)
{
    int wrong = 0;
    for (const struct shape *shape = list; shape->name != NULL; shape++) {
        char *told = shape_send(fixture->server.port, shape, piece);
        if (strcmp(told, shape->expected) != 0) {
            print_error("%s: %s, expected %s\n", shape->name, told, shape->expected);
            wrong++;
        }
        free(told);
    }
    return wrong;
}

static void check(struct fixture *fixture, const struct shape *list)
{
    int wrong = count_wrong(fixture, list, SIZE_MAX) + count_wrong(fixture, list, 1);
    assert_int_equal(wrong, 0);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

TEST_CASE(odd_lengths_and_codings_are_refused)
{
    check(*state, shapes_of_length);
}

TEST_CASE(odd_chunks_are_refused)
{
    check(*state, shapes_of_chunks);
}

TEST_CASE(odd_lines_versions_and_methods_are_refused)
{
    check(*state, shapes_of_lines);
}

TEST_CASE(odd_targets_are_refused_or_found_nowhere)
{
    check(*state, shapes_of_targets);
}
