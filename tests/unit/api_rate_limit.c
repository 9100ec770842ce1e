/*
 * The rate limit: what a policy may look like; what is granted to a key, over time, beside other keys, when
 * the table is full, and by many threads at the same time. Times are the test's own.
 */
#include "api/rate_limit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "unit/check.h"

static const uint64_t MS = 1000000;
static const uint64_t S = 1000000000;

/* --- policies --- */

static struct rate_policy policy_of(const char *text)
{
    struct rate_policy p;
    const char *error = rate_policy_parse(span_of(text), &p);
    if (error != NULL)
        fail_msg("%s: %s", text, error);
    return p;
}

static void expect_policy(const char *text, uint32_t requests, uint32_t window_s, uint32_t burst)
{
    struct rate_policy p = policy_of(text);
    if (p.requests != requests || p.window_s != window_s || p.burst != burst)
        fail_msg("%s: %u requests in %u s, burst %u", text, p.requests, p.window_s, p.burst);
}

TEST_CASE(policies_have_a_window_and_a_burst)
{
    expect_policy("", 0, 0, 0);
    expect_policy("100/s", 100, 1, 100);
    expect_policy("6000/m", 6000, 60, 6000);
    expect_policy("7/h", 7, 3600, 7);
    expect_policy("100/s,burst=200", 100, 1, 200);
    expect_policy("6000/m,burst=1", 6000, 60, 1);
}

TEST_CASE(numbers_of_policies_have_bounds)
{
    expect_policy("1/s", 1, 1, 1);
    expect_policy("1000000/s", 1000000, 1, 1000000);
    expect_policy("1/h,burst=1", 1, 3600, 1);
    expect_policy("1/h,burst=1000000", 1, 3600, 1000000);
}

TEST_CASE(other_texts_are_no_policies)
{
    EACH_TEXT (text, "0/s", "1000001/s", "-1/s", "9223372036854775807/s", "99999999999999999999/s",
               "4294967297/s", "1/s,burst=0", "1/s,burst=1000001", "1/s,burst=-1",
               "1/s,burst=99999999999999999999", "100", "/s", "100/", "100s", "100/d", "100/S", "100/ss",
               "100/1s", "a/s", "+1/s", "01/s", "1.5/s", "1e3/s", " 1/s", "1/s ", "1 /s", "1/s/s", ",",
               "1/s,", "1/s,burst", "1/s,burst=", "1/s,Burst=1", "1/s,burst=a", "1/s, burst=1",
               "1/s,burst=1,", "1/s,burst=1,burst=2", ",burst=1", "1,burst=1/s", "1/s;burst=1", "off") {
        struct rate_policy p = {.requests = 42};
        const char *error = rate_policy_parse(span_of(text), &p);
        if (error == NULL || strstr(error, "of 1 to 1000000 requests") == NULL)
            fail_msg("\"%s\": %s", text, error == NULL ? "taken" : error);
        assert_int_equal(p.requests, 42);
    }
}

/* --- one key --- */

static struct rate_limit *limit_of(const char *policy, size_t sets)
{
    struct rate_policy p = policy_of(policy);
    struct rate_limit *l = rate_limit_new(&p, sets);
    assert_non_null(l);
    return l;
}

static void drop_limit(struct rate_limit **l)
{
    rate_limit_free(*l);
}

/* Declares a rate limit that ends with its block. */
#define SCOPED_LIMIT(name) __attribute__((cleanup(drop_limit))) struct rate_limit *name

static struct digest key_of(uint32_t number)
{
    struct digest d = {0};
    memcpy(d.bytes, &number, sizeof number);
    return d;
}

static struct rate_result count(struct rate_limit *l, uint32_t key, uint64_t now)
{
    struct digest d = key_of(key);
    return rate_limit_count(l, &d, true, now);
}

static bool is_granted(struct rate_limit *l, uint32_t key, uint64_t now)
{
    enum rate_outcome outcome = count(l, key, now).outcome;
    assert_true(outcome == RATE_GRANTED || outcome == RATE_REFUSED);
    return outcome == RATE_GRANTED;
}

/* How many requests in a row are granted at a time. */
static uint32_t granted_at(struct rate_limit *l, uint32_t key, uint64_t now)
{
    uint32_t granted = 0;
    while (is_granted(l, key, now))
        granted++;
    return granted;
}

