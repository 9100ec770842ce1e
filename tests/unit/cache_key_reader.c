/*
 * The key reader: what it sends, how often, and what becomes of the requests that wait for it. Redis is a set
 * of numbered keys behind the queue of fake_redis.h.
 */
#include "cache/key_reader.h"

#include <stdlib.h>

#include "support/text.h"
#include "unit/fixtures/cache_parts.h"

enum { KEYS = 200, REQUESTS = 10000, AUDIT = 3 /* its commands */ };

static bool member[KEYS];
static char hex[KEYS][DIGEST_HEX_LEN + 1];

static struct cache_request request[REQUESTS];
static int results[CACHE_OUT_OF_MEMORY]; /* how many requests ended so, by their status */
static int looked_up, fetched;           /* those that ended without one; with a check of their own */

/* --- the cache around it --- */

static void on_checked(void *arg, enum catalogue_state state)
{
    (void)arg;
    invalidation_checked(&invalidation, state);
    key_reader_checked(&key_reader, state);
}

static void on_ended(void *arg, struct list *requests, const struct cache_query *q,
                     const struct cache_result *result)
{
    (void)arg;
    assert_null(q);
    while (!list_empty(requests)) {
        struct cache_request *r = LIST_ENTRY(requests->next, struct cache_request, waiting);
        list_remove(&r->waiting);
        if (result != NULL)
            results[result->status]++;
        else
            (*(r->own_check ? &fetched : &looked_up))++;
        r->own_check = false;
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(member, 0, sizeof member);
    memset(results, 0, sizeof results);
    looked_up = fetched = 0;
    for (int i = 0; i < KEYS; i++) {
        struct digest d = digest_of(i);
        digest_hex(&d, hex[i]);
    }
    memset(request, 0, sizeof request);
    for (int i = 0; i < REQUESTS; i++)
        list_init(&request[i].waiting);
    cache_parts_init(0, 0, on_checked); /* without entries there is nothing to audit */
    parts.ended = on_ended;
    assert_int_equal(key_reader_init(&key_reader, &parts), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (fake_redis.count > 0) /* the connection ends */
        fake_redis_answer(NULL);
    key_reader_fini(&key_reader);
    cache_parts_fini();
    return 0;
}

/* --- Redis --- */

static int number_of(const char *digits)
{
    for (int i = 0; i < KEYS; i++)
        if (memcmp(hex[i], digits, DIGEST_HEX_LEN) == 0)
            return i;
    return -1;
}

static int64_t set_size(void)
{
    int64_t size = 0;
    for (int i = 0; i < KEYS; i++)
        size += member[i];
    return size;
}

/* The words of a command behind its name and the key of Redis, with a space before each. */
static const char *arguments_of(const char *command)
{
    const char *key = strchr(command, ' ');
    return key == NULL ? "" : key + 1 + strcspn(key + 1, " ");
}

/* The keys in the oldest check under way. */
static size_t count_keys(void)
{
    for (size_t i = 0; i < fake_redis.count; i++)
        if (strncmp(fake_redis_at(i)->text, "HMGET", 5) == 0 ||
            strncmp(fake_redis_at(i)->text, "SMISMEMBER", 10) == 0)
            return text_count(arguments_of(fake_redis_at(i)->text), " ");
    return 0;
}

/* So many members from the cursor on, which is the number of the next. */
static const struct redis_reply *reply_portion(int cursor, int count)
{
    struct buf out = BUF_INIT;
    struct buf list = BUF_INIT;
    int found = 0;
    int at = cursor;
    for (; at < KEYS && found < count; at++) {
        if (member[at])
            buf_printf(&list, "$64\r\n%s\r\n", hex[at]);
        found += member[at];
    }
    while (at < KEYS && !member[at])
        at++;
    char next[16];
    (void)snprintf(next, sizeof next, "%d", at < KEYS ? at : 0);
    buf_printf(&out, "*2\r\n$%zu\r\n%s\r\n*%d\r\n%s", strlen(next), next, found,
               list.len > 0 ? buf_c_str(&list) : "");
    static char copy[FAKE_REDIS_TEXT];
    (void)snprintf(copy, sizeof copy, "%.*s", (int)out.len, out.data);
    buf_fini(&out);
    buf_fini(&list);
    return reply_of(copy);
}

static const struct redis_reply *reply_list(bool of_members)
{
    static char copy[8192];
    struct buf out = BUF_INIT;
    const char *at = arguments_of(fake_redis_next());
    buf_printf(&out, "*%zu\r\n", text_count(at, " "));
    for (; *at != '\0'; at += 1 + DIGEST_HEX_LEN) {
        int number = number_of(at + 1);
        if (of_members)
            buf_printf(&out, ":%d\r\n", number >= 0 && member[number]);
        else
            buf_printf(&out, "_\r\n");
    }
    (void)snprintf(copy, sizeof copy, "%.*s", (int)out.len, out.data);
    buf_fini(&out);
    return reply_of(copy);
}

/* Answers the oldest command; returns the first letter of its name. */
static char serve(void)
{
    const char *command = fake_redis_next();
    char name = command[0];
    assert_true(fake_redis.count > 0);
    if (strncmp(command, "SCARD", 5) == 0)
        fake_redis_answer(reply_integer(set_size()));
    else if (strncmp(command, "ZCARD", 5) == 0 || strncmp(command, "HLEN", 4) == 0)
        fake_redis_answer(reply_integer(1));
    else if (strncmp(command, "HMGET", 5) == 0)
        fake_redis_answer(reply_list(false));
    else if (strncmp(command, "SMISMEMBER", 10) == 0)
        fake_redis_answer(reply_list(true));
    else if (strncmp(command, "SSCAN test:api_keys ", 20) == 0)
        fake_redis_answer(reply_portion((int)strtol(command + 20, NULL, 10), KEY_READER_PORTION));
    else
        fail_msg("unexpected: %s", command);
    return name;
}

/* Until nothing is under way. Returns the number of commands. */
static int serve_all(void)
{
    int commands = 0;
    for (; fake_redis.count > 0; commands++)
        (void)serve();
    return commands;
}

static void change_keys(void)
{
    invalidation_push(&invalidation, SPAN("invalidate"), reply_string("test:api_keys"));
}

/* A second later. Returns the number of commands. */
static int heartbeat(void)
{
    clock_ms += 1000;
    invalidation_heartbeat(&invalidation, clock_ms);
    key_reader_heartbeat(&key_reader);
    return serve_all();
}

static void connect_redis(int members)
{
    for (int i = 0; i < members; i++)
        member[i] = true;
    catalogue_check(&catalogue);
    (void)serve_all();
    invalidation_connected(&invalidation, clock_ms, true, false);
}

/* Connected, and all members are held. */
static void begin_held(int members)
{
    connect_redis(members);
    (void)serve_all();
    for (int i = 0; i < members / 10 + 3; i++)
        (void)heartbeat();
}

static enum auth_result check(int number)
{
    struct digest d = digest_of(number);
    struct api_key_name name;
    return api_keys_check(&api_keys, &d, clock_ms, &name);
}

/* Request number `i` has this key. */
static void wait_for(int i, int key)
{
    request[i].key = digest_of(key);
    key_reader_wait(&key_reader, &request[i].waiting);
}

/* Everything that was under way is answered. */
static void round_trip(void)
{
    for (size_t left = fake_redis.count; left > 0; left--)
        (void)serve();
}

/* --- the set --- */

/* The audit has keys of its own in each check. */
TEST_CASE_WITH(a_set_is_scanned_at_a_pace, set_up, tear_down)
{
    enum { SECONDS = KEYS / KEY_READER_PORTION + 2 };
    connect_redis(KEYS);
    assert_int_equal(fake_redis.count, 0);
    for (int i = 0; i < SECONDS; i++)
        assert_in_range(heartbeat(), 2, 2 + AUDIT);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(check(i), AUTH_RESULT_VALID);
    assert_int_equal(check(-1), AUTH_RESULT_UNKNOWN);
    assert_int_equal(heartbeat(), 1 + AUDIT); /* it is not scanned again */
}

/* Some encodings of Redis return all members with the first portion. */
TEST_CASE_WITH(members_that_come_at_once_are_checked_at_the_same_pace, set_up, tear_down)
{
    connect_redis(KEYS);
    clock_ms += 1000;
    key_reader_heartbeat(&key_reader);
    answer("SSCAN", reply_portion(0, KEYS));
    for (int left = KEYS; left > 0; left -= KEY_READER_PORTION) {
        assert_int_equal(fake_redis.count, 0);
        clock_ms += 1000;
        key_reader_heartbeat(&key_reader);
        assert_in_range(count_keys(), 1, KEY_READER_KEYS);
        (void)serve_all();
    }
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(check(i), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(a_change_begins_anew_and_not_faster, set_up, tear_down)
{
    connect_redis(KEYS);
    for (int i = 0; i < 20; i++) {
        int commands = heartbeat();
        change_keys(); /* every second, so the end is never reached */
        commands += serve_all();
        assert_true(commands <= 2 + AUDIT + 1);
    }
    for (int i = 0; i <= KEYS / KEY_READER_PORTION + 2; i++)
        (void)heartbeat();
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(check(i), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(members_that_are_no_digests_are_counted_and_left_out, set_up, tear_down)
{
    connect_redis(2);
    clock_ms += 1000;
    key_reader_heartbeat(&key_reader);
    answer("SSCAN", reply_of("*2\r\n$1\r\n0\r\n*2\r\n$3\r\nabc\r\n$2\r\nde\r\n"));
    assert_int_equal(metrics.invalid_values_total, 2);
    clock_ms += 1000;
    key_reader_heartbeat(&key_reader);
    assert_int_equal(fake_redis.count, 0);
}

TEST_CASE_WITH(a_scan_begins_again_after_a_malformed_portion, set_up, tear_down)
{
    static const char *const replies[] = {"*2\r\n$21\r\n123456789012345678901\r\n*0\r\n",
                                          "*1\r\n$1\r\n0\r\n",
                                          ":1\r\n",
                                          "*2\r\n$1\r\n0\r\n$1\r\n0\r\n",
                                          "*2\r\n:0\r\n*0\r\n",
                                          "-NOPERM\r\n"};
    connect_redis(1);
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        clock_ms += 1000;
        key_reader_heartbeat(&key_reader);
        answer("SSCAN", reply_of(replies[i]));
        assert_int_equal(fake_redis.count, 0);
    }
    for (int i = 0; i < 2; i++)
        (void)heartbeat();
    assert_int_equal(check(0), AUTH_RESULT_VALID);
}

/* Without memory one of the commands of the check is not sent, or more. */
TEST_CASE_WITH(members_whose_check_fails_are_read_again, set_up, tear_down)
{
    connect_redis(3);
    for (int sends = 0; sends < AUDIT; sends++) {
        clock_ms += KEY_READER_RECENT_INTERVAL_MS;
        change_keys();
        for (int i = 0; i < 2; i++)
            (void)heartbeat();
        clock_ms += 1000;
        fake_redis.sends_left = sends;
        key_reader_heartbeat(&key_reader);
        (void)serve_all();
        fake_redis.sends_left = -1;
        for (int i = 0; i < 3; i++)
            (void)heartbeat();
        for (int i = 0; i < 3; i++)
            assert_int_equal(check(i), AUTH_RESULT_VALID);
    }
}

TEST_CASE_WITH(the_largest_set_is_scanned, set_up, tear_down)
{
    connect_redis(KEYS);
    catalogue_check(&catalogue);
    answer("SCARD", reply_integer(API_KEYS_MAX));
    clock_ms += 1000;
    key_reader_heartbeat(&key_reader);
    assert_int_equal(fake_redis.count, 1);
    assert_non_null(strstr(fake_redis_next(), "SSCAN"));
}

TEST_CASE_WITH(a_set_that_is_too_large_is_not_scanned, set_up, tear_down)
{
    connect_redis(KEYS);
    catalogue_check(&catalogue);
    answer("SCARD", reply_integer(API_KEYS_MAX + 1));
    clock_ms += 1000;
    key_reader_heartbeat(&key_reader);
    assert_int_equal(fake_redis.count, 0);
    wait_for(0, 1); /* each of its keys is checked, once */
    assert_int_equal(serve_all(), 3);
    assert_int_equal(check(1), AUTH_RESULT_VALID);
    catalogue_check(&catalogue);
    answer("SCARD", reply_of("-NOPERM\r\n")); /* nor is one whose size is not known */
    (void)serve_all();
    clock_ms += 1000;
    key_reader_heartbeat(&key_reader);
    assert_int_equal(serve_all(), AUDIT);
}

/* --- the keys used last --- */

TEST_CASE_WITH(keys_used_last_are_checked_at_once_when_the_set_changes, set_up, tear_down)
{
    begin_held(KEYS);
    for (int i = 0; i < 3; i++)
        assert_int_equal(check(i), AUTH_RESULT_VALID);
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    member[1] = false;
    change_keys();
    answer("SCARD", reply_integer(KEYS - 1));
    assert_int_equal(count_keys(), 3);
    assert_int_equal(serve_all(), 3);
    assert_int_equal(check(0), AUTH_RESULT_VALID);
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
    assert_int_equal(check(2), AUTH_RESULT_VALID);
    assert_int_equal(check(3), AUTH_RESULT_UNKNOWN);
}

/* Redis may evict the set from a full tracking table hundreds of times per second. */
TEST_CASE_WITH(they_are_checked_once_a_second_at_most, set_up, tear_down)
{
    begin_held(KEYS);
    (void)check(0);
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    int commands = 0;
    for (int i = 0; i < 100; i++) {
        change_keys();
        commands += serve_all();
        clock_ms += 5;
    }
    assert_in_range(commands, 3 + 1, 3 + 6); /* and a check of the catalogue every 100 ms */
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
    (void)heartbeat();
    assert_int_equal(check(0), AUTH_RESULT_VALID);
}

static void expect_checked_again(void)
{
    assert_int_equal(check(KEYS - 1), AUTH_RESULT_UNKNOWN);
    for (int i = 0; i < 4; i++)
        (void)heartbeat();
    assert_int_equal(check(KEYS - 1), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(they_are_checked_again_if_the_check_fails, set_up, tear_down)
{
    begin_held(KEYS);
    assert_int_equal(check(KEYS - 1), AUTH_RESULT_VALID);
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    change_keys();
    fake_redis.sends_left = 0;
    answer("SCARD", reply_integer(KEYS));
    assert_int_equal(fake_redis.count, 0);
    fake_redis.sends_left = -1;
    expect_checked_again();
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    change_keys();
    answer("SCARD", reply_integer(KEYS));
    answer("HLEN", reply_of("-ERR\r\n"));
    (void)serve_all();
    expect_checked_again();
}

/* --- requests --- */

TEST_CASE_WITH(requests_share_a_check, set_up, tear_down)
{
    connect_redis(KEYS);
    for (int i = 0; i < 10; i++) /* the first begins one, the others wait for the next */
        wait_for(i, i / 5);
    for (int i = 0; i < 3; i++)
        (void)serve();
    assert_int_equal(looked_up, 5); /* of the same key */
    assert_int_equal(count_keys(), 1);
    assert_int_equal(serve_all(), 3);
    assert_int_equal(looked_up, 10);
    assert_int_equal(metrics.redis_commands_total, 6);
}

TEST_CASE_WITH(an_invalid_key_is_checked_once_until_the_next_change, set_up, tear_down)
{
    connect_redis(KEYS - 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(check(KEYS - 1), AUTH_RESULT_UNKNOWN);
        wait_for(i, KEYS - 1);
        (void)serve_all();
        assert_int_equal(results[CACHE_KEY_INVALID], i + 1);
        assert_int_equal(check(KEYS - 1), AUTH_RESULT_INVALID);
        clock_ms += KEY_READER_RECENT_INTERVAL_MS;
        change_keys();
        (void)serve_all();
    }
}

/* Redis would not announce that the set comes to exist again. */
TEST_CASE_WITH(without_a_set_nothing_is_kept, set_up, tear_down)
{
    connect_redis(0);
    wait_for(0, 1);
    (void)serve_all();
    assert_int_equal(results[CACHE_KEY_INVALID], 1);
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
}

TEST_CASE_WITH(a_set_that_always_changes_does_not_keep_a_request_waiting, set_up, tear_down)
{
    connect_redis(100);
    wait_for(0, 150);
    int changes = 0;
    for (; results[CACHE_KEY_INVALID] == 0; changes++) {
        while (list_empty(&key_reader.denied))
            (void)serve();
        change_keys();
        while (!list_empty(&key_reader.denied))
            (void)serve();
        assert_true(changes < 20);
    }
    assert_in_range(changes, 2, 10);
}

TEST_CASE_WITH(a_replica_does_not_say_that_a_key_is_invalid, set_up, tear_down)
{
    fake_redis.is_replica = true;
    connect_redis(100);
    wait_for(0, 1);
    (void)serve_all();
    assert_int_equal(looked_up, 1);
    wait_for(1, 150);
    assert_int_equal(serve_all(), 3);
    assert_int_equal(fetched, 1);
}

TEST_CASE_WITH(requests_leave, set_up, tear_down)
{
    connect_redis(100);
    for (int i = 0; i < 3; i++)
        wait_for(i, 150 + i);
    list_remove(&request[0].waiting);
    list_remove(&request[1].waiting);
    while (list_empty(&key_reader.denied))
        (void)serve(); /* nobody waits for the first check, and one request for the second */
    list_remove(&request[2].waiting);
    assert_int_equal(serve_all(), 1);
    for (size_t i = 0; i < TEST_COUNT(results); i++)
        assert_int_equal(results[i], 0);
}

/* A refused command, a reply of another type, or of another length. */
TEST_CASE_WITH(where_redis_refuses_a_check_each_request_has_its_own, set_up, tear_down)
{
    static const char *const replies[][3] = {{"-NOPERM\r\n", NULL, NULL},
                                             {":1\r\n", "-WRONGTYPE\r\n", NULL},
                                             {":1\r\n", "*2\r\n_\r\n_\r\n", NULL},
                                             {":1\r\n", "*1\r\n:1\r\n", NULL},
                                             {":1\r\n", "*1\r\n_\r\n", "-ERR unknown command\r\n"},
                                             {":1\r\n", "*1\r\n_\r\n", "*1\r\n_\r\n"}};
    connect_redis(100);
    for (size_t i = 0; i < TEST_COUNT(replies); i++) {
        wait_for((int)i, 90); /* no portion of this test has it */
        for (int k = 0; k < 3; k++)
            fake_redis_answer(reply_of(replies[i][k] != NULL ? replies[i][k] : "*1\r\n:1\r\n"));
        assert_int_equal(looked_up, i + 1);
        assert_false(key_reader_is_able(&key_reader));
        assert_int_equal(check(90), AUTH_RESULT_UNKNOWN);
        clock_ms += 1000;
        key_reader_heartbeat(&key_reader); /* no request has to try whether keys can be checked now */
        assert_false(key_reader_is_able(&key_reader));
        for (int k = 0; k < AUDIT; k++)
            (void)serve();
        assert_true(key_reader_is_able(&key_reader));
        (void)serve_all();
    }
}

TEST_CASE_WITH(what_cannot_be_sent_is_sent_later, set_up, tear_down)
{
    connect_redis(100);
    for (int sends = 0; sends < 3; sends++) {
        fake_redis.sends_left = sends;
        wait_for(sends, 90 + sends); /* no portion of this test has it */
        while (fake_redis.count > 0)
            (void)serve();
        assert_int_equal(looked_up, sends);
        fake_redis.sends_left = -1;
        (void)heartbeat();
        assert_int_equal(looked_up, sends + 1);
    }
}

/* A tracking table that is too small invalidates the keys in the middle of each check. */
TEST_CASE_WITH(a_request_whose_checks_are_always_void_has_its_own, set_up, tear_down)
{
    connect_redis(100);
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    wait_for(0, 150);
    int checks = 0;
    for (; fetched == 0; checks++) {
        answer("HLEN", reply_integer(1));
        change_keys();
        while (fake_redis.count > 0 && strncmp(fake_redis_next(), "HLEN", 4) != 0)
            (void)serve();
        assert_true(checks < 20);
    }
    assert_in_range(checks, 2, 10);
    assert_int_equal(results[CACHE_KEY_INVALID], 0);
}

/* --- a flood --- */

/* A check has a bounded number of keys, and so many are under way at a time. */
TEST_CASE_WITH(a_flood_of_invalid_keys_is_bounded, set_up, tear_down)
{
    enum { COMMANDS = 3, CATALOGUE = 1 };
    int round_trips = 0;
    connect_redis(KEYS);
    for (int i = 0; i < REQUESTS; i++)
        wait_for(i, -1 - i);
    for (; results[CACHE_KEY_INVALID] < REQUESTS; round_trips++) {
        assert_in_range(fake_redis.count, 1, COMMANDS * KEY_READER_UNKNOWN + CATALOGUE);
        if (fake_redis_next()[0] == 'H')
            assert_in_range(count_keys(), 1, KEY_READER_KEYS);
        round_trip();
    }
    assert_true(round_trips >= REQUESTS / (KEY_READER_KEYS * KEY_READER_UNKNOWN));
    assert_true(metrics.redis_commands_total <= (uint64_t)COMMANDS * (2 + REQUESTS / KEY_READER_KEYS));
    assert_int_equal(api_keys.table.used, 0); /* nothing of them is kept */
}

/* In the order in which they came, valid or not. */
TEST_CASE_WITH(a_new_key_waits_25_round_trips_behind_10000_invalid_ones, set_up, tear_down)
{
    connect_redis(KEYS);
    for (int i = 0; i < REQUESTS; i++)
        wait_for(i, i == REQUESTS - 1 ? 7 : -1 - i);
    for (int i = 0; looked_up == 0; i++) {
        assert_true(i < 25);
        round_trip();
    }
    for (int i = 0; i < REQUESTS; i++)
        list_remove(&request[i].waiting);
}

/* One that is known waits for the check under way, and for its own. */
TEST_CASE_WITH(a_key_that_was_valid_before_the_change_passes_invalid_ones, set_up, tear_down)
{
    begin_held(KEYS);
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    change_keys();
    (void)serve_all();
    for (int i = 2; i < REQUESTS; i++)
        wait_for(i, -1 - i);
    round_trip();
    wait_for(0, 8);
    wait_for(1, 9);
    round_trip();
    assert_int_equal(looked_up, 1);
    round_trip();
    assert_int_equal(looked_up, 2);
    for (int i = 0; i < REQUESTS; i++)
        list_remove(&request[i].waiting);
}

TEST_CASE_WITH(a_key_behind_a_member_is_the_one_that_is_refused, set_up, tear_down)
{
    connect_redis(KEYS);
    member[2] = false;
    wait_for(0, 0); /* in flight; the others share the next check */
    wait_for(1, 1);
    wait_for(2, 2);
    wait_for(3, 2);
    (void)serve_all();
    assert_int_equal(results[CACHE_KEY_INVALID], 2);
    assert_int_equal(looked_up, 2);
}

/* One item for each key of the check. */
static const struct redis_reply *reply_same(const char *item)
{
    static char copy[8192];
    size_t len = (size_t)snprintf(copy, sizeof copy, "*%zu\r\n", count_keys());
    for (size_t i = 0; i < count_keys(); i++)
        len += (size_t)snprintf(copy + len, sizeof copy - len, "%s\r\n", item);
    return reply_of(copy);
}

/* Every key is a member. */
static void answer_members(int64_t size)
{
    while (fake_redis.count > 0) {
        const char *command = fake_redis_next();
        if (strncmp(command, "SCARD", 5) == 0)
            fake_redis_answer(reply_integer(size));
        else if (strncmp(command, "HLEN", 4) == 0)
            fake_redis_answer(reply_integer(1));
        else
            fake_redis_answer(reply_same(command[0] == 'H' ? "_" : ":1"));
    }
}

TEST_CASE_WITH(a_member_that_gives_way_to_another_of_its_check_is_valid, set_up, tear_down)
{
    enum { IN_SET = 200000, CHECKS = 500 };
    int next = 1000000;
    catalogue_check(&catalogue);
    answer("SCARD", reply_integer(IN_SET));
    invalidation_connected(&invalidation, clock_ms, true, false);
    for (int i = 0; i < API_KEYS_HELD_MAX; i++) {
        struct digest d = digest_of(next++);
        assert_int_equal(api_keys_confirm(&api_keys, &d, LIFETIME_TRACKED, &API_KEY_INFO_NONE), 0);
    }
    for (int n = 0; n < CHECKS; n++) {
        clock_ms += 1000;
        for (int i = 0; i < KEY_READER_KEYS; i++)
            wait_for(i, next++);
        answer_members(IN_SET);
    }
    assert_int_equal(results[CACHE_KEY_INVALID], 0);
}
