/* channelctl load: what it writes, what it skips and refuses, and how it ends early. */

#include "support/ctl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST_GROUP(ctl_setup, ctl_teardown)

/* ---- What is written ---- */

TEST_CASE_WITH(load_writes_card_link_and_index, ctl_empty, NULL)
{
    ctl_expect_load("{\"max_channel_id\":-7,\"title\":\"T\",\"link\":\"https://max.ru/seven\","
                    "\"category\":null,\"followers_history\":{ \"2026-11-20\" : 1 },\"views_24h\":5,"
                    "\"updated_at\":\"2026-11-20T10:06:06\"}\n",
                    NULL, 0);
    CTL_EXPECT_REPLY("T", "HGET channels:card:-7 title");
    CTL_EXPECT_REPLY("{\"2026-11-20\":1}", "HGET channels:card:-7 followers_history");
    CTL_EXPECT_REPLY("-7", "GET channels:link:https://max.ru/seven");
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), 1);
    assert_int_equal(redis_integer(&redis, "HLEN channels:card:-7"), 6);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 3);
}

TEST_CASE_WITH(load_stores_each_value_unchanged, ctl_empty, NULL)
{
    ctl_expect_load("{\"max_channel_id\":-9223372036854775808,\"title\":\"a\\\"\\n\\u0007\\ud83d\\ude00\","
                    "\"description\":\"\",\"views_24h\":9223372036854775807,\"er_24h\":-1}\n",
                    NULL, 0);
    CTL_EXPECT_REPLY("a\"\n\x07\xF0\x9F\x98\x80", "HGET channels:card:%lld title", (long long)INT64_MIN);
    CTL_EXPECT_REPLY("", "HGET channels:card:%lld description", (long long)INT64_MIN);
    CTL_EXPECT_REPLY("9223372036854775807", "HGET channels:card:%lld views_24h", (long long)INT64_MIN);
    CTL_EXPECT_REPLY("-1", "HGET channels:card:%lld er_24h", (long long)INT64_MIN);
}

TEST_CASE_WITH(load_reads_whole_responses_of_the_api, ctl_empty, NULL)
{
    ctl_expect_load("{\"success\":true,\"data\":{\"max_channel_id\":1,\"title\":\"T\",\"category\":null}}\n"
                    "{\"data\": {\"max_channel_id\": 2, \"title\": \"U\"}, \"success\": true}\n",
                    NULL, 0);
    CTL_EXPECT_REPLY("T", "HGET channels:card:1 title");
    CTL_EXPECT_REPLY("U", "HGET channels:card:2 title");
    ctl_expect_index("1 2");
    ctl_expect_sound();
}

