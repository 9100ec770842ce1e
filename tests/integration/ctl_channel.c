/* channelctl show and remove: one channel is printed as Redis holds it, and removed completely or not at all.
 */

#include "support/ctl.h"
#include "support/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST_GROUP(ctl_setup, ctl_teardown)

/* Sample 4 is the channel 1. */
enum { CHANNELS = 250, SAMPLE = 4 };

static int fill(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "a key");
    catalogue_put_samples(&redis, CHANNELS);
    return 0;
}

static void expect_output(struct ctl_run run, int status, const char *out, const char *err)
{
    assert_string_equal(run.out, out);
    assert_string_equal(run.err, err);
    ctl_expect(run, status, NULL, NULL);
}

/* ---- show ---- */

#define PLACE "channelctl: channel 1 has place 5 of 250 and score 4: page 1\n"
#define LINK  "channelctl: https://max.ru/sample_4 leads to it\n"

TEST_CASE_WITH(show_prints_card_place_and_link, fill, NULL)
{
    static const char *const names[] = {"1", "https://max.ru/sample_4", "HTTP://WEB.max.ru/sample_4/?utm=x"};
    AUTOFREE char *card = catalogue_card(SAMPLE);
    AUTOFREE char *line = text_printf("%s\n", card);
    for (size_t i = 0; i < TEST_COUNT(names); i++)
        expect_output(CTL("show", names[i]), 0, line, PLACE LINK);
    redis_do(&redis, "ZADD channels:index 1e6 1");
    ctl_expect(CTL("show", "1"), 0, line, "channel 1 has place 250 of 250 and score 1000000: page 3\n");
}

TEST_CASE_WITH(show_takes_every_id, fill, NULL)
{
    ctl_expect(CTL("show", "-1"), 0, "{\"max_channel_id\":-1,", NULL);
    ctl_expect(CTL("show", "-9223372036854775808"), 0, "{\"max_channel_id\":-9223372036854775808,", NULL);
}

/* So a card can be kept, its channel removed, and loaded again. */
TEST_CASE_WITH(what_show_prints_can_be_loaded, fill, NULL)
{
    struct ctl_run run = ctl_shell(text_printf("\"$CTL\" show 1 | \"$CTL\" load -"));
    ctl_expect(run, 0, "1 channel: 0 changed, 0 refused", NULL);
    run = ctl_shell(text_printf("\"$CTL\" show 1 >kept && \"$CTL\" remove 1 && \"$CTL\" load kept"));
    ctl_expect(run, 0, "1 channel: 1 changed, 0 refused", NULL);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), CHANNELS);
    ctl_expect_sound();
}

/* Printed as JSON has them escaped, so that no stored text controls a terminal; other texts as they are. */
TEST_CASE_WITH(show_escapes_control_characters_and_load_reads_them, fill, NULL)
{
    static const char title[] =
        /* NOLINTNEXTLINE(misc-misleading-bidirectional): this is what must not be printed */
        "a\x7F\xC2\x9B[2J\xE2\x80\xAE\xE2\x81\xA6\xE2\x81\xA9 \xE2\x80\x8F\xC2\xA0\xF0\x9F\x8E\xAC";
    redis_do(&redis, "HSET channels:card:1 title %s", title);
    struct ctl_run run = CTL("show", "1");
    assert_null(strpbrk(run.out, "\x7F\033"));
    ctl_expect(run, 0,
               "\"title\":\"a\\u007f\\u009b[2J\\u202e\\u2066\\u2069 \xE2\x80\x8F\xC2\xA0\xF0\x9F\x8E\xAC\"",
               NULL);
    ctl_expect(ctl_shell(text_printf("\"$CTL\" show 1 | \"$CTL\" load -")), 0, "1 channel: 0 changed, ",
               NULL);
    CTL_EXPECT_REPLY(title, "HGET channels:card:1 title");
}

/* A command, what is shown then, and what is said of it. */
static const struct {
    const char *damage, *name;
    int status;
    const char *err;
} shown[] = {
    {"DEL channels:card:1", "1", 1, PLACE "channelctl: channel 1 does not exist: it has no card\n"},
    {"DEL channels:card:5000", "5000", 1, "channelctl: channel 5000 does not exist: it has no card\n"},
    {"HSET channels:card:5000 category x", "5000", 1,
     "channelctl: channel 5000 does not exist: it has no card\n"},
    {"DEL channels:link:https://max.ru/sample_4", "https://max.ru/sample_4", 1,
     "channelctl: no channel has the link https://max.ru/sample_4\n"},
    {"DEL channels:link:https://max.ru/sample_4", "1", 0,
     PLACE "channelctl: https://max.ru/sample_4, its link, leads to no channel\n"},
    {"SET channels:link:https://max.ru/sample_4 7", "1", 0,
     PLACE "channelctl: https://max.ru/sample_4, its link, leads to channel 7\n"},
    {"SET channels:link:https://max.ru/old 1", "https://max.ru/old", 0,
     PLACE LINK "channelctl: https://max.ru/old leads to it, but is not its link\n"},
    {"SET channels:link:https://max.ru/old 5000", "https://max.ru/old", 1,
     "channelctl: channel 5000 does not exist: it has no card\n"},
    {"HDEL channels:card:1 link", "1", 0, PLACE},
    {"ZREM channels:index 1", "1", 0,
     "channelctl: channel 1 is not in the index, so it is on no page\n" LINK},
    {"DEL channels:index", "1", 0, "channelctl: channel 1 is not in the index, so it is on no page\n" LINK},
    {"HSET channels:card:1 views_24h 2.0 er_24h \x1B[2J", "1", 0,
     "channelctl: views_24h: 2.0 is not valid, clients get it as absent\n"
     "channelctl: er_24h: \\u001b[2J is not valid, clients get it as absent\n" PLACE LINK},
};

