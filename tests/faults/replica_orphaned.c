/*
 * channeld reads a replica that is not to answer without its master (replica-serve-stale-data no), and the
 * master is killed: MASTERDOWN. When it comes back, the replica takes over its data, whatever that is by
 * then.
 */

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "faults/chorus.h"
#include "faults/outage.h"

enum { LASTS_MS = 3400 };

static struct redis master;

static bool is_in_step(void *arg)
{
    char *info = redis_text(arg, "INFO replication");
    bool in_step = strstr(info, "master_link_status:up") != NULL;
    free(info);
    return in_step;
}

static int begin(void **state)
{
    static const char *const master_args[] = {"--repl-diskless-sync-delay", "0", NULL};
    redis_start(&master, master_args);
    stage_write(&master, 1);
    redis_do(&master, "SAVE");
    struct stage *stage = stage_new(NULL);
    struct redis *replica = &stage->fixture.redis;
    *state = stage;
    redis_do(replica, "CONFIG SET replica-serve-stale-data no");
    redis_do(replica, "REPLICAOF 127.0.0.1 %d", master.port);
    assert_true(wait_until(is_in_step, replica, WAIT_DEADLINE_MS));
    (void)stage_await_connected(stage, 0);
    chorus_await_memory(stage);
    (void)load_start(stage);
    return 0;
}

static int end(void **state)
{
    redis_stop(&master);
    return stage_teardown(state);
}

static void kill_master(struct stage *stage)
{
    (void)stage;
    redis_kill(&master);
}

static void bring_master_back(struct stage *stage)
{
    redis_restart(&master);
    assert_true(wait_until(is_in_step, &stage->fixture.redis, WAIT_DEADLINE_MS));
}

TEST_CASE_WITH(replica_without_master_is_as_good_as_away, begin, end)
{
    struct stage *stage = *state;
    outage_run(stage, &(struct outage){.name = "replica without master (MASTERDOWN)",
                                       .begin = kill_master,
                                       .end = bring_master_back,
                                       .lasts_ms = LASTS_MS});
    server_await_log(&stage->fixture.server, "MASTERDOWN");
}

/* A replica refuses what is written to it, not what is read. */
TEST_CASE_WITH(read_only_replica_is_read, begin, end)
{
    struct stage *stage = *state;
    redisReply *reply = redisCommand(stage->fixture.redis.connection, "SET channels:x y");
    assert_non_null(reply);
    assert_int_equal(strncmp(reply->str, "READONLY", 8), 0);
    freeReplyObject(reply);
    load_expect_all_right(stage->load);
    stage_write(&master, 2);
    load_permit_version(stage->load, 2);
    stage_let_pass(wait_slack_ms());
    load_require_version(stage->load, 2);
    load_expect_all_right(stage->load);
}
