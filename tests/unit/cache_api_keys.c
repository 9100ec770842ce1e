/* The API keys of a worker: which count, and which give way. */
#include "cache/api_keys.h"

#include "unit/fake_redis.h"
#include "unit/fixtures/cache_clock.h"

/* 2026-01-01T00:00:00Z */
enum { NOW = 1767225600 };

enum { KEYS = 1000 };

static struct cache_metrics metrics;
static struct api_keys keys;
static struct api_key_name name; /* of the key that was checked last */

static int set_up(void **state)
{
    (void)state;
    metrics = (struct cache_metrics){0};
    clock_ms = 1000000;
    wall_s = NOW;
    fake_redis_init();
    return api_keys_init(&keys, &metrics);
}

static int tear_down(void **state)
{
    (void)state;
    api_keys_fini(&keys);
    return 0;
}

static enum auth_result check(int number)
{
    struct digest d = digest_of(number);
    return api_keys_check(&keys, &d, clock_ms, &name);
}

static void confirm(int number)
{
    struct digest d = digest_of(number);
    assert_int_equal(api_keys_confirm(&keys, &d, LIFETIME_TRACKED, &API_KEY_INFO_NONE), 0);
}

/* The key has this info, nil where it is NULL. */
static void confirm_info(int number, const char *text)
{
    struct digest d = digest_of(number);
    struct api_key_info info;
    const struct redis_reply *reply = text == NULL ? reply_of("_\r\n") : reply_string(text);
    assert_true(api_keys_read_info(&keys, &d, reply, &info));
    assert_int_equal(api_keys_confirm(&keys, &d, LIFETIME_TRACKED, &info), 0);
}

static void expect(int number, enum auth_result result, const char *expected)
{
    assert_int_equal(check(number), result);
    assert_int_equal(name.len, strlen(expected));
    assert_memory_equal(name.text, expected, strlen(expected));
}

TEST_CASE_WITH(a_key_counts_from_its_confirmation_to_the_next_change, set_up, tear_down)
{
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
    assert_int_equal(name.len, -1);
    confirm(1);
    assert_int_equal(check(1), AUTH_RESULT_VALID);
    assert_int_equal(check(2), AUTH_RESULT_UNKNOWN);
    api_keys_invalidate(&keys);
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
    assert_int_equal(name.len, -1);
    confirm(1);
    assert_int_equal(check(1), AUTH_RESULT_VALID);
}

/* Read where Redis does not track. */
TEST_CASE_WITH(a_key_with_a_ttl_counts_until_it_ends, set_up, tear_down)
{
    struct digest d = digest_of(1);
    const struct lifetime lifetime = {clock_ms + 100};
    assert_int_equal(api_keys_confirm(&keys, &d, lifetime, &API_KEY_INFO_NONE), 0);
    clock_ms += 99;
    assert_int_equal(check(1), AUTH_RESULT_VALID);
    clock_ms++;
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN);
}

static void note_absent(int number)
{
    const struct digest d = digest_of(number);
    api_keys_note_absent(&keys, &d);
}

TEST_CASE_WITH(a_digest_that_is_no_key_is_invalid_until_the_next_change, set_up, tear_down)
{
    for (int i = 0; i < 10; i++)
        note_absent(i);
    for (int i = 0; i < 10; i++)
        assert_int_equal(check(i), AUTH_RESULT_INVALID);
    assert_int_equal(check(10), AUTH_RESULT_UNKNOWN);
    api_keys_invalidate(&keys);
    assert_int_equal(check(0), AUTH_RESULT_UNKNOWN);
}

TEST_CASE_WITH(digests_that_are_no_keys_displace_each_other_only, set_up, tear_down)
{
    enum { PLACES = API_KEYS_ABSENT_SETS * API_KEYS_ABSENT_WAYS };
    int found = 0;
    confirm(-1);
    for (int i = 0; i < 3 * PLACES; i++)
        note_absent(i);
    for (int i = 0; i < 3 * PLACES; i++)
        found += check(i) == AUTH_RESULT_INVALID;
    assert_in_range(found, PLACES / 2, PLACES);
    assert_int_equal(check(-1), AUTH_RESULT_VALID);
}

TEST_CASE_WITH(a_key_was_valid_until_it_is_denied_or_expires, set_up, tear_down)
{
    const struct digest d = digest_of(1);
    assert_false(api_keys_was_valid(&keys, &d));
    confirm_info(1, "{\"expires\":\"2026-01-01T00:00:01Z\"}");
    api_keys_invalidate(&keys);
    assert_true(api_keys_was_valid(&keys, &d));
    wall_s = NOW + 1;
    assert_false(api_keys_was_valid(&keys, &d));
    assert_int_equal(api_keys_confirm(&keys, &d, LIFETIME_NONE, &API_KEY_INFO_NONE), 0);
    assert_true(api_keys_was_valid(&keys, &d));
    assert_int_equal(check(1), AUTH_RESULT_UNKNOWN); /* without a lifetime it is not confirmed */
    api_keys_deny(&keys, &d);
    assert_false(api_keys_was_valid(&keys, &d));
}

