/* The API key set: reading it in any way, and what is known of a key meanwhile. */
#include "cache/api_keys.h"

#include "base/hash.h"
#include "redis/resp.h"

#include "unit/fake_redis.h"
#include "unit/fixtures/cache_clock.h"

/* 2026-01-01T00:00:00Z */
enum { NOW = 1767225600 };

enum { KEYS = 1000, LARGE = API_KEYS_AT_ONCE_MAX + 1, BUDGET = 1 << 20 };

static char hex[LARGE][DIGEST_HEX_LEN];
static redisReply member[LARGE];
static redisReply *members[LARGE];

static struct cache_metrics metrics;
static struct keyspace keyspace;
static struct entries entries;
static struct api_keys keys;
static struct buf command;
static uint64_t now_ms;
static struct api_key_name name; /* of the key that was checked last */

static int set_up(void **state)
{
    (void)state;
    metrics = (struct cache_metrics){0};
    command = BUF_INIT;
    now_ms = 1000;
    wall_s = NOW;
    return keyspace_init(&keyspace, SPAN("test:")) != 0 || entries_init(&entries, BUDGET, &metrics) != 0 ||
           api_keys_init(&keys, &keyspace, &entries, &metrics) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    entries_check(&entries);
    api_keys_fini(&keys);
    entries_fini(&entries);
    buf_fini(&command);
    return 0;
}

static struct digest digest_of_number(int i)
{
    struct digest d;
    digest_sha256((struct span){(const char *)&i, sizeof i}, &d);
    return d;
}

/* `count` members, from number `first` on. */
static redisReply set_of(int first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct digest d = digest_of_number(first + (int)i);
        digest_hex(&d, hex[i]);
        member[i] = (redisReply){.type = REDIS_REPLY_STRING, .str = hex[i], .len = DIGEST_HEX_LEN};
        members[i] = &member[i];
    }
    return (redisReply){.type = REDIS_REPLY_SET, .elements = count, .element = members};
}

static enum auth_result check(int i)
{
    struct digest d = digest_of_number(i);
    return api_keys_check(&keys, &d, 0, &name);
}

static enum api_keys_progress take_integer(long long value)
{
    const redisReply reply = {.type = REDIS_REPLY_INTEGER, .integer = value};
    return api_keys_reply(&keys, LIFETIME_TRACKED, &reply, now_ms, &command);
}

static enum api_keys_progress reply_error(const char *text)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", text);
    const redisReply reply = {.type = REDIS_REPLY_ERROR, .str = copy, .len = strlen(copy)};
    return api_keys_reply(&keys, LIFETIME_TRACKED, &reply, now_ms, &command);
}

/* The reply of SSCAN: the cursor, and members as set_of leaves them. */
static enum api_keys_progress reply_portion(const char *cursor, redisReply list)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", cursor);
    list.type = REDIS_REPLY_ARRAY;
    redisReply at = {.type = REDIS_REPLY_STRING, .str = copy, .len = strlen(copy)};
    redisReply *parts[] = {&at, &list};
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = parts};
    return api_keys_reply(&keys, LIFETIME_TRACKED, &reply, now_ms, &command);
}

#define assert_command(text) assert_buf(&command, text)

static const char HLEN[] = "*2\r\n$4\r\nHLEN\r\n$17\r\ntest:api_key_info\r\n";

/* All members have come, if the command is the one behind them; no key has an info. */
static enum api_keys_progress without_infos(enum api_keys_progress progress)
{
    if (progress != API_KEYS_SEND)
        return progress;
    assert_command(HLEN);
    return take_integer(0);
}

/* What is known of a key without info. */
static void put(const struct digest *key)
{
    const redisReply nil = {.type = REDIS_REPLY_NIL};
    struct api_key_reading reading;
    assert_true(api_keys_read_info(&keys, key, LIFETIME_TRACKED, &nil, &reading));
    api_keys_put_result(&keys, key, LIFETIME_TRACKED, &reading);
}