TEST_CASE(burst_is_granted_at_once_and_no_more)
{
    static const struct {
        const char *policy;
        uint32_t burst;
    } cases[] = {{"100/s", 100},
                 {"100/s,burst=200", 200},
                 {"6000/m,burst=1", 1},
                 {"1/h", 1},
                 {"3/s", 3},
                 {"1/h,burst=1000000", 1000000},
                 {"7/m", 7},
                 {"1000000/s", 1000000},
                 {"1000000/h,burst=2", 2}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        SCOPED_LIMIT(l) = limit_of(cases[i].policy, 1);
        assert_int_equal(granted_at(l, 1, 7 * S), cases[i].burst);
        assert_int_equal(granted_at(l, 1, 7 * S), 0);
    }
}

TEST_CASE(bucket_gains_one_request_each_interval)
{
    SCOPED_LIMIT(l) = limit_of("10/s,burst=3", 1);
    uint64_t t = 50 * S;
    assert_int_equal(granted_at(l, 1, t), 3);
    for (int i = 0; i < 20; i++) {
        assert_false(is_granted(l, 1, t + 100 * MS - 1));
        t += 100 * MS;
        assert_true(is_granted(l, 1, t));
        assert_false(is_granted(l, 1, t));
    }
    assert_int_equal(granted_at(l, 1, t + 250 * MS), 2);
    assert_int_equal(granted_at(l, 1, t + 300 * MS), 1);
    assert_int_equal(granted_at(l, 1, t + 3600 * S), 3); /* not more than the burst, however long it waited */
}

TEST_CASE(refused_requests_do_not_count)
{
    SCOPED_LIMIT(l) = limit_of("10/s,burst=1", 1);
    assert_true(is_granted(l, 1, S));
    for (uint64_t t = S; t < S + 100 * MS; t += MS)
        assert_false(is_granted(l, 1, t));
    assert_true(is_granted(l, 1, S + 100 * MS));
}

/* Rates that do not divide the second evenly are rounded in no one's favour but the server's. */
TEST_CASE(long_run_has_the_rate_of_the_policy)
{
    static const struct {
        const char *policy;
        uint32_t rate, burst;
    } cases[] = {{"10/s,burst=3", 10, 3}, {"3/s", 3, 3}, {"700/s,burst=2", 700, 2}, {"180/m,burst=5", 3, 5}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        SCOPED_LIMIT(l) = limit_of(cases[i].policy, 1);
        uint32_t granted = 0;
        for (uint64_t t = 0; t < 100 * S; t += MS / 4)
            granted += is_granted(l, 1, t);
        assert_true(granted <= cases[i].burst + 100 * cases[i].rate);
        assert_true(granted >= 100 * cases[i].rate * 0.999);
    }
}

TEST_CASE(remaining_requests_and_the_wait_are_reported)
{
    SCOPED_LIMIT(l) = limit_of("6/m,burst=3", 1); /* one each 10 s */
    static const struct {
        uint64_t s;
        enum rate_outcome outcome;
        uint32_t remaining, wait_s;
    } steps[] = {
        {100, RATE_GRANTED, 2, 10}, {100, RATE_GRANTED, 1, 10}, {104, RATE_GRANTED, 0, 6},
        {104, RATE_REFUSED, 0, 6},  {109, RATE_REFUSED, 0, 1},  {110, RATE_GRANTED, 0, 10},
        {129, RATE_GRANTED, 0, 1},  {130, RATE_GRANTED, 0, 10}, {200, RATE_GRANTED, 2, 10},
    };
    for (size_t i = 0; i < TEST_COUNT(steps); i++) {
        struct rate_result result = count(l, 1, steps[i].s * S);
        if (result.outcome != steps[i].outcome || result.remaining != steps[i].remaining ||
            result.wait_s != steps[i].wait_s)
            fail_msg("step %zu: outcome %d, remaining %u, wait %u", i, (int)result.outcome, result.remaining,
                     result.wait_s);
    }
}

