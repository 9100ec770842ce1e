/*
 * Values in Redis and the JSON that they become: the order of members, the full ranges, text, what takes the
 * place of absent fields; and invalid values: never a broken response, always counted.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define INVALID "channeld_invalid_values_total"

FIXTURE(12, NULL)

/* Stores one field of a channel of its own and returns what the card shows for it, owned. */
static char *shown(struct fixture *fixture, const char *field, const char *value, size_t length)
{
    static long long id = 1000000;
    id++;
    redis_do(&fixture->redis, "HSET channels:card:%lld max_channel_id %lld title t %s %b", id, id, field,
             value, length);
    AUTOFREE char *path = text_printf("channel/by-id/%lld/", id);
    AUTOFREE char *where = text_printf("data.%s", field);
    AUTOFREE char *body = fixture_body(fixture, path);
    char *text = json_at(body, where);
    return text;
}

static void assert_shown(struct fixture *fixture, const char *field, const char *value, const char *expected)
{
    AUTOFREE char *text = shown(fixture, field, value, strlen(value));
    if (strcmp(text, expected) != 0)
        fail_msg("%s '%s' is shown as %s, expected %s", field, value, text, expected);
}

/* Asserts that it is shown as `expected` and counted exactly once for the one request. */
static void assert_invalid(struct fixture *fixture, const char *field, const char *value,
                           const char *expected)
{
    double before = server_metric(&fixture->server, INVALID);
    assert_shown(fixture, field, value, expected);
    double counted = server_metric(&fixture->server, INVALID) - before;
    if (counted < 1 || counted > 1)
        fail_msg("%s '%s' is counted %g times", field, value, counted);
}

/* One of each type: the others are in tests/unit, in model_channel.c, model_datetime.c and model_history.c.
 */
TEST_CASE(invalid_values_are_null_and_counted)
{
    assert_invalid(*state, "views_24h", "9223372036854775808", "null");
    assert_invalid(*state, "is_a_plus_flag", "2", "null");
    assert_invalid(*state, "updated_at", "2026-11-20T10:06:06\n", "null");
    assert_invalid(*state, "followers_history", "{\"2026-02-30\":1}", "{}");
}

TEST_CASE(valid_values_are_shown_and_not_counted)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, INVALID);
    assert_shown(fixture, "views_24h", "-7", "-7");
    assert_shown(fixture, "views_24h", "9223372036854775807", "9223372036854775807");
    assert_shown(fixture, "views_24h", "-9223372036854775808", "-9223372036854775808");
    assert_shown(fixture, "updated_at", "2024-02-29T00:00:00", "\"2024-02-29T00:00:00\"");
    assert_shown(fixture, "followers_history", "{}", "{}");
    assert_true(server_metric(&fixture->server, INVALID) - before < 0.5);
}

TEST_CASE(list_shows_invalid_values_as_null)
{
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "HSET channels:card:77 max_channel_id 77 title \xFF updated_at never");
    redis_do(&fixture->redis, "ZADD channels:index 1000 77");
    AUTOFREE char *body = fixture_body(fixture, "channels/");
    json_assert_at(body, "data.12",
                   "{\"max_channel_id\":77,\"title\":\"\xEF\xBF\xBD\",\"description\":null,\"avatar\":null,"
                   "\"link\":null,\"updated_at\":null}");
}

/* What is in Redis under the id 990099, a member of the index, is left out of the page; by id it has that
 * status. */
static void assert_left_out(struct fixture *fixture, const char *command, int status, const char *reason)
{
    redis_do(&fixture->redis, command);
    redis_do(&fixture->redis, "ZADD channels:index 1000 990099");
    for (int i = 0; i < 5; i++) {
        AUTOFREE char *body = fixture_body(fixture, "channels/");
        assert_null(strstr(body, "990099"));
        assert_non_null(strstr(body, "\"title\""));
        assert_int_equal(fixture_status(fixture, "channel/by-id/990099/"), status);
    }
    assert_true(server_metric(&fixture->server, "channeld_dangling_index_entries_total") >= 1);
    server_await_log(&fixture->server, reason);
    AUTOFREE char *log = server_log(&fixture->server);
    if (text_count(log, reason) != 1)
        fail_msg("not once in: %s", log);
}

