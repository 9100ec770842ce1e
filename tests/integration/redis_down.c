/*
 * A Redis that is not there when channeld starts and comes up later, one that keeps its connections and does
 * not reply, and what the log says meanwhile.
 */

#include <stdlib.h>

#include "support/fixture.h"
#include "support/net.h"

enum { CHANNELS = 60, REQUEST_TIMEOUT_MS = 2000, ATTEMPTS = 4, TIMEOUTS_MAX = 8 };

static const char *const SETTINGS[] = {"CHANNELD_REQUEST_TIMEOUT=2s", NULL};

/* ---- not there ---- */

static int setup_without_redis(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    redis_prepare(&fixture->redis, NULL);
    server_start(&fixture->server,
                 &(struct server_spec){fixture->redis.url, SETTINGS, SERVER_WAIT_LISTENING});
    *state = fixture;
    return 0;
}

/* All at once: within the request timeout, and not much earlier. */
static void expect_timeouts(struct fixture *fixture, const char *const *paths, size_t count)
{
    struct http_conn conn[TIMEOUTS_MAX];
    int64_t began = wait_now_ms();
    for (size_t i = 0; i < count; i++)
        fixture_start_get(fixture, &conn[i], paths[i]);
    for (size_t i = 0; i < count; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&conn[i], false, &response), 0);
        fixture_judge_unavailable(&response);
        assert_in_range(wait_now_ms() - began, REQUEST_TIMEOUT_MS / 2, wait_bound_ms(REQUEST_TIMEOUT_MS));
        http_close(&conn[i]);
    }
}

/* All that needs no Redis is served; the rest is 500 within the request timeout, never 401; then Redis comes.
 */
TEST_CASE_WITH(redis_comes_up_after_channeld, setup_without_redis, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct server *server = &fixture->server;
    assert_int_equal(server_admin_status(server, "/livez"), 200);
    assert_int_equal(server_admin_status(server, "/readyz"), 503);
    assert_int_equal(server_admin_status(server, "/version"), 200);
    fixture_expect_metric(fixture, "channeld_ready", 0);
    fixture_expect_metric(fixture, "channeld_worker_redis_connected{worker=\"0\"}", 0);
    static const char *const paths[] = {"channels/", "channel/by-id/0/",
                                        "channel/by-link/?link=https://max.ru/x"};
    expect_timeouts(fixture, paths, TEST_COUNT(paths));
    assert_int_equal(http_get_status(server->port, "/api/channels/", FIXTURE_WRONG), 500);
    fixture_expect(fixture, "nothing/", 404);
    AUTO(http_response_free) struct http_response response;
    http_call(server->port, "POST", "/api/channels/", NULL, &response);
    assert_int_equal(response.status, 405);
    redis_restart(&fixture->redis);
    catalogue_issue_key(&fixture->redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture->redis, 3);
    server_await_admin(server, "/readyz", 200);
    assert_int_equal(server_admin_status(server, "/startupz"), 200);
    fixture_expect_metric(fixture, "channeld_ready", 1);
    fixture_expect_metric(fixture, "channeld_worker_redis_connected{worker=\"0\"}", 1);
    for (size_t n = 0; n < 3; n++)
        fixture_expect_sample(fixture, n);
}

/* ---- full ---- */

TEST_CASE(redis_that_is_full_accepts_channeld_later)
{
    AUTO(redis_stop) struct redis full;
    AUTO(fixture_fini) struct fixture f;
    redis_start(&full, ENV("--maxclients", "1"));
    catalogue_issue_key(&full, FIXTURE_KEY);
    catalogue_put_samples(&full, 1);
    fixture_serve(&f, full.url, SETTINGS, SERVER_WAIT_LISTENING);
    fixture_expect_unavailable(&f, "channels/");
    assert_int_equal(server_admin_status(&f.server, "/readyz"), 503);
    server_await_log(&f.server, "max number of clients reached");
    redis_do(&full, "CONFIG SET maxclients 1000");
    server_await_admin(&f.server, "/readyz", 200);
    fixture_expect_sample(&f, 0);
}

