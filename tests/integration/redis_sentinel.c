/* Redis behind Sentinels: whichever of them answers, the master or a replica is found. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/net.h"
#include "support/sentinel.h"

/* Refused or silent Sentinels cost half a second each. */
enum { DETOUR_MS = 500 };

static struct sentinel_cluster cluster;

static int start(void **state)
{
    (void)state;
    sentinel_cluster_start(&cluster, 1, 1);
    catalogue_issue_key(&cluster.redis[0], FIXTURE_KEY);
    catalogue_put(&cluster.redis[0], "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    assert_int_equal(redis_integer(&cluster.redis[0], "WAIT 1 %d", WAIT_DEADLINE_MS / 2),
                     1); /* the replica */
    return 0;
}

static int stop(void **state)
{
    (void)state;
    sentinel_cluster_stop(&cluster);
    return 0;
}

TEST_GROUP(start, stop)

/* How many workers' connections that Redis has. */
static size_t connections_of(struct redis *redis)
{
    AUTOFREE char *list = redis_text(redis, "CLIENT LIST TYPE normal");
    return text_count(list, "name=channeld");
}

static void begin(struct fixture *fixture, const char *url, const char *setting)
{
    const char *env[] = {setting, NULL};
    fixture_serve(fixture, url, env, SERVER_WAIT_READY);
    server_await_metric(&fixture->server, "channeld_redis_connected", 2);
    assert_int_equal(fixture_status(fixture, "channel/by-id/1/"), 200);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

static void expect_only(struct fixture *fixture, int redis)
{
    assert_int_equal(connections_of(&cluster.redis[redis]), 2);
    assert_int_equal(connections_of(&cluster.redis[1 - redis]), 0);
    fixture_fini(fixture);
}

TEST_CASE(master_is_found)
{
    struct fixture fixture;
    begin(&fixture, cluster.url, NULL);
    server_await_metric(&fixture.server, "channeld_sentinels_connected", 2);
    expect_only(&fixture, 0);
}

TEST_CASE(replica_is_found)
{
    struct fixture fixture;
    begin(&fixture, text_temp("%s?role=replica", cluster.url), NULL);
    /* And it gets invalidations: the cache is on. */
    assert_int_equal((int)server_metric(&fixture.server, "channeld_redis_tracking_refused_total"), 0);
    expect_only(&fixture, 1);
}

TEST_CASE(sentinel_host_with_several_addresses)
{
    struct fixture fixture;
    begin(&fixture, text_temp("redis+sentinel://localhost:%d/" SENTINEL_MASTER, cluster.sentinel[0].port),
          NULL);
    expect_only(&fixture, 0);
}

/* ---- passwords ---- */

TEST_CASE(sentinels_have_a_password_of_their_own)
{
    AUTO(redis_stop) struct redis guarded;
    struct fixture fixture;
    sentinel_start(&guarded,
                   &(struct sentinel_spec){SENTINEL_MASTER, cluster.redis[0].port, 2, "wAtChWoRd", NULL});
    AUTOFREE char *url = text_printf("redis+sentinel://127.0.0.1:%d/" SENTINEL_MASTER, guarded.port);
    AUTOFREE char *path = text_printf("%s/password", guarded.dir.path);
    AUTOFREE char *setting = text_printf("CHANNELD_REDIS_SENTINEL_PASSWORD_FILE=%s", path);
    assert_true(text_write_file(path, "wAtChWoRd\n"));
    begin(&fixture, url, setting);
    expect_only(&fixture, 0);
}

TEST_CASE(wrong_sentinel_password_is_logged_without_it)
{
    AUTO(redis_stop) struct redis guarded;
    struct server server;
    static const char *const env[] = {"CHANNELD_REDIS_SENTINEL_PASSWORD=mIsTaKeN", NULL};
    sentinel_start(&guarded,
                   &(struct sentinel_spec){SENTINEL_MASTER, cluster.redis[0].port, 2, "wAtChWoRd", NULL});
    AUTOFREE char *url = text_printf("redis+sentinel://:hUsH@127.0.0.1:%d/" SENTINEL_MASTER, guarded.port);
    server_start(&server, &(struct server_spec){url, env, SERVER_WAIT_LISTENING});
    server_await_metric(&server, "channeld_redis_disconnects_total", 2);
    assert_int_equal(server_admin_status(&server, "/readyz"), 503);
    server_await_log(&server, "no sentinel has the address of redis");
    server_await_log(&server, "WRONGPASS");
    AUTOFREE char *log = server_log(&server);
    assert_null(strstr(log, "mIsTaKeN"));
    assert_null(strstr(log, "hUsH"));
    server_stop(&server);
}

/* ---- channelctl ---- */

static int run_tool(const char *url, const char *variable, struct process *process)
{
    const char *args[] = {"--redis-url", url, "keys", "issue", NULL};
    const char *env[] = {variable, NULL};
    return server_run_tool(process, &cluster.redis[0].dir, "CHANNELCTL_BIN", args, env);
}

/* The key is written to the master, whatever role the URL names, and whichever Sentinel comes first. */
TEST_CASE(channelctl_finds_the_master)
{
    struct process tool;
    long long keys = redis_integer(&cluster.redis[0], "SCARD channels:api_keys");
    assert_int_equal(
        run_tool(text_temp("redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/" SENTINEL_MASTER "/0?role=replica",
                           net_reserve_port(), cluster.sentinel[0].port),
                 NULL, &tool),
        0);
    assert_int_equal(redis_integer(&cluster.redis[0], "SCARD channels:api_keys"), keys + 1);
}

/* Runs it with one URL that names another Sentinel before the good one, and with one that names only that
 * one. */
static void expect_detour_of_tool(const char *scheme, int port, const char *reason)
{
    struct process tool;
    AUTOFREE char *both = text_printf("redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/" SENTINEL_MASTER, port,
                                      cluster.sentinel[0].port);
    AUTOFREE char *alone = text_printf("%s://127.0.0.1:%d/" SENTINEL_MASTER, scheme, port);
    assert_int_equal(run_tool(both, NULL, &tool), 0);
    int64_t began = wait_now_ms();
    assert_int_equal(run_tool(alone, NULL, &tool), 1);
    assert_in_range(wait_now_ms() - began, 0, wait_bound_ms(DETOUR_MS));
    AUTOFREE char *errors = process_stderr(&tool);
    if (strstr(errors, reason) == NULL)
        fail_msg("no '%s' in: %s", reason, errors);
}

TEST_CASE(channelctl_does_not_wait_for_a_silent_sentinel)
{
    int port = net_reserve_port();
    int listener = net_listen(port); /* accepts connections and never replies */
    assert_true(listener >= 0);
    expect_detour_of_tool("redis+sentinel", port, "no connection in time");
    expect_detour_of_tool("rediss+sentinel", port, "no connection in time");
    (void)close(listener);
}

TEST_CASE(channelctl_skips_a_sentinel_that_denies_its_command)
{
    AUTO(redis_stop) struct redis other;
    sentinel_start(&other, &(struct sentinel_spec){SENTINEL_MASTER, cluster.redis[0].port, 2, NULL,
                                                   "user default on nopass ~* &* +@all -sentinel\n"});
    expect_detour_of_tool("redis+sentinel", other.port, "NOPERM");
}

/* A Redis that does not tell its role may be a replica, which takes no key. */
TEST_CASE(channelctl_needs_the_role_of_a_master)
{
    static const char *const args[] = {"--rename-command", "INFO", "GENUINE", NULL};
    AUTO(redis_stop) struct redis mute;
    AUTO(redis_stop) struct redis sentinel;
    struct process tool;
    redis_start(&mute, args);
    sentinel_start(&sentinel, &(struct sentinel_spec){SENTINEL_MASTER, mute.port, 2, NULL, NULL});
    AUTOFREE char *url = text_printf("redis+sentinel://127.0.0.1:%d/" SENTINEL_MASTER, sentinel.port);
    assert_int_equal(run_tool(url, NULL, &tool), 1);
    AUTOFREE char *errors = process_stderr(&tool);
    assert_non_null(strstr(errors, "unknown command"));
    assert_int_equal(redis_integer(&mute, "EXISTS channels:api_keys"), 0);
}

TEST_CASE(channelctl_uses_the_sentinel_password)
{
    AUTO(redis_stop) struct redis guarded;
    struct process tool;
    sentinel_start(&guarded,
                   &(struct sentinel_spec){SENTINEL_MASTER, cluster.redis[0].port, 2, "wAtChWoRd", NULL});
    AUTOFREE char *url = text_printf("redis+sentinel://127.0.0.1:%d/" SENTINEL_MASTER, guarded.port);
    assert_int_equal(run_tool(url, "CHANNELD_REDIS_SENTINEL_PASSWORD=wAtChWoRd", &tool), 0);
    assert_int_equal(run_tool(url, "CHANNELD_REDIS_SENTINEL_PASSWORD=mIsTaKeN", &tool), 1);
    AUTOFREE char *errors = process_stderr(&tool);
    assert_non_null(strstr(errors, "WRONGPASS"));
    assert_null(strstr(errors, "mIsTaKeN"));
}
