/* Clients that stop sending, or reset the connection, at every byte of a request and of its answer. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/footprint.h"
#include "support/net.h"

#define TARGET "/api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH

static const char *const requests[] = {
    "GET " TARGET "\r\n",
    "GET " TARGET "Content-Length: 11\r\n\r\nhello cluster",
    "GET " TARGET "Transfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
};

FIXTURE(5, "CHANNELD_REQUEST_TIMEOUT=20s", NULL)

/* Ends it so that the server sees a reset, and nothing stays behind in the kernel. */
static void reset(struct http_conn *conn)
{
    const struct linger now = {.l_onoff = 1};
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    http_close(conn);
}

/* Nothing is left of all that was begun. */
static void assert_all_ended(struct fixture *fixture)
{
    server_await_metric_below(&fixture->server, "channeld_connections_open", 0);
    server_await_metric_below(&fixture->server, "channeld_requests_in_flight", 0);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

static void half_close_at(struct fixture *fixture, const char *request, size_t at)
{
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send(&conn, request, at), 0);
    assert_int_equal(http_finish(&conn), 0);
    if (at == strlen(request)) {
        http_expect(&conn, 200);
    }
    int error = http_read_eof(&conn);
    if (error != 0)
        fail_msg("half-closed behind %zu of %zu bytes: %s", at, strlen(request), strerror(-error));
    http_close(&conn);
}

TEST_CASE(half_close_at_every_byte_ends_the_connection)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(requests); i++) {
        for (size_t at = 0; at <= strlen(requests[i]); at++)
            half_close_at(fixture, requests[i], at);
    }
    assert_all_ended(fixture);
}

/* The same behind a request that is answered. */
TEST_CASE(half_close_in_a_second_request_still_gets_the_first_answer)
{
    struct fixture *fixture = *state;
    size_t length = strlen(requests[0]);
    for (size_t at = 0; at < length; at++) {
        struct http_conn conn;
        struct http_response response;
        char *both = text_printf("%s%.*s", requests[0], (int)at, requests[0]);
        assert_int_equal(http_open(&conn, fixture->server.port), 0);
        assert_int_equal(http_send_text(&conn, both), 0);
        assert_int_equal(http_finish(&conn), 0);
        assert_int_equal(http_read(&conn, false, &response), 0);
        assert_int_equal(response.status, 200);
        assert_int_equal(http_read_eof(&conn), 0);
        http_response_free(&response);
        http_close(&conn);
        free(both);
    }
    assert_all_ended(fixture);
}

TEST_CASE(reset_at_every_byte_of_a_request_leaves_nothing)
{
    struct fixture *fixture = *state;
    struct footprint before = footprint_of(fixture->server.process.pid);
    for (size_t i = 0; i < TEST_COUNT(requests); i++) {
        for (size_t at = 0; at <= strlen(requests[i]); at++) {
            struct http_conn conn;
            assert_int_equal(http_open(&conn, fixture->server.port), 0);
            assert_int_equal(http_send(&conn, requests[i], at), 0);
            reset(&conn);
        }
    }
    assert_all_ended(fixture);
    footprint_await_descriptors(fixture->server.process.pid, before.descriptors);
}

/* Takes that many bytes of the answer; false when it has no more. */
static bool take(struct http_conn *conn, size_t length)
{
    char byte[1024];
    while (length > 0) {
        struct pollfd pollfd = {.fd = conn->fd, .events = POLLIN};
        assert_int_equal(poll(&pollfd, 1, WAIT_DEADLINE_MS), 1);
        ssize_t got = recv(conn->fd, byte, length < sizeof byte ? length : sizeof byte, 0);
        assert_true(got > 0);
        length -= (size_t)got;
    }
    struct pollfd more = {.fd = conn->fd, .events = POLLIN};
    return poll(&more, 1, 0) == 1;
}

TEST_CASE(reset_at_every_byte_of_an_answer_leaves_nothing)
{
    struct fixture *fixture = *state;
    struct footprint before = footprint_of(fixture->server.process.pid);
    bool more = true;
    size_t at = 0;
    for (; more; at++) {
        struct http_conn conn;
        assert_int_equal(http_open(&conn, fixture->server.port), 0);
        assert_int_equal(http_send_text(&conn, requests[0]), 0);
        more = take(&conn, at);
        if (at == 0)
            more = true; /* it may not have begun to come */
        reset(&conn);
    }
    assert_true(at > 300); /* as many bytes as an answer has at least */
    assert_all_ended(fixture);
    footprint_await_descriptors(fixture->server.process.pid, before.descriptors);
}

/* Redis does not answer meanwhile: the requests are abandoned at all stages of waiting. */
TEST_CASE(resets_while_redis_is_asked_leave_nothing)
{
    enum { CLIENTS = 200, CLIENTS_LEFT = CLIENTS / 2 };
    struct fixture *fixture = *state;
    struct http_conn conns[CLIENTS];
    struct footprint before = footprint_of(fixture->server.process.pid);
    redis_pause(&fixture->redis);
    for (int i = 0; i < CLIENTS; i++) {
        char *target = text_printf("/api/channel/by-id/%d/", 1000 + i / 2);
        http_start_get(&conns[i], fixture->server.port, target, FIXTURE_AUTH);
        free(target);
    }
    server_await_metric(&fixture->server, "channeld_requests_in_flight", CLIENTS);
    for (int i = 0; i < CLIENTS; i += 2)
        reset(&conns[i]);
    server_await_metric_below(&fixture->server, "channeld_requests_in_flight", CLIENTS_LEFT);
    redis_resume(&fixture->redis);
    for (int i = 1; i < CLIENTS; i += 2) {
        http_expect(&conns[i], 404);
        reset(&conns[i]);
    }
    assert_all_ended(fixture);
    footprint_await_descriptors(fixture->server.process.pid, before.descriptors);
}
