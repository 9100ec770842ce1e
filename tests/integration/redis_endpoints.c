/* Endpoints of Redis: host name, database, Unix socket, and a prefix of the keys. */

#include <stdio.h>
#include <stdlib.h>

#include "support/fixture.h"

/* Serves the one card that the setup stored, through that URL. */
static void assert_serves(const char *url, const char *setting)
{
    const char *env[] = {setting, NULL};
    struct fixture fixture;
    fixture_serve(&fixture, url, env, SERVER_WAIT_READY);
    assert_int_equal(fixture_status(&fixture, "channel/by-id/1/"), 200);
    assert_int_equal(fixture_status(&fixture, "channels/"), 200);
    server_stop(&fixture.server);
}

/* By name, and in another database. */
TEST_CASE(host_name_and_database)
{
    AUTO(redis_stop) struct redis redis;
    redis_start(&redis, NULL);
    for (int db = 0; db <= 5; db += 5) {
        redis_do(&redis, "SELECT %d", db);
        catalogue_issue_key(&redis, FIXTURE_KEY);
        catalogue_put(&redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
        assert_serves(text_temp("redis://%s:%d/%d", db == 0 ? "localhost" : "127.0.0.1", redis.port, db),
                      NULL);
        redis_do(&redis, "FLUSHDB");
    }
}

/* A Redis with a socket, and the one card in its database 5 too. */
struct local {
    struct redis redis;
    struct tempdir dir;
    char *path;
};

static void local_start(struct local *l, const char *password)
{
    tempdir_init(&l->dir);
    l->path = text_printf("%s/r.sock", l->dir.path);
    const char *args[] = {"--unixsocket", l->path, password != NULL ? "--requirepass" : NULL, password, NULL};
    redis_start(&l->redis, args);
    for (int db = 0; db <= 5; db += 5) {
        redis_do(&l->redis, "SELECT %d", db);
        catalogue_issue_key(&l->redis, FIXTURE_KEY);
        catalogue_put(&l->redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    }
}

static void local_stop(struct local *l)
{
    redis_stop(&l->redis);
    tempdir_fini(&l->dir);
    free(l->path);
}

static int list_keys(struct local *l, const char *url, char **errors)
{
    const char *args[] = {"--redis-url", url, "keys", "list", NULL};
    struct process tool;
    int status = server_run_tool(&tool, &l->dir, "CHANNELCTL_BIN", args, NULL);
    *errors = process_stderr(&tool);
    return status;
}

/* Both programs work through "unix://<userinfo>@<path><query>". */
static void assert_local_serves(struct local *l, const char *who, const char *query)
{
    char *errors = NULL;
    AUTOFREE char *url = text_printf("unix://%s%s%s", who, l->path, query);
    assert_serves(url, NULL);
    if (list_keys(l, url, &errors) != 0)
        fail_msg("channelctl: %s", errors);
    free(errors);
}

TEST_CASE(unix_socket_is_used)
{
    struct local l;
    local_start(&l, NULL);
    assert_local_serves(&l, "", "");
    assert_local_serves(&l, "", "?db=5");
    local_stop(&l);
}

/* The file of the socket is replaced; until then there is none, or one without a listener. */
TEST_CASE(unix_socket_that_is_replaced_is_found_again)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=500ms", "CHANNELD_STALE_LIMIT=0s", NULL};
    struct local l;
    struct fixture fixture;
    local_start(&l, NULL);
    fixture_serve(&fixture, text_temp("unix://%s", l.path), env, SERVER_WAIT_READY);
    redis_do(&l.redis, "SAVE");
    redis_kill(&l.redis); /* leaves the file behind */
    server_await_admin(&fixture.server, "/readyz", 503);
    assert_int_equal(fixture_status(&fixture, "channel/by-id/1/"), 500);
    assert_int_equal(remove(l.path), 0);
    server_await_metric(&fixture.server, "channeld_redis_disconnects_total", 8);
    redis_restart(&l.redis);
    fixture_await(&fixture, "channel/by-id/1/", 200);
    server_stop(&fixture.server);
    local_stop(&l);
}

TEST_CASE(prefix_is_respected)
{
    AUTO(redis_stop) struct redis redis;
    char digest[65];
    redis_start(&redis, NULL);
    catalogue_digest(FIXTURE_KEY, digest);
    redis_do(&redis, "SADD other:api_keys %s", digest);
    redis_do(&redis, "HSET other:card:1 max_channel_id 1 title t");
    redis_do(&redis, "ZADD other:index 1 1");
    assert_serves(text_temp("redis://127.0.0.1:%d/0", redis.port), "CHANNELD_REDIS_PREFIX=other:");
}
