/* A script that does not end: Redis answers everybody with BUSY until it is killed. */

#include <hiredis/hiredis.h>
#include <pthread.h>

#include <string.h>

#include "faults/outage.h"

enum { LASTS_MS = 4500 };

/* A script's own connection to Redis: static, since its thread may outlive a failed test. */
static struct {
    struct redisContext *connection;
    pthread_t thread;
    bool running;
} script;

static void *run_script(void *arg)
{
    (void)arg;
    freeReplyObject(redisCommand(script.connection, "EVAL %s 0", "while true do end"));
    return NULL;
}

static bool is_busy(void *arg)
{
    struct redisContext *connection = arg;
    redisReply *reply = redisCommand(connection, "PING");
    bool busy = reply != NULL && reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "BUSY", 4) == 0;
    freeReplyObject(reply);
    return busy;
}

static void start_script(struct stage *stage)
{
    script.connection = redisConnect("127.0.0.1", stage->fixture.redis.port);
    assert_non_null(script.connection);
    script.running = pthread_create(&script.thread, NULL, run_script, NULL) == 0;
    assert_true(script.running);
    assert_true(wait_until(is_busy, stage->fixture.redis.connection, WAIT_DEADLINE_MS));
}

static void end_script(struct stage *stage)
{
    redis_do(&stage->fixture.redis, "SCRIPT KILL");
    assert_int_equal(pthread_join(script.thread, NULL), 0);
    script.running = false;
    redisFree(script.connection);
}

static int begin(void **state)
{
    static const char *const args[] = {"--busy-reply-threshold", "50", NULL};
    struct stage *stage = stage_new(&(struct stage_plan){.redis_args = args});
    *state = stage;
    (void)load_start(stage);
    return 0;
}

/* The script ends with its Redis. */
static int end(void **state)
{
    struct stage *stage = *state;
    if (script.running) {
        redis_kill(&stage->fixture.redis);
        (void)pthread_join(script.thread, NULL);
    }
    return stage_teardown(state);
}

TEST_CASE_WITH(endless_script_costs_memory_nothing, begin, end)
{
    outage_run(*state, &(struct outage){.name = "redis busy with a script",
                                        .begin = start_script,
                                        .end = end_script,
                                        .lasts_ms = LASTS_MS});
}