TEST_CASE_WITH(load_refuses_responses_without_a_card, ctl_empty, NULL)
{
    static const char page[] =
        "{\"success\":true,\"data\":[{\"max_channel_id\":1,\"title\":\"T\"}],\"pagination\":"
        "{\"page\":1,\"per_page\":100,\"count\":1,\"has_next\":false}}\n";
    static const char *const others[] = {
        "{\"success\":false,\"error\":\"Channel not found\"}\n",
        "{\"success\":false,\"data\":{\"max_channel_id\":1}}\n",
        "{\"success\":true,\"data\":null}\n",
        "{\"success\":true,\"data\":{\"max_channel_id\":1},\"more\":1}\n",
    };
    ctl_expect(
        ctl_load(page, NULL), 1, NULL,
        "file.ndjson:1: is a page of the list, which lacks most fields of its channels: load their cards");
    for (size_t i = 0; i < TEST_COUNT(others); i++)
        ctl_expect(ctl_load(others[i], NULL), 1, NULL, "file.ndjson:1: is a response without a card");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

TEST_CASE_WITH(load_removes_fields_that_are_null_or_unknown, ctl_empty, NULL)
{
    redis_do(&redis, "HSET channels:card:7 unheard_of x");
    ctl_expect_load("{\"max_channel_id\":7,\"title\":\"T\",\"category\":\"c\"}\n", NULL, 0);
    ctl_expect_load("{\"max_channel_id\":7,\"title\":\"U\",\"category\":null}\n", NULL, 0);
    assert_int_equal(redis_integer(&redis, "HLEN channels:card:7"), 2);
    ctl_expect_sound();
}

static char *write_samples(size_t count)
{
    char *path = text_printf("%s/many.ndjson", redis.dir.path);
    catalogue_write_file(path, count);
    return path;
}

/* Each is short: nobody else is served while Redis executes it. */
TEST_CASE_WITH(load_writes_a_hundred_channels_in_one_transaction, ctl_empty, NULL)
{
    AUTOFREE char *path = write_samples(1000);
    ctl_expect(CTL("load", path), 0, NULL, NULL);
    assert_in_range(redis_calls(&redis, "exec"), 10, 15); /* some take, renew and release the lock */
    assert_int_equal(redis_calls(&redis, "multi"), redis_calls(&redis, "exec"));
    assert_int_equal(redis_calls(&redis, "hset"), 1000);
    ctl_expect_sound();
}

TEST_CASE_WITH(load_does_not_write_unchanged_channels, ctl_empty, NULL)
{
    AUTOFREE char *path = write_samples(600);
    ctl_expect(CTL("load", path), 0, NULL, NULL);
    redis_do(&redis, "HSET %s title changed", "channels:card:1008");
    redis_do(&redis, "CONFIG RESETSTAT");
    ctl_expect(CTL("load", path), 0, "600 channels: 1 changed, 0 refused", NULL);
    assert_int_equal(redis_calls(&redis, "hset"), 1);
    assert_int_equal(redis_calls(&redis, "zadd"), 0);
}

TEST_CASE_WITH(load_restores_a_missing_index_entry_or_link_key, ctl_empty, NULL)
{
    static const char text[] = CTL_LINKED(1, "one");
    ctl_expect_load(text, NULL, 0);
    redis_do(&redis, "ZREM channels:index 1");
    ctl_expect_load(text, NULL, 0);
    ctl_expect_sound();
    redis_do(&redis, "DEL channels:link:https://max.ru/one");
    ctl_expect_load(text, NULL, 0);
    ctl_expect_sound();
}

TEST_CASE_WITH(load_appends_new_channels_in_file_order, ctl_empty, NULL)
{
    ctl_expect_load(CTL_CHANNEL(30) CTL_CHANNEL(-10) CTL_CHANNEL(20), NULL, 0);
    ctl_expect_index("30 -10 20");
    ctl_expect_load(CTL_CHANNEL(5) "{\"max_channel_id\":20,\"title\":\"x\"}\n" CTL_CHANNEL(4), NULL, 0);
    ctl_expect_index("30 -10 20 5 4");
}

TEST_CASE_WITH(load_fails_if_no_score_is_higher_than_the_last, ctl_empty, NULL)
{
    redis_do(&redis, "ZADD channels:index 4503599627370496 99"); /* 2^52 */
    ctl_expect_load(CTL_CHANNEL(6), NULL, 0);
    ctl_expect_index("99 6");
    ctl_expect(ctl_load(CTL_CHANNEL(7), NULL), 1, NULL, "the highest score of the index is above 2^52");
    redis_do(&redis, "ZADD channels:index 1e300 99");
    ctl_expect(ctl_load(CTL_CHANNEL(7), NULL), 1, NULL, "the highest score of the index is above 2^52");
}

TEST_CASE_WITH(load_uses_the_last_line_of_a_repeated_channel, ctl_empty, NULL)
{
    ctl_expect_load("{\"max_channel_id\":1,\"title\":\"first\",\"link\":\"https://max.ru/a\"}\n" CTL_CHANNEL(
                        2) "{\"max_channel_id\":1,\"title\":\"second\",\"link\":\"https://max.ru/b\"}\n",
                    NULL, 0);
    CTL_EXPECT_REPLY("second", "HGET channels:card:1 title");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:https://max.ru/a"), 0);
    ctl_expect_index("1 2");
    ctl_expect_sound();
}

/* However far apart the lines are, and whatever their order: each load would write both again. */
TEST_CASE_WITH(load_writes_a_repeated_channel_once, ctl_empty, NULL)
{
    AUTOFREE char *between = ctl_channels(10, 250);
    AUTOFREE char *text = text_printf("%s%s%s", "{\"max_channel_id\":1,\"title\":\"old\"}\n", between,
                                      "{\"max_channel_id\":1,\"title\":\"new\"}\n");
    ctl_expect(ctl_load(text, NULL), 0, "251 channels: 251 changed, 0 refused in ",
               "channelctl: 1 line repeated a channel; the last line of each channel was used\n");
    CTL_EXPECT_REPLY("new", "HGET channels:card:1 title");
    redis_do(&redis, "CONFIG RESETSTAT");
    ctl_expect(ctl_load(text, NULL), 0, "251 channels: 0 changed, 0 refused in ", NULL);
    assert_int_equal(redis_calls(&redis, "hset"), 0);
    ctl_expect(ctl_load(text, "--replace"), 0, "251 channels: 0 changed, 0 refused, 0 removed in ", NULL);
    assert_int_equal(redis_calls(&redis, "hset"), 0);
    ctl_expect_sound();
}

/* A history of 30 days, oldest first: no client sees the days go by. */
TEST_CASE_WITH(load_counts_channels_and_not_lines, ctl_empty, NULL)
{
    AUTOFREE char *text = text_printf("%s", "");
    for (int day = 1; day <= 30; day++)
        for (int id = 1; id <= 110; id++)
            text = text_append(text, text_temp("{\"max_channel_id\":%d,\"views_24h\":%d}\n", id, day));
    ctl_expect(ctl_load(text, NULL), 0, "110 channels: 110 changed, 0 refused in ",
               "3190 lines repeated a channel");
    assert_int_equal(redis_calls(&redis, "hset"), 110);
    ctl_expect(ctl_load(text, NULL), 0, "110 channels: 0 changed, 0 refused in ", NULL);
    CTL_EXPECT_REPLY("30", "HGET channels:card:110 views_24h");
}

TEST_CASE_WITH(load_of_a_file_without_channels_is_an_error, ctl_empty, NULL)
{
    static const char expected[] = "channelctl: the file has no channels\n"
                                   "channelctl: stopped before anything was loaded\n";
    ctl_expect(ctl_load("", NULL), 1, "", expected);
    ctl_expect(ctl_load("\n\r\n", NULL), 1, "", expected);
    ctl_expect(CTL("load", "--sample", "0"), 1, "", expected);
}

TEST_CASE_WITH(load_removes_ttls_of_unchanged_channels_too, ctl_empty, NULL)
{
    static const char text[] = CTL_LINKED(1, "a") CTL_LINKED(2, "b") CTL_CHANNEL(3);
    ctl_expect_load(text, NULL, 0);
    redis_do(&redis, "EXPIRE channels:card:1 1000");
    redis_do(&redis, "EXPIRE channels:link:https://max.ru/b 1000");
    redis_do(&redis, "EXPIRE channels:index 1000");
    ctl_expect(ctl_load(text, NULL), 0, "3 channels: 2 changed, 0 refused",
               "2 channels had a TTL, which was removed\n"
               "channelctl: the index had a TTL, which was removed\n");
    assert_int_equal(redis_integer(&redis, "PTTL channels:card:1"), -1);
    assert_int_equal(redis_integer(&redis, "PTTL channels:link:https://max.ru/b"), -1);
    assert_int_equal(redis_integer(&redis, "PTTL channels:index"), -1);
    ctl_expect_sound();
}

TEST_CASE_WITH(load_uses_the_prefix_and_host_of_its_settings, ctl_empty, NULL)
{
    AUTOFREE char *path = text_printf("%s/one.ndjson", redis.dir.path);
    assert_true(text_write_file(path, "{\"max_channel_id\":1,\"link\":\"https://c.example/x\"}\n"));
    ctl_expect(CTL("--redis-prefix", "p[1]*:", "--channel-host=c.example", "load", path), 0, NULL, NULL);
    assert_int_equal(redis_integer(&redis, "EXISTS p[1]*:card:1 p[1]*:link:https://c.example/x p[1]*:index"),
                     3);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 3);
}