static const char SCARD[] = "*2\r\n$5\r\nSCARD\r\n$13\r\ntest:api_keys\r\n";
static const char SMEMBERS[] = "*2\r\n$8\r\nSMEMBERS\r\n$13\r\ntest:api_keys\r\n";

static void begin_reading(void)
{
    assert_true(api_keys_read(&keys, now_ms, &command));
    assert_command(SCARD);
}

/* Reads a set that comes in one reply. */
static enum api_keys_progress read_at_once(const redisReply *set)
{
    begin_reading();
    assert_int_equal(take_integer((long long)set->elements), API_KEYS_SEND);
    assert_command(SMEMBERS);
    return without_infos(api_keys_reply(&keys, LIFETIME_TRACKED, set, now_ms, &command));
}

/* These are the keys from now on. */
static void read_keys(int first, size_t count)
{
    const redisReply set = set_of(first, count);
    assert_int_equal(read_at_once(&set), API_KEYS_COMPLETE);
    api_keys_commit(&keys);
}

static bool wants_reading_in(uint64_t ms)
{
    return api_keys_wants_reading(&keys, now_ms + ms);
}

/* Up to the first SSCAN. */
static void begin_portions(void)
{
    begin_reading();
    assert_int_equal(take_integer(LARGE), API_KEYS_SEND);
    assert_command("*5\r\n$5\r\nSSCAN\r\n$13\r\ntest:api_keys\r\n$1\r\n0\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n");
}

TEST_CASE_WITH(before_it_is_read_every_result_is_unknown, set_up, tear_down)
{
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
    assert_int_equal(api_keys_size(&keys), -1);
}

TEST_CASE_WITH(every_member_is_valid_and_nothing_else, set_up, tear_down)
{
    const redisReply set = set_of(0, KEYS);
    assert_int_equal(read_at_once(&set), API_KEYS_COMPLETE);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    assert_int_equal(api_keys_size(&keys), -1);
    api_keys_commit(&keys);
    assert_int_equal(metrics.invalid_values_total, 0);
    assert_int_equal(api_keys_size(&keys), KEYS);
    for (int i = 0; i < 3 * KEYS; i++)
        assert_int_equal(check(i), i < KEYS ? AUTH_RESULT_VALID : AUTH_RESULT_INVALID);
}

TEST_CASE_WITH(an_empty_set_refuses_everything, set_up, tear_down)
{
    read_keys(0, 0);
    assert_int_equal(check(0), AUTH_RESULT_INVALID);
    assert_int_equal(api_keys_size(&keys), 0);
}

