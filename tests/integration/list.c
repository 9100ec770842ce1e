/* The list: its pages, their order, page numbers, links between pages, and pages during a load. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 305 };

#define DANGLING "channeld_dangling_index_entries_total"
#define SIZE     "channeld_catalogue_channels"

FIXTURE(CHANNELS, NULL)

static void assert_page(struct fixture *fixture, const char *path, const char *pagination)
{
    AUTOFREE char *body = fixture_body(fixture, path);
    AUTOFREE char *names = json_member_names(body, "");
    json_assert_at(body, "pagination", pagination);
    assert_string_equal(names, "success data pagination");
}

TEST_CASE(pages_hold_a_hundred)
{
    assert_page(*state, "channels/?page=1", "{\"page\":1,\"per_page\":100,\"count\":100,\"has_next\":true}");
    assert_page(*state, "channels/?page=3", "{\"page\":3,\"per_page\":100,\"count\":100,\"has_next\":true}");
    assert_page(*state, "channels/?page=4", "{\"page\":4,\"per_page\":100,\"count\":5,\"has_next\":false}");
}

/* The target of the link to the next page, owned; NULL when there is none. */
static char *next_of(const struct http_response *response)
{
    const char *header = http_header(response, "Link");
    const char *opening = header != NULL ? strstr(header, "rel=\"next\"") : NULL;
    if (opening == NULL)
        return NULL;
    while (opening > header && *opening != '<')
        opening--;
    const char *closing = strchr(opening, '>');
    assert_non_null(closing);
    return text_printf("%.*s", (int)(closing - opening - 1), opening + 1);
}

/* From the first page on, by the links to the next. */
TEST_CASE(items_are_the_summaries_in_order)
{
    struct fixture *fixture = *state;
    char *target = text_printf("/api/channels/");
    size_t n = 0;
    while (target != NULL) {
        AUTO(http_response_free) struct http_response response;
        http_get(fixture->server.port, target, FIXTURE_AUTH, &response);
        AUTOFREE char *expected = text_printf("[");
        for (size_t i = 0; i < 100 && n < CHANNELS; i++, n++) {
            AUTOFREE char *card = catalogue_card(n);
            AUTOFREE char *summary = catalogue_summary(card);
            expected = text_append(expected, i > 0 ? "," : "");
            expected = text_append(expected, summary);
        }
        expected = text_append(expected, "]");
        json_assert_at(response.body, "data", expected);
        free(target);
        target = next_of(&response);
    }
    assert_int_equal(n, CHANNELS);
}

TEST_CASE(pages_beyond_the_last_are_empty)
{
    static const char *const pages[] = {"5", "1000", "92233720368547758", "92233720368547759",
                                        "9223372036854775807"};
    for (size_t i = 0; i < TEST_COUNT(pages); i++) {
        AUTOFREE char *path = text_printf("channels/?page=%s", pages[i]);
        AUTOFREE char *expected =
            text_printf("{\"success\":true,\"data\":[],\"pagination\":{\"page\":%s,\"per_page\":100,"
                        "\"count\":0,\"has_next\":false}}",
                        pages[i]);
        AUTOFREE char *body = fixture_body(*state, path);
        json_assert_same(body, expected);
    }
}

TEST_CASE(page_that_is_not_a_positive_integer_is_400)
{
    fixture_expect(*state, "channels/?page=0", 400);
    fixture_expect(*state, "channels/?page=9223372036854775808", 400);
}

/* The number of channels changes below the same server: 0, a full page, one more. */
TEST_CASE(bounds_of_a_page)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(0, NULL);
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":0,\"has_next\":false}");
    redis_do(&fixture->redis, "EVAL %s 0",
             "for i = 1, 100 do redis.call('HSET', 'channels:card:' .. i, 'title', i) "
             "redis.call('ZADD', 'channels:index', i, i) end");
    fixture_await_text(fixture, "channels/", "\"count\":100", true);
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":100,\"has_next\":false}");
    assert_page(fixture, "channels/?page=2", "{\"page\":2,\"per_page\":100,\"count\":0,\"has_next\":false}");
    redis_do(&fixture->redis, "HSET channels:card:101 title last");
    redis_do(&fixture->redis, "ZADD channels:index 101 101");
    fixture_await_text(fixture, "channels/", "\"has_next\":true", true);
    fixture_await_text(fixture, "channels/?page=2", "\"last\"", true);
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":100,\"has_next\":true}");
    assert_page(fixture, "channels/?page=2", "{\"page\":2,\"per_page\":100,\"count\":1,\"has_next\":false}");
}

