/* The API key set: reading it in any way, and what is known of a key meanwhile. */
#include "cache/api_keys.h"

#include "base/hash.h"
#include "redis/resp.h"

#include "unit/check.h"

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

static int set_up(void **state)
{
    (void)state;
    metrics = (struct cache_metrics){0};
    command = BUF_INIT;
    now_ms = 1000;
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
    return api_keys_check(&keys, &d, 0);
}

static enum api_keys_progress reply_integer(long long value)
{
    const redisReply reply = {.type = REDIS_REPLY_INTEGER, .integer = value};
    return api_keys_reply(&keys, &reply, now_ms, &command);
}

static enum api_keys_progress reply_error(const char *text)
{
    char copy[64];
    (void)snprintf(copy, sizeof copy, "%s", text);
    const redisReply reply = {.type = REDIS_REPLY_ERROR, .str = copy, .len = strlen(copy)};
    return api_keys_reply(&keys, &reply, now_ms, &command);
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
    return api_keys_reply(&keys, &reply, now_ms, &command);
}

#define assert_command(text) assert_buf(&command, text)

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
    assert_int_equal(reply_integer((long long)set->elements), API_KEYS_SEND);
    assert_command(SMEMBERS);
    return api_keys_reply(&keys, set, now_ms, &command);
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
    assert_int_equal(reply_integer(LARGE), API_KEYS_SEND);
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
    assert_int_equal(reply_integer(KEYS), API_KEYS_SEND);
    api_keys_invalidate(&keys);
    assert_false(api_keys_read(&keys, now_ms, &command));
    assert_int_equal(api_keys_reply(&keys, &set, now_ms, &command), API_KEYS_COMPLETE);
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
    assert_int_equal(reply_portion("0", portion), API_KEYS_COMPLETE);
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
    assert_int_equal(reply_portion("0", set_of(0, KEYS)), API_KEYS_COMPLETE);
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
    assert_false(wants_reading_in(API_KEYS_RETRY_MS)); /* too large, until it changes */
}

TEST_CASE_WITH(malformed_portions_end_the_reading, set_up, tear_down)
{
    static const char *const cursors[] = {"123456789012345678901"};
    begin_portions();
    assert_int_equal(reply_portion(cursors[0], set_of(0, 1)), API_KEYS_STOPPED);
    begin_portions();
    assert_int_equal(reply_integer(1), API_KEYS_STOPPED);
    begin_portions();
    assert_int_equal(reply_error("ERR"), API_KEYS_STOPPED);
    begin_portions(); /* a server that never comes to an end */
    int portions = 0;
    while (reply_portion("1", set_of(0, 1)) == API_KEYS_SEND)
        portions++;
    assert_int_equal(portions, API_KEYS_MAX / 100);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
}

TEST_CASE_WITH(a_reading_that_was_refused_is_repeated_after_a_pause, set_up, tear_down)
{
    begin_reading();
    assert_int_equal(reply_error("NOPERM"), API_KEYS_STOPPED);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS - 1));
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
    begin_reading();
    assert_int_equal(reply_integer(1), API_KEYS_SEND);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS)); /* it is under way */
    assert_int_equal(reply_error("NOPERM"), API_KEYS_STOPPED);
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
    begin_reading();
    assert_int_equal(api_keys_reply(&keys, NULL, now_ms, &command), API_KEYS_STOPPED);
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
    begin_portions();
    assert_int_equal(api_keys_reply(&keys, NULL, now_ms, &command), API_KEYS_STOPPED);
    assert_true(wants_reading_in(API_KEYS_RETRY_MS));
}

TEST_CASE_WITH(a_lost_connection_ends_a_reading, set_up, tear_down)
{
    begin_portions();
    assert_int_equal(reply_portion("7", set_of(0, KEYS)), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, NULL, now_ms, &command), API_KEYS_STOPPED);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    read_keys(0, 1);
    assert_int_equal(check(0), AUTH_RESULT_VALID);
    assert_int_equal(check(1), AUTH_RESULT_INVALID);
}