TEST_CASE_WITH(the_set_of_a_second_reading_replaces_the_first, set_up, tear_down)
{
    read_keys(0, KEYS);
    api_keys_invalidate(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    assert_int_equal(api_keys_size(&keys), -1);
    read_keys(KEYS, 10);
    assert_int_equal(check(KEYS), AUTH_RESULT_VALID);
    assert_int_equal(check(0), AUTH_RESULT_INVALID);
}

TEST_CASE_WITH(members_that_are_no_digests_are_counted_and_left_out, set_up, tear_down)
{
    const redisReply set = set_of(0, 4);
    member[0].len--;
    member[1].str[5] = 'G';
    member[3].type = REDIS_REPLY_INTEGER;
    assert_int_equal(read_at_once(&set), API_KEYS_COMPLETE);
    api_keys_commit(&keys);
    assert_int_equal(metrics.invalid_values_total, 3);
    assert_int_equal(check(2), AUTH_RESULT_VALID);
    assert_int_equal(check(0), AUTH_RESULT_INVALID);
    assert_int_equal(api_keys_size(&keys), 4); /* as Redis counts */
}

TEST_CASE_WITH(an_invalidation_before_the_members_come_does_not_spoil_them, set_up, tear_down)
{
    const redisReply set = set_of(0, KEYS);
    begin_reading();
    api_keys_invalidate(&keys);
    assert_false(api_keys_read(&keys, now_ms, &command)); /* one reading is under way */
    assert_int_equal(take_integer(KEYS), API_KEYS_SEND);
    api_keys_invalidate(&keys);
    assert_false(api_keys_read(&keys, now_ms, &command));
    assert_int_equal(without_infos(api_keys_reply(&keys, LIFETIME_TRACKED, &set, now_ms, &command)),
                     API_KEYS_COMPLETE);
    api_keys_commit(&keys);
    assert_int_equal(check(1), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(an_invalidation_after_the_members_came_makes_them_worthless, set_up, tear_down)
{
    const redisReply set = set_of(0, KEYS);
    assert_int_equal(read_at_once(&set), API_KEYS_COMPLETE);
    api_keys_invalidate(&keys);
    api_keys_commit(&keys);
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
    assert_int_equal(read_at_once(&set), API_KEYS_COMPLETE);
    api_keys_commit(&keys);
    assert_int_equal(check(1), AUTH_RESULT_VALID);
}

/* Each portion overlaps with the one before, as those of SSCAN may. */
TEST_CASE_WITH(a_large_set_is_read_in_portions, set_up, tear_down)
{
    enum { PORTION = 1000 };
    redisReply portion;
    begin_portions();
    for (int i = 0; i < LARGE; i += PORTION) {
        int first = i > 0 ? i - 1 : 0;
        int last = i + PORTION < LARGE ? i + PORTION : LARGE;
        portion = set_of(first, (size_t)(last - first));
        assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
        if (last == LARGE)
            break;
        assert_int_equal(reply_portion("12345678901234567890", portion), API_KEYS_SEND);
        assert_command("*5\r\n$5\r\nSSCAN\r\n$13\r\ntest:api_keys\r\n$20\r\n12345678901234567890\r\n"
                       "$5\r\nCOUNT\r\n$4\r\n1000\r\n");
    }
    assert_int_equal(without_infos(reply_portion("0", portion)), API_KEYS_COMPLETE);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    api_keys_commit(&keys);
    for (int i = 0; i < 2 * LARGE; i++)
        assert_int_equal(check(i), i < LARGE ? AUTH_RESULT_VALID : AUTH_RESULT_INVALID);
}

TEST_CASE_WITH(an_invalidation_between_portions_ends_the_reading, set_up, tear_down)
{
    begin_portions();
    assert_int_equal(reply_portion("7", set_of(0, KEYS)), API_KEYS_SEND);
    api_keys_invalidate(&keys);
    assert_false(api_keys_read(&keys, now_ms, &command));
    now_ms += API_KEYS_RETRY_MS - 1;
    assert_int_equal(reply_portion("0", set_of(0, KEYS)), API_KEYS_STOPPED);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    assert_int_equal(metrics.invalid_values_total, 0);
    /* It is repeated after a pause from now on: a set that changes all the time is not read all the time. */
    now_ms += API_KEYS_RETRY_MS - 1;
    assert_false(api_keys_wants_reading(&keys, now_ms));
    assert_true(wants_reading_in(1));
    begin_portions();
    assert_int_equal(without_infos(reply_portion("0", set_of(0, KEYS))), API_KEYS_COMPLETE);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(more_members_than_were_announced_are_not_held, set_up, tear_down)
{
    begin_portions();
    for (int i = 0; i < 10; i++)
        assert_int_equal(reply_portion("7", set_of(i * KEYS, KEYS)), API_KEYS_SEND);
    assert_int_equal(reply_portion("0", set_of(10 * KEYS, 2)), API_KEYS_STOPPED);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    assert_false(wants_reading_in(API_KEYS_PAUSE_MAX_MS)); /* too large, until it changes */
}

TEST_CASE_WITH(malformed_portions_end_the_reading, set_up, tear_down)
{
    static const char *const cursors[] = {"123456789012345678901"};
    begin_portions();
    assert_int_equal(reply_portion(cursors[0], set_of(0, 1)), API_KEYS_STOPPED);
    begin_portions();
    assert_int_equal(take_integer(1), API_KEYS_STOPPED);
    begin_portions();
    assert_int_equal(reply_error("ERR"), API_KEYS_STOPPED);
    begin_portions(); /* a server that never comes to an end */
    int portions = 0;
    while (reply_portion("1", set_of(0, 1)) == API_KEYS_SEND)
        portions++;
    assert_int_equal(portions, API_KEYS_MAX / 100);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
}

/* Between half of the pause and all of it. */
static void expect_pause(uint64_t ms)
{
    assert_false(wants_reading_in(ms / 2 - 1));
    assert_true(wants_reading_in(ms));
}

TEST_CASE_WITH(a_reading_that_was_refused_is_repeated_after_a_pause_that_grows, set_up, tear_down)
{
    uint64_t pause_ms = API_KEYS_PAUSE_MIN_MS;
    for (int i = 0; i < 10; i++) {
        begin_reading();
        if (i % 2 == 0)
            assert_int_equal(take_integer(1), API_KEYS_SEND);
        assert_false(wants_reading_in(API_KEYS_PAUSE_MAX_MS)); /* it is under way */
        assert_int_equal(reply_error("NOPERM"), API_KEYS_STOPPED);
        assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
        expect_pause(pause_ms);
        pause_ms = 2 * pause_ms < API_KEYS_PAUSE_MAX_MS ? 2 * pause_ms : API_KEYS_PAUSE_MAX_MS;
    }
    assert_int_equal(pause_ms, API_KEYS_PAUSE_MAX_MS);
    api_keys_invalidate(&keys); /* whatever it was, it has changed */
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
    read_keys(0, 1);
    api_keys_invalidate(&keys);
    begin_reading();
    assert_int_equal(reply_error("NOPERM"), API_KEYS_STOPPED);
    expect_pause(API_KEYS_PAUSE_MIN_MS);
}

/* That says nothing about the set. */
TEST_CASE_WITH(a_reading_whose_connection_was_lost_is_repeated_without_a_pause, set_up, tear_down)
{
    begin_reading();
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, NULL, now_ms, &command), API_KEYS_STOPPED);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS - 1));
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
    begin_portions();
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, NULL, now_ms, &command), API_KEYS_STOPPED);
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
}

