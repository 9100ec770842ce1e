/* The list: its pages, their sizes, their order and what a page number may be. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 205 };

FIXTURE(CHANNELS, NULL)

static void assert_page(struct fixture *fixture, const char *path, const char *pagination)
{
    char *body = fixture_body(fixture, path);
    char *names = json_member_names(body, "");
    json_assert_at(body, "pagination", pagination);
    assert_string_equal(names, "success data pagination");
    free(names);
    free(body);
}

TEST_CASE(pages_hold_a_hundred)
{
    assert_page(*state, "channels/?page=1", "{\"page\":1,\"per_page\":100,\"count\":100,\"has_next\":true}");
    assert_page(*state, "channels/?page=2", "{\"page\":2,\"per_page\":100,\"count\":100,\"has_next\":true}");
    assert_page(*state, "channels/?page=3", "{\"page\":3,\"per_page\":100,\"count\":5,\"has_next\":false}");
}

TEST_CASE(first_page_is_the_default)
{
    char *with = fixture_body(*state, "channels/?page=1");
    char *without = fixture_body(*state, "channels/");
    assert_string_equal(with, without);
    free(with);
    free(without);
}

TEST_CASE(every_item_is_the_summary_of_its_channel_in_order)
{
    size_t n = 0;
    for (int page = 1; page <= 3; page++) {
        char *path = text_printf("channels/?page=%d", page);
        char *body = fixture_body(*state, path);
        char *expected = text_printf("[");
        for (size_t i = 0; i < 100 && n < CHANNELS; i++, n++) {
            char *card = catalogue_card(n);
            char *summary = catalogue_summary(card);
            expected = text_append(expected, i > 0 ? "," : "");
            expected = text_append(expected, summary);
            free(card);
            free(summary);
        }
        expected = text_append(expected, "]");
        json_assert_at(body, "data", expected);
        free(expected);
        free(body);
        free(path);
    }
    assert_int_equal(n, CHANNELS);
}

TEST_CASE(pages_beyond_the_last_are_empty)
{
    static const char *const pages[] = {"4", "1000", "92233720368547758", "92233720368547759",
                                        "9223372036854775807"};
    for (size_t i = 0; i < TEST_COUNT(pages); i++) {
        char *path = text_printf("channels/?page=%s", pages[i]);
        char *expected =
            text_printf("{\"success\":true,\"data\":[],\"pagination\":{\"page\":%s,\"per_page\":100,"
                        "\"count\":0,\"has_next\":false}}",
                        pages[i]);
        char *body = fixture_body(*state, path);
        json_assert_same(body, expected);
        free(body);
        free(expected);
        free(path);
    }
}

TEST_CASE(what_is_no_positive_integer_is_a_bad_request)
{
    static const char *const pages[] = {
        "0",
        "-1",
        "abc",
        "1.5",
        "",
        "9223372036854775808",
        "99999999999999999999999",
        "1x",
        "0x1",
        "%201",
        "1%20",
        "1e2",
        "--1",
        "-9223372036854775808",
        "%00",
        "1%00",
    };
    for (size_t i = 0; i < TEST_COUNT(pages); i++) {
        char *path = text_printf("channels/?page=%s", pages[i]);
        if (fixture_status(*state, path) != 400)
            fail_msg("page=%s is taken", pages[i]);
        free(path);
    }
    assert_int_equal(fixture_status(*state, "channels/?page"), 400);
}

TEST_CASE(exactly_one_full_page_has_no_next)
{
    struct fixture *fixture = fixture_new(100, NULL);
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":100,\"has_next\":false}");
    assert_page(fixture, "channels/?page=2", "{\"page\":2,\"per_page\":100,\"count\":0,\"has_next\":false}");
    fixture_free(fixture);
}

TEST_CASE(one_more_than_a_page_has_a_next)
{
    struct fixture *fixture = fixture_new(101, NULL);
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":100,\"has_next\":true}");
    assert_page(fixture, "channels/?page=2", "{\"page\":2,\"per_page\":100,\"count\":1,\"has_next\":false}");
    fixture_free(fixture);
}

TEST_CASE(empty_list_is_a_success)
{
    struct fixture *fixture = fixture_new(0, NULL);
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":0,\"has_next\":false}");
    fixture_free(fixture);
}

TEST_CASE(order_is_by_score_and_then_by_member)
{
    static const struct {
        int64_t id;
        double score;
    } loaded[] = {{7, 2}, {9, 1}, {10, 1}, {-5, 1}, {3, -4.5}, {1, 1e15}, {2, 2}};
    static const int64_t expected[] = {3, -5, 10, 9, 2, 7, 1};
    struct fixture *fixture = fixture_new(0, NULL);
    for (size_t i = 0; i < TEST_COUNT(loaded); i++) {
        char *card = text_printf("{\"max_channel_id\":%" PRId64 ",\"title\":\"t\"}", loaded[i].id);
        catalogue_put(&fixture->redis, card, loaded[i].score);
        free(card);
    }
    char *body = fixture_body(fixture, "channels/?page=1");
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        char *path = text_printf("data.%zu.max_channel_id", i);
        assert_int_equal(json_integer_at(body, path), expected[i]);
        free(path);
    }
    free(body);
    fixture_free(fixture);
}