TEST_CASE_WITH(load_prints_one_line_of_summary, ctl_empty, NULL)
{
    AUTO(ctl_run_free)
    struct ctl_run run = ctl_load("{\"max_channel_id\":1}\r\n\n  \n{\"max_channel_id\":2}", NULL);
    assert_int_equal(run.status, 0);
    assert_int_equal(strncmp(run.out, "2 channels: 2 changed, 0 refused in ", 36), 0);
    assert_int_equal(text_count(run.out, "\n"), 1);
    assert_string_equal(run.err, ""); /* no terminal, no progress */
}

TEST_CASE_WITH(load_reads_standard_input, ctl_empty, NULL)
{
    struct ctl_run run = ctl_shell(text_printf("printf '{\"max_channel_id\":1}\\nbad\\n' | \"$CTL\" load -"));
    ctl_expect(run, 1, "1 channel: 1 changed, ", "-:2: not a JSON object");
    ctl_expect_index("1");
}

/* ---- Links ---- */

static void expect_owner(const char *slug, const char *id)
{
    CTL_EXPECT_REPLY(id, "GET channels:link:https://max.ru/%s", slug);
}

TEST_CASE_WITH(load_removes_the_key_of_a_former_link, ctl_empty, NULL)
{
    ctl_expect_load(CTL_LINKED(1, "old"), NULL, 0);
    ctl_expect_load(CTL_LINKED(1, "new"), NULL, 0);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:https://max.ru/old"), 0);
    ctl_expect_sound();
    ctl_expect_load("{\"max_channel_id\":1,\"link\":null}\n", NULL, 0);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:https://max.ru/new"), 0);
    ctl_expect_sound();
}

TEST_CASE_WITH(load_keeps_a_former_link_of_another_channel, ctl_empty, NULL)
{
    ctl_expect_load(CTL_LINKED(1, "a"), NULL, 0);
    redis_do(&redis, "SET channels:link:https://max.ru/a 2");
    ctl_expect_load(CTL_LINKED(1, "b"), NULL, 0);
    expect_owner("a", "2");
    expect_owner("b", "1");
}

TEST_CASE_WITH(load_moves_links_between_channels, ctl_empty, NULL)
{
    ctl_expect_load(CTL_LINKED(1, "a") CTL_LINKED(2, "b"), NULL, 0);
    ctl_expect(ctl_load(CTL_LINKED(1, "b") CTL_LINKED(2, "a"), NULL), 0, NULL,
               "2 links belonged to another channel before");
    ctl_expect_sound();
    ctl_expect_load(CTL_LINKED(3, "b") CTL_LINKED(1, "c"), NULL, 0);
    expect_owner("b", "3");
    ctl_expect_sound();
}

/* Which channel Redis had before and how far apart the lines are makes no difference. */
TEST_CASE_WITH(load_refuses_a_second_channel_with_the_same_link, ctl_empty, NULL)
{
    AUTOFREE char *more = ctl_channels(10, 600); /* more than a batch */
    AUTOFREE char *text = text_printf("%s%s%s", CTL_LINKED(1, "a"), more, CTL_LINKED(2, "a"));
    ctl_expect_load(CTL_LINKED(2, "a"), NULL, 0);
    for (int i = 0; i < 3; i++) {
        ctl_expect(ctl_load(text, NULL), 1,
                   i == 0 ? "601 channels: 601 changed, 1 refused" : "601 channels: 0 changed, 1 refused",
                   "file.ndjson:602: link: https://max.ru/a is the link of channel 1 in an earlier line");
        expect_owner("a", "1");
    }
}

