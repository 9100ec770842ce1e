/* A master that dies, stalls or is demoted by order, and is replaced by Sentinels. */

#include <stdlib.h>
#include <string.h>

#include "faults/testbed.h"
#include "support/sentinel.h"

enum { FOLLOW_MS = 1000, FOLLOW_REPLICA_MS = 5000 };

static struct sentinel_cluster cluster;
static int master; /* after the failover */

static int setup_at(void **state, const char *role)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=1s", "CHANNELD_STALE_LIMIT=2m", NULL};
    sentinel_cluster_start(&cluster, 2, 3);
    testbed_write(&cluster.redis[0], 1);
    assert_int_equal(redis_integer(&cluster.redis[0], "WAIT 2 %d", WAIT_DEADLINE_MS / 2), 2);
    testbed_start_at(state, text_temp("%s%s", cluster.url, role), env, "channeld_sentinels_connected");
    return 0;
}

static int setup(void **state)
{
    return setup_at(state, "");
}

static int setup_at_replicas(void **state)
{
    return setup_at(state, "?role=replica");
}

static int teardown(void **state)
{
    (void)testbed_teardown(state);
    sentinel_cluster_stop(&cluster);
    return 0;
}

static void kill_master(struct testbed *bed)
{
    (void)bed;
    redis_kill(&cluster.redis[0]);
}

/* A Sentinel that workers use is lost with the master: both are on one machine. */
static void kill_master_and_sentinel(struct testbed *bed)
{
    redis_kill(&cluster.sentinel[0]);
    kill_master(bed);
}

static void pause_master(struct testbed *bed)
{
    (void)bed;
    redis_pause(&cluster.redis[0]);
}

static void order_failover(struct testbed *bed)
{
    (void)bed;
    master = sentinel_cluster_fail_over(&cluster, 0);
}

static void await_failover(struct testbed *bed)
{
    (void)bed;
    master = sentinel_cluster_await_other(&cluster, 0);
}

/* What is written to the new master is served. On a busy machine Sentinels may replace that too. */
static void expect_new_master_within(struct testbed *bed, int ms)
{
    clients_free(bed->clients);
    bed->clients = NULL;
    for (;;) {
        redis_disconnect(&cluster.redis[master]); /* Sentinel closes the connections of a promoted replica */
        testbed_write(&cluster.redis[master], 2);
        if (wait_until(testbed_serves_version_2, bed, ms + WAIT_DEADLINE_MS))
            return;
        int now = sentinel_cluster_await_other(&cluster, 0);
        if (now == master)
            break;
        master = now;
    }
    AUTOFREE char *log = server_log(&bed->fixture.server);
    print_error("%s", log);
    fail_msg("not all responses are those of master %d", master);
}

static void expect_new_master(struct testbed *bed)
{
    expect_new_master_within(bed, FOLLOW_MS);
}

SLOW_TEST_WITH(killed_master_is_replaced, setup, teardown)
{
    outage_run(*state, &(struct outage){"master killed", kill_master, await_failover, .lasts_ms = 300,
                                        .recovery_ms = FOLLOW_MS});
    expect_new_master(*state);
}

SLOW_TEST_WITH(sentinel_lost_with_the_master, setup, teardown)
{
    struct testbed *bed = *state;
    outage_run(bed, &(struct outage){"master and sentinel killed", kill_master_and_sentinel, await_failover,
                                     .lasts_ms = 300, .recovery_ms = FOLLOW_MS});
    expect_new_master(bed);
    server_await_metric(&bed->fixture.server, "channeld_sentinels_connected", 2);
}

/* It wakes up with its former connections and data. */
SLOW_TEST_WITH(stalled_master_that_wakes_up_is_ignored, setup, teardown)
{
    outage_run(*state, &(struct outage){"master stalled", pause_master, await_failover, .lasts_ms = 300,
                                        .recovery_ms = FOLLOW_MS, .unnoticed = true});
    expect_new_master(*state);
    redis_resume(&cluster.redis[0]);
    assert_true(wait_holds(testbed_serves_version_2, *state, 3 * FOLLOW_MS));
}

/* With all servers running. */
SLOW_TEST_WITH(ordered_failover, setup, teardown)
{
    outage_run(*state, &(struct outage){"failover by order", order_failover, .recovery_ms = FOLLOW_MS,
                                        .lasts_ms = FOLLOW_MS, .unnoticed = true});
    expect_new_master(*state);
}

/* One replica becomes the master, and the other one follows it: both without a link until then. Where the
 * other is not linked yet, the new master is read. */
SLOW_TEST_WITH(replicas_of_a_killed_master_are_read_again, setup_at_replicas, teardown)
{
    struct testbed *bed = *state;
    server_await_metric(&bed->fixture.server, "channeld_redis_role{role=\"replica\"}", 2);
    outage_run(bed, &(struct outage){"master of the replicas killed", kill_master, await_failover,
                                     .lasts_ms = 300, .recovery_ms = FOLLOW_REPLICA_MS});
    expect_new_master_within(bed, FOLLOW_REPLICA_MS);
}

/* One replica becomes the master, the former master and the other replica follow it. */
SLOW_TEST_WITH(replicas_follow_an_ordered_failover, setup_at_replicas, teardown)
{
    struct testbed *bed = *state;
    outage_run(bed, &(struct outage){"failover by order, at replicas", order_failover, .lasts_ms = FOLLOW_MS,
                                     .recovery_ms = FOLLOW_REPLICA_MS, .unnoticed = true});
    expect_new_master_within(bed, FOLLOW_REPLICA_MS);
}
