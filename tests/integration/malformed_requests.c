/*
 * Malformed requests, each sent whole and byte by byte: the response is the one of RFC 9112, and what follows
 * is never taken for a request where it is none.
 */

#include <stdlib.h>
#include <string.h>

#include "support/malformed.h"

FIXTURE(3, NULL)

static int count_wrong(struct fixture *fixture, const struct shape *list, size_t piece)
{
    int wrong = 0;
    for (const struct shape *shape = list; shape->name != NULL; shape++) {
        AUTOFREE char *told = shape_send(fixture->server.port, shape, piece);
        if (strcmp(told, shape->expected) != 0) {
            print_error("%s: %s, expected %s\n", shape->name, told, shape->expected);
            wrong++;
        }
    }
    return wrong;
}

static void check(struct fixture *fixture, const struct shape *list)
{
    int wrong = count_wrong(fixture, list, SIZE_MAX) + count_wrong(fixture, list, 1);
    assert_int_equal(wrong, 0);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

TEST_CASE(lengths_and_transfer_codings)
{
    check(*state, shapes_of_length);
}

TEST_CASE(chunks)
{
    check(*state, shapes_of_chunks);
}

TEST_CASE(lines_fields_versions_and_methods)
{
    check(*state, shapes_of_lines);
}

TEST_CASE(targets)
{
    check(*state, shapes_of_targets);
}

TEST_CASE(refusals_are_counted)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_requests_rejected_total");
    check(fixture, shapes_of_chunks);
    assert_true(server_metric(&fixture->server, "channeld_requests_rejected_total") >= before + 10);
}
