/* The JSON text itself: the order of members, numbers, strings and what takes the place of absent fields. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define SUMMARY_MEMBERS "max_channel_id title description avatar link updated_at"
#define CARD_MEMBERS                                                                                         \
    "max_channel_id title description avatar link category category2 followers_cnt_today followers_history " \
    "is_a_plus_flag views_24h views_48h er_24h er_48h updated_at"

FIXTURE(12, NULL)

static void assert_members(struct fixture *fixture, const char *path, const char *where, const char *expected)
{
    char *body = fixture_body(fixture, path);
    char *names = json_member_names(body, where);
    assert_string_equal(names, expected);
    free(names);
    free(body);
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

TEST_CASE(empty_text_is_not_null)
{
    struct fixture *fixture = *state;
    catalogue_put(&fixture->redis, "{\"max_channel_id\":501,\"title\":\"\",\"category2\":\"\"}", 501);
    char *body = fixture_body(fixture, "channel/by-id/501/");
    json_assert_at(body, "data.title", "\"\"");
    json_assert_at(body, "data.category2", "\"\"");
    free(body);
    redis_do(&fixture->redis, "ZREM channels:index 501");
}

TEST_CASE(fields_that_are_not_of_the_contract_are_not_shown)
{
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "HSET channels:card:-1 secret_note hidden owner hidden");
    assert_members(fixture, "channel/by-id/-1/", "data", CARD_MEMBERS);
    assert_members(fixture, "channels/", "data.3", SUMMARY_MEMBERS);
}

TEST_CASE(numbers_are_written_over_the_full_range)
{
    char *first = fixture_body(*state, "channel/by-id/9223372036854775807/");
    char *second = fixture_body(*state, "channel/by-id/-9223372036854775808/");
    assert_int_equal(text_count(first, "\"max_channel_id\":9223372036854775807"), 1);
    assert_int_equal(text_count(first, "\"followers_cnt_today\":9223372036854775807"), 1);
    assert_int_equal(text_count(second, "\"max_channel_id\":-9223372036854775808"), 1);
    assert_int_equal(text_count(second, "\"er_48h\":-9223372036854775808"), 1);
    free(first);
    free(second);
}

TEST_CASE(text_stays_utf8_without_escapes)
{
    static const char title[] =
        "\xD0\x9F\xD0\xBB \xF0\x9F\x98\x80 \xE4\xB8\xAD \xE2\x80\xA8 \xC2\x80 </script>&'\x7F";
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "HSET channels:card:600 max_channel_id 600 title %s", title);
    char *body = fixture_body(fixture, "channel/by-id/600/");
    assert_int_equal(text_count(body, title), 1);
    assert_int_equal(text_count(body, "\\u"), 0);
    free(body);
}

/* Every control character, quotes and backslashes: raw ones would break the document. */
TEST_CASE(control_characters_are_escaped)
{
    struct fixture *fixture = *state;
    char title[40];
    size_t length = 0;
    for (char c = 0; c < 0x20; c++)
        title[length++] = c;
    title[length++] = '"';
    title[length++] = '\\';
    title[length++] = '/';
    redis_do(&fixture->redis, "HSET channels:card:601 max_channel_id 601 title %b", title, length);
    char *body = fixture_body(fixture, "channel/by-id/601/");
    for (const char *c = body; *c != '\0'; c++)
        assert_true((unsigned char)*c >= 0x20);
    json_assert_at(
        body, "data.title",
        "\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000B\\f\\r\\u000E\\u000F"
        "\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001A\\u001B\\u001C"
        "\\u001D\\u001E\\u001F\\\"\\\\/\"");
    free(body);
}

TEST_CASE(long_text_comes_whole)
{
    struct fixture *fixture = *state;
    char *text = text_repeat('x', 300000);
    redis_do(&fixture->redis, "HSET channels:card:602 max_channel_id 602 description %s", text);
    char *body = fixture_body(fixture, "channel/by-id/602/");
    char *expected = text_printf("\"%s\"", text);
    json_assert_at(body, "data.description", expected);
    free(expected);
    free(body);
    free(text);
}