TEST_CASE(wait_is_rounded_up_and_long_enough)
{
    EACH_TEXT (policy, "1000000/s,burst=1", "100/s,burst=1", "1/s", "7/m,burst=1", "1/m", "13/h,burst=1",
               "1/h") {
        SCOPED_LIMIT(l) = limit_of(policy, 1);
        assert_true(is_granted(l, 1, S));
        struct rate_result result = count(l, 1, S);
        assert_int_equal(result.outcome, RATE_REFUSED);
        assert_true(result.wait_s >= 1);
        assert_false(result.wait_s > 1 && is_granted(l, 1, S + (result.wait_s - 1) * S));
        assert_true(is_granted(l, 1, S + result.wait_s * S));
    }
}

TEST_CASE(clock_may_be_behind)
{
    SCOPED_LIMIT(l) = limit_of("10/s,burst=2", 1);
    assert_int_equal(granted_at(l, 1, S), 2);
    assert_int_equal(granted_at(l, 1, S - 50 * MS), 0); /* another thread's earlier time */
    assert_int_equal(granted_at(l, 1, S + 100 * MS), 1);
    assert_int_equal(granted_at(l, 1, S + 3600 * S * 24 * 365 * 290), 2);
    assert_int_equal(granted_at(l, 1, S + 3600 * S * 24 * 365 * 290), 0);
}

/* --- several keys --- */

TEST_CASE(keys_have_limits_of_their_own)
{
    SCOPED_LIMIT(l) = limit_of("5/m", RATE_LIMIT_SETS);
    for (uint32_t key = 1; key <= 1000; key++)
        assert_int_equal(granted_at(l, key, S), 5);
    for (uint32_t key = 1; key <= 1000; key++)
        assert_int_equal(granted_at(l, key, S), 0);
}

TEST_CASE(only_valid_keys_get_a_bucket)
{
    SCOPED_LIMIT(l) = limit_of("2/m", 1);
    for (uint32_t key = 100; key < 200; key++) {
        struct digest wrong = key_of(key);
        for (int i = 0; i < 5; i++)
            assert_int_equal(rate_limit_count(l, &wrong, false, S).outcome, RATE_NONE);
    }
    for (uint32_t key = 0; key < RATE_LIMIT_WAYS; key++)
        assert_int_equal(granted_at(l, key, S), 2); /* all buckets are there */
    struct digest known = key_of(0);
    assert_int_equal(rate_limit_count(l, &known, false, S).outcome, RATE_REFUSED);
    assert_int_equal(rate_limit_count(l, &known, false, 40 * S).outcome, RATE_GRANTED);
}

TEST_CASE(removed_key_has_no_bucket)
{
    SCOPED_LIMIT(l) = limit_of("2/m", 1);
    struct digest one = key_of(1);
    struct digest two = key_of(2);
    assert_int_equal(granted_at(l, 1, S), 2);
    assert_int_equal(granted_at(l, 2, S), 2);
    rate_limit_remove(l, &one);
    rate_limit_remove(l, &one);
    assert_int_equal(rate_limit_count(l, &one, false, S).outcome, RATE_NONE);
    assert_int_equal(rate_limit_count(l, &two, false, S).outcome, RATE_REFUSED);
    assert_int_equal(granted_at(l, 1, S), 2); /* it is valid again */
}

TEST_CASE(keys_beyond_a_full_table_are_granted_and_not_counted)
{
    SCOPED_LIMIT(l) = limit_of("2/m", 1);
    for (uint32_t key = 0; key < RATE_LIMIT_WAYS; key++)
        assert_int_equal(granted_at(l, key, S), 2);
    for (uint32_t key = 100; key < 120; key++)
        assert_int_equal(count(l, key, S).outcome, RATE_UNCOUNTED);
    for (uint32_t key = 0; key < RATE_LIMIT_WAYS; key++) /* they keep theirs until these are full */
        assert_int_equal(granted_at(l, key, S + 29 * S), 0);
    assert_int_equal(count(l, 100, 60 * S).outcome, RATE_UNCOUNTED);
    assert_int_equal(granted_at(l, 100, 61 * S), 2);
}

TEST_CASE(removed_buckets_are_used_again_when_they_are_full)
{
    SCOPED_LIMIT(l) = limit_of("2/m", 1);
    for (uint32_t key = 0; key < 1000; key++) {
        struct digest d = key_of(key);
        assert_int_equal(granted_at(l, key, (60 * key + 100) * S), 2);
        rate_limit_remove(l, &d);
    }
}