TEST_CASE_WITH(a_lost_connection_ends_a_reading, set_up, tear_down)
{
    begin_portions();
    assert_int_equal(reply_portion("7", set_of(0, KEYS)), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, NULL, now_ms, &command), API_KEYS_STOPPED);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    read_keys(0, 1);
    assert_int_equal(check(0), AUTH_RESULT_VALID);
    assert_int_equal(check(1), AUTH_RESULT_INVALID);
}

TEST_CASE_WITH(results_for_a_set_that_is_too_large_are_cached_one_by_one, set_up, tear_down)
{
    struct digest valid = digest_of_number(1);
    begin_reading();
    put(&valid); /* before it is known whether the set is held */
    assert_int_equal(check(1), AUTH_RESULT_VALID);
    assert_int_equal(take_integer(API_KEYS_MAX + 1), API_KEYS_STOPPED);
    assert_int_equal(api_keys_size(&keys), -1);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS));
    assert_int_equal(check(1), AUTH_RESULT_VALID);
    assert_int_equal(check(2), AUTH_RESULT_UNKNOWN);
    api_keys_invalidate(&keys);
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
    assert_true(wants_reading_in(API_KEYS_RETRY_MS)); /* its size may have changed */
}

TEST_CASE_WITH(a_set_that_is_held_makes_results_of_single_keys_void, set_up, tear_down)
{
    struct digest revoked = digest_of_number(1);
    put(&revoked);
    api_keys_invalidate(&keys);
    read_keys(0, 1);
    put(&revoked); /* a reply that is older than the set */
    assert_int_equal(check(1), AUTH_RESULT_INVALID);
}

