/* A Redis that refuses for longer than the lease: all commands, connections, and PING for want of disk space.
 */

#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "faults/outage.h"

enum { LASTS_MS = 5000 };

static int begin(void **state)
{
    struct stage *stage = stage_new(NULL);
    *state = stage;
    (void)load_start(stage);
    return 0;
}

static void deny_all(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "ACL SETUSER default -@all +acl");
}

static void allow_all(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "ACL SETUSER default +@all");
}

TEST_CASE_WITH(all_rights_taken_away, begin, stage_teardown)
{
    outage_run(*state, &(struct outage){.name = "redis denies all commands (NOPERM)",
                                        .begin = deny_all,
                                        .end = allow_all,
                                        .lasts_ms = LASTS_MS});
}

static bool refuses_ping(void *arg)
{
    struct redis *redis = arg;
    redisReply *reply = redisCommand(redis->connection, "PING");
    bool refuses = reply != NULL && reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    return refuses;
}

/* A snapshot that cannot take its place: a directory is in the way. Redis refuses writes, and PING. */
static void be_unable_to_save(struct stage *stage)
{
    struct redis *redis = &stage->fixture.redis;
    char *in_the_way = text_printf("%s/dump.rdb", redis->dir.path);
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    free(in_the_way);
    redis_do(redis, "CONFIG SET save %s", "3600 1");
    redis_do(redis, "BGSAVE");
    assert_true(wait_until(refuses_ping, redis, WAIT_DEADLINE_MS));
    redis_do(redis, "CLIENT KILL TYPE normal SKIPME yes"); /* new connections are made as well */
}

static void be_able_to_save(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CONFIG SET save %s", "");
}

/* Reading goes on: no request fails. */
TEST_CASE_WITH(full_disk_of_redis_costs_nothing, begin, stage_teardown)
{
    struct stage *stage = *state;
    struct outage outage = {.name = "redis cannot save (MISCONF)",
                            .begin = be_unable_to_save,
                            .end = be_able_to_save,
                            .lasts_ms = LASTS_MS,
                            .unnoticed = true};
    outage_run(stage, &outage);
    assert_int_equal(load_tally_of_fault(stage->load, LOAD_UNCACHED).failed, 0);
}

static void be_full(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CONFIG SET maxclients 1");
    redis_do(&stage->fixture.redis, "CLIENT KILL TYPE normal SKIPME yes");
}

static void have_room(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "CONFIG SET maxclients 1000");
}

TEST_CASE_WITH(no_connection_to_be_had, begin, stage_teardown)
{
    outage_run(*state, &(struct outage){.name = "redis full (maxclients)",
                                        .begin = be_full,
                                        .end = have_room,
                                        .lasts_ms = LASTS_MS});
}
