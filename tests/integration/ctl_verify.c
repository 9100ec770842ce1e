/* channelctl verify: accepts a sound catalogue, and finds and names each kind of problem. */

#include "support/ctl.h"
#include "support/footprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static int fill(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "a key");
    catalogue_put_samples(&redis, 2500);
    return 0;
}

static void expect_output(int status, const char *out)
{
    struct ctl_run run = CTL("verify");
    assert_string_equal(run.out, out);
    assert_string_equal(run.err, "");
    ctl_expect(run, status, NULL, NULL);
}

TEST_CASE_WITH(verify_accepts_a_sound_catalogue, fill, NULL)
{
    expect_output(0, "2500 channels, 1 API key, no problems found\n");
}

/* No loader restores the API keys: without them no request is served. */
TEST_CASE_WITH(verify_rejects_an_empty_redis, fill, NULL)
{
    redis_do(&redis, "FLUSHALL");
    expect_output(
        1, "api_keys: there are no API keys: every request gets 401 (restore them from a backup; without "
           "one: channelctl keys issue)\n"
           "index: there is no index: the list of channels is empty (run channelctl load --replace FILE)\n"
           "0 channels, 0 API keys, 2 problems\n");
    catalogue_put_samples(&redis, 1);
    ctl_expect(CTL("verify"), 1, "1 channel, 0 API keys, 1 problem\n", NULL);
}

/* Of the key "a key". */
#define KEY_DIGITS "8fa3aab2"
#define KEY_DIGEST KEY_DIGITS "faa9b79e0a0398da5b5abd0780142442a5be80b9a64608d718cb1fcd"

#define SLUG_64  "ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss"
#define SLUG_257 SLUG_64 SLUG_64 SLUG_64 SLUG_64 "s"

