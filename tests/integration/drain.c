/* SIGTERM: first no longer ready, then no longer listening, then gone. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/net.h"

enum { DELAY_MS = 1500 };

static struct fixture *begin(const char *delay, const char *timeout)
{
    char *delay_setting = text_printf("CHANNELD_DRAIN_DELAY=%s", delay);
    char *timeout_setting = text_printf("CHANNELD_DRAIN_TIMEOUT=%s", timeout);
    const char *env[] = {delay_setting, timeout_setting, "CHANNELD_REQUEST_TIMEOUT=5s", NULL};
    struct fixture *fixture = fixture_new(3, env);
    free(delay_setting);
    free(timeout_setting);
    return fixture;
}

static void terminate(struct fixture *fixture)
{
    process_signal(&fixture->server.process, SIGTERM);
}

static void open_and_ask(struct fixture *fixture, struct http_conn *conn, struct http_response *response)
{
    assert_int_equal(http_open(conn, fixture->server.port), 0);
    assert_int_equal(http_exchange(conn, "GET", "/api/channels/", FIXTURE_AUTH, response), 0);
    assert_int_equal(response->status, 200);
}

TEST_CASE(not_ready_at_once_but_alive_and_serving)
{
    struct fixture *fixture = begin("1500ms", "10s");
    struct http_conn kept;
    struct http_conn fresh;
    struct http_response response;
    open_and_ask(fixture, &kept, &response);
    assert_null(http_header(&response, "Connection"));
    http_response_free(&response);
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_await_admin(&fixture->server, "/readyz", 503);
    assert_in_range(wait_now_ms() - began, 0, wait_slack_ms());
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    assert_int_equal(http_exchange(&kept, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, &response), 0);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_header(&response, "Connection"), "close");
    assert_int_equal(http_read_eof(&kept), 0);
    http_response_free(&response);
    open_and_ask(fixture, &fresh, &response);
    assert_string_equal(http_header(&response, "Connection"), "close");
    assert_int_equal(http_read_eof(&fresh), 0);
    http_response_free(&response);
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    server_expect_exit(&fixture->server, 0);
    assert_in_range(wait_now_ms() - began, DELAY_MS - 100, DELAY_MS + 2 * wait_slack_ms());
    assert_false(net_is_listening(fixture->server.port));
    http_close(&kept);
    http_close(&fresh);
    fixture_free(fixture);
}

/* Their clients take their time to close their end; the timeout of 20 s must not be spent on them. */
TEST_CASE(idle_connections_do_not_hold_it_up)
{
    struct fixture *fixture = begin("0s", "20s");
    struct http_conn conns[5];
    for (size_t i = 0; i < TEST_COUNT(conns); i++) {
        struct http_response response;
        open_and_ask(fixture, &conns[i], &response);
        http_response_free(&response);
    }
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_expect_exit(&fixture->server, 0);
    assert_in_range(wait_now_ms() - began, 0, 4000);
    for (size_t i = 0; i < TEST_COUNT(conns); i++) {
        assert_int_equal(http_read_eof(&conns[i]), 0);
        http_close(&conns[i]);
    }
    fixture_free(fixture);
}

TEST_CASE(request_in_flight_is_finished)
{
    struct fixture *fixture = begin("0s", "10s");
    struct http_conn conn;
    struct http_response response;
    char *request = http_format("GET", "/api/channel/by-id/0/", FIXTURE_AUTH);
    redis_pause(&fixture->redis);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, request), 0);
    assert_false(http_is_readable(&conn, 200));
    terminate(fixture);
    assert_false(http_is_readable(&conn, 300));
    redis_resume(&fixture->redis);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_header(&response, "Connection"), "close");
    assert_int_equal(json_integer_at(response.body, "data.max_channel_id"), 0);
    server_expect_exit(&fixture->server, 0);
    http_response_free(&response);
    http_close(&conn);
    free(request);
    fixture_free(fixture);
}

TEST_CASE(request_that_never_ends_is_left_behind_after_the_timeout)
{
    struct fixture *fixture = begin("0s", "1s");
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n"), 0);
    assert_false(http_is_readable(&conn, 50));
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_expect_exit(&fixture->server, 0);
    assert_in_range(wait_now_ms() - began, 0, 1000 + 2 * wait_slack_ms());
    http_close(&conn);
    fixture_free(fixture);
}

TEST_CASE(client_that_does_not_read_is_left_behind_after_the_timeout)
{
    struct fixture *fixture = begin("0s", "1s");
    struct http_conn conn;
    char *text = text_repeat('x', 8000000);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    char *request = http_format("GET", "/api/channel/by-id/900/", FIXTURE_AUTH);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(http_send_text(&conn, request), 0);
    assert_true(http_is_readable(&conn, WAIT_DEADLINE_MS));
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_expect_exit(&fixture->server, 0);
    assert_in_range(wait_now_ms() - began, 0, 1000 + 2 * wait_slack_ms());
    http_close(&conn);
    free(request);
    free(text);
    fixture_free(fixture);
}

TEST_CASE(second_signal_ends_it_at_once)
{
    struct fixture *fixture = begin("60s", "90s");
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_await_admin(&fixture->server, "/readyz", 503);
    terminate(fixture);
    assert_true(process_wait(&fixture->server.process, WAIT_DEADLINE_MS) >= 0);
    assert_in_range(wait_now_ms() - began, 0, 2 * wait_slack_ms());
    fixture_free(fixture);
}

static void hang_up(struct fixture *fixture)
{
    process_signal(&fixture->server.process, SIGHUP);
}

/* Neither while it serves, nor while it drains, nor until it has ended. */
TEST_CASE(hangup_ends_nothing)
{
    struct fixture *fixture = begin("0s", "60s");
    struct http_conn slow;
    hang_up(fixture);
    server_await_log(&fixture->server, "SIGHUP received");
    assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
    assert_int_equal(http_open(&slow, fixture->server.port), 0);
    assert_int_equal(http_send_text(&slow, "GET /api/channels/ HTTP/1.1\r\n"), 0);
    terminate(fixture);
    server_await_admin(&fixture->server, "/readyz", 503);
    hang_up(fixture);
    assert_int_equal(http_send_text(&slow, "Host: a\r\n\r\n"), 0);
    http_expect(&slow, 401);
    while (process_is_running(&fixture->server.process))
        (void)kill(fixture->server.process.pid, SIGHUP);
    server_expect_exit(&fixture->server, 0);
    http_close(&slow);
    fixture_free(fixture);
}

TEST_CASE(interrupt_drains_too)
{
    struct fixture *fixture = begin("0s", "10s");
    process_signal(&fixture->server.process, SIGINT);
    server_expect_exit(&fixture->server, 0);
    fixture_free(fixture);
}
