/*
 * channeld itself is stopped (SIGSTOP: a frozen container, a paused virtual machine) while the data changes,
 * and gets requests the moment it goes on. Its cache may serve what is up to one lease old, nothing older.
 */

#include <stdlib.h>

#include "faults/fanout.h"

enum { ROUNDS = 12, SHORT_STOP_MS = 120, LONG_ROUNDS = 3 };

static const char card[] = "channel/by-id/1/";
static const char OTHER_KEY[] = "another-key";

/* Half of the requests are in the sockets already, the others are sent as soon as it goes on. */
TEST_CASE_WITH(nothing_older_than_the_lease_is_served_after_a_stop, testbed_setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct redis *redis = &bed->fixture.redis;
    struct fanout before;
    struct fanout after;
    struct fanout revoked;
    char digest[65];
    catalogue_issue_key(redis, OTHER_KEY);
    catalogue_digest(OTHER_KEY, digest);
    fanout_open(&before, bed);
    fanout_open(&after, bed);
    fanout_open(&revoked, bed);
    revoked.headers = "X-Api-Key: another-key\r\n";
    fanout_ask(&before, card, 200, catalogue_version_card(1, 1));
    fanout_ask(&revoked, card, 200, catalogue_version_card(1, 1));
    testbed_freeze(bed);
    testbed_write(redis, 2);
    redis_do(redis, "SREM channels:api_keys %s", digest);
    fanout_send(&before, card);
    fanout_send(&revoked, card);
    testbed_sleep(TESTBED_LEASE_MS + 100);
    testbed_thaw(bed);
    fanout_ask(&after, card, 200, catalogue_version_card(1, 2));
    fanout_expect(&before, 200, catalogue_version_card(1, 2));
    fanout_expect(&revoked, 401, NULL);
    fanout_ask(&revoked, card, 401, NULL);
    fanout_close(&before);
    fanout_close(&after);
    fanout_close(&revoked);
}

/* A testbed with this setting, and a fan-out client whose requests are cached. */
static struct testbed *begin(void **state, const char *setting, struct fanout *fanout)
{
    const char *const env[] = {setting, NULL};
    struct testbed *bed = testbed_new(&(struct testbed_spec){.env = env});
    *state = bed;
    fanout_open(fanout, bed);
    fanout_ask(fanout, card, 200, catalogue_version_card(1, 1));
    return bed;
}

/* On a connection that was closed meanwhile no invalidation arrives. */
TEST_CASE_WITH(nothing_older_than_the_stale_limit_is_served_after_a_stop_without_redis, NULL,
               testbed_teardown)
{
    struct fanout fanout;
    struct testbed *bed = begin(state, "CHANNELD_STALE_LIMIT=100ms", &fanout);
    testbed_freeze(bed);
    fixture_kill_connections(&bed->fixture);
    testbed_write(&bed->fixture.redis, 2);
    fanout_send(&fanout, card);
    testbed_sleep(TESTBED_LEASE_MS + 200);
    testbed_thaw(bed);
    fanout_expect(&fanout, 200, catalogue_version_card(1, 2));
    fanout_close(&fanout);
}

/* Requests in the sockets arrived before the idle timeout that passed meanwhile. */
TEST_CASE_WITH(requests_are_answered_after_a_stop_beyond_the_idle_timeout, NULL, testbed_teardown)
{
    struct fanout fanout;
    struct testbed *bed = begin(state, "CHANNELD_IDLE_TIMEOUT=1s", &fanout);
    testbed_freeze(bed);
    fanout_send(&fanout, card);
    testbed_sleep(1200);
    testbed_thaw(bed);
    fanout_expect(&fanout, 200, catalogue_version_card(1, 1));
    fanout_close(&fanout);
}