/* A command, and the problem that verify reports. */
static const char *const damages[][2] = {
    {"DEL channels:card:1", "index: channel 1 has no card"},
    {"ZADD channels:index 5 01", "index: 01 is not a 64-bit integer"},
    {"ZADD channels:index 5 9223372036854775808", "index: 9223372036854775808 is not a 64-bit integer"},
    {"ZADD channels:index inf 1", "index: channel 1 has the score inf: scores from 2^53 on are not distinct"},
    {"ZADD channels:index -inf 1", "index: channel 1 has the score -inf: "},
    {"ZADD channels:index 1e17 1", "index: channel 1 has the score 1e+17: "},
    {"ZADD channels:index -9007199254740992 1", "index: channel 1 has the score -9007199254740992: "},
    {"ZADD channels:index.next 1 1", "index.next: is left over from a load that did not end"},
    {"SET channels:index.next x", "index.next: is left over from a load that did not end"},
    {"SET channels:loader maintenance",
     "loader: has no TTL: no load is possible until it is deleted (maintenance)"},
    {"SADD channels:loader x", "loader: has no TTL: no load is possible until it is deleted ()"},
    {"EXPIRE channels:index 200000", "index: has a TTL: it expires in 1999"},
    {"RENAME channels:index elsewhere", "index: there is no index: the list of channels is empty"},
    {"ZREM channels:index 1", "card 1: is not in the index"},
    {"HSET channels:card:555 max_channel_id 555", "card 555: is not in the index"},
    {"HSET channels:card:01 max_channel_id 1", "card 01: its key does not end with a 64-bit integer"},
    {"EXPIRE channels:card:1 1000", "card 1: has a TTL: it expires in "},
    {"HSET channels:card:1 max_channel_id 2", "card 1: max_channel_id: 2 is not the id in the key"},
    {"HDEL channels:card:1 max_channel_id", "card 1: max_channel_id is missing"},
    {"HSET channels:card:1 max_channel_id x", "card 1: max_channel_id: x is not a 64-bit integer"},
    {"HSET channels:card:1 views_24h many", "card 1: views_24h: many is not a 64-bit integer"},
    {"HSET channels:card:1 views_24h 1.0", "card 1: views_24h: 1.0 is not a 64-bit integer"},
    {"HSET channels:card:1 views_24h -1", "card 1: views_24h: -1 is below 0"},
    {"HSET channels:card:1 views_48h -1", "card 1: views_48h: -1 is below 0"},
    {"HSET channels:card:1 followers_cnt_today -5", "card 1: followers_cnt_today: -5 is below 0"},
    {"HSET channels:card:1 views_24h 9 views_48h 8", "card 1: views_48h: 8 is less than views_24h"},
    {"HSET channels:card:1 followers_history {\"2026-11-20\":1,\"2026-11-19\":2,\"2026-11-20\":3}",
     "card 1: followers_history: {\"2026-11-20\":1,\"2026-11-19\":2,\"2026-11-20\":3} has a day twice"},
    {"HSET channels:card:1 followers_history {\"2026-11-20\":-1}",
     "card 1: followers_history: {\"2026-11-20\":-1} has a count below 0"},
    {"HSET channels:card:1 is_a_plus_flag 2", "card 1: is_a_plus_flag: 2 is not 0 or 1"},
    {"HSET channels:card:1 is_a_plus_flag true", "card 1: is_a_plus_flag: true is not 0 or 1"},
    {"HSET channels:card:1 title a\xFF\xC0z", "card 1: title: a??z is not UTF-8"},
    {"HSET channels:card:1 category2 \xED\xA0\x80", "card 1: category2: ??? is not UTF-8"},
    {"HSET channels:card:1 updated_at 2026-02-30T00:00:00",
     "card 1: updated_at: 2026-02-30T00:00:00 is not a date and time"},
    {"HSET channels:card:1 followers_history {\"2026-11-20\":\"1\"}",
     "card 1: followers_history: {\"2026-11-20\":\"1\"} is not a JSON object"},
    {"HSET channels:card:1 followers_history \x1B[2J",
     "card 1: followers_history: \\u001b[2J is not a JSON object"},
    {"DEL channels:link:https://max.ru/sample_4",
     "card 1: link: its link key is missing or holds no id: https://max.ru/sample_4"},
    {"SET channels:link:https://max.ru/sample_4 -1",
     "card 1: link: its link key points to channel -1: https://max.ru/sample_4"},
    {"HSET channels:card:1 link https://max.ru/sample_3", "card 1: link: channel "},
    {"HSET channels:card:1 link https://web.max.ru/x",
     "card 1: link: https://web.max.ru/x is not https://max.ru/<slug> (of at most 256 bytes), so it is never "
     "found"},
    {"SET channels:link:https://max.ru/stray 999",
     "link https://max.ru/stray: points to channel 999, which has no card or a different link"},
    {"SET channels:link:https://max.ru/stray 1",
     "link https://max.ru/stray: points to channel 1, which has "},
    {"SET channels:link:https://max.ru/stray x", "link https://max.ru/stray: does not hold a channel id"},
    {"LPUSH channels:link:https://max.ru/stray x", "link https://max.ru/stray: does not hold a channel id"},
    {"SET channels:link:stray/ 1",
     "link stray/: is not https://max.ru/<slug> (of at most 256 bytes), so it is never found"},
    {"SET channels:link:https://max.ru/" SLUG_257 " 1",
     "...: is not https://max.ru/<slug> (of at most 256 bytes), so"},
    {"HSET channels:card:1 link https://max.ru/" SLUG_257,
     "... is not https://max.ru/<slug> (of at most 256 bytes), so"},
    {"EXPIRE channels:link:https://max.ru/sample_4 1000",
     "link https://max.ru/sample_4: has a TTL: it expires in "},
    {"SADD channels:api_keys abcdef",
     "api_keys: a member of 6 bytes is not a SHA-256 in lower-case hex: abcd..."},
    {"SADD channels:api_keys ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789",
     "api_keys: a member of 64 bytes is not a SHA-256"},
    {"SADD channels:api_keys c48a01f49fd0f2cc404bc3cbbc80e91457a3d41bb429a695243de4c61794155c",
     "api_keys: \"demo-key\" is an example in the documents, and valid"},
    {"EXPIRE channels:api_keys 1000", "api_keys: has a TTL: it expires in "},
    {"EXPIRE channels:api_key_info 1000", "api_key_info: has a TTL: it expires in "},
    {"HSET channels:api_key_info 0123456789 {}", "api_key_info: 0123...: its key is not in api_keys"},
    {"HSET channels:api_key_info " KEY_DIGEST " x",
     "api_key_info: " KEY_DIGITS "...: is not a JSON object of at most 512 bytes: the key is refused"},
    {"HSET channels:api_key_info " KEY_DIGEST " {\"expires\":\"2026-01-01\"}",
     "api_key_info: " KEY_DIGITS "...: expires is not a time (YYYY-MM-DDTHH:MM:SSZ): the key is refused"},
    {"HSET channels:api_key_info " KEY_DIGEST " {\"issued\":1}",
     "api_key_info: " KEY_DIGITS "...: issued is not a time"},
    {"HSET channels:api_key_info " KEY_DIGEST " {\"name\":\"\"}",
     "api_key_info: " KEY_DIGITS "...: name is not 1 to 64 of A-Z a-z 0-9 _ . -"},
    {"HSET channels:api_key_info " KEY_DIGEST " {\"expires\":\"2026-01-01T00:00:00Z\"}",
     "api_keys: every key has expired: every request gets 401 (run channelctl keys issue)"},
    {"HSET channels:api_key_info " KEY_DIGEST " x",
     "api_keys: every key has expired, or has an info that is not valid: every request gets 401"},
    {"DEL channels:api_keys", "api_keys: there are no API keys: every request gets 401"},
};