TEST_CASE_WITH(load_refuses_the_same_link_in_the_next_line, ctl_empty, NULL)
{
    struct ctl_run run = ctl_load(CTL_LINKED(0, "a") CTL_LINKED(2, "a"), "--replace");
    ctl_expect_text(run.err, "nothing was replaced or removed, because lines were refused");
    ctl_expect(run, 1, NULL, "file.ndjson:2: link: https://max.ru/a is the link of channel 0");
    expect_owner("a", "0");
    ctl_expect_sound();
}

TEST_CASE_WITH(load_accepts_a_link_that_an_earlier_line_gave_up, ctl_empty, NULL)
{
    ctl_expect_load(CTL_LINKED(1, "a") CTL_LINKED(1, "b") CTL_LINKED(2, "a"), NULL, 0);
    expect_owner("a", "2");
    expect_owner("b", "1");
    ctl_expect_sound();
}

/* Whatever their order, and however many lines are between them. */
TEST_CASE(load_moves_links_within_a_file_in_each_order)
{
    static const char *const lines[] = {CTL_LINKED(1, "a"), CTL_LINKED(2, "a"), CTL_LINKED(1, "b")};
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}};
    AUTOFREE char *more = ctl_channels(10, 600);
    const char *const between[] = {"", more};
    for (size_t i = 0; i < TEST_COUNT(orders) * TEST_COUNT(between) * 2; i++) {
        const int *order = orders[i / 4];
        const char *apart = between[i % 2];
        (void)ctl_empty(NULL);
        AUTOFREE char *text =
            text_printf("%s%s%s%s%s", lines[order[0]], apart, lines[order[1]], apart, lines[order[2]]);
        if (i / 2 % 2 == 1)
            ctl_expect_load(CTL_LINKED(1, "a"), NULL, 0);
        ctl_expect_load(text, "--replace", 0);
        expect_owner("a", "2");
        expect_owner("b", "1");
        ctl_expect_sound();
    }
}

/* Line 4 is the last one of channel 1, but is refused: line 1 is not loaded in its place. */
TEST_CASE_WITH(load_does_not_load_a_line_in_place_of_a_later_one_that_is_refused, ctl_empty, NULL)
{
    ctl_expect(ctl_load(CTL_LINKED(1, "a") CTL_LINKED(3, "c") CTL_LINKED(2, "a") CTL_LINKED(1, "c"), NULL), 1,
               "2 channels: 2 changed, 1 refused in ",
               "file.ndjson:4: link: https://max.ru/c is the link of channel 3 in an earlier line");
    expect_owner("a", "2");
    expect_owner("c", "3");
    ctl_expect_index("3 2");
    ctl_expect_sound();
    ctl_expect(
        ctl_load("{\"max_channel_id\":3,\"title\":\"old\"}\n{\"max_channel_id\":3,\"er_24h\":1.5}\n", NULL),
        1, "0 channels: 0 changed, 1 refused in ", "file.ndjson:2: er_24h: 1.5 is not");
    assert_int_equal(redis_integer(&redis, "HEXISTS channels:card:3 title"), 0);
}

/* ---- Lines that are refused ---- */

TEST_CASE_WITH(load_names_bad_lines_and_loads_the_rest, ctl_empty, NULL)
{
    static const char text[] = "{\"max_channel_id\":1,\"title\":\"one\"}\n"
                               "{\"max_channel_id\":2,\"views_24h\":\"many\",\"avatar\":3}\n"
                               "not json\n"
                               "{\"title\":\"no id\"}\n"
                               "\n"
                               "{\"max_channel_id\":5,\"updated_at\":\"yesterday\"}\n"
                               "{\"max_channel_id\":6,\"title\":\"six\"}\n"
                               "[7]\n";
    static const char *const named[] = {
        "file.ndjson:2: views_24h: \"many\" is not a 64-bit integer or null\n",
        "file.ndjson:2: avatar: 3 is not a string or null\n",
        "file.ndjson:3: not a JSON object (",
        "file.ndjson:4: max_channel_id is missing\n",
        "file.ndjson:6: updated_at: \"yesterday\" is not a date and time YYYY-MM-DDTHH:MM:SS or null\n",
        "file.ndjson:8: not a JSON object\n"};
    struct ctl_run run = ctl_load(text, NULL);
    for (size_t i = 0; i < TEST_COUNT(named); i++)
        ctl_expect_text(run.err, named[i]);
    assert_int_equal(text_count(run.err, "\n"), TEST_COUNT(named));
    ctl_expect(run, 1, "2 channels: 2 changed, 5 refused", NULL);
    ctl_expect_index("1 6");
}