/* Replies of Redis in the sockets arrived before the request timeout that passed meanwhile. */
TEST_CASE_WITH(redis_replies_are_used_after_a_stop_beyond_the_request_timeout, NULL, testbed_teardown)
{
    struct fanout fanout;
    long long id = 0;
    AUTOFREE char *spare = testbed_spare_path(&id);
    struct testbed *bed = begin(state, "CHANNELD_REQUEST_TIMEOUT=1s", &fanout);
    redis_pause(&bed->fixture.redis);
    fanout_send(&fanout, spare);
    server_await_metric(&bed->fixture.server, "channeld_requests_in_flight", FANOUT_SIZE);
    testbed_freeze(bed);
    redis_resume(&bed->fixture.redis);
    testbed_sleep(1200);
    testbed_thaw(bed);
    fanout_expect(&fanout, 200, catalogue_version_card(id, 1));
    fanout_close(&fanout);
}

struct short_stop {
    struct fanout fanout;
    int version;
};

/* True when every worker serves the version; the one before it is the only other that is allowed. */
static bool all_serve_the_version(void *arg)
{
    struct short_stop *stop = arg;
    AUTOFREE char *now = catalogue_version_card(1, stop->version);
    AUTOFREE char *before = catalogue_version_card(1, stop->version - 1);
    fanout_send(&stop->fanout, card);
    int current = fanout_count(&stop->fanout, now, before);
    return current == FANOUT_SIZE;
}

/* Within the lease the former version may be served until the invalidation is read. */
TEST_CASE_WITH(short_stops_leave_nothing_outdated_behind, testbed_setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct short_stop stop = {.version = 1};
    fanout_open(&stop.fanout, bed);
    fanout_ask(&stop.fanout, card, 200, catalogue_version_card(1, 1));
    for (int round = 0; round < ROUNDS; round++) {
        testbed_freeze(bed);
        AUTOFREE char *title = text_printf("v%d of 1", ++stop.version);
        redis_do(&bed->fixture.redis, "HSET channels:card:1 title %s", title);
        testbed_sleep(SHORT_STOP_MS * (round % 3));
        testbed_thaw(bed);
        assert_true(wait_until(all_serve_the_version, &stop, WAIT_DEADLINE_MS));
    }
    fanout_close(&stop.fanout);
}

static const char *const paths[] = {"channel/by-id/1/", "channel/by-link/?link=https://max.ru/c1",
                                    "channels/"};

static char *body_of(size_t path, int version)
{
    return path == 2 ? catalogue_version_page(1, version) : catalogue_version_card(1, version);
}

/* The key is withdrawn during every second stop, and comes back with the data of the next. */
SLOW_TEST_WITH(many_stops_beyond_the_lease, testbed_setup, testbed_teardown)
{
    static const int extra_ms[] = {50, 200, 1000, 3000, 7000};
    struct testbed *bed = *state;
    struct fanout fanout;
    int version = 1;
    fanout_open(&fanout, bed);
    for (int round = 0; round < LONG_ROUNDS * (int)TEST_COUNT(extra_ms); round++) {
        size_t path = (size_t)round % TEST_COUNT(paths);
        bool revoked = round % 2 == 1;
        fanout_ask(&fanout, paths[path], 200, body_of(path, version));
        testbed_freeze(bed);
        testbed_write(&bed->fixture.redis, ++version);
        if (revoked)
            redis_do(&bed->fixture.redis, "RENAME channels:api_keys channels:kept");
        fanout_send(&fanout, paths[path]);
        testbed_sleep(TESTBED_LEASE_MS + extra_ms[(size_t)round % TEST_COUNT(extra_ms)]);
        int64_t thawed = wait_now_ms();
        testbed_thaw(bed);
        fanout_expect(&fanout, revoked ? 401 : 200, revoked ? NULL : body_of(path, version));
        assert_in_range(wait_now_ms() - thawed, 0, wait_bound_ms(TESTBED_TIMEOUT_MS));
        if (revoked)
            redis_do(&bed->fixture.redis, "RENAME channels:kept channels:api_keys");
    }
    fanout_close(&fanout);
}