TEST_CASE_WITH(a_set_of_the_largest_size_is_held, set_up, tear_down)
{
    begin_reading();
    assert_int_equal(take_integer(API_KEYS_MAX), API_KEYS_SEND);
    assert_int_equal(without_infos(reply_portion("0", set_of(0, KEYS))), API_KEYS_COMPLETE);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(a_set_that_grew_after_its_size_was_read_is_not_held, set_up, tear_down)
{
    redisReply set = set_of(0, 1);
    begin_reading();
    assert_int_equal(take_integer(1), API_KEYS_SEND);
    set.elements = API_KEYS_MAX + 1;
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, &set, now_ms, &command), API_KEYS_STOPPED);
    assert_false(wants_reading_in(API_KEYS_PAUSE_MAX_MS)); /* before it changes */
    begin_reading();
    assert_int_equal(take_integer(1), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, &resp_oversize, now_ms, &command),
                     API_KEYS_STOPPED);
    expect_pause(API_KEYS_PAUSE_MIN_MS); /* or it came too slowly */
}

/* 100,000 keys cost no more than so many bytes each: the digest, and its part of the table. */
TEST_CASE_WITH(a_key_takes_some_seventy_bytes, set_up, tear_down)
{
    begin_reading();
    assert_int_equal(take_integer(API_KEYS_MAX), API_KEYS_SEND);
    for (int first = 0; first < API_KEYS_MAX - 10000; first += 10000)
        assert_int_equal(reply_portion("1", set_of(first, 10000)), API_KEYS_SEND);
    assert_int_equal(without_infos(reply_portion("0", set_of(API_KEYS_MAX - 10000, 10000))),
                     API_KEYS_COMPLETE);
    assert_int_equal(keys.count, API_KEYS_MAX);
    size_t bytes = table_bytes(&keys.table) + keys.capacity * sizeof *keys.digest;
    assert_in_range(bytes / API_KEYS_MAX, DIGEST_LEN + sizeof(struct table_slot), 74);
}

/* --- names and expiries --- */

/* Infos of keys from number 0 on, in the reply to HMGET; NULL: the key has none. */
static enum api_keys_progress reply_infos(const char *const *texts, size_t count)
{
    redisReply info[API_KEYS_INFO_PORTION];
    redisReply *infos[API_KEYS_INFO_PORTION];
    char copy[8][API_KEY_INFO_MAX + 2];
    for (size_t i = 0; i < count; i++) {
        const char *text = texts == NULL ? NULL : texts[i];
        info[i] = (redisReply){.type = REDIS_REPLY_NIL};
        infos[i] = &info[i];
        if (text == NULL)
            continue;
        assert_true(i < TEST_COUNT(copy));
        (void)snprintf(copy[i], sizeof copy[i], "%s", text);
        info[i] = (redisReply){.type = REDIS_REPLY_STRING, .str = copy[i], .len = strlen(copy[i])};
    }
    const redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = count, .element = infos};
    return api_keys_reply(&keys, LIFETIME_TRACKED, &reply, now_ms, &command);
}

/* Up to the first HMGET, of a set of so many keys. */
static void begin_infos(size_t count)
{
    const redisReply set = set_of(0, count);
    begin_reading();
    assert_int_equal(take_integer((long long)count), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, &set, now_ms, &command), API_KEYS_SEND);
    assert_command(HLEN);
    assert_int_equal(take_integer(1), API_KEYS_SEND);
    assert_memory_equal(strchr(buf_c_str(&command), '$'),
                        "$5\r\nHMGET\r\n$17\r\ntest:api_key_info\r\n$64\r\n", 40);
}

static void expect(int key, enum auth_result result, const char *expected)
{
    assert_int_equal(check(key), result);
    assert_int_equal(name.len, strlen(expected));
    assert_memory_equal(name.text, expected, strlen(expected));
}

