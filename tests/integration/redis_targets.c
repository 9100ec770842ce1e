/* The ways of naming a Redis: address, host name, database, Unix socket, and a prefix of its own. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

/* Serves the one card that the setup stored, through that URL. */
static void assert_serves(const char *url, const char *setting)
{
    const char *env[] = {setting, NULL};
    struct fixture fixture;
    struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_READY};
    memset(&fixture, 0, sizeof fixture);
    server_start(&fixture.server, &spec);
    assert_int_equal(fixture_status(&fixture, "channel/by-id/1/"), 200);
    assert_int_equal(fixture_status(&fixture, "channels/"), 200);
    server_stop(&fixture.server);
}

static void host_name_is_resolved(void **state)
{
    struct redis redis;
    (void)state;
    redis_start(&redis, NULL);
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put(&redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    char *url = text_printf("redis://localhost:%d", redis.port);
    assert_serves(url, NULL);
    free(url);
    redis_stop(&redis);
}

static void database_number_is_selected(void **state)
{
    struct redis redis;
    (void)state;
    redis_start(&redis, NULL);
    redis_do(&redis, "SELECT 5");
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put(&redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    char *url = text_printf("redis://127.0.0.1:%d/5", redis.port);
    assert_serves(url, NULL);
    free(url);
    redis_stop(&redis);
}

static void unix_socket_is_used(void **state)
{
    struct redis redis;
    struct tempdir dir;
    (void)state;
    tempdir_init(&dir);
    char *path = text_printf("%s/r.sock", dir.path);
    const char *args[] = {"--unixsocket", path, NULL};
    redis_start(&redis, args);
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put(&redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    char *url = text_printf("unix://%s", path);
    assert_serves(url, NULL);
    free(url);
    free(path);
    redis_stop(&redis);
    tempdir_fini(&dir);
}

static void prefix_is_respected(void **state)
{
    struct redis redis;
    char digest[65];
    (void)state;
    redis_start(&redis, NULL);
    catalogue_digest(FIXTURE_KEY, digest);
    redis_do(&redis, "SADD other:api_keys %s", digest);
    redis_do(&redis, "HSET other:card:1 max_channel_id 1 title t");
    redis_do(&redis, "ZADD other:index 1 1");
    char *url = text_printf("redis://127.0.0.1:%d/0", redis.port);
    assert_serves(url, "CHANNELD_REDIS_PREFIX=other:");
    free(url);
    redis_stop(&redis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_name_is_resolved),
        cmocka_unit_test(database_number_is_selected),
        cmocka_unit_test(unix_socket_is_used),
        cmocka_unit_test(prefix_is_respected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
