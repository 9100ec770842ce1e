/* A Redis that is not there when channeld starts, and comes up later. */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/net.h"

enum { REQUEST_TIMEOUT_MS = 1000 };

static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=1s", NULL};

static void begin_without_redis(struct fixture *fixture)
{
    struct server_spec spec = {.env = env, .wait = SERVER_WAIT_LISTENING};
    memset(fixture, 0, sizeof *fixture);
    redis_prepare(&fixture->redis, NULL);
    spec.redis_url = fixture->redis.url;
    server_start(&fixture->server, &spec);
}

static void end(struct fixture *fixture)
{
    server_stop(&fixture->server);
    redis_stop(&fixture->redis);
}

TEST_CASE(alive_but_not_ready)
{
    struct fixture fixture;
    begin_without_redis(&fixture);
    assert_int_equal(server_admin_status(&fixture.server, "/livez"), 200);
    assert_int_equal(server_admin_status(&fixture.server, "/readyz"), 503);
    assert_int_equal(server_admin_status(&fixture.server, "/version"), 200);
    assert_int_equal(server_admin_status(&fixture.server, "/metrics"), 200);
    end(&fixture);
}

TEST_CASE(requests_get_500_within_the_request_timeout)
{
    static const char *const paths[] = {"channels/", "channel/by-id/0/",
                                        "channel/by-link/?link=https://max.ru/x"};
    struct fixture fixture;
    begin_without_redis(&fixture);
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        struct http_response response;
        int64_t began = wait_now_ms();
        fixture_get(&fixture, paths[i], &response);
        assert_in_range(wait_now_ms() - began, 0, REQUEST_TIMEOUT_MS + wait_slack_ms());
        assert_int_equal(response.status, 500);
        json_assert_same(response.body, "{\"success\":false,\"error\":\"Internal server error\"}");
        assert_string_equal(http_header(&response, "Retry-After"), "1");
        assert_null(http_header(&response, "ETag"));
        http_response_free(&response);
    }
    end(&fixture);
}

/* What needs no Redis is answered as ever. */
TEST_CASE(paths_and_methods_are_judged_without_redis)
{
    struct fixture fixture;
    begin_without_redis(&fixture);
    assert_int_equal(fixture_status(&fixture, "nothing/"), 404);
    struct http_response response;
    http_call(fixture.server.port, "POST", "/api/channels/", NULL, &response);
    assert_int_equal(response.status, 405);
    http_response_free(&response);
    end(&fixture);
}

TEST_CASE(key_that_cannot_be_checked_is_500_and_never_401)
{
    struct fixture fixture;
    begin_without_redis(&fixture);
    assert_int_equal(http_get_status(fixture.server.port, "/api/channels/", "X-Api-Key: wrong\r\n"), 500);
    end(&fixture);
}

TEST_CASE(comes_up_when_redis_does)
{
    struct fixture fixture;
    begin_without_redis(&fixture);
    assert_int_equal(fixture_status(&fixture, "channels/"), 500);
    redis_restart(&fixture.redis);
    int64_t began = wait_now_ms();
    catalogue_issue_key(&fixture.redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture.redis, 3);
    server_await_admin(&fixture.server, "/readyz", 200);
    assert_in_range(wait_now_ms() - began, 0, 2000 + wait_slack_ms());
    assert_int_equal(server_admin_status(&fixture.server, "/startupz"), 200);
    for (size_t n = 0; n < 3; n++) {
        char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
        char *card = catalogue_card(n);
        fixture_expect_card(&fixture, path, card);
        free(card);
        free(path);
    }
    end(&fixture);
}

/* A request that meets no connection waits for one as long as it may. */
TEST_CASE(waiting_request_is_answered_by_the_new_connection)
{
    static const char *const patient[] = {"CHANNELD_REQUEST_TIMEOUT=8s", NULL};
    struct fixture fixture;
    struct http_conn conn;
    struct server_spec spec = {.env = patient, .wait = SERVER_WAIT_LISTENING};
    memset(&fixture, 0, sizeof fixture);
    redis_start(&fixture.redis, NULL);
    catalogue_issue_key(&fixture.redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture.redis, 1);
    redis_do(&fixture.redis, "SAVE");
    redis_kill(&fixture.redis);
    spec.redis_url = fixture.redis.url;
    server_start(&fixture.server, &spec);
    http_start_get(&conn, fixture.server.port, "/api/channels/", FIXTURE_AUTH);
    assert_false(http_is_readable(&conn, 300));
    redis_restart(&fixture.redis);
    http_expect(&conn, 200);
    http_close(&conn);
    end(&fixture);
}

TEST_CASE(stops_cleanly_without_redis)
{
    struct fixture fixture;
    struct http_conn conn;
    begin_without_redis(&fixture);
    http_start_get(&conn, fixture.server.port, "/api/channels/", FIXTURE_AUTH);
    end(&fixture);
    http_close(&conn);
}

/* An address that takes connections and never says a word. */
TEST_CASE(mute_redis_is_500_within_the_request_timeout)
{
    struct server server;
    int port = net_reserve_port();
    int listener = net_listen(port);
    char *url = text_printf("redis://127.0.0.1:%d/0", port);
    struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_LISTENING};
    assert_true(listener >= 0);
    server_start(&server, &spec);
    int64_t began = wait_now_ms();
    assert_int_equal(http_get_status(server.port, "/api/channels/", FIXTURE_AUTH), 500);
    assert_in_range(wait_now_ms() - began, 0, REQUEST_TIMEOUT_MS + wait_slack_ms());
    assert_int_equal(server_admin_status(&server, "/livez"), 200);
    assert_int_equal(server_admin_status(&server, "/readyz"), 503);
    server_stop(&server);
    (void)close(listener);
    free(url);
}