/* The keys from number 0 on have these. */
static void hold(const char *const *texts, size_t count)
{
    begin_infos(count);
    assert_int_equal(reply_infos(texts, count), API_KEYS_COMPLETE);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    api_keys_commit(&keys);
}

TEST_CASE_WITH(a_key_has_the_name_and_the_expiry_of_its_info, set_up, tear_down)
{
    static const char *const texts[] = {NULL, "{}", "{\"name\":\"a\"}",
                                        "{\"name\":\"b\",\"expires\":\"2026-01-01T00:00:01Z\"}"};
    hold(texts, TEST_COUNT(texts));
    expect(0, AUTH_RESULT_VALID, "");
    expect(1, AUTH_RESULT_VALID, "");
    expect(2, AUTH_RESULT_VALID, "a");
    expect(3, AUTH_RESULT_VALID, "b");
    assert_int_equal(check(4), AUTH_RESULT_INVALID);
    assert_int_equal(name.len, -1);
    assert_int_equal(metrics.invalid_values_total, 0);
}

TEST_CASE_WITH(a_key_expires_with_the_second, set_up, tear_down)
{
    static const char *const texts[] = {"{\"expires\":\"2026-01-01T00:00:01Z\",\"name\":\"x\"}"};
    hold(texts, 1);
    expect(0, AUTH_RESULT_VALID, "x");
    wall_s = NOW + 1;
    expect(0, AUTH_RESULT_INVALID, "x"); /* the log shows whose it is */
    wall_s = NOW + 100000000;
    expect(0, AUTH_RESULT_INVALID, "x");
    wall_s = NOW; /* the clock was set */
    expect(0, AUTH_RESULT_VALID, "x");
}

static uint64_t next_expiry(void)
{
    return metric_get(&metrics.api_key_next_expiry_timestamp_seconds);
}

TEST_CASE_WITH(the_next_expiry_is_a_metric, set_up, tear_down)
{
    static const char *const texts[] = {"{\"expires\":\"2026-01-01T00:00:09Z\"}",
                                        "{\"expires\":\"2026-01-01T00:00:05Z\"}",
                                        "{\"expires\":\"2025-01-01T00:00:00Z\"}",
                                        "{\"expires\":\"?\"}",
                                        "{\"name\":\"x\"}",
                                        NULL};
    hold(texts, TEST_COUNT(texts));
    assert_int_equal(next_expiry(), NOW + 5);
    wall_s = NOW + 4;
    api_keys_heartbeat(&keys);
    assert_int_equal(next_expiry(), NOW + 5);
    wall_s = NOW + 5;
    api_keys_heartbeat(&keys);
    assert_int_equal(next_expiry(), NOW + 9);
    api_keys_invalidate(&keys);
    api_keys_heartbeat(&keys);
    assert_int_equal(next_expiry(), NOW + 9); /* until the changed set is read */
    hold(texts + 4, 2);
    assert_int_equal(next_expiry(), 0);
}

TEST_CASE_WITH(the_last_expiry_passes, set_up, tear_down)
{
    static const char *const texts[] = {"{\"expires\":\"2026-01-01T00:00:01Z\"}"};
    hold(texts, 1);
    assert_int_equal(next_expiry(), NOW + 1);
    wall_s = NOW + 1;
    api_keys_heartbeat(&keys);
    assert_int_equal(next_expiry(), 0);
}

TEST_CASE_WITH(a_set_that_is_not_held_has_no_next_expiry, set_up, tear_down)
{
    static const char *const texts[] = {"{\"expires\":\"2026-01-01T00:00:01Z\"}"};
    hold(texts, 1);
    api_keys_invalidate(&keys);
    begin_reading();
    assert_int_equal(take_integer(API_KEYS_MAX + 1), API_KEYS_STOPPED);
    api_keys_heartbeat(&keys);
    assert_int_equal(next_expiry(), 0);
}