/* Members that follow a valid id, at both sides of each rule. */
static const char *const accepted[] = {
    "\"title\":\"\"",
    "\"title\":null",
    "\"link\":\"https://max.ru/a\"",
    "\"link\":\"https://max.ru/a/b\"",
    "\"link\":null",
    "\"is_a_plus_flag\":0",
    "\"is_a_plus_flag\":1",
    "\"er_24h\":-9223372036854775808",
    "\"er_24h\":9223372036854775807",
    "\"views_48h\":2,\"views_24h\":2,\"followers_cnt_today\":0",
    "\"views_24h\":2",
    "\"followers_history\":null",
    "\"followers_history\":{}",
    "\"updated_at\":\"2028-02-29T23:59:59\"",
    "\"updated_at\":null",
};

static const char *const refused[][2] = {
    {"title", "\"title\":1"},
    {"title", "\"title\":[]"},
    {"title", "\"title\":\"a\",\"title\":\"b\""},
    {"Title", "\"Title\":\"a\""},
    {"unheard_of", "\"unheard_of\":null"},
    {"max_channel_id", "\"max_channel_id\":9"},
    {"link", "\"link\":\"\""},
    {"link", "\"link\":\"http://max.ru/a\""},
    {"link", "\"link\":\"https://web.max.ru/a\""},
    {"link", "\"link\":\"https://MAX.ru/a\""},
    {"link", "\"link\":\"https://max.ru/\""},
    {"link", "\"link\":\"https://max.ru/a/\""},
    {"link", "\"link\":\"https://max.ru/a?b\""},
    {"is_a_plus_flag", "\"is_a_plus_flag\":2"},
    {"is_a_plus_flag", "\"is_a_plus_flag\":-1"},
    {"is_a_plus_flag", "\"is_a_plus_flag\":true"},
    {"er_24h", "\"er_24h\":1.0"},
    {"er_24h", "\"er_24h\":1e2"},
    {"er_24h", "\"er_24h\":9223372036854775808"},
    {"er_24h", "\"er_24h\":-9223372036854775809"},
    {"er_24h", "\"er_24h\":\"1\""},
    {"followers_history", "\"followers_history\":[]"},
    {"followers_history", "\"followers_history\":\"{}\""},
    {"followers_history", "\"followers_history\":{\"2026-02-29\":1}"},
    {"followers_history", "\"followers_history\":{\"2026-11-20\":1.5}"},
    {"followers_history", "\"followers_history\":{\"2026-11-20\":null}"},
    {"followers_history", "\"followers_history\":{\"2026-11-20\":1,\"2026-11-20\":1}"},
    {"followers_history", "\"followers_history\":{\"2026-11-20\":-1}"},
    {"followers_cnt_today", "\"followers_cnt_today\":-1"},
    {"views_24h", "\"views_24h\":-1"},
    {"views_48h", "\"views_48h\":-1"},
    {"views_48h", "\"views_48h\":1,\"views_24h\":2"},
    {"updated_at", "\"updated_at\":\"2026-02-29T00:00:00\""},
    {"updated_at", "\"updated_at\":\"2026-11-20T24:00:00\""},
    {"updated_at", "\"updated_at\":\"2026-11-20T00:00:00Z\""},
    {"updated_at", "\"updated_at\":\"2026-11-20 00:00:00\""},
    {"updated_at", "\"updated_at\":1}"},
};

TEST_CASE_WITH(load_accepts_each_valid_value, ctl_empty, NULL)
{
    AUTOFREE char *text = text_printf("%s", "");
    for (size_t i = 0; i < TEST_COUNT(accepted); i++) {
        text = text_append(text, text_temp("{\"max_channel_id\":%zu,%s}\n", i, accepted[i]));
    }
    ctl_expect_load(text, NULL, 0);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), TEST_COUNT(accepted));
}