TEST_CASE(order_is_by_score_and_then_by_member)
{
    static const struct {
        int64_t id;
        double score;
    } loaded[] = {{7, 2}, {9, 1}, {10, 1}, {-5, 1}, {3, -4.5}, {1, 1e15}, {2, 2}};
    static const int64_t expected[] = {3, -5, 10, 9, 2, 7, 1};
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(0, NULL);
    for (size_t i = 0; i < TEST_COUNT(loaded); i++) {
        AUTOFREE char *card = text_printf("{\"max_channel_id\":%" PRId64 ",\"title\":\"t\"}", loaded[i].id);
        catalogue_put(&fixture->redis, card, loaded[i].score);
    }
    AUTOFREE char *body = fixture_body(fixture, "channels/?page=1");
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        assert_int_equal(json_integer_at(body, text_temp("data.%zu.max_channel_id", i)), expected[i]);
    }
}

/* ---- the Link header ---- */

TEST_CASE(key_is_never_in_a_link)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    http_get(fixture->server.port, "/api/channels/?api_key=" FIXTURE_KEY "&page=2&x=1", NULL, &response);
    assert_int_equal(response.status, 200);
    assert_non_null(http_header(&response, "Link"));
    for (size_t i = 0; i < response.header_count; i++) {
        assert_null(strstr(response.headers[i].value, FIXTURE_KEY));
        assert_null(strstr(response.headers[i].value, "api_key"));
    }
}

TEST_CASE(cards_have_no_links)
{
    AUTO(http_response_free) struct http_response response;
    fixture_get(*state, "channel/by-id/0/", &response);
    assert_int_equal(response.status, 200);
    assert_null(http_header(&response, "Link"));
}

/* ---- pages during a load ---- */

TEST_CASE(index_entry_without_a_card_is_left_out_and_counted)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(5, NULL);
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":5,\"has_next\":false}");
    fixture_expect_metric(fixture, DANGLING, 0);
    redis_do(&fixture->redis, "ZADD channels:index 2.5 123456 99 not-an-id");
    server_await_metric(&fixture->server, "channeld_cache_invalidations_total", 1);
    AUTOFREE char *body = fixture_body(fixture, "channels/");
    json_assert_at(body, "pagination", "{\"page\":1,\"per_page\":100,\"count\":5,\"has_next\":false}");
    for (size_t n = 0; n < 5; n++) {
        assert_int_equal(json_integer_at(body, text_temp("data.%zu.max_channel_id", n)), catalogue_id(n));
    }
    assert_null(json_at(body, "data.5"));
    assert_true(server_metric(&fixture->server, DANGLING) >= 1);
}

/* A page is full by its ranks: has_next does not depend on the items that were left out. */
TEST_CASE(missing_card_in_a_full_page_keeps_has_next)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(101, NULL);
    redis_do(&fixture->redis, "DEL channels:card:%lld", (long long)catalogue_id(7));
    assert_page(fixture, "channels/", "{\"page\":1,\"per_page\":100,\"count\":99,\"has_next\":true}");
}

/* It is read without any request. */
TEST_CASE(size_of_the_index_is_a_metric)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(5, NULL);
    server_await_metric(&fixture->server, SIZE, 5);
    redis_do(&fixture->redis, "ZREM channels:index %lld", (long long)catalogue_id(3));
    server_await_metric_below(&fixture->server, SIZE, 4);
    fixture_expect_metric(fixture, SIZE, 4);
    redis_do(&fixture->redis, "DEL channels:index"); /* there are keys, so there is a catalogue */
    server_await_metric_below(&fixture->server, SIZE, 0);
}