/* What cannot be read may have been an expiry. */
TEST_CASE_WITH(a_key_with_a_malformed_expiry_is_refused, set_up, tear_down)
{
    static const char *const texts[] = {"{\"expires\":\"tomorrow\"}", "never", "{\"name\":\"no name\"}",
                                        "{\"name\":\"old\",\"expires\":17672256000}", "{\"issued\":0}"};
    hold(texts, TEST_COUNT(texts));
    expect(0, AUTH_RESULT_INVALID, "");
    expect(1, AUTH_RESULT_INVALID, "");
    expect(2, AUTH_RESULT_VALID, "");
    expect(3, AUTH_RESULT_INVALID, "old");
    expect(4, AUTH_RESULT_VALID, "");
    assert_int_equal(metrics.invalid_values_total, 4);
}

TEST_CASE_WITH(infos_are_read_in_portions, set_up, tear_down)
{
    begin_infos(API_KEYS_INFO_PORTION + 1);
    assert_memory_equal(command.data, "*1002\r\n", 7);
    assert_int_equal(reply_infos(NULL, API_KEYS_INFO_PORTION), API_KEYS_SEND);
    assert_memory_equal(command.data, "*3\r\n$5\r\nHMGET\r\n", 15);
    assert_memory_equal(command.data + command.len - 2 - DIGEST_HEX_LEN, hex[API_KEYS_INFO_PORTION],
                        DIGEST_HEX_LEN);
    static const char *const last[] = {"{\"name\":\"last\"}"};
    assert_int_equal(reply_infos(last, 1), API_KEYS_COMPLETE);
    api_keys_commit(&keys);
    expect(0, AUTH_RESULT_VALID, "");
    expect(API_KEYS_INFO_PORTION, AUTH_RESULT_VALID, "last");
}

TEST_CASE_WITH(one_portion_of_infos_is_one_command, set_up, tear_down)
{
    begin_infos(API_KEYS_INFO_PORTION);
    assert_memory_equal(command.data, "*1002\r\n", 7);
    assert_int_equal(reply_infos(NULL, API_KEYS_INFO_PORTION), API_KEYS_COMPLETE);
}

TEST_CASE_WITH(a_change_while_infos_are_read_ends_the_reading, set_up, tear_down)
{
    static const char *const texts[] = {NULL};
    const redisReply set = set_of(0, 1);
    begin_reading();
    assert_int_equal(take_integer(1), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, &set, now_ms, &command), API_KEYS_SEND);
    api_keys_invalidate(&keys);
    assert_int_equal(take_integer(0), API_KEYS_STOPPED);
    begin_infos(1);
    api_keys_invalidate(&keys);
    assert_int_equal(reply_infos(texts, 1), API_KEYS_STOPPED);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS - 1));
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
    begin_infos(1);
    assert_int_equal(reply_infos(texts, 1), API_KEYS_COMPLETE);
    api_keys_invalidate(&keys);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
}

/* Neither the set nor a single key is cached then; the set is read again when it changes. */
TEST_CASE_WITH(what_is_untracked_is_not_held, set_up, tear_down)
{
    const redisReply none = {.type = REDIS_REPLY_INTEGER};
    const redisReply nil = {.type = REDIS_REPLY_NIL};
    const redisReply set = set_of(0, 1);
    struct digest d = digest_of_number(0);
    struct api_key_reading reading;
    begin_reading();
    assert_int_equal(take_integer(1), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, &set, now_ms, &command), API_KEYS_SEND);
    assert_command(HLEN);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_NONE, &none, now_ms, &command), API_KEYS_STOPPED);
    api_keys_commit(&keys);
    assert_false(wants_reading_in(API_KEYS_PAUSE_MAX_MS));
    assert_true(api_keys_read_info(&keys, &d, LIFETIME_NONE, &nil, &reading));
    api_keys_put_result(&keys, &d, LIFETIME_TRACKED, &reading);
    assert_true(api_keys_read_info(&keys, &d, LIFETIME_TRACKED, &nil, &reading));
    api_keys_put_result(&keys, &d, LIFETIME_NONE, &reading);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    api_keys_invalidate(&keys);
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
}

