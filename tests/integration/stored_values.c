/* Values in Redis that are not what they should be: never a broken answer, and never unnoticed. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define UNREADABLE "channeld_invalid_values_total"

FIXTURE(1, NULL)

/* Stores one field of a channel of its own and returns what the card shows for it, owned. */
static char *shown(struct fixture *fixture, const char *field, const char *value, size_t length)
{
    static long long id = 1000000;
    id++;
    redis_do(&fixture->redis, "HSET channels:card:%lld max_channel_id %lld title t %s %b", id, id, field,
             value, length);
    char *path = text_printf("channel/by-id/%lld/", id);
    char *where = text_printf("data.%s", field);
    char *body = fixture_body(fixture, path);
    char *text = json_at(body, where);
    free(body);
    free(where);
    free(path);
    return text;
}

static void assert_shown(struct fixture *fixture, const char *field, const char *value, const char *expected)
{
    char *text = shown(fixture, field, value, strlen(value));
    if (strcmp(text, expected) != 0)
        fail_msg("%s '%s' is shown as %s, expected %s", field, value, text, expected);
    free(text);
}

/* Asserts that it is shown as `expected` and counted exactly once for the one request. */
static void assert_unreadable(struct fixture *fixture, const char *field, const char *value,
                              const char *expected)
{
    double before = server_metric(&fixture->server, UNREADABLE);
    assert_shown(fixture, field, value, expected);
    double counted = server_metric(&fixture->server, UNREADABLE) - before;
    if (counted < 1 || counted > 1)
        fail_msg("%s '%s' is counted %g times", field, value, counted);
}

TEST_CASE(integers_that_do_not_parse_are_null_and_counted)
{
    static const char *const values[] = {
        "",    "abc", "1.5", "1e3",  " 1", "1 ", "9223372036854775808", "-9223372036854775809",
        "0x1", "1\n", "-",   "null",
    };
    for (size_t i = 0; i < TEST_COUNT(values); i++)
        assert_unreadable(*state, "views_24h", values[i], "null");
    assert_unreadable(*state, "followers_cnt_today", "many", "null");
    assert_unreadable(*state, "is_a_plus_flag", "true", "null");
    assert_unreadable(*state, "is_a_plus_flag", "2", "null");
    assert_unreadable(*state, "is_a_plus_flag", "-1", "null");
    assert_unreadable(*state, "er_48h", "5%", "null");
}

TEST_CASE(integers_that_parse_are_shown_and_not_counted)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, UNREADABLE);
    assert_shown(fixture, "views_24h", "0", "0");
    assert_shown(fixture, "views_24h", "-7", "-7");
    assert_shown(fixture, "views_24h", "9223372036854775807", "9223372036854775807");
    assert_shown(fixture, "views_24h", "-9223372036854775808", "-9223372036854775808");
    assert_true(server_metric(&fixture->server, UNREADABLE) - before < 0.5);
}

TEST_CASE(dates_that_do_not_parse_are_null_and_counted)
{
    static const char *const values[] = {
        "",
        "yesterday",
        "2026-11-20",
        "2026-11-20 10:06:06",
        "2026-11-20T10:06:06Z",
        "2026-11-20T10:06:06.5",
        "2026-11-20T10:06",
        "2026-13-20T10:06:06",
        "2026-02-30T10:06:06",
        "2026-11-20T24:00:01",
        "2026-11-20T10:60:06",
        "2026-11-20T10:06:06\n",
        "1763633166",
    };
    for (size_t i = 0; i < TEST_COUNT(values); i++)
        assert_unreadable(*state, "updated_at", values[i], "null");
}

TEST_CASE(dates_that_parse_are_shown)
{
    assert_shown(*state, "updated_at", "2026-11-20T10:06:06", "\"2026-11-20T10:06:06\"");
    assert_shown(*state, "updated_at", "2024-02-29T00:00:00", "\"2024-02-29T00:00:00\"");
    assert_shown(*state, "updated_at", "1999-12-31T23:59:59", "\"1999-12-31T23:59:59\"");
}