/* The two bursts are those of the first minute, although the clock of the second one is behind. */
TEST_CASE(new_bucket_begins_after_the_one_that_gave_way_was_full)
{
    SCOPED_LIMIT(l) = limit_of("2/m", 1);
    assert_int_equal(granted_at(l, 1, 0), 2);
    assert_int_equal(granted_at(l, 100, 60 * S), 2);
    struct digest one = key_of(1);
    assert_int_equal(rate_limit_count(l, &one, false, 60 * S).outcome, RATE_NONE);
    assert_int_equal(granted_at(l, 1, S) + granted_at(l, 1, 60 * S), 2);
}

/* --- threads --- */

enum { THREADS = 2, ROUNDS = 2000, KEYS = 2, BURST = 4, CALLS = 3, SPINS = 1000 };

struct rounds {
    struct rate_limit *limit;
    _Atomic uint32_t arrived, round;
    _Atomic uint32_t granted[ROUNDS][KEYS];
    _Atomic uint32_t uncounted;
};

/* The threads leave it within nanoseconds of each other; those of a pthread_barrier_t one after the other. */
static void await_round(struct rounds *t, uint32_t round)
{
    if (atomic_fetch_add(&t->arrived, 1) + 1 == THREADS * (round + 1))
        atomic_store(&t->round, round + 1);
    for (int spins = 1; atomic_load(&t->round) <= round; spins++)
        if (spins % SPINS == 0)
            (void)sched_yield();
}

static void *run_rounds(void *arg)
{
    struct rounds *t = arg;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        await_round(t, round);
        for (uint32_t i = 0; i < (uint32_t)CALLS * KEYS; i++) {
            struct digest key = key_of(1 + round * KEYS + i % KEYS);
            switch (rate_limit_count(t->limit, &key, true, round * S).outcome) {
            case RATE_GRANTED:
                atomic_fetch_add(&t->granted[round][i % KEYS], 1);
                break;
            case RATE_REFUSED:
                break;
            default:
                atomic_fetch_add(&t->uncounted, 1);
                break;
            }
        }
    }
    return NULL;
}

/*
 * In each round the threads send the first requests of new keys at the same time, to a set whose buckets all
 * belong to the keys of earlier rounds.
 */
TEST_CASE(threads_together_are_granted_the_burst_exactly)
{
    pthread_t thread[THREADS];
    static struct rounds t;
    t.limit = limit_of("4/s", 1);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_rounds, &t), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&t.uncounted), 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int key = 0; key < KEYS; key++)
            if (atomic_load(&t.granted[round][key]) != BURST)
                fail_msg("round %d, key %d: %u granted", round, key, atomic_load(&t.granted[round][key]));
    rate_limit_free(t.limit);
}

/* --- fields --- */

static void expect_fields(const char *policy, struct rate_result result, const char *expected)
{
    SCOPED_LIMIT(l) = limit_of(policy, 1);
    struct http_response r = {.status = 200};
    rate_limit_add_fields(l, &result, &r);
    assert_buf(&r.fields, expected);
    buf_fini(&r.fields);
}

TEST_CASE(fields_are_those_of_the_draft)
{
    expect_fields("100/s,burst=200", (struct rate_result){RATE_GRANTED, 199, 1},
                  "RateLimit-Policy: \"key\";q=100;w=1\r\nRateLimit: \"key\";r=199;t=1\r\n");
    expect_fields("1000000/h", (struct rate_result){RATE_GRANTED, 999999, 3600},
                  "RateLimit-Policy: \"key\";q=1000000;w=3600\r\nRateLimit: \"key\";r=999999;t=3600\r\n");
    expect_fields(
        "6000/m", (struct rate_result){RATE_REFUSED, 0, 42},
        "RateLimit-Policy: \"key\";q=6000;w=60\r\nRateLimit: \"key\";r=0;t=42\r\nRetry-After: 42\r\n");
    expect_fields("6000/m", (struct rate_result){.outcome = RATE_NONE}, "");
    expect_fields("6000/m", (struct rate_result){.outcome = RATE_UNCOUNTED}, "");
}