TEST_CASE_WITH(channeld_stops_without_redis, setup_without_redis, NULL)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    fixture_start_get(fixture, &conn, "channels/");
    fixture_free(fixture);
    http_close(&conn);
}

/* ---- stalled ---- */

static const char FAILED[] = "channeld_requests_total{route=\"card_by_id\",status=\"500\"}";

/* Not requested before. */
static const char *const UNCACHED[] = {"channel/by-id/11/", "channel/by-id/12/", "channel/by-id/13/",
                                       "channel/by-id/14/", "channel/by-id/15/", "channel/by-id/16/"};

static int setup_stalled(void **state)
{
    *state = fixture_new(CHANNELS, SETTINGS);
    return 0;
}

static char *path_of(size_t n)
{
    return text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
}

/* A reply that comes after its request has timed out must not become the response to another. */
static void expect_recovery(struct fixture *fixture)
{
    AUTOFREE char *path = path_of(0);
    redis_resume(&fixture->redis);
    fixture_await(fixture, path, 200);
    for (size_t n = 0; n < CHANNELS; n++)
        fixture_expect_sample(fixture, n);
}

TEST_CASE_WITH(stalled_redis_is_500_in_time, setup_stalled, fixture_teardown)
{
    struct fixture *fixture = *state;
    redis_pause(&fixture->redis);
    expect_timeouts(fixture, UNCACHED, TEST_COUNT(UNCACHED));
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    expect_recovery(fixture);
    assert_true(server_metric(&fixture->server, FAILED) >= 6);
}

/* ---- reasons in the log, each when it begins, in the words of Redis ---- */

static int set_up(void **state)
{
    *state = fixture_new(1, ENV("CHANNELD_WORKERS=1"));
    return 0;
}

static void await_attempts(struct fixture *f)
{
    double now = server_metric(&f->server, "channeld_redis_disconnects_total");
    server_await_metric(&f->server, "channeld_redis_disconnects_total", now + ATTEMPTS);
}

static void expect_logged_once(struct fixture *f, const char *reason)
{
    server_expect_log(&f->server, reason, 1);
}

TEST_CASE_WITH(each_reason_is_logged_when_it_begins, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    redis_kill(&f->redis);
    server_await_log(&f->server, "redis connection lost");
    await_attempts(f);
    expect_logged_once(f, "Connection refused");
    redis_restart(&f->redis);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    server_await_metric(&f->server, "channeld_redis_connected", 1);
    redis_do(&f->redis, "CONFIG SET requirepass changed");
    fixture_kill_connections(f);
    await_attempts(f);
    expect_logged_once(f, "NOAUTH");
    redis_do(&f->redis, "ACL SETUSER default reset");
    redis_kill(&f->redis);
    await_attempts(f);
    server_expect_log(&f->server, "Connection refused", 2);
}

/* Redis' own text quotes nothing, so it is logged unchanged. */
TEST_CASE(wrong_password_is_logged_by_its_reason)
{
    static const char *const passwords[] = {"password", "pass", "user"};
    static const char *const redis_args[] = {"--requirepass", "right", NULL};
    AUTO(redis_stop) struct redis redis;
    redis_start(&redis, redis_args);
    for (size_t i = 0; i < TEST_COUNT(passwords); i++) {
        AUTOFREE char *setting = text_printf("CHANNELD_REDIS_PASSWORD=%s", passwords[i]);
        const char *const env[] = {"CHANNELD_WORKERS=1", setting, NULL};
        struct server_spec spec = {.redis_url = redis.url, .env = env, .wait = SERVER_WAIT_LISTENING};
        struct server server;
        server_start(&server, &spec);
        server_await_log(&server, "WRONGPASS invalid username-password pair or user is disabled");
        server_stop(&server);
    }
}
