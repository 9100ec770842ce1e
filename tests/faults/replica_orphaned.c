/*
 * channeld reads a replica that refuses to answer without its master (replica-serve-stale-data no), and the
 * master is killed: MASTERDOWN. When it comes back, the replica takes over its data.
 */

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "faults/fanout.h"

static struct redis master;

static bool is_linked(void *arg)
{
    AUTOFREE char *info = redis_text(arg, "INFO replication");
    return strstr(info, "master_link_status:up") != NULL;
}

static int setup(void **state)
{
    static const char *const master_args[] = {"--repl-diskless-sync-delay", "0", NULL};
    redis_start(&master, master_args);
    testbed_write(&master, 1);
    redis_do(&master, "SAVE");
    struct testbed *bed = testbed_new(NULL);
    struct redis *replica = &bed->fixture.redis;
    *state = bed;
    redis_do(replica, "CONFIG SET replica-serve-stale-data no");
    redis_do(replica, "REPLICAOF 127.0.0.1 %d", master.port);
    assert_true(wait_until(is_linked, replica, WAIT_DEADLINE_MS));
    testbed_await_workers(bed, "channeld_redis_role{role=\"replica\"}");
    fanout_await_cached(bed);
    (void)clients_start(bed);
    return 0;
}

static int teardown(void **state)
{
    redis_stop(&master);
    return testbed_teardown(state);
}

static void kill_master(struct testbed *bed)
{
    (void)bed;
    redis_kill(&master);
}

static void bring_master_back(struct testbed *bed)
{
    redis_restart(&master);
    assert_true(wait_until(is_linked, &bed->fixture.redis, WAIT_DEADLINE_MS));
}

TEST_CASE_WITH(replica_without_master_counts_as_lost, setup, teardown)
{
    struct testbed *bed = *state;
    outage_run(bed, &(struct outage){.name = "replica without master (MASTERDOWN)",
                                     .begin = kill_master,
                                     .end = bring_master_back,
                                     .recovery_ms = 2 * TESTBED_RECOVERY_MS,
                                     .lasts_ms = 3400});
    server_await_log(&bed->fixture.server, "MASTERDOWN");
}

/* A replica refuses writes, not reads. */
TEST_CASE_WITH(read_only_replica_is_read, setup, teardown)
{
    struct testbed *bed = *state;
    redisReply *reply = redisCommand(bed->fixture.redis.connection, "SET channels:x y");
    assert_non_null(reply);
    assert_int_equal(strncmp(reply->str, "READONLY", 8), 0);
    freeReplyObject(reply);
    clients_expect_all_right(bed->clients);
    clients_permit_version(bed->clients, 2);
    testbed_write(&master, 2);
    assert_true(wait_until(fanout_serves_version_2, bed, WAIT_DEADLINE_MS));
    clients_require_version(bed->clients, 2);
    clients_expect_all_right(bed->clients);
}
