/* Clients that reset the connection at every byte of a response, and while Redis is queried. The simulation
 * has requests. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/footprint.h"
#include "support/net.h"

static const char request[] = "GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n";

FIXTURE(5, "CHANNELD_REQUEST_TIMEOUT=20s", NULL)

/* No connection and no request is left. */
static void assert_all_ended(struct fixture *fixture)
{
    server_await_metric_below(&fixture->server, "channeld_connections_open", 0);
    server_await_metric_below(&fixture->server, "channeld_requests_in_flight", 0);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
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

TEST_CASE(reset_at_every_byte_of_a_response)
{
    struct fixture *fixture = *state;
    struct footprint before = footprint_of(fixture->server.process.pid);
    bool more = true;
    size_t at = 0;
    for (; more; at++) {
        struct http_conn conn = http_connect(fixture->server.port);
        assert_int_equal(http_send_text(&conn, request), 0);
        more = take(&conn, at);
        if (at == 0)
            more = true; /* it may not have begun to come */
        http_reset(&conn);
    }
    assert_true(at > 300); /* as many bytes as an answer has at least */
    assert_all_ended(fixture);
    footprint_await_descriptors(fixture->server.process.pid, before.descriptors);
}

/* Redis does not reply meanwhile: the requests are abandoned at all stages of waiting. */
TEST_CASE(resets_while_redis_is_queried)
{
    enum { CLIENTS = 200, CLIENTS_LEFT = CLIENTS / 2 };
    struct fixture *fixture = *state;
    struct http_conn conns[CLIENTS];
    struct footprint before = footprint_of(fixture->server.process.pid);
    redis_pause(&fixture->redis);
    for (int i = 0; i < CLIENTS; i++) {
        AUTOFREE char *target = text_printf("/api/channel/by-id/%d/", 1000 + i / 2);
        http_start_get(&conns[i], fixture->server.port, target, FIXTURE_AUTH);
    }
    server_await_metric(&fixture->server, "channeld_requests_in_flight", CLIENTS);
    for (int i = 0; i < CLIENTS; i += 2)
        http_reset(&conns[i]);
    server_await_metric_below(&fixture->server, "channeld_requests_in_flight", CLIENTS_LEFT);
    redis_resume(&fixture->redis);
    for (int i = 1; i < CLIENTS; i += 2) {
        http_expect(&conns[i], 404);
        http_reset(&conns[i]);
    }
    assert_all_ended(fixture);
    footprint_await_descriptors(fixture->server.process.pid, before.descriptors);
}