TEST_CASE_WITH(results_for_a_set_that_is_too_large_are_cached_one_by_one, set_up, tear_down)
{
    struct digest valid = digest_of_number(1);
    struct digest invalid = digest_of_number(2);
    begin_reading();
    api_keys_put_result(&keys, &valid, true, 0); /* before it is known whether the set is held */
    assert_int_equal(check(1), AUTH_RESULT_VALID);
    assert_int_equal(reply_integer(API_KEYS_MAX + 1), API_KEYS_STOPPED);
    assert_int_equal(api_keys_size(&keys), -1);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS));
    api_keys_put_result(&keys, &invalid, false, 5);
    assert_int_equal(api_keys_check(&keys, &valid, 0), AUTH_RESULT_VALID);
    assert_int_equal(api_keys_check(&keys, &invalid, 4), AUTH_RESULT_UNKNOWN);
    assert_int_equal(api_keys_check(&keys, &invalid, 5), AUTH_RESULT_INVALID);
    assert_int_equal(check(3), AUTH_RESULT_UNKNOWN);
    api_keys_invalidate(&keys);
    assert_int_equal(api_keys_check(&keys, &valid, 9), AUTH_RESULT_UNKNOWN);
    assert_int_equal(api_keys_check(&keys, &invalid, 9), AUTH_RESULT_UNKNOWN);
    assert_true(wants_reading_in(API_KEYS_RETRY_MS)); /* its size may have changed */
}

TEST_CASE_WITH(a_set_that_is_held_makes_results_of_single_keys_void, set_up, tear_down)
{
    struct digest revoked = digest_of_number(1);
    api_keys_put_result(&keys, &revoked, true, 0);
    api_keys_invalidate(&keys);
    read_keys(0, 1);
    api_keys_put_result(&keys, &revoked, true, 0); /* a reply that is older than the set */
    assert_int_equal(api_keys_check(&keys, &revoked, 9), AUTH_RESULT_INVALID);
}

TEST_CASE_WITH(a_set_of_the_largest_size_is_held, set_up, tear_down)
{
    begin_reading();
    assert_int_equal(reply_integer(API_KEYS_MAX), API_KEYS_SEND);
    assert_int_equal(reply_portion("0", set_of(0, KEYS)), API_KEYS_COMPLETE);
    api_keys_commit(&keys);
    assert_int_equal(check(0), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(a_set_that_grew_after_its_size_was_read_is_not_held, set_up, tear_down)
{
    redisReply set = set_of(0, 1);
    begin_reading();
    assert_int_equal(reply_integer(1), API_KEYS_SEND);
    set.elements = API_KEYS_MAX + 1;
    assert_int_equal(api_keys_reply(&keys, &set, now_ms, &command), API_KEYS_STOPPED);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS));
    begin_reading();
    assert_int_equal(reply_integer(1), API_KEYS_SEND);
    assert_int_equal(api_keys_reply(&keys, &resp_oversize, now_ms, &command), API_KEYS_STOPPED);
    assert_false(wants_reading_in(API_KEYS_RETRY_MS));
}

/* 100,000 keys cost no more than so many bytes each: the digest, and its part of the table. */
TEST_CASE_WITH(a_key_takes_some_seventy_bytes, set_up, tear_down)
{
    begin_reading();
    assert_int_equal(reply_integer(API_KEYS_MAX), API_KEYS_SEND);
    for (int first = 0; first < API_KEYS_MAX - 10000; first += 10000)
        assert_int_equal(reply_portion("1", set_of(first, 10000)), API_KEYS_SEND);
    assert_int_equal(reply_portion("0", set_of(API_KEYS_MAX - 10000, 10000)), API_KEYS_COMPLETE);
    assert_int_equal(keys.count, API_KEYS_MAX);
    size_t bytes = table_bytes(&keys.table) + keys.capacity * sizeof *keys.digest;
    assert_in_range(bytes / API_KEYS_MAX, DIGEST_LEN + sizeof(struct table_slot), 74);
}
