/* A cluster whose master dies, stalls or is replaced by order, and whose slot moves to another master. */

#include <stdlib.h>
#include <string.h>

#include "faults/fanout.h"
#include "support/cluster.h"

enum { FOLLOW_MS = 1000, KEYS_AT_ONCE = 100 };

static struct cluster cluster;
static int owner; /* of the slot */

static int setup(void **state)
{
    static const char *const env[] = {"CHANNELD_REDIS_PREFIX=" CLUSTER_PREFIX, "CHANNELD_STALE_LIMIT=2m",
                                      NULL};
    cluster_start(&cluster, NULL, NULL);
    owner = CLUSTER_OWNER;
    testbed_write(&cluster.node[owner], 1);
    redis_do(&cluster.node[owner], "HSET " CLUSTER_PREFIX "api_key_info %064d {}", 0); /* so keys are held */
    assert_int_equal(redis_integer(&cluster.node[owner], "WAIT 1 %d", WAIT_DEADLINE_MS / 2), 1);
    testbed_start_at(state, text_temp("%s/", cluster.url), env, "channeld_cluster_nodes_connected");
    return 0;
}

static int teardown(void **state)
{
    (void)testbed_teardown(state);
    cluster_stop(&cluster);
    return 0;
}

/* ---- the course of each fault ---- */

static void kill_owner(struct testbed *bed)
{
    (void)bed;
    redis_kill(&cluster.node[owner]);
}

static void pause_owner(struct testbed *bed)
{
    (void)bed;
    redis_pause(&cluster.node[owner]);
}

static void await_other(struct testbed *bed)
{
    int former = owner;
    (void)bed;
    owner = -1;
    for (int64_t until = wait_deadline(6 * WAIT_DEADLINE_MS); owner < 0 && wait_left_ms(until) > 0;) {
        int named = cluster_owner(&cluster, (former + 1) % CLUSTER_MASTERS);
        owner = named != former ? named : -1;
    }
    assert_true(owner >= 0);
}

static void order_failover(struct testbed *bed)
{
    (void)bed;
    cluster_fail_over(&cluster, owner + CLUSTER_MASTERS);
    owner += CLUSTER_MASTERS;
}

/* Every key one by one, as redis-cli does, under the requests of the clients. */
static void move_slot(struct testbed *bed)
{
    int target = (owner + 1) % CLUSTER_MASTERS;
    int moved = 0;
    cluster_begin_migration(&cluster, owner, target);
    for (int some = 1; some > 0; moved += some) {
        some = cluster_migrate(&cluster, owner, target, KEYS_AT_ONCE);
        clients_watch(bed->clients, 0);
    }
    assert_in_range(moved, CATALOGUE_SPARES, 2 * CATALOGUE_SPARES);
    cluster_end_migration(&cluster, owner, target);
    owner = target;
}

/* ---- afterwards ---- */

/* What is written to the new owner is served. */
static void expect_new_owner(struct testbed *bed)
{
    clients_free(bed->clients);
    bed->clients = NULL;
    testbed_write(&cluster.node[owner], 2);
    if (!wait_until(fanout_serves_version_2, bed, WAIT_DEADLINE_MS)) {
        AUTOFREE char *log = server_log(&bed->fixture.server);
        print_error("%s", log);
        fail_msg("not all responses are those of node %d", owner);
    }
}

SLOW_TEST_WITH(killed_master_is_replaced, setup, teardown)
{
    outage_run(*state, &(struct outage){"cluster master killed", kill_owner, await_other, .lasts_ms = 300,
                                        .recovery_ms = FOLLOW_MS});
    expect_new_owner(*state);
}

/* It wakes up with its former connections and data. */
SLOW_TEST_WITH(stalled_master_that_wakes_up_is_ignored, setup, teardown)
{
    int former = owner;
    outage_run(*state, &(struct outage){"cluster master stalled", pause_owner, await_other, .lasts_ms = 300,
                                        .recovery_ms = FOLLOW_MS, .unnoticed = true});
    expect_new_owner(*state);
    redis_resume(&cluster.node[former]);
    assert_true(wait_holds(fanout_serves_version_2, *state, 3 * FOLLOW_MS));
}

SLOW_TEST_WITH(ordered_failover, setup, teardown)
{
    outage_run(*state, &(struct outage){"cluster failover", order_failover, .recovery_ms = FOLLOW_MS,
                                        .lasts_ms = FOLLOW_MS, .unnoticed = true});
    expect_new_owner(*state);
}

SLOW_TEST_WITH(slot_moves_under_load, setup, teardown)
{
    outage_run(*state,
               &(struct outage){"slot moved", move_slot, .recovery_ms = FOLLOW_MS, .lasts_ms = FOLLOW_MS,
                                .unnoticed = true, .harmless = true, .passable = true});
    expect_new_owner(*state);
}
