/* Query strings: repeated, unknown, encoded and odd parameters. */

#include <stdlib.h>

#include "support/fixture.h"

FIXTURE(150, NULL)

static void assert_page(struct fixture *fixture, const char *query, int page)
{
    char *path = text_printf("channels/?%s", query);
    char *body = fixture_body(fixture, path);
    if (json_integer_at(body, "pagination.page") != page)
        fail_msg("%s is not page %d", query, page);
    free(body);
    free(path);
}

TEST_CASE(first_of_a_repeated_parameter_counts)
{
    assert_page(*state, "page=2&page=1", 2);
    assert_page(*state, "page=1&page=2&page=abc", 1);
    assert_int_equal(fixture_status(*state, "channels/?page=abc&page=1"), 400);
    assert_int_equal(fixture_status(*state, "channels/?page=&page=1"), 400);
    assert_int_equal(
        fixture_status(*state, "channel/by-link/?link=https://max.ru/sample_5&link=https://max.ru/nobody"),
        200);
    assert_int_equal(
        fixture_status(*state, "channel/by-link/?link=https://max.ru/nobody&link=https://max.ru/sample_5"),
        404);
}

TEST_CASE(unknown_parameters_are_ignored)
{
    assert_page(*state, "foo=bar&page=2&x", 2);
    assert_page(*state, "per_page=5", 1);
    assert_page(*state, "Page=2", 1);
    assert_page(*state, "pages=2&xpage=2&page%20=2", 1);
    assert_int_equal(fixture_status(*state, "channel/by-id/0/?page=abc&link=&format=xml"), 200);
}

TEST_CASE(odd_separators_do_no_harm)
{
    assert_page(*state, "&&page=2&&", 2);
    assert_page(*state, "=&=x&page=2", 2);
    assert_page(*state, "", 1);
    assert_page(*state, "&", 1);
    assert_page(*state, "%&%zz=%&page=2", 2);
}

TEST_CASE(names_and_values_are_percent_decoded)
{
    assert_page(*state, "page=%32", 2);
    assert_page(*state, "p%61ge=2", 2);
}

/* An encoded separator belongs to the value. */
TEST_CASE(encoded_separators_do_not_separate)
{
    assert_int_equal(fixture_status(*state, "channels/?page=1%26x=1"), 400);
    assert_page(*state, "x=1%26page=2", 1);
}