TEST_CASE(show_tells_what_is_missing_or_wrong)
{
    for (size_t i = 0; i < TEST_COUNT(shown); i++) {
        (void)fill(NULL);
        redis_do(&redis, shown[i].damage);
        struct ctl_run run = CTL("show", shown[i].name);
        assert_string_equal(run.err, shown[i].err);
        assert_int_equal(text_count(run.out, "\n"), shown[i].status == 0 ? 1 : 0);
        ctl_expect(run, shown[i].status, NULL, NULL);
    }
}

/* ---- remove ---- */

TEST_CASE_WITH(remove_leaves_nothing_to_remove_again, fill, NULL)
{
    long long keys = redis_integer(&redis, "DBSIZE");
    expect_output(CTL("remove", "1"), 0, "removed channel 1 (index: yes, card: yes, link key: yes)\n", "");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), keys - 2);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), CHANNELS - 1);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/sample_4"),
                     0);
    ctl_expect_sound();
    expect_output(CTL("remove", "1"), 1, "", "channelctl: channel 1 does not exist: nothing was removed\n");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), keys - 2);
}

TEST_CASE_WITH(remove_keeps_a_link_that_leads_to_another_channel, fill, NULL)
{
    redis_do(&redis, "SET channels:link:https://max.ru/sample_4 0");
    expect_output(CTL("remove", "1"), 0, "removed channel 1 (index: yes, card: yes, link key: no)\n", "");
    CTL_EXPECT_REPLY("0", "GET channels:link:https://max.ru/sample_4");
}

TEST_CASE_WITH(remove_takes_what_is_left_of_a_channel, fill, NULL)
{
    redis_do(&redis, "DEL channels:card:1 channels:link:https://max.ru/sample_4");
    expect_output(CTL("remove", "1"), 0, "removed channel 1 (index: yes, card: no, link key: no)\n", "");
    ctl_expect_sound();
}

/* Neither half of the work is done then. */
TEST_CASE(remove_deletes_no_key_of_another_type)
{
    static const char *const keys[][2] = {{"channels:card:1", "channels:card:1 in Redis is not a hash"},
                                          {"channels:index", "channels:index in Redis is not a sorted set"}};
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        (void)fill(NULL);
        redis_do(&redis, "SET %s text", keys[i][0]);
        long long count = redis_integer(&redis, "DBSIZE");
        ctl_expect(CTL("remove", "1"), 1, NULL, keys[i][1]);
        assert_int_equal(redis_integer(&redis, "DBSIZE"), count);
    }
}

/* ---- beside a load ---- */

TEST_CASE_WITH(remove_does_nothing_during_a_load, fill, NULL)
{
    redis_do(&redis, "SET channels:loader somebody");
    ctl_expect(CTL("remove", "1"), 1, NULL,
               "the lock has no TTL: no load is possible until it is deleted (channels:loader: somebody)");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/sample_4"),
                     2);
    CTL_EXPECT_REPLY("4", "ZSCORE channels:index 1");
    CTL_EXPECT_REPLY("somebody", "GET channels:loader");
}

TEST_CASE_WITH(remove_waits_for_a_load_to_end, fill, NULL)
{
    redis_do(&redis, "SET channels:loader somebody PX 300");
    struct ctl_run run = CTL("remove", "1");
    ctl_expect(run, 0, "removed channel 1 ", "waiting for another load to end (somebody)");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
}

/* A writer without the lock, which changes the card all the time. */
static bool transaction_was_tried(void *arg)
{
    (void)arg;
    redis_do(&redis, "HINCRBY channels:card:1 views_24h 1");
    return redis_calls(&redis, "exec") > 1; /* the first one renews the lock */
}

TEST_CASE_WITH(remove_does_nothing_if_the_channel_changes_meanwhile, fill, NULL)
{
    enum { LATENCY_MS = 100 }; /* so that a change is certain between the read of the card and EXEC */
    static const char *const args[] = {"remove", "1", NULL};
    struct process process;
    struct proxy *proxy = proxy_new(redis.port);
    struct redis proxied = {.dir = redis.dir};
    (void)snprintf(proxied.url, sizeof proxied.url, "redis://127.0.0.1:%d", proxy_port(proxy));
    redis_do(&redis, "HSET channels:card:1 views_24h 0");
    redis_do(&redis, "CONFIG RESETSTAT");
    proxy_set_latency(proxy, LATENCY_MS);
    ctl_start_at(&process, &proxied, args);
    assert_true(wait_until(transaction_was_tried, NULL, WAIT_DEADLINE_MS));
    ctl_expect(ctl_finish(&process), 1, NULL, "changed by another program meanwhile");
    proxy_free(proxy);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/sample_4"),
                     2);
    CTL_EXPECT_REPLY("4", "ZSCORE channels:index 1");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
}
