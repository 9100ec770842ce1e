/* A redis-server that is killed and started again (with its data, empty, with other data), or stopped
 * (SIGSTOP). */

#include <stdio.h>
#include <stdlib.h>

#include "faults/fanout.h"

enum { STALE_LIMIT_MS = 4000, ROUNDS = 2, WATCH_MS = 300 };

#define STALE_LIMIT "CHANNELD_STALE_LIMIT=4s"

/* ---- killed ---- */

static int setup_with(void **state, const char *stale_limit, const char *timeout)
{
    const char *const env[] = {stale_limit, timeout, NULL};
    struct testbed *bed = testbed_new(&(struct testbed_spec){.env = env});
    /* There is no automatic persistence: this is the data of the next start. */
    redis_do(&bed->fixture.redis, "SAVE");
    *state = bed;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, STALE_LIMIT, NULL);
}

static int setup_short_timeout(void **state)
{
    return setup_with(state, STALE_LIMIT, "CHANNELD_REQUEST_TIMEOUT=300ms");
}

/* However long this machine takes for the restart of Redis, requests wait for its end. */
static int setup_patient(void **state)
{
    return setup_with(state, "CHANNELD_STALE_LIMIT=1m", "CHANNELD_REQUEST_TIMEOUT=30s");
}

/* A worker that noticed the loss later goes on for a moment longer. */
static bool nothing_is_served(void *arg)
{
    struct testbed *bed = arg;
    clients_mark(bed->clients);
    return fixture_status(&bed->fixture, "channel/by-id/1/") == 500 &&
           clients_tally(bed->clients, CLIENTS_CACHED).right == 0;
}

TEST_CASE_WITH(cached_responses_go_on_for_the_stale_limit, setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct server *server = &bed->fixture.server;
    struct clients *clients = bed->clients = clients_start(bed);
    clients_mark(clients);
    int64_t killed = wait_now_ms();
    redis_kill(&bed->fixture.redis);
    int noticed = testbed_await_lost(bed, killed);
    assert_in_range(noticed, 0, clients_bound_ms(clients, 0));
    assert_int_equal(server_admin_status(server, "/readyz"), 200);
    clients_watch(clients, STALE_LIMIT_MS / 2);
    clients_expect_cached_right(clients);
    clients_mark_end(clients);
    server_await_admin(server, "/readyz", 503);
    assert_in_range(wait_now_ms() - killed, STALE_LIMIT_MS, clients_bound_ms(clients, STALE_LIMIT_MS));
    assert_true(wait_until(nothing_is_served, bed, WAIT_DEADLINE_MS));
    assert_int_equal(server_admin_status(server, "/livez"), 200);
    clients_mark(clients);
    redis_restart(&bed->fixture.redis);
    int recovered = clients_await_recovery(clients, TESTBED_RECOVERY_MS);
    outage_report(bed, "redis killed", noticed, recovered);
    server_await_admin(server, "/readyz", 200);
    clients_expect_all_right(clients);
}

TEST_CASE_WITH(no_request_fails_when_redis_restarts_at_once, setup_patient, testbed_teardown)
{
    struct testbed *bed = *state;
    bed->clients = clients_start(bed);
    for (int i = 0; i < ROUNDS; i++) {
        clients_mark(bed->clients);
        redis_restart(&bed->fixture.redis);
        (void)testbed_await_connected(bed, 0);
        clients_watch(bed->clients, WATCH_MS);
        outage_finish(bed, "redis restarted at once", -1, TESTBED_RECOVERY_MS);
        assert_int_equal(clients_tally_of_fault(bed->clients, CLIENTS_UNCACHED).failed, 0);
    }
}

/* An empty Redis counts as lost: the cache serves for the stale limit, then 500. With a key it is a catalogue
 * again, an empty one, and nothing of the old one is served. */
TEST_CASE_WITH(empty_redis_counts_as_lost, setup_short_timeout, testbed_teardown)
{
    static const char *const paths[] = {"channel/by-id/1/", "channel/by-link/?link=https://max.ru/c2",
                                        "channels/", "channel/by-id/0/"};
    struct testbed *bed = *state;
    for (int round = 0; round < 4; round++) { /* both workers cache them */
        for (size_t i = 0; i < TEST_COUNT(paths); i++)
            (void)fixture_status(&bed->fixture, paths[i]);
    }
    redis_kill(&bed->fixture.redis);
    assert_int_equal(remove(text_temp("%s/dump.rdb", bed->fixture.redis.dir.path)), 0);
    redis_restart(&bed->fixture.redis);
    server_await_metric(&bed->fixture.server, "channeld_catalogue_missing", 2);
    server_await_admin(&bed->fixture.server, "/readyz", 503);
    /* Not ready once the first worker is past the limit; each worker counts from when it noticed the loss. */
    struct fanout fanout;
    fanout_open(&fanout, bed);
    fanout_await(&fanout, paths[0], 500, NULL);
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        testbed_expect_unavailable(bed, paths[i]);
    catalogue_issue_key(&bed->fixture.redis, FIXTURE_KEY);
    fanout_await(&fanout, paths[0], 404, NULL);
    fanout_ask(&fanout, paths[1], 404, NULL);
    AUTOFREE char *list = fixture_body(&bed->fixture, paths[2]);
    json_assert_at(list, "pagination.count", "0");
    testbed_write(&bed->fixture.redis, 2);
    fanout_await(&fanout, paths[0], 200, catalogue_version_card(1, 2));
    fanout_ask(&fanout, paths[1], 200, catalogue_version_card(2, 2));
    fanout_ask(&fanout, paths[2], 200, catalogue_version_page(1, 2));
    fanout_close(&fanout);
}

/* Restarts the server with another version of the catalogue. */
static void restart_with(struct testbed *bed, int version)
{
    AUTO(redis_stop) struct redis other;
    redis_start(&other, NULL);
    testbed_write(&other, version);
    redis_do(&other, "SAVE");
    redis_kill(&other);
    AUTOFREE char *from = text_printf("%s/dump.rdb", other.dir.path);
    AUTOFREE char *to = text_printf("%s/dump.rdb", bed->fixture.redis.dir.path);
    redis_kill(&bed->fixture.redis);
    assert_int_equal(rename(from, to), 0);
    redis_restart(&bed->fixture.redis);
}

TEST_CASE_WITH(old_data_is_never_served_once_connected_to_other_data, setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct clients *clients = bed->clients = clients_start(bed);
    for (int version = 2; version < 2 + ROUNDS; version++) {
        clients_permit_version(clients, version);
        restart_with(bed, version);
        (void)testbed_await_connected(bed, 0);
        clients_require_version(clients, version);
        clients_expect_all_right(clients);
        clients_expect_cached_right(clients);
    }
}

/* ---- stopped ---- */

static void pause_redis(struct testbed *bed)
{
    redis_pause(&bed->fixture.redis);
}

static void resume_redis(struct testbed *bed)
{
    redis_resume(&bed->fixture.redis);
}

/* It keeps its connections and sends nothing, as after a crash of its machine. */
static void stop_redis_for(struct testbed *bed, int ms, bool unnoticed, bool harmless)
{
    outage_run(bed, &(struct outage){"redis stopped", pause_redis, resume_redis, .lasts_ms = ms,
                                     .unnoticed = unnoticed, .harmless = harmless});
}

TEST_CASE_WITH(stopped_redis_is_noticed, testbed_setup_clients, testbed_teardown)
{
    stop_redis_for(*state, 3300, false, false);
}