/* Never valid without its expiry: each key is checked in Redis then. */
TEST_CASE_WITH(a_set_whose_infos_cannot_be_read_is_not_held, set_up, tear_down)
{
    const redisReply set = set_of(0, 2);
    begin_reading();
    assert_int_equal(take_integer(2), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, &set, now_ms, &command), API_KEYS_SEND);
    assert_int_equal(reply_error("NOPERM"), API_KEYS_STOPPED);
    assert_true(wants_reading_in(API_KEYS_PAUSE_MIN_MS)); /* it may be permitted again */
    begin_infos(2);
    assert_int_equal(reply_error("WRONGTYPE x"), API_KEYS_STOPPED);
    assert_true(wants_reading_in(UINT64_C(2) * API_KEYS_PAUSE_MIN_MS));
    begin_infos(2);
    assert_int_equal(take_integer(1), API_KEYS_STOPPED);
    begin_infos(2);
    assert_int_equal(reply_infos(NULL, 3), API_KEYS_STOPPED);
    begin_infos(2);
    assert_int_equal(reply_infos(NULL, 0), API_KEYS_STOPPED);
    begin_infos(2);
    assert_int_equal(api_keys_reply(&keys, LIFETIME_TRACKED, NULL, now_ms, &command), API_KEYS_STOPPED);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
}

/* As Redis replies about one key; `expected`: what is known of it at once. */
static void put_info(const struct digest *key, const char *text)
{
    struct api_key_reading reading;
    assert_true(api_keys_read_info(&keys, key, LIFETIME_TRACKED, reply_string(text), &reading));
    api_keys_put_result(&keys, key, LIFETIME_TRACKED, &reading);
}

TEST_CASE_WITH(results_for_single_keys_have_names_and_expiries, set_up, tear_down)
{
    struct digest d[] = {digest_of_number(0), digest_of_number(1), digest_of_number(2)};
    put_info(&d[0], "{\"name\":\"single\",\"expires\":\"2026-01-01T00:00:01Z\"}");
    put_info(&d[1], "{\"expires\":\"?\"}");
    put(&d[2]);
    expect(0, AUTH_RESULT_VALID, "single");
    expect(1, AUTH_RESULT_INVALID, "");
    expect(2, AUTH_RESULT_VALID, "");
    wall_s = NOW + 1;
    expect(0, AUTH_RESULT_INVALID, "single");
    expect(2, AUTH_RESULT_VALID, "");
    api_keys_invalidate(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    assert_int_equal(metrics.invalid_values_total, 1);
}

TEST_CASE_WITH(a_result_whose_info_is_older_than_a_change_is_not_cached, set_up, tear_down)
{
    struct digest d = digest_of_number(0);
    const redisReply nil = {.type = REDIS_REPLY_NIL};
    struct api_key_reading reading;
    assert_true(api_keys_read_info(&keys, &d, LIFETIME_TRACKED, &nil, &reading));
    api_keys_invalidate(&keys);
    api_keys_put_result(&keys, &d, LIFETIME_TRACKED, &reading);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    assert_false(api_keys_read_info(&keys, &d, LIFETIME_TRACKED, &(redisReply){.type = REDIS_REPLY_INTEGER},
                                    &reading));
}

/* 100,000 names and expiries cost no more than so many bytes each. */
TEST_CASE_WITH(names_take_as_many_bytes_as_they_have, set_up, tear_down)
{
    static const char *const texts[] = {"{\"name\":\"0123456789\"}", "{\"name\":\"abcdefghij\"}"};
    hold(texts, 2);
    assert_int_equal(keys.names.len, 1 + 2 * (1 + 10));
    assert_true(sizeof *keys.record <= 16);
}