static void run_words(const char *command)
{
    const char *args[8] = {NULL};
    size_t count = 0;
    char *rest = NULL;
    AUTOFREE char *words = text_printf("%s", command);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        args[count++] = word;
    redis_do_argv(&redis, count, args, NULL);
}

/* Sample 4 is the channel 1. The remedy is in parentheses at the end of each line but the summary. */
TEST_CASE(verify_names_each_problem_and_its_remedy)
{
    for (size_t i = 0; i < TEST_COUNT(damages); i++) {
        redis_do(&redis, "FLUSHALL");
        catalogue_issue_key(&redis, "a key");
        redis_do(&redis, "HSET channels:api_key_info %s {}", KEY_DIGEST);
        catalogue_put_samples(&redis, 6);
        run_words(damages[i][0]);
        struct ctl_run run = CTL("verify");
        if (text_count(run.out, ")\n") != text_count(run.out, "\n") - 1)
            fail_msg("%s: %s", damages[i][0], run.out);
        ctl_expect(run, 1, damages[i][1], NULL);
    }
}

TEST_CASE(verify_names_keys_of_another_type)
{
    static const char *const rows[][2] = {
        {"channels:card:1", "card 1: is not a hash (redis-cli DEL its key, and load it again)\n"
                            "link https://max.ru/sample_4: points to channel 1, which has no card or a "
                            "different link (redis-cli DEL "
                            "its key, or load with --replace)\n"
                            "6 channels, 1 API key, 2 problems\n"},
        {"channels:index", "index: channels:index is a string, not a zset: delete it (run channelctl load "
                           "--replace FILE)\n"
                           "0 channels, 1 API key, 1 problem\n"},
        {"channels:api_key_info",
         "api_key_info: channels:api_key_info is a string, not a hash: delete it (restore "
         "it from a backup)\n"
         "6 channels, 1 API key, 1 problem\n"},
        {"channels:api_keys",
         "api_keys: channels:api_keys is a string, not a set: delete it (restore them from a "
         "backup; without one: channelctl keys issue)\n"
         "6 channels, 0 API keys, 1 problem\n"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        redis_do(&redis, "FLUSHALL");
        catalogue_issue_key(&redis, "a key");
        catalogue_put_samples(&redis, 6);
        redis_do(&redis, "SET %s text", rows[i][0]);
        expect_output(1, rows[i][1]);
    }
}

/* Such a channel is not found by id, and the list omits it. */
TEST_CASE_WITH(verify_names_a_card_without_summary_fields, fill, NULL)
{
    redis_do(&redis, "DEL channels:card:1");
    redis_do(&redis, "HSET channels:card:1 category c views_24h 1");
    ctl_expect(CTL("verify"), 1, "card 1: has no summary field", NULL);
}

TEST_CASE_WITH(verify_names_a_link_of_two_channels, fill, NULL)
{
    redis_do(&redis, "HSET channels:card:501 max_channel_id 501 link https://max.ru/sample_4");
    redis_do(&redis, "ZADD channels:index 1 501");
    expect_output(1, "card 501: link: channel 1 has the same link and its key: https://max.ru/sample_4 "
                     "(correct one of them, and load both)\n"
                     "2501 channels, 1 API key, 1 problem\n");
}

/* They are not read: two of them would be 140 MB. */
TEST_CASE_WITH(verify_names_cards_that_are_too_large_unread, fill, NULL)
{
    enum { SIZE = 70 * 1000 * 1000, COUNT = 2 };
    redis_do(&redis, "HSET channels:card:1 title x");
    for (int id = 5001; id <= 5000 + COUNT;
         id++) /* one at a time: to write 70 MB takes a busy machine a while */
        redis_do(&redis, "EVAL %s 0 %d",
                 "redis.call('HSET', 'channels:card:' .. ARGV[1], 'max_channel_id', ARGV[1], "
                 "'title', string.rep(string.rep('x', 7000), 10000)) "
                 "redis.call('ZADD', 'channels:index', ARGV[1], ARGV[1])",
                 id);
    long own = footprint_of(getpid()).resident_kib * 1024; /* the peak of a child is not below that */
    struct ctl_run run = CTL("verify");
    assert_int_equal(text_count(run.out, ": its values have 70000004 bytes, channeld reads at most 64 MiB ("),
                     COUNT);
    ctl_expect(run, 1, "2502 channels, 1 API key, 2 problems\n", NULL);
    assert_in_range(run.peak, 1, own + SIZE);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:5001"), 1);
}

/* Fields that the API does not know do not hide the others. */
TEST_CASE_WITH(verify_measures_every_field_of_a_card, fill, NULL)
{
    redis_do(&redis, "EVAL %s 0",
             "for i = 1, 2000 do redis.call('HSET', 'channels:card:1', 'x' .. i, '1') end "
             "redis.call('HSET', 'channels:card:1', 'title', string.rep(string.rep('x', 7000), 10000))");
    ctl_expect(CTL("verify"), 1, "card 1: its values have ", NULL);
}

TEST_CASE_WITH(verify_prints_the_first_20_problems, fill, NULL)
{
    redis_do(&redis, "EVAL %s 0",
             "for _, key in ipairs(redis.call('KEYS', 'channels:card:*')) do redis.call('HDEL', key, "
             "'max_channel_id') end");
    struct ctl_run run = CTL("verify");
    assert_int_equal(text_count(run.out, ": max_channel_id is missing (load it again)\n"), 20);
    ctl_expect(run, 1, "and 2480 more\n2500 channels, 1 API key, 2500 problems\n", NULL);
}

/* One key that works is enough, whichever it is. */
TEST_CASE_WITH(verify_accepts_expired_keys_beside_a_valid_one, fill, NULL)
{
    catalogue_issue_keys(&redis, 2500);
    redis_do(&redis, "EVAL %s 0",
             "for _, key in ipairs(redis.call('SMEMBERS', 'channels:api_keys')) do redis.call('HSET', "
             "'channels:api_key_info', key, '{\"expires\":\"2026-01-01T00:00:00Z\"}') end");
    expect_output(1, "api_keys: every key has expired: every request gets 401 (run channelctl keys issue)\n"
                     "2500 channels, 2501 API keys, 1 problem\n");
    redis_do(&redis, "HSET channels:api_key_info %s %s", KEY_DIGEST,
             "{\"expires\":\"2999-01-01T00:00:00Z\"}");
    expect_output(0, "2500 channels, 2501 API keys, no problems found\n");
    redis_do(&redis, "HDEL channels:api_key_info %s", KEY_DIGEST);
    expect_output(0, "2500 channels, 2501 API keys, no problems found\n");
}

/* What contradicts nothing: equal counts, absent ones, days in any order, scores that differ. */
TEST_CASE_WITH(verify_accepts_every_count_and_score_in_range, fill, NULL)
{
    redis_do(&redis, "HSET channels:card:1 views_24h 9 views_48h 9 followers_cnt_today 0 er_24h -1 "
                     "followers_history {\"2026-11-20\":0,\"2026-11-19\":2}");
    redis_do(&redis, "HDEL channels:card:0 views_48h followers_history");
    redis_do(&redis, "ZADD channels:index -9007199254740991 1 9007199254740991 0 0.5 -1");
    expect_output(0, "2500 channels, 1 API key, no problems found\n");
}

/* A policy that evicts keys without a TTL. One that evicts keys with a TTL is harmless, as these have none.
 */
TEST_CASE_WITH(verify_warns_of_eviction_if_the_user_may_see_it, fill, NULL)
{
    static const char *const policies[] = {"allkeys-lru", "allkeys-random", "volatile-lru", "noeviction"};
    AUTOFREE char *url = text_printf("redis://verifier:pw@127.0.0.1:%d", redis.port);
    redis_do(&redis, "ACL SETUSER verifier reset on >pw ~* +@all -info");
    for (size_t i = 0; i < TEST_COUNT(policies); i++) {
        redis_do(&redis, "CONFIG SET maxmemory-policy %s", policies[i]);
        AUTOFREE char *warning = text_printf("channelctl: warning: maxmemory-policy is %s: Redis may evict "
                                             "channels and API keys (set it to noeviction)\n",
                                             policies[i]);
        struct ctl_run run = CTL("verify");
        assert_string_equal(run.err, i < 2 ? warning : "");
        ctl_expect(run, 0, "2500 channels, 1 API key, no problems found\n", NULL);
        run = CTL("verify", "--redis-url", url);
        assert_string_equal(run.err, "");
        ctl_expect(run, 0, NULL, NULL);
    }
}

/* Its next index is no problem. */
TEST_CASE_WITH(verify_warns_of_a_running_load, fill, NULL)
{
    redis_do(&redis, "SET channels:loader somebody PX 100000");
    redis_do(&redis, "ZADD channels:index.next 1 1");
    ctl_expect(CTL("verify"), 0, NULL, "a load is running: its changes may appear as problems (somebody)");
}

TEST_CASE(verify_finds_and_load_removes_ttls_of_fields)
{
    static const char text[] = "{\"max_channel_id\":1,\"title\":\"t\"}\n{\"max_channel_id\":2}\n";
    static char *redis_8; /* for as long as the server */
    redis_8 = redis_other_program("redis8-server");
    redis_stop(&redis);
    redis_start_program(&redis, redis_8, NULL); /* it has TTLs of hash fields */
    catalogue_issue_key(&redis, "a key");
    ctl_expect_load(text, NULL, 0);
    redis_do(&redis, "HPEXPIRE channels:card:1 1000000 FIELDS 1 title");
    expect_output(1, "card 1: title: has a TTL (load it again)\n2 channels, 1 API key, 1 problem\n");
    ctl_expect(ctl_load(text, NULL), 0, "2 channels: 1 changed, 0 refused",
               "1 channel had a TTL, which was removed\n");
    redis_do(&redis, "HSET channels:api_key_info %s {}", KEY_DIGEST);
    redis_do(&redis, "HPEXPIRE channels:api_key_info 1000000 FIELDS 1 %s", KEY_DIGEST);
    expect_output(1, "api_key_info: " KEY_DIGITS
                     "...: has a TTL: after it the key has neither name nor expiry (redis-cli "
                     "HPERSIST)\n"
                     "2 channels, 1 API key, 1 problem\n");
    redis_do(&redis, "DEL channels:api_key_info");
    ctl_expect_sound();
    redis_do(&redis, "ACL SETUSER default -hpexpiretime");
    ctl_expect(CTL("verify"), 1, "TTLs of hash fields were not checked: Redis does not permit HPEXPIRETIME",
               NULL);
    redis_stop(&redis);
    (void)ctl_setup(NULL);
}
