/* A Redis that is reachable and refuses: busy, loading, wants a password, denies rights, has too many
 * clients. */

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "faults/testbed.h"

enum { LONG_MS = 5000 };

/* ---- BUSY ---- */

/* The connection of a script that does not end: static, since its thread may outlive a failed test. */
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

static bool is_refused(struct redis *redis, const char *command, const char *error)
{
    redisReply *reply = redisCommand(redis->connection, command);
    bool refused = reply != NULL && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, error) != NULL;
    freeReplyObject(reply);
    return refused;
}

static bool is_busy(void *arg)
{
    return is_refused(arg, "PING", "BUSY");
}

static void start_script(struct testbed *bed)
{
    script.connection = redisConnect("127.0.0.1", bed->fixture.redis.port);
    assert_non_null(script.connection);
    script.running = pthread_create(&script.thread, NULL, run_script, NULL) == 0;
    assert_true(script.running);
    assert_true(wait_until(is_busy, &bed->fixture.redis, WAIT_DEADLINE_MS));
}

static void end_script(struct testbed *bed)
{
    redis_do(&bed->fixture.redis, "SCRIPT KILL");
    assert_int_equal(pthread_join(script.thread, NULL), 0);
    script.running = false;
    redisFree(script.connection);
}

static int setup_script(void **state)
{
    static const char *const args[] = {"--busy-reply-threshold", "50", NULL};
    (void)testbed_start(state, &(struct testbed_spec){.redis_args = args});
    return 0;
}

/* The script ends with its Redis. */
static int teardown_script(void **state)
{
    struct testbed *bed = *state;
    if (script.running) {
        redis_kill(&bed->fixture.redis);
        (void)pthread_join(script.thread, NULL);
    }
    return testbed_teardown(state);
}

TEST_CASE_WITH(redis_busy_with_a_script, setup_script, teardown_script)
{
    outage_run(*state, &(struct outage){"redis busy with a script (BUSY)", start_script, end_script,
                                        .lasts_ms = 3500});
}

/* ---- LOADING ---- */

static int setup_loading(void **state)
{
    /* 20,000 cards with a delay each, in microseconds. */
    static const char *const args[] = {"--key-load-delay", "60", "--loading-process-events-interval-bytes",
                                       "2048", NULL};
    static const char *const env[] = {"CHANNELD_LOG_LEVEL=debug", NULL};
    struct testbed *bed = testbed_start(state, &(struct testbed_spec){.env = env, .redis_args = args});
    redis_do(&bed->fixture.redis, "SAVE");
    return 0;
}

static void restart_slowly(struct testbed *bed)
{
    redis_kill(&bed->fixture.redis);
    redis_launch(&bed->fixture.redis);
}

static void await_loaded(struct testbed *bed)
{
    redis_await(&bed->fixture.redis);
}

TEST_CASE_WITH(redis_loading_its_data, setup_loading, testbed_teardown)
{
    struct testbed *bed = *state;
    outage_run(bed,
               &(struct outage){"redis restarted (LOADING)", restart_slowly, await_loaded, .lasts_ms = 500});
    server_await_log(&bed->fixture.server, "LOADING");
}

/* ---- maxclients ---- */

TEST_CASE_WITH(redis_full_before_channeld_starts, testbed_setup, testbed_teardown)
{
    struct testbed *bed = *state;
    struct server *server = &bed->fixture.server;
    server_stop(server);
    redis_do(&bed->fixture.redis, "CONFIG SET maxclients 1");
    server_start(server, &(struct server_spec){bed->fixture.redis.url, NULL, SERVER_WAIT_LISTENING});
    testbed_expect_unavailable(bed, "channel/by-id/1/");
    assert_int_equal(server_admin_status(server, "/readyz"), 503);
    assert_int_equal(server_admin_status(server, "/livez"), 200);
    server_await_log(server, "max number of clients reached");
    redis_do(&bed->fixture.redis, "CONFIG SET maxclients 1000");
    (void)testbed_await_connected(bed, 0);
    testbed_expect(bed, "channel/by-id/1/", catalogue_version_card(1, 1));
}

/* ---- MISCONF ---- */

static bool refuses_ping(void *arg)
{
    return is_refused(arg, "PING", "");
}

/* A snapshot that cannot be renamed: a directory is in the way. Redis refuses writes, and PING. */
static void prevent_saving(struct testbed *bed)
{
    struct redis *redis = &bed->fixture.redis;
    assert_int_equal(mkdir(text_temp("%s/dump.rdb", redis->dir.path), 0700), 0);
    redis_do(redis, "CONFIG SET save %s", "3600 1");
    redis_do(redis, "BGSAVE");
    assert_true(wait_until(refuses_ping, redis, WAIT_DEADLINE_MS));
    fixture_kill_connections(&bed->fixture); /* new connections are made as well */
}

static void allow_saving(struct testbed *bed)
{
    redis_do(&bed->fixture.redis, "CONFIG SET save %s", "");
}

/* Reading goes on. */
SLOW_TEST_WITH(redis_cannot_save, testbed_setup_clients, testbed_teardown)
{
    outage_run(*state, &(struct outage){"redis cannot save (MISCONF)", prevent_saving, allow_saving,
                                        .lasts_ms = LONG_MS, .unnoticed = true, .harmless = true});
}
