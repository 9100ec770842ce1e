/*
 * Real Sentinels: a master that dies, stalls or is demoted by order, and is replaced. What is answered at
 * each moment of a failover: the topologies of tests/simulation/sentinel.c.
 */

#include <string.h>

#include "support/fixture.h"
#include "support/sentinel.h"

enum { FAN_OUT = 12, STEADY_MS = 3000 };

static const char PATH[] = "channel/by-id/1/";

static struct sentinel_cluster cluster;
static struct fixture fixture;

static void setup_at(const char *role)
{
    static const char *const env[] = {"CHANNELD_STALE_LIMIT=2m", NULL};
    sentinel_cluster_start(&cluster, 2, 3);
    catalogue_issue_key(&cluster.redis[0], FIXTURE_KEY);
    catalogue_put(&cluster.redis[0], "{\"max_channel_id\":1,\"title\":\"before\"}", 1);
    assert_int_equal(redis_integer(&cluster.redis[0], "WAIT 2 %d", WAIT_DEADLINE_MS / 2), 2);
    fixture_serve(&fixture, text_temp("%s%s", cluster.url, role), env, SERVER_WAIT_READY);
    server_await_metric(&fixture.server, "channeld_sentinels_connected", 2);
}

static int setup(void **state)
{
    (void)state;
    setup_at("");
    return 0;
}

static int setup_at_replicas(void **state)
{
    (void)state;
    setup_at("?role=replica");
    server_await_metric(&fixture.server, "channeld_redis_role{role=\"replica\"}", 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    sentinel_cluster_stop(&cluster);
    return 0;
}

/* Each worker has some of the connections. */
static bool all_serve_the_change(void *arg)
{
    struct http_conn conn[FAN_OUT];
    int changed = 0;
    (void)arg;
    for (int i = 0; i < FAN_OUT; i++)
        fixture_start_get(&fixture, &conn[i], PATH);
    for (int i = 0; i < FAN_OUT; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&conn[i], false, &response), 0);
        changed += strstr(response.body, "\"after\"") != NULL;
        http_close(&conn[i]);
    }
    return changed == FAN_OUT;
}

/* What was read before is served meanwhile, and then what is written to the new master. On a busy machine
 * Sentinels may replace that, too. */
static void expect_new_master(int master)
{
    fixture_expect_text(&fixture, PATH, "\"before\"");
    assert_int_equal(server_admin_status(&fixture.server, "/readyz"), 200);
    for (int now = master;; master = now) {
        redis_disconnect(&cluster.redis[master]); /* Sentinel closes the connections of a promoted replica */
        redis_do(&cluster.redis[master], "HSET channels:card:1 title after");
        if (wait_until(all_serve_the_change, NULL, WAIT_DEADLINE_MS))
            return;
        now = sentinel_cluster_await_other(&cluster, 0);
        if (now == master)
            fail_msg("not all responses are those of master %d", master);
    }
}

/* A Sentinel that workers use is lost with it: both are on one machine. */
SLOW_TEST_WITH(killed_master_and_sentinel_are_replaced, setup, teardown)
{
    fixture_expect(&fixture, PATH, 200);
    redis_kill(&cluster.sentinel[0]);
    redis_kill(&cluster.redis[0]);
    expect_new_master(sentinel_cluster_await_other(&cluster, 0));
    server_await_metric(&fixture.server, "channeld_sentinels_connected", 2);
}

/* It wakes up with its former connections and data. */
SLOW_TEST_WITH(stalled_master_that_wakes_up_is_ignored, setup, teardown)
{
    redis_pause(&cluster.redis[0]);
    expect_new_master(sentinel_cluster_await_other(&cluster, 0));
    redis_resume(&cluster.redis[0]);
    assert_true(wait_holds(all_serve_the_change, NULL, STEADY_MS));
}

/* One replica becomes the master, and the other one follows it. */
SLOW_TEST_WITH(replicas_of_a_killed_master_are_read_again, setup_at_replicas, teardown)
{
    redis_kill(&cluster.redis[0]);
    expect_new_master(sentinel_cluster_await_other(&cluster, 0));
}

/* With all servers running: the former master follows, too. */
SLOW_TEST_WITH(ordered_failover, setup, teardown)
{
    expect_new_master(sentinel_cluster_fail_over(&cluster, 0));
}

SLOW_TEST_WITH(replicas_follow_an_ordered_failover, setup_at_replicas, teardown)
{
    expect_new_master(sentinel_cluster_fail_over(&cluster, 0));
}
