/*
 * Listening sockets that a service manager has opened (sd_listen_fds(3)), and what they are for: channeld is
 * restarted under load, and no request fails.
 */

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "support/fixture.h"
#include "support/load.h"
#include "support/net.h"
#include "support/sockets.h"

static void fill(struct redis *redis)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    catalogue_put_samples(redis, 150);
}

static void start_redis(struct redis *redis)
{
    redis_start(redis, NULL);
    fill(redis);
}

TEST_CASE(a_passed_socket_replaces_the_setting)
{
    struct redis redis;
    struct server server;
    struct sockets s;
    int other = net_reserve_port();
    start_redis(&redis);
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, redis.url, ENV(text_temp("CHANNELD_LISTEN=127.0.0.1:%d", other)));
    server_await_admin(&server, "/readyz", 200);
    assert_int_equal(http_get_status(s.port[0], "/api/channels/", FIXTURE_AUTH), 200);
    assert_int_equal(http_get_status(s.port[0], "/livez", NULL), 404);
    assert_false(net_is_listening(other));
    server_await_log(&server, text_temp("\"listen\":\"127.0.0.1:%d\",\"listen_passed\":\"yes\"", s.port[0]));
    server_stop(&server);
    assert_true(net_is_listening(s.port[0])); /* it was closed, and not shut down */
    sockets_close(&s);
    redis_stop(&redis);
}

TEST_CASE(admin_address_may_be_that_of_the_setting_which_a_socket_replaces)
{
    struct server server;
    struct sockets s;
    int port = net_reserve_port();
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, "redis://127.0.0.1:1",
                         ENV(text_temp("CHANNELD_LISTEN=127.0.0.1:%d", port),
                             text_temp("CHANNELD_ADMIN_LISTEN=127.0.0.1:%d", port)));
    server.admin_port = port;
    server_await_admin(&server, "/startupz", 200);
    server_stop(&server);
    sockets_close(&s);
}

TEST_CASE(admin_address_of_a_passed_socket_is_an_error)
{
    struct server server;
    struct sockets s;
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, "redis://127.0.0.1:1",
                         ENV(text_temp("CHANNELD_ADMIN_LISTEN=:%d", s.port[0])));
    server_expect_exit(&server, 1);
    AUTOFREE char *errors = process_stderr(&server.process);
    assert_non_null(strstr(errors, "CHANNELD_ADMIN_LISTEN"));
    assert_non_null(strstr(errors, "Address already in use"));
    server_kill(&server);
    sockets_close(&s);
}

/* They wait for Redis, which would be a 500 for the others. */
TEST_CASE(connections_wait_until_redis_is_connected)
{
    struct redis redis;
    struct server server;
    struct sockets s;
    redis_prepare(&redis, NULL);
    sockets_open(&s, "api", 1);
    AUTO(http_close) struct http_conn early = http_connect(s.port[0]); /* before there is a process */
    assert_int_equal(http_send_text(&early, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"),
                     0);
    sockets_start_server(&server, &s, redis.url, ENV("CHANNELD_REQUEST_TIMEOUT=60s"));
    server_await_admin(&server, "/startupz", 200);
    assert_false(http_is_readable(&early, 300));
    redis_restart(&redis);
    fill(&redis);
    http_expect(&early, 200);
    server_stop(&server);
    sockets_close(&s);
    redis_stop(&redis);
}

TEST_CASE(connections_wait_no_longer_than_a_request_would)
{
    struct server server;
    struct sockets s;
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, "redis://127.0.0.1:1", ENV("CHANNELD_REQUEST_TIMEOUT=300ms"));
    assert_int_equal(http_get_status(s.port[0], "/api/channels/", FIXTURE_AUTH), 500);
    server_stop(&server);
    sockets_close(&s);
}

/* By another process that has it, for all of them. */
TEST_CASE(a_socket_that_was_shut_down_is_reported)
{
    struct redis redis;
    struct server server;
    struct sockets s;
    start_redis(&redis);
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, redis.url, NULL);
    server_await_admin(&server, "/readyz", 200);
    assert_int_equal(shutdown(s.fd[0], SHUT_RDWR), 0);
    server_await_log(&server, "cannot accept connections, pausing");
    server_stop(&server);
    sockets_close(&s);
    redis_stop(&redis);
}

/* Whatever has connected by then is served by the next process. */
TEST_CASE(stopped_before_redis_was_connected_it_leaves_its_connections)
{
    struct redis redis;
    struct server server;
    struct sockets s;
    start_redis(&redis);
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, "redis://127.0.0.1:1",
                         ENV("CHANNELD_REQUEST_TIMEOUT=60s", "CHANNELD_DRAIN_DELAY=60s"));
    server_await_admin(&server, "/startupz", 200);
    AUTO(http_close) struct http_conn conn = http_connect(s.port[0]);
    assert_int_equal(http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"),
                     0);
    assert_false(http_is_readable(&conn, 50));
    server_stop(&server); /* at once: nothing is in flight */
    sockets_start_server(&server, &s, redis.url, NULL);
    http_expect(&conn, 200);
    server_stop(&server);
    sockets_close(&s);
    redis_stop(&redis);
}

TEST_CASE(other_sockets_than_that_of_the_api_are_an_error)
{
    static const char *const names[] = {"web", "api:admin", "api:api"};
    for (size_t i = 0; i < TEST_COUNT(names); i++) {
        struct server server;
        struct sockets s;
        sockets_open(&s, names[i], i == 0 ? 1 : 2);
        sockets_start_server(&server, &s, "redis://127.0.0.1:1", NULL);
        server_expect_exit(&server, 2);
        AUTOFREE char *errors = process_stderr(&server.process);
        assert_non_null(strstr(errors, "LISTEN_FDS: one socket is expected, with FileDescriptorName=api"));
        server_kill(&server);
        sockets_close(&s);
    }
}

/* ---- restarts under load ---- */

TEST_CASE(no_request_fails_during_restarts)
{
    enum { CLIENTS = 24, RESTARTS = 3, ANSWERED_BETWEEN = CLIENTS * 20 };
    static const char *const env[] = {"CHANNELD_DRAIN_DELAY=2s", NULL};
    static const char *const targets[] = {"/api/channels/"};
    struct redis redis;
    struct server server;
    struct sockets s;
    struct load load;
    start_redis(&redis);
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, redis.url, env);
    load_start(&load, s.port[0], targets, TEST_COUNT(targets), CLIENTS);
    for (int i = 0; i < RESTARTS; i++) {
        load_await(&load, ANSWERED_BETWEEN, 0, WAIT_DEADLINE_MS);
        server_stop(&server);
        sockets_start_server(&server, &s, redis.url, env);
    }
    load_await(&load, ANSWERED_BETWEEN, 0, WAIT_DEADLINE_MS);
    load_stop(&load);
    server_stop(&server);
    sockets_close(&s);
    redis_stop(&redis);
}

int main(int argc, char **argv)
{
    return sockets_main(argc, argv);
}