TEST_CASE_WITH(a_key_that_is_no_member_any_more_is_freed, set_up, tear_down)
{
    for (int i = 0; i < KEYS; i++)
        confirm(i);
    api_keys_invalidate(&keys);
    for (int i = 0; i < 10; i++)
        confirm(i);
    api_keys_heartbeat(&keys);
    assert_int_equal(keys.table.used, KEYS); /* of which one may be confirmed any moment */
    api_keys_note_scanned(&keys);
    for (int i = 0; i < 100 && keys.table.used > 10; i++) /* removals move entries behind the cursor */
        api_keys_heartbeat(&keys);
    assert_int_equal(keys.table.used, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(check(i), AUTH_RESULT_VALID);
}

/* Beside its part of the table. */
TEST_CASE_WITH(a_key_takes_some_hundred_bytes, set_up, tear_down)
{
    for (int i = 0; i < API_KEYS_MAX; i++)
        confirm(i);
    assert_in_range(table_bytes(&keys.table) / API_KEYS_MAX, sizeof(struct table_slot), 42);
}

/* --- the keys used last --- */

static void expect_recent(size_t count, int first, int last)
{
    struct digest recent[API_KEYS_RECENT];
    struct digest d = digest_of(first);
    assert_int_equal(api_keys_recent(&keys, recent), count);
    assert_memory_equal(&recent[0], &d, sizeof d);
    d = digest_of(last);
    assert_memory_equal(&recent[count - 1], &d, sizeof d);
}

TEST_CASE_WITH(the_keys_used_last_are_known, set_up, tear_down)
{
    struct digest recent[API_KEYS_RECENT];
    for (int i = 0; i < 2 * API_KEYS_RECENT; i++)
        confirm(i);
    assert_int_equal(api_keys_recent(&keys, recent), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(check(i), AUTH_RESULT_VALID);
    expect_recent(3, 2, 0);
    (void)check(0); /* in the same second */
    expect_recent(3, 2, 0);
    api_keys_heartbeat(&keys);
    (void)check(0);
    expect_recent(3, 0, 1);
    api_keys_invalidate(&keys);
    (void)check(1); /* which may have been revoked */
    expect_recent(3, 0, 1);
    for (int i = 0; i < 2 * API_KEYS_RECENT; i++) {
        confirm(i);
        api_keys_heartbeat(&keys);
        (void)check(i);
    }
    expect_recent(API_KEYS_RECENT, 2 * API_KEYS_RECENT - 1, API_KEYS_RECENT);
}

TEST_CASE_WITH(a_key_that_is_dropped_is_none_of_those_used_last, set_up, tear_down)
{
    for (int i = 0; i < 3; i++) {
        confirm(i);
        (void)check(i);
    }
    confirm_info(0, "{\"name\":\"new\"}"); /* with another name it is another key */
    expect_recent(2, 2, 1);
    api_keys_invalidate(&keys);
    confirm(2);
    api_keys_note_scanned(&keys);
    api_keys_heartbeat(&keys);
    api_keys_heartbeat(&keys);
    expect_recent(1, 2, 2);
}

/* --- the audit --- */

/* Until the next change; of a key that was confirmed since the last one. */
TEST_CASE_WITH(a_confirmed_key_that_redis_contradicts_differs, set_up, tear_down)
{
    const struct digest denied = digest_of(1);
    const struct digest unknown = digest_of(2);
    confirm(1);
    confirm(1);
    api_keys_deny(&keys, &unknown);
    assert_false(api_keys_differ(&keys));
    api_keys_deny(&keys, &denied);
    assert_true(api_keys_differ(&keys));
    api_keys_invalidate(&keys);
    assert_false(api_keys_differ(&keys));
    api_keys_deny(&keys, &denied);
    assert_false(api_keys_is_held(&keys, &denied));
    confirm_info(1, "{\"name\":\"a\"}"); /* it was confirmed before the change */
    confirm_info(1, "{\"name\":\"a\"}");
    assert_false(api_keys_differ(&keys));
    confirm_info(1, "{\"name\":\"b\"}");
    assert_true(api_keys_differ(&keys));
    api_keys_invalidate(&keys);
    confirm_info(1, "{\"name\":\"b\"}");
    confirm_info(1, "{\"name\":\"b\",\"expires\":\"2026-01-01T00:00:05Z\"}");
    assert_true(api_keys_differ(&keys));
}

/* Those that are used with each audit, the others in turn. */
TEST_CASE_WITH(every_confirmed_key_is_audited, set_up, tear_down)
{
    enum { MANY = 100 };
    struct digest audited[API_KEYS_AUDITED];
    bool seen[MANY] = {false};
    confirm(-1);
    api_keys_invalidate(&keys); /* this one is not confirmed */
    for (int i = 0; i < MANY; i++)
        confirm(i);
    assert_int_equal(check(7), AUTH_RESULT_VALID);
    for (int round = 0; round < MANY; round++) {
        size_t count = api_keys_audited(&keys, audited);
        const struct digest used = digest_of(7);
        assert_in_range(count, 1, API_KEYS_AUDITED);
        assert_memory_equal(&audited[0], &used, sizeof used);
        for (size_t i = 0; i < count; i++)
            for (int n = -1; n < MANY; n++) {
                const struct digest d = digest_of(n);
                if (memcmp(&d, &audited[i], sizeof d) != 0)
                    continue;
                assert_true(n >= 0);
                seen[n] = true;
            }
    }
    for (int i = 0; i < MANY; i++)
        assert_true(seen[i]);
}

/* --- names and expiries --- */

TEST_CASE_WITH(a_key_has_the_name_and_the_expiry_of_its_info, set_up, tear_down)
{
    confirm_info(0, NULL);
    confirm_info(1, "{}");
    confirm_info(2, "{\"name\":\"a\"}");
    confirm_info(3, "{\"name\":\"b\",\"expires\":\"2026-01-01T00:00:01Z\"}");
    expect(0, AUTH_RESULT_VALID, "");
    expect(1, AUTH_RESULT_VALID, "");
    expect(2, AUTH_RESULT_VALID, "a");
    expect(3, AUTH_RESULT_VALID, "b");
    confirm_info(2, "{\"name\":\"another\",\"expires\":\"2025-01-01T00:00:00Z\"}");
    expect(2, AUTH_RESULT_INVALID, "another");
    confirm_info(2, "{\"name\":\"another\"}");
    expect(2, AUTH_RESULT_VALID, "another");
    assert_int_equal(metrics.invalid_values_total, 0);
}

TEST_CASE_WITH(a_key_expires_with_the_second, set_up, tear_down)
{
    confirm_info(0, "{\"expires\":\"2026-01-01T00:00:01Z\",\"name\":\"x\"}");
    expect(0, AUTH_RESULT_VALID, "x");
    wall_s = NOW + 1;
    expect(0, AUTH_RESULT_INVALID, "x"); /* the log shows whose it is */
    wall_s = NOW + 100000000;
    expect(0, AUTH_RESULT_INVALID, "x");
    wall_s = NOW; /* the clock was set */
    expect(0, AUTH_RESULT_VALID, "x");
}

/* What cannot be read may have been an expiry. */
TEST_CASE_WITH(a_key_with_a_malformed_expiry_is_refused, set_up, tear_down)
{
    static const char *const texts[] = {"{\"expires\":\"tomorrow\"}", "never", "{\"name\":\"no name\"}",
                                        "{\"name\":\"old\",\"expires\":17672256000}", "{\"issued\":0}"};
    for (int round = 0; round < 2; round++) /* logged once */
        for (size_t i = 0; i < TEST_COUNT(texts); i++)
            confirm_info((int)i, texts[i]);
    expect(0, AUTH_RESULT_INVALID, "");
    expect(1, AUTH_RESULT_INVALID, "");
    expect(2, AUTH_RESULT_VALID, "");
    expect(3, AUTH_RESULT_INVALID, "old");
    expect(4, AUTH_RESULT_VALID, "");
    assert_int_equal(metrics.invalid_values_total, 8);
}

TEST_CASE_WITH(an_info_is_a_text_or_nil, set_up, tear_down)
{
    struct digest d = digest_of(0);
    struct api_key_info info;
    assert_false(api_keys_read_info(&keys, &d, reply_integer(1), &info));
    assert_false(api_keys_read_info(&keys, &d, reply_of("-WRONGTYPE x\r\n"), &info));
}

/* --- the next expiry --- */

static uint64_t next_expiry(void)
{
    api_keys_heartbeat(&keys); /* of the second, which ends what the first has begun */
    api_keys_heartbeat(&keys);
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
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        confirm_info((int)i, texts[i]);
    assert_int_equal(next_expiry(), 0);
    api_keys_note_scanned(&keys);
    assert_int_equal(next_expiry(), NOW + 5);
    wall_s = NOW + 4;
    assert_int_equal(next_expiry(), NOW + 5);
    wall_s = NOW + 5;
    assert_int_equal(next_expiry(), NOW + 9);
    api_keys_invalidate(&keys);
    assert_int_equal(next_expiry(), NOW + 9); /* until the changed set is scanned */
    api_keys_forgo_scan(&keys, "it has too many keys");
    assert_int_equal(next_expiry(), 0);
    confirm_info(0, texts[0]);
    api_keys_note_scanned(&keys);
    assert_int_equal(next_expiry(), NOW + 9);
    wall_s = NOW + 9;
    assert_int_equal(next_expiry(), 0);
}

TEST_CASE_WITH(the_next_expiry_of_many_keys_is_found_in_steps, set_up, tear_down)
{
    enum { MANY = 20000 };
    for (int i = 0; i < MANY; i++)
        confirm_info(i, i == MANY / 2 ? "{\"expires\":\"2026-01-01T00:00:05Z\"}" : NULL);
    api_keys_note_scanned(&keys);
    int heartbeats = 0;
    while (next_expiry() == 0)
        heartbeats++;
    assert_in_range(heartbeats, 1, 5);
}