TEST_CASE(history_that_does_not_parse_is_empty_and_counted)
{
    static const char *const values[] = {
        "",
        "{",
        "[]",
        "12",
        "null",
        "not json",
        "{\"2026-11-20\":1}x",
        "{\"2026-11-20\":\"1\"}",
        "{\"2026-11-20\":1.5}",
        "{\"2026-11-20\":null}",
        "{\"20.11.2026\":1}",
        "{\"2026-02-30\":1}",
        "{\"2026-11-20\":9223372036854775808}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    };
    for (size_t i = 0; i < TEST_COUNT(values); i++)
        assert_unreadable(*state, "followers_history", values[i], "{}");
}

TEST_CASE(history_is_shown_ascending)
{
    assert_shown(*state, "followers_history", "{}", "{}");
    assert_shown(*state, "followers_history", " { \"2026-11-20\" : 3 , \"2026-11-18\":-1,\"2026-11-19\":0 } ",
                 "{\"2026-11-18\":-1,\"2026-11-19\":0,\"2026-11-20\":3}");
}

TEST_CASE(history_of_exactly_ten_days_is_whole)
{
    char *history = text_printf("{");
    for (int day = 1; day <= 10; day++) {
        char *entry = text_printf("%s\"2026-03-%02d\":%d", day > 1 ? "," : "", day, day);
        history = text_append(history, entry);
        free(entry);
    }
    history = text_append(history, "}");
    assert_shown(*state, "followers_history", history, history);
    free(history);
}

TEST_CASE(longer_history_keeps_the_latest_ten_days)
{
    assert_shown(*state, "followers_history",
                 "{\"2026-03-09\":9,\"2026-03-01\":1,\"2026-03-10\":10,\"2026-03-02\":2,\"2026-03-08\":8,"
                 "\"2026-03-12\":12,\"2026-03-03\":3,\"2026-03-07\":7,\"2026-03-04\":4,\"2026-03-11\":11,"
                 "\"2026-03-05\":5,\"2026-03-06\":6}",
                 "{\"2026-03-03\":3,\"2026-03-04\":4,\"2026-03-05\":5,\"2026-03-06\":6,\"2026-03-07\":7,"
                 "\"2026-03-08\":8,\"2026-03-09\":9,\"2026-03-10\":10,\"2026-03-11\":11,\"2026-03-12\":12}");
}

TEST_CASE(bad_utf8_becomes_replacement_characters)
{
    static const struct {
        const char *stored;
        const char *shown;
    } cases[] = {
        {"a\xFF"
         "b",
         "\"a\xEF\xBF\xBD"
         "b\""},
        {"\x80", "\"\xEF\xBF\xBD\""},
        {"a\xE2\x82", "\"a\xEF\xBF\xBD\""},
        {"\xF0\x9F\x98"
         "x",
         "\"\xEF\xBF\xBDx\""},
        {"\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"ok \xF0\x9F\x98\x80", "\"ok \xF0\x9F\x98\x80\""},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_shown(*state, "title", cases[i].stored, cases[i].shown);
        assert_shown(*state, "category", cases[i].stored, cases[i].shown);
    }
}

TEST_CASE(list_shows_unreadable_values_as_null_too)
{
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "HSET channels:card:77 max_channel_id 77 title \xFF updated_at never");
    redis_do(&fixture->redis, "ZADD channels:index 1000 77");
    char *body = fixture_body(fixture, "channels/");
    json_assert_at(body, "data.1",
                   "{\"max_channel_id\":77,\"title\":\"\xEF\xBF\xBD\",\"description\":null,\"avatar\":null,"
                   "\"link\":null,\"updated_at\":null}");
    free(body);
}

/* What is in Redis under the id 990099, a member of the index, is left out of the page; by id it has that
 * status. */
static void assert_left_out(struct fixture *fixture, const char *command, int status, const char *reason)
{
    redis_do(&fixture->redis, command);
    redis_do(&fixture->redis, "ZADD channels:index 1000 990099");
    for (int i = 0; i < 5; i++) {
        char *body = fixture_body(fixture, "channels/");
        assert_null(strstr(body, "990099"));
        assert_non_null(strstr(body, "\"title\""));
        free(body);
        assert_int_equal(fixture_status(fixture, "channel/by-id/990099/"), status);
    }
    assert_true(server_metric(&fixture->server, "channeld_dangling_index_entries_total") >= 1);
    server_await_log(&fixture->server, reason);
    char *log = server_log(&fixture->server);
    if (text_count(log, reason) != 1)
        fail_msg("not once in: %s", log);
    free(log);
}

static bool shows_mended(void *arg)
{
    char *body = fixture_body(arg, "channels/");
    bool found = strstr(body, "\"mended\"") != NULL;
    free(body);
    return found;
}

TEST_CASE(broken_cards_cost_themselves_and_not_their_page)
{
    static const struct {
        const char *command;
        int status;
        const char *reason;
    } cards[] = {
        {"SET channels:card:990099 text", 500, "\"channel\":990099,\"reason\":\"its card is not a hash\""},
        {"HSET channels:card:990099 views_24h 1 category c", 404,
         "\"channel\":990099,\"reason\":\"no card\""},
        {"HSET channels:card:990099 of_no_use 1", 404, "\"channel\":990099,\"reason\":\"no card\""},
    };
    static const char *const sizes[] = {"CHANNELD_CACHE_SIZE=0", "CHANNELD_CACHE_SIZE=1MiB"};
    for (size_t i = 0; i < TEST_COUNT(cards) * TEST_COUNT(sizes); i++) {
        size_t card = i / TEST_COUNT(sizes);
        const char *const env[] = {"CHANNELD_WORKERS=1", sizes[i % TEST_COUNT(sizes)], NULL};
        struct fixture *fixture = fixture_new(1, env);
        assert_left_out(fixture, cards[card].command, cards[card].status, cards[card].reason);
        redis_do(&fixture->redis, "DEL channels:card:990099");
        redis_do(&fixture->redis, "HSET channels:card:990099 title mended");
        assert_true(wait_until(shows_mended, fixture, WAIT_DEADLINE_MS));
        fixture_free(fixture);
    }
}

TEST_CASE(unreadable_values_are_logged_once_a_channel)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    struct fixture *fixture = fixture_new(1, env);
    redis_do(&fixture->redis, "HSET channels:card:880088 max_channel_id 880088 title t views_24h many");
    for (int i = 0; i < 5; i++)
        assert_int_equal(fixture_status(fixture, "channel/by-id/880088/"), 200);
    process_signal(&fixture->server.process, SIGTERM);
    server_expect_exit(&fixture->server, 0);
    char *log = server_log(&fixture->server);
    if (text_count(log, "880088") != 1)
        fail_msg("not once in: %s", log);
    free(log);
    fixture_free(fixture);
}
