/* Deadlines of connections: the head of a request, idle time, bodies that do not come. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { TIMEOUT_MS = 1000, BUSY_MS = 3000, EARLY_MS = 100 };

FIXTURE(3, "CHANNELD_HEADER_TIMEOUT=1s", "CHANNELD_IDLE_TIMEOUT=1s", NULL)

static void assert_took_the_timeout(int64_t began)
{
    int64_t took = wait_now_ms() - began;
    if (took < TIMEOUT_MS - EARLY_MS || took > TIMEOUT_MS + wait_slack_ms())
        fail_msg("after %d ms", (int)took);
}

/* Sends the text at once; expects 408 in time and then the end. */
static void assert_timed_out(struct fixture *fixture, const char *text)
{
    struct http_conn conn;
    struct http_response response;
    int64_t began = wait_now_ms();
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, text), 0);
    int error = http_read(&conn, false, &response);
    if (error != 0)
        fail_msg("no 408: %s", strerror(-error));
    assert_took_the_timeout(began);
    assert_int_equal(response.status, 408);
    assert_string_equal(http_header(&response, "Connection"), "close");
    json_assert_error(response.body);
    assert_int_equal(http_read_eof(&conn), 0);
    http_response_free(&response);
    http_close(&conn);
}

TEST_CASE(unfinished_head_is_408_in_time)
{
    assert_timed_out(*state, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n");
    assert_timed_out(*state, "GET /api/chan");
    assert_timed_out(*state, "G");
}

/* The deadline is a total: a byte now and then does not put it off. */
TEST_CASE(dripping_head_is_408_in_time)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    int64_t began = wait_now_ms();
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nX: "), 0);
    while (!http_is_readable(&conn, 50))
        (void)http_send_text(&conn, "x");
    assert_took_the_timeout(began);
    http_expect(&conn, 408);
    http_close(&conn);
}

TEST_CASE(silent_connection_ends_in_time)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    int64_t began = wait_now_ms();
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_true(http_is_readable(&conn, TIMEOUT_MS + wait_slack_ms()));
    assert_took_the_timeout(began);
    http_close(&conn);
}

TEST_CASE(idle_connection_is_closed_without_a_word)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_exchange(&conn, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
    http_response_free(&response);
    int64_t began = wait_now_ms();
    assert_int_equal(http_read_eof(&conn), 0);
    assert_took_the_timeout(began);
    http_close(&conn);
}

TEST_CASE(busy_connection_outlives_both_timeouts)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    int64_t end = wait_now_ms() + BUSY_MS;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    while (wait_now_ms() < end) {
        http_ask(&conn, "GET", "/api/channels/", FIXTURE_AUTH, 200);
        assert_false(http_is_readable(&conn, TIMEOUT_MS / 4));
    }
    http_close(&conn);
}

/* A client that keeps its connection gets every answer, the last of them with the notice, and comes again. */
TEST_CASE(old_connection_ends_with_an_answer)
{
    static const char *const env[] = {"CHANNELD_MAX_CONNECTION_AGE=200ms", NULL};
    struct fixture *fixture = fixture_new(3, env);
    for (int round = 0; round < 3; round++) {
        struct http_conn conn;
        int64_t until = wait_deadline(WAIT_DEADLINE_MS);
        bool last = false;
        assert_int_equal(http_open(&conn, fixture->server.port), 0);
        while (!last) {
            struct http_response response;
            assert_int_equal(http_exchange(&conn, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
            assert_int_equal(response.status, 200);
            last = http_header(&response, "Connection") != NULL;
            http_response_free(&response);
            assert_true(wait_left_ms(until) > 0);
        }
        assert_int_equal(http_read_eof(&conn), 0);
        http_close(&conn);
    }
    server_await_metric(&fixture->server, "channeld_connections_max_age_reached_total", 3);
    fixture_free(fixture);
}

/* The second request of a connection has a deadline of its own. */
TEST_CASE(unfinished_second_head_is_408)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_exchange(&conn, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
    http_response_free(&response);
    assert_false(http_is_readable(&conn, TIMEOUT_MS / 2));
    int64_t began = wait_now_ms();
    assert_int_equal(http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\n"), 0);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_int_equal(response.status, 408);
    assert_took_the_timeout(began);
    http_response_free(&response);
    http_close(&conn);
}

TEST_CASE(body_that_does_not_come_ends_the_connection)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(
        http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n" FIXTURE_AUTH
                              "\r\nabc"),
        0);
    assert_true(http_is_readable(&conn, WAIT_DEADLINE_MS));
    http_close(&conn);
}

/* A client that asks and does not take the answer holds its place no longer than this. */
TEST_CASE(client_that_does_not_take_its_answer_is_dropped)
{
    /* Sanitizers take their time for such a card. */
    static const char *const env[] = {"CHANNELD_WRITE_TIMEOUT=1s", "CHANNELD_REQUEST_TIMEOUT=20s", NULL};
    struct fixture *fixture = fixture_new(1, env);
    struct http_conn conn;
    char *text = text_repeat('x', 16000000);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    http_start_get(&conn, fixture->server.port, "/api/channel/by-id/900/", FIXTURE_AUTH);
    assert_true(http_is_readable(&conn, WAIT_DEADLINE_MS));
    server_await_metric(&fixture->server, "channeld_connections_timed_out_total", 1);
    server_await_metric_below(&fixture->server, "channeld_connections_open", 0.5);
    http_close(&conn);
    free(text);
    fixture_free(fixture);
}

TEST_CASE(timeouts_are_counted)
{
    struct fixture *fixture = *state;
    assert_true(server_metric(&fixture->server, "channeld_connections_timed_out_total") >= 1);
}
