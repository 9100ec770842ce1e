/* A Redis that wants a password or denies rights: always a 500, never a 401 or 404. More in tests/faults. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static void assert_internal_error(struct fixture *fixture, const char *path)
{
    struct http_response response;
    fixture_get(fixture, path, &response);
    if (response.status != 500)
        fail_msg("%s: %d", path, response.status);
    json_assert_same(response.body, "{\"success\":false,\"error\":\"Internal server error\"}");
    http_response_free(&response);
}

/* channeld against a Redis that wants a password, with that URL and setting. */
static void begin_with_password(struct fixture *fixture, const char *user_info, const char *setting,
                                enum server_wait wait)
{
    static const char *const args[] = {"--requirepass", "s3cret/pass", NULL};
    const char *env[] = {"CHANNELD_REQUEST_TIMEOUT=1s", setting, NULL};
    memset(fixture, 0, sizeof *fixture);
    redis_start(&fixture->redis, args);
    catalogue_issue_key(&fixture->redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture->redis, 2);
    char *url = text_printf("redis://%s127.0.0.1:%d/0", user_info, fixture->redis.port);
    struct server_spec spec = {.redis_url = url, .env = env, .wait = wait};
    server_start(&fixture->server, &spec);
    free(url);
}

static void end_with_password(struct fixture *fixture)
{
    server_stop(&fixture->server);
    redis_stop(&fixture->redis);
}

TEST_CASE(missing_password_is_500_and_never_401)
{
    struct fixture fixture;
    begin_with_password(&fixture, "", NULL, SERVER_WAIT_LISTENING);
    assert_internal_error(&fixture, "channels/");
    assert_internal_error(&fixture, "channel/by-id/0/");
    assert_int_equal(server_admin_status(&fixture.server, "/livez"), 200);
    assert_int_equal(server_admin_status(&fixture.server, "/readyz"), 503);
    end_with_password(&fixture);
}

TEST_CASE(wrong_password_is_500_and_never_401)
{
    struct fixture fixture;
    begin_with_password(&fixture, ":wrong@", NULL, SERVER_WAIT_LISTENING);
    assert_internal_error(&fixture, "channels/");
    end_with_password(&fixture);
}

TEST_CASE(right_password_opens_redis)
{
    struct fixture fixture;
    struct tempdir dir;
    begin_with_password(&fixture, ":s3cret%2Fpass@", NULL, SERVER_WAIT_READY);
    assert_int_equal(fixture_status(&fixture, "channel/by-id/-9223372036854775808/"), 200);
    end_with_password(&fixture);
    begin_with_password(&fixture, "default:s3cret%2Fpass@", NULL, SERVER_WAIT_READY);
    assert_int_equal(fixture_status(&fixture, "channels/"), 200);
    end_with_password(&fixture);
    tempdir_init(&dir);
    char *path = text_printf("%s/password", dir.path);
    char *setting = text_printf("CHANNELD_REDIS_PASSWORD_FILE=%s", path);
    assert_true(text_write_file(path, "s3cret/pass\n"));
    begin_with_password(&fixture, "", setting, SERVER_WAIT_READY);
    assert_int_equal(fixture_status(&fixture, "channels/"), 200);
    end_with_password(&fixture);
    free(setting);
    free(path);
    tempdir_fini(&dir);
}

/* A Redis that does not know HELLO (before 6) repeats its arguments, of which one is the password. */
TEST_CASE(password_is_not_logged_when_redis_quotes_it)
{
    static const char *const args[] = {"--rename-command", "HELLO", "", NULL};
    static const char *const env[] = {"CHANNELD_REDIS_PASSWORD=hUsH", NULL};
    static const char *const command[] = {"keys", "list", NULL};
    struct redis redis;
    struct server server;
    struct process tool;
    redis_start(&redis, args);
    struct server_spec spec = {.redis_url = redis.url, .env = env, .wait = SERVER_WAIT_LISTENING};
    server_start(&server, &spec);
    server_await_metric(&server, "channeld_redis_disconnects_total", 2);
    server_await_log(&server, "redis connection failed");
    char *log = server_log(&server);
    assert_null(strstr(log, "hUsH"));
    free(log);
    server_stop(&server);
    char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    const char *const tool_env[] = {env[0], url, NULL};
    assert_int_equal(server_run_tool(&tool, &redis.dir, "CHANNELCTL_BIN", command, tool_env), 1);
    char *errors = process_stderr(&tool);
    assert_non_null(strstr(errors, "Redis refused"));
    assert_null(strstr(errors, "hUsH"));
    free(errors);
    free(url);
    redis_stop(&redis);
}

TEST_CASE(missing_permission_is_500_and_heals)
{
    struct fixture *fixture = fixture_new(3, NULL);
    redis_do(&fixture->redis, "ACL SETUSER default resetkeys ~elsewhere:*");
    assert_internal_error(fixture, "channel/by-id/0/");
    assert_internal_error(fixture, "channels/");
    redis_do(&fixture->redis, "ACL SETUSER default allkeys");
    assert_int_equal(fixture_status(fixture, "channel/by-id/0/"), 200);
    fixture_free(fixture);
}