TEST_CASE(broken_cards_are_left_out_of_their_page)
{
    static const struct {
        const char *command;
        int status;
        const char *reason;
    } cards[] = {
        {"SET channels:card:990099 text", 500, "\"channel\":990099,\"reason\":\"its card is not a hash\""},
        {"HSET channels:card:990099 views_24h 1 category c", 404,
         "\"channel\":990099,\"reason\":\"no card\""},
        {"HSET channels:card:990099 of_no_use 1", 404, "\"channel\":990099,\"reason\":\"no card\""}};
    static const char *const sizes[] = {"CHANNELD_CACHE_SIZE=0", "CHANNELD_CACHE_SIZE=1MiB"};
    for (size_t i = 0; i < TEST_COUNT(cards) * TEST_COUNT(sizes); i++) {
        size_t card = i / TEST_COUNT(sizes);
        AUTO(fixture_drop)
        struct fixture *fixture = fixture_new(1, ENV("CHANNELD_WORKERS=1", sizes[i % TEST_COUNT(sizes)]));
        assert_left_out(fixture, cards[card].command, cards[card].status, cards[card].reason);
        redis_do(&fixture->redis, "DEL channels:card:990099");
        redis_do(&fixture->redis, "HSET channels:card:990099 title corrected");
        fixture_await_text(fixture, "channels/", "\"corrected\"", true);
    }
}

TEST_CASE(invalid_values_are_logged_once_per_channel)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, ENV("CHANNELD_WORKERS=1"));
    redis_do(&fixture->redis, "HSET channels:card:880088 max_channel_id 880088 title t views_24h many");
    for (int i = 0; i < 5; i++)
        assert_int_equal(fixture_status(fixture, "channel/by-id/880088/"), 200);
    AUTOFREE char *log = fixture_stop_server(fixture);
    if (text_count(log, "880088") != 1)
        fail_msg("not once in: %s", log);
}

/* ---- the JSON ---- */

#define SUMMARY_MEMBERS "max_channel_id title description avatar link updated_at"
#define CARD_MEMBERS                                                                                         \
    "max_channel_id title description avatar link category category2 followers_cnt_today followers_history " \
    "is_a_plus_flag views_24h views_48h er_24h er_48h updated_at"

static void assert_members(struct fixture *fixture, const char *path, const char *where, const char *expected)
{
    AUTOFREE char *body = fixture_body(fixture, path);
    AUTOFREE char *names = json_member_names(body, where);
    assert_string_equal(names, expected);
}

TEST_CASE(members_come_in_the_order_of_the_contract)
{
    assert_members(*state, "channels/", "", "success data pagination");
    assert_members(*state, "channels/", "data.0", SUMMARY_MEMBERS);
    assert_members(*state, "channels/", "data.11", SUMMARY_MEMBERS);
    assert_members(*state, "channels/", "pagination", "page per_page count has_next");
    assert_members(*state, "channel/by-id/0/", "", "success data");
    assert_members(*state, "channel/by-id/0/", "data", CARD_MEMBERS);
}

TEST_CASE(absent_fields_are_null_and_history_is_empty)
{
    struct fixture *fixture = *state;
    catalogue_put(&fixture->redis, "{\"max_channel_id\":500}", 500);
    fixture_expect_card(
        fixture, "channel/by-id/500/",
        "{\"max_channel_id\":500,\"title\":null,\"description\":null,\"avatar\":null,\"link\":null,"
        "\"category\":null,\"category2\":null,\"followers_cnt_today\":null,"
        "\"followers_history\":{},\"is_a_plus_flag\":null,\"views_24h\":null,\"views_48h\":null,"
        "\"er_24h\":null,\"er_48h\":null,\"updated_at\":null}");
    redis_do(&fixture->redis, "ZREM channels:index 500");
}

TEST_CASE(fields_that_are_not_of_the_contract_are_not_shown)
{
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "HSET channels:card:-1 secret_note hidden owner hidden");
    assert_members(fixture, "channel/by-id/-1/", "data", CARD_MEMBERS);
    assert_members(fixture, "channels/", "data.3", SUMMARY_MEMBERS);
}

TEST_CASE(text_stays_utf8_without_escapes)
{
    static const char title[] =
        "\xD0\x9F\xD0\xBB \xF0\x9F\x98\x80 \xE4\xB8\xAD \xE2\x80\xA8 \xC2\x80 </script>&'\x7F";
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "HSET channels:card:600 max_channel_id 600 title %s", title);
    AUTOFREE char *body = fixture_body(fixture, "channel/by-id/600/");
    assert_int_equal(text_count(body, title), 1);
    assert_int_equal(text_count(body, "\\u"), 0);
}

TEST_CASE(long_text_comes_whole)
{
    struct fixture *fixture = *state;
    AUTOFREE char *text = text_repeat('x', 300000);
    redis_do(&fixture->redis, "HSET channels:card:602 max_channel_id 602 description %s", text);
    AUTOFREE char *body = fixture_body(fixture, "channel/by-id/602/");
    json_assert_at(body, "data.description", text_temp("\"%s\"", text));
}
