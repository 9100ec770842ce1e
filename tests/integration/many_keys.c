/* Many keys, as many as a worker reads in portions and more than it holds: then verdicts are remembered one
 * by one, and forgotten with the set's next change. */

#include "support/fixture.h"

enum { KEYS_HELD = 30000, KEYS = 100001, CHANNELS = 3 };

static void start_with(void **state, int keys)
{
    struct fixture *fixture = fixture_new(CHANNELS, NULL);
    catalogue_issue_keys(&fixture->redis, keys);
    assert_true(redis_integer(&fixture->redis, "SCARD channels:api_keys") > keys);
    *state = fixture;
}

static int start(void **state)
{
    start_with(state, KEYS);
    return 0;
}

static int start_held(void **state)
{
    start_with(state, KEYS_HELD);
    return 0;
}

static int status(struct fixture *fixture, const char *headers)
{
    return http_get_status(fixture->server.port, "/api/channels/", headers);
}

static void a_key_is_asked_about_once(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 40; i++)
        assert_int_equal(status(fixture, FIXTURE_AUTH), 200);
    assert_in_range(redis_calls(&fixture->redis, "sismember"), 1,
                    4); /* each worker, and again where the set was still being read */
}

static void a_wrong_key_is_asked_about_once(void **state)
{
    struct fixture *fixture = *state;
    long long before = redis_calls(&fixture->redis, "sismember");
    for (int i = 0; i < 40; i++)
        assert_int_equal(status(fixture, "X-Api-Key: wrong\r\n"), 401);
    assert_in_range(redis_calls(&fixture->redis, "sismember") - before, 1, 2);
}

struct expectation {
    struct fixture *fixture;
    int status;
};

/* Enough connections in a row that each worker has had some. */
static bool another_gives(void *arg)
{
    const struct expectation *e = arg;
    for (int i = 0; i < 12; i++)
        if (status(e->fixture, "X-Api-Key: another\r\n") != e->status)
            return false;
    return true;
}

/* Within a network delay, and on every worker. */
static void a_key_issued_or_revoked_counts_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct expectation valid = {fixture, 200};
    struct expectation invalid = {fixture, 401};
    char digest[65];
    catalogue_digest("another", digest);
    for (int round = 0; round < 5; round++) {
        redis_do(&fixture->redis, "SADD channels:api_keys %s", digest);
        assert_true(wait_until(another_gives, &valid, 500));
        redis_do(&fixture->redis, "SREM channels:api_keys %s", digest);
        assert_true(wait_until(another_gives, &invalid, 500));
    }
}

static bool no_key_is_asked_about(void *arg)
{
    struct fixture *fixture = arg;
    long long before = redis_calls(&fixture->redis, "sismember");
    for (int i = 0; i < 12; i++)
        assert_int_equal(status(fixture, i % 2 == 0 ? FIXTURE_AUTH : "X-Api-Key: wrong\r\n"),
                         i % 2 == 0 ? 200 : 401);
    return redis_calls(&fixture->redis, "sismember") == before;
}

/* The set changes again and again while it is read: every answer is right, and in the end it is known. */
static void a_set_that_changes_while_it_is_read_is_known_at_last(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 100; i++) {
        redis_do(&fixture->redis, i % 2 == 0 ? "SADD channels:api_keys x" : "SREM channels:api_keys x");
        assert_int_equal(status(fixture, FIXTURE_AUTH), 200);
        assert_int_equal(status(fixture, "X-Api-Key: wrong\r\n"), 401);
    }
    assert_true(wait_until(no_key_is_asked_about, fixture, WAIT_DEADLINE_MS));
}

int main(void)
{
    const struct CMUnitTest held[] = {
        cmocka_unit_test(a_key_issued_or_revoked_counts_at_once),
        cmocka_unit_test(a_set_that_changes_while_it_is_read_is_known_at_last),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_asked_about_once),
        cmocka_unit_test(a_wrong_key_is_asked_about_once),
        cmocka_unit_test(a_key_issued_or_revoked_counts_at_once),
    };
    int failed = cmocka_run_group_tests(held, start_held, fixture_teardown);
    return failed + cmocka_run_group_tests(tests, start, fixture_teardown);
}