/* Not one that means the same. */
TEST_CASE_WITH(refusals_show_the_text_of_the_file, ctl_empty, NULL)
{
    static const char *const rows[][2] = {
        {"\"er_24h\":1e2", "er_24h: 1e2 is not a 64-bit integer or null\n"},
        {"\"er_24h\":1.50", "er_24h: 1.50 is not a 64-bit integer or null\n"},
        {"\"er_24h\":1e999", "er_24h: 1e999 is not a 64-bit integer or null\n"},
        {"\"er_24h\":-0", "er_24h: -0 is not a 64-bit integer or null\n"},
        {"\"er_24h\":18446744073709551616", "er_24h: 18446744073709551616 is not a 64-bit integer or null\n"},
        {"\"title\":1E+1", "title: 1E+1 is not a string or null\n"},
        {"\"is_a_plus_flag\":1.0", "is_a_plus_flag: 1.0 is not 0, 1 or null\n"},
        {"\"views_24h\":-7", "views_24h: -7 is below 0\n"},
        {"\"followers_history\":{\"2026-11-20\":1e2}",
         "followers_history: {\"2026-11-20\":1e2} is not an object"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTOFREE char *line = text_printf("{\"max_channel_id\":1,%s}\n", rows[i][0]);
        ctl_expect(ctl_load(line, NULL), 1, NULL, rows[i][1]);
    }
}

/* The last line of the table is not JSON, so it has no field to name. */
TEST_CASE_WITH(load_refuses_each_invalid_value, ctl_empty, NULL)
{
    for (size_t i = 0; i < TEST_COUNT(refused); i++) {
        AUTOFREE char *line = text_printf("{\"max_channel_id\":%zu,%s}\n", i, refused[i][1]);
        AUTOFREE char *named = i + 1 == TEST_COUNT(refused)
                                   ? text_printf("file.ndjson:1: not a JSON object (")
                                   : text_printf("file.ndjson:1: %s: ", refused[i][0]);
        struct ctl_run run = ctl_load(line, NULL);
        assert_int_equal(text_count(run.err, "\n"), 1);
        ctl_expect(run, 1, NULL, named);
    }
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

TEST_CASE_WITH(load_refuses_a_line_without_an_id, ctl_empty, NULL)
{
    static const char *const lines[] = {"{}\n", "{\"max_channel_id\":null}\n", "{\"max_channel_id\":\"1\"}\n",
                                        "{\"max_channel_id\":1.0}\n",
                                        "{\"max_channel_id\":9223372036854775808}\n"};
    for (size_t i = 0; i < TEST_COUNT(lines); i++)
        ctl_expect(ctl_load(lines[i], NULL), 1, NULL,
                   i == 0 ? ":1: max_channel_id is missing" : " is not a 64-bit integer\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

TEST_CASE_WITH(load_names_the_value_and_the_host_of_links, ctl_empty, NULL)
{
    ctl_expect(ctl_load("{\"max_channel_id\":1,\"link\":\"http://max.ru/a\",\"er_24h\":23.0}\n", NULL), 1,
               NULL,
               "file.ndjson:1: link: \"http://max.ru/a\" is not https://max.ru/<slug> (of at most 256 bytes; "
               "--channel-host) or null\n");
    ctl_expect(ctl_load("{\"max_channel_id\":1,\"er_24h\":23.0}\n", NULL), 1, NULL,
               "file.ndjson:1: er_24h: 23.0 is not a 64-bit integer or null\n");
}

TEST_CASE_WITH(load_refuses_a_slug_of_more_than_256_bytes, ctl_empty, NULL)
{
    AUTOFREE char *slug = text_repeat('s', 256);
    ctl_expect(ctl_load(text_temp("{\"max_channel_id\":1,\"link\":\"https://max.ru/%ss\"}\n", slug), NULL), 1,
               NULL, "sss... is not https://max.ru/<slug> (of at most 256 bytes; --channel-host) or null\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
    ctl_expect(ctl_load(text_temp("{\"max_channel_id\":1,\"link\":\"https://max.ru/%s\"}\n", slug), NULL), 0,
               NULL, NULL);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:link:https://max.ru/%s", slug), 1);
}

TEST_CASE_WITH(load_keeps_all_days_of_a_long_history, ctl_empty, NULL)
{
    static const char days[] = "{\"2026-11-09\":11,\"2026-11-10\":0,\"2026-11-11\":1,\"2026-11-12\":2,"
                               "\"2026-11-13\":3,\"2026-11-14\":4,\"2026-11-15\":5,\"2026-11-16\":6,"
                               "\"2026-11-17\":7,\"2026-11-18\":8,\"2026-11-19\":9}";
    ctl_expect_load(text_temp("{\"max_channel_id\":1,\"followers_history\":%s}\n", days), NULL, 0);
    CTL_EXPECT_REPLY(days, "HGET channels:card:1 followers_history");
}

TEST_CASE_WITH(load_prints_the_first_20_problems, ctl_empty, NULL)
{
    AUTOFREE char *text = text_printf("%s", "");
    for (int i = 0; i < 25; i++)
        text = text_append(text, "broken\n");
    struct ctl_run run = ctl_load(text, NULL);
    assert_int_equal(text_count(run.err, "file.ndjson:"), 20);
    ctl_expect_text(run.err, "file.ndjson:20: ");
    ctl_expect(run, 1, "25 refused", "and 5 more\n");
}

TEST_CASE_WITH(load_escapes_control_characters_in_messages, ctl_empty, NULL)
{
    ctl_expect(ctl_load("{\"max_channel_id\":1,\"a\\u001b[2Jb\":1}\n", NULL), 1, NULL,
               ":1: a\\u001b[2Jb: no such field");
}

/* ---- Files of another form ---- */

/* What the first line shows, and what is said of the whole file, once. */
static const struct {
    const char *text, *err;
} forms[] = {
    {"\x1F\x8B\x08\x01text\n" CTL_CHANNEL(1), "it is compressed: zcat FILE | channelctl load -"},
    {"(\xB5/\xFDtext", "it is compressed: zstdcat FILE | channelctl load -"},
    {"\xFD"
     "7zXZ",
     "it is compressed: xzcat FILE | channelctl load -"},
    {"\xFF\xFE{", "it is UTF-16: iconv -f UTF-16 -t UTF-8 FILE | channelctl load -"},
    {"[{\"max_channel_id\":1}]\n",
     "a JSON array, not one object per line: jq -c '.[]' FILE | channelctl load -"},
    {" [ \r\n" CTL_CHANNEL(1) "]\n", "a JSON array, not one object per line: jq -c '.[]' FILE"},
    {"\xEF\xBB\xBF[]", "a JSON array, not one object per line: jq -c '.[]' FILE"},
    {"{\r\n  \"max_channel_id\": 1\r\n}\r\n", "several lines, not one object per line: jq -c . FILE"},
    {"max_channel_id,title\n1,t\n2,t\n", "CSV? see \"Other formats\" in docs/schema.md"},
    {"\xEF\xBB\xBFid;title\n1;t\n" CTL_CHANNEL(1), "CSV? see \"Other formats\" in docs/schema.md"},
    {"id\ttitle\n1\tt\n", "CSV? see \"Other formats\" in docs/schema.md"},
};

TEST_CASE_WITH(load_names_another_form_once_and_loads_nothing, ctl_empty, NULL)
{
    static const char *const flags[] = {NULL, "--replace"};
    ctl_expect_load(CTL_CHANNEL(7), NULL, 0);
    for (size_t i = 0; i < 2 * TEST_COUNT(forms); i++) {
        struct ctl_run run = ctl_load(forms[i / 2].text, flags[i % 2]);
        assert_int_equal(text_count(run.err, "file.ndjson"), 1);
        ctl_expect(run, 1, "", forms[i / 2].err);
        ctl_expect_index("7");
    }
}

/* One that is longer than a line may be. */
TEST_CASE_WITH(load_names_an_array_in_a_long_line, ctl_empty, NULL)
{
    AUTOFREE char *item = text_repeat('x', (size_t)1024 * 1024);
    ctl_expect(ctl_load(text_temp("[\"%s\",1]\n", item), NULL), 1, NULL,
               "a JSON array, not one object per line");
}

TEST_CASE_WITH(load_skips_a_byte_order_mark, ctl_empty, NULL)
{
    struct ctl_run run = ctl_load("\xEF\xBB\xBF" CTL_CHANNEL(1) CTL_CHANNEL(2), NULL);
    assert_string_equal(run.err, "");
    ctl_expect(run, 0, "2 channels: 2 changed, 0 refused ", NULL);
    run = ctl_shell(text_printf(
        "{ printf '\\357'; sleep 0.1; printf '\\273\\277{\"max_channel_id\":3}'; } | \"$CTL\" load -"));
    ctl_expect(run, 0, "1 channel: 1 changed, 0 refused ", NULL);
    ctl_expect(ctl_load("\xEF\xBB\xBF", NULL), 1, "", "the file has no channels");
}

/* A line of `length` bytes. */
static char *line_of(size_t length, int id)
{
    AUTOFREE char *head = text_printf("{\"max_channel_id\":%d,\"title\":\"", id);
    AUTOFREE char *title = text_repeat('x', length - strlen(head) - 2);
    char *line = text_printf("%s%s\"}\n", head, title);
    return line;
}

TEST_CASE_WITH(load_accepts_lines_of_up_to_1_mib, ctl_empty, NULL)
{
    enum { LIMIT = 1024 * 1024 };
    AUTOFREE char *text = line_of(LIMIT, 1);
    AUTOFREE char *longer = line_of(LIMIT + 1, 2);
    AUTOFREE char *much_longer = line_of((size_t)5 * LIMIT, 3);
    text = text_append(text, longer);
    text = text_append(text, much_longer);
    text = text_append(text, "{\"max_channel_id\":4}\n{\"max_channel_id\":\"five\"}\n");
    struct ctl_run run = ctl_load(text, NULL);
    ctl_expect_text(run.err, "file.ndjson:2: the line is longer than 1048576 bytes\n");
    ctl_expect_text(run.err, "file.ndjson:3: the line is longer than 1048576 bytes\n");
    ctl_expect(run, 1, NULL, "file.ndjson:5: max_channel_id: ");
    ctl_expect_index("1 4");
    assert_int_equal(redis_integer(&redis, "HSTRLEN channels:card:1 title"), LIMIT - 31);
}

/* A key of another type may belong to another program: it is named, not overwritten. */
TEST_CASE_WITH(load_refuses_lines_whose_keys_have_another_type, ctl_empty, NULL)
{
    static const char text[] =
        "{\"max_channel_id\":1,\"title\":\"one\"}\n" CTL_CHANNEL(7) CTL_LINKED(8, "eight");
    redis_do(&redis, "SET channels:card:7 text");
    redis_do(&redis, "LPUSH channels:link:https://max.ru/eight x");
    struct ctl_run run = ctl_load(text, NULL);
    ctl_expect_text(run.err, "file.ndjson:2: channels:card:7 in Redis is not a hash: delete it");
    ctl_expect(run, 1, "1 channel: 1 changed, 2 refused",
               "file.ndjson:3: channels:link:https://max.ru/eight in Redis is not a string: ");
    assert_int_equal(redis_integer(&redis, "STRLEN channels:card:7"), 4);
    redis_do(&redis, "DEL channels:card:7 channels:link:https://max.ru/eight");
    ctl_expect_load(text, NULL, 0);
    ctl_expect_sound();
}

/* ---- Loads that end early ---- */

static void interrupt_load(const char *flag, int signal)
{
    struct ctl_held held;
    (void)ctl_empty(NULL);
    redis_do(&redis, "ZADD channels:index 1 1000");
    redis_do(&redis, "HSET channels:card:1000 max_channel_id 1000");
    ctl_start_held(&held, flag);
    process_signal(&held.process, signal);
    ctl_release_held(&held);
    struct ctl_run run = ctl_finish_held(&held);
    const char *stopped = strstr(run.err, "stopped after ");
    assert_non_null(stopped);
    long long count = strtoll(stopped + strlen("stopped after "), NULL, 10);
    ctl_expect_text(run.err, text_temp(" of 1000 channels of %s/held.ndjson: %lld loaded, 0 unchanged\n",
                                       redis.dir.path, count));
    assert_in_range(count, 100, CTL_HELD_CHANNELS - 1);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), count + 1);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:index.next"), 0);
    ctl_expect(run, 128 + signal, NULL, NULL);
    ctl_expect_sound();
}

TEST_CASE(interrupted_load_prints_how_much_is_loaded)
{
    interrupt_load(NULL, SIGINT);
    interrupt_load(NULL, SIGTERM);
    interrupt_load(NULL, SIGHUP);
}

TEST_CASE(load_is_interrupted_in_a_line_without_end)
{
    struct process process;
    const char *const args[] = {"load", "/dev/zero", NULL};
    (void)ctl_empty(NULL);
    ctl_start(&process, args);
    ctl_await_lock();
    process_signal(&process, SIGTERM);
    ctl_expect(ctl_finish(&process), 128 + SIGTERM, "", "stopped before anything was loaded");
}

TEST_CASE(interrupted_load_with_replace_replaces_nothing)
{
    interrupt_load("--replace", SIGINT);
}

/* Nothing is written before the end of the input is known. */
TEST_CASE_WITH(load_interrupted_while_it_reads_has_written_nothing, ctl_empty, NULL)
{
    struct process process;
    char *fifo = NULL;
    int fd = ctl_make_fifo(&fifo);
    ctl_start(&process, (const char *const[]){"load", fifo, NULL});
    ctl_feed(fd, CTL_CHANNEL(1));
    ctl_await_lock();
    process_signal(&process, SIGTERM);
    ctl_expect(ctl_finish(&process), 128 + SIGTERM, "", "stopped before anything was loaded\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
    (void)close(fd);
    free(fifo);
}

/* The lines that were read first are no longer there. */
static void change_file_during_load(const char *flag, const char *text, const char *why)
{
    struct ctl_held held;
    (void)ctl_empty(NULL);
    ctl_expect_load("{\"max_channel_id\":-1}\n", NULL, 0);
    ctl_start_held(&held, flag);
    AUTOFREE char *path = text_printf("%s/held.ndjson", redis.dir.path);
    assert_true(text_write_file(path, text));
    ctl_release_held(&held);
    struct ctl_run run = ctl_finish_held(&held);
    ctl_expect_text(run.err, "/held.ndjson: it was changed while it was read\n");
    ctl_expect(run, 1, NULL, why);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:-1"), 1);
    ctl_expect_sound();
}

TEST_CASE(load_fails_when_its_file_is_changed_meanwhile)
{
    static const char why[] =
        "nothing was replaced or removed, because the file could not be read to its end";
    AUTOFREE char *other = ctl_channels(2, CTL_HELD_CHANNELS);
    change_file_during_load(NULL, "", "");
    change_file_during_load("--replace", "", why);
    change_file_during_load("--replace", other, why);
}

TEST_CASE_WITH(load_fails_when_redis_is_lost, ctl_empty, NULL)
{
    struct ctl_held held;
    ctl_start_held(&held, "--replace");
    redis_kill(&redis);
    ctl_release_held(&held);
    struct ctl_run run = ctl_finish_held(&held);
    assert_string_equal(run.out, "");
    ctl_expect_text(run.err, "channelctl: stopped ");
    ctl_expect(run, 1, NULL, "the connection to Redis was lost");
    redis_restart(&redis);
}

static void expect_refusal(const char *reason)
{
    struct ctl_run run = ctl_load(CTL_CHANNEL(1) CTL_CHANNEL(2), NULL);
    ctl_expect_text(run.err, "channelctl: stopped before anything was loaded\n");
    ctl_expect(run, 1, NULL, reason);
}

TEST_CASE_WITH(load_fails_on_an_error_reply, ctl_empty, NULL)
{
    redis_do(&redis, "CONFIG SET maxmemory 1");
    expect_refusal("Redis refused: OOM ");
    redis_do(&redis, "CONFIG SET maxmemory 0");
    redis_do(&redis, "REPLICAOF 127.0.0.1 1");
    expect_refusal("Redis refused: READONLY ");
    redis_do(&redis, "REPLICAOF NO ONE");
    redis_do(&redis, "SET channels:index text");
    expect_refusal("channels:index is not a sorted set: delete it, or load a valid file with --replace");
}

TEST_CASE_WITH(load_fails_on_a_file_that_cannot_be_read, ctl_empty, NULL)
{
    ctl_expect(CTL("load", "/nonexistent/file"), 1, NULL,
               "channelctl: cannot read /nonexistent/file: No such file or directory\n");
    ctl_expect(CTL("load", "/"), 1, NULL, "channelctl: cannot read /: Is a directory\n");
    ctl_expect(CTL("load", "redis://user:secret@h"), 1, NULL,
               "channelctl: cannot read the file: No such file or directory\n");
}
