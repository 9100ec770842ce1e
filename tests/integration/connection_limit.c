/* The limit of connections, which is that of the process and not of a worker: it is exact, new clients are
 * served as long as one of the connections waits for a request, and the rest gets a 503. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { LIMIT = 6, ROUNDS = 50 };

FIXTURE(3, "CHANNELD_MAX_CONNECTIONS=6", NULL)

static bool is_alone(void *arg)
{
    struct fixture *fixture = arg;
    return server_metric(&fixture->server, "channeld_connections_open") == 0;
}

/* Connections of the previous test may still be about to close. */
static void begin(struct fixture *fixture)
{
    assert_true(wait_until(is_alone, fixture, WAIT_DEADLINE_MS));
}

static void release(struct http_conn *conns)
{
    for (int i = 0; i < LIMIT; i++)
        http_close(&conns[i]);
}

/* Fills the limit with connections whose request is not complete. */
static void hold(struct fixture *fixture, struct http_conn *conns)
{
    begin(fixture);
    for (int i = 0; i < LIMIT; i++) {
        conns[i] = http_connect(fixture->server.port);
        assert_int_equal(http_send_text(&conns[i], "GET /api/channels/ HTTP/1.1\r\n"), 0);
    }
    server_await_metric(&fixture->server, "channeld_connections_open", LIMIT);
}

/* Without a key; opened again when the server has closed it, as long as the server takes it. */
static void hold_idle(struct fixture *fixture, struct http_conn *conn)
{
    struct http_response response;
    if (conn->fd >= 0 && !http_is_readable(conn, 0))
        return;
    http_close(conn);
    *conn = http_connect(fixture->server.port);
    if (http_exchange(conn, "GET", "/api/channels/", NULL, &response) == 0)
        http_response_free(&response);
}

TEST_CASE(clients_are_served_while_others_hold_all_connections)
{
    struct fixture *fixture = *state;
    struct http_conn others[LIMIT];
    begin(fixture);
    for (int i = 0; i < LIMIT; i++)
        others[i] = (struct http_conn){.fd = -1};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LIMIT; i++)
            hold_idle(fixture, &others[i]);
        assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH), 200);
    }
    assert_true(server_metric(&fixture->server, "channeld_connections_evicted_total") >= ROUNDS);
    fixture_expect_metric(fixture, "channeld_connections_rejected_total", 0);
    release(others);
}

struct newcomer {
    int port;
    struct http_conn conn;
};

static bool is_served(void *arg)
{
    struct newcomer *newcomer = arg;
    struct http_response response;
    newcomer->conn = http_connect(newcomer->port);
    assert_int_equal(http_exchange(&newcomer->conn, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
    int status = response.status;
    http_response_free(&response);
    if (status == 200)
        return true;
    assert_int_equal(status, 503);
    http_close(&newcomer->conn);
    return false;
}

/* The kernel chooses the worker: for about every other client it is not the one with the connection. On a
 * busy machine the other may not get the processor in the time that it is given. */
TEST_CASE(the_connection_of_another_worker_gives_way)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, ENV("CHANNELD_MAX_CONNECTIONS=1"));
    struct http_conn last = http_connect(fixture->server.port);
    http_ask(&last, "GET", "/api/channels/", FIXTURE_AUTH, 200);
    for (int round = 0; round < ROUNDS; round++) {
        struct newcomer next = {.port = fixture->server.port};
        assert_true(wait_until(is_served, &next, WAIT_DEADLINE_MS));
        assert_int_equal(http_read_eof(&last), 0);
        http_close(&last);
        last = next.conn;
    }
    http_close(&last);
    fixture_expect_metric(fixture, "channeld_connections_evicted_total", ROUNDS);
    if (wait_judges_latency())
        fixture_expect_metric(fixture, "channeld_connections_rejected_total", 0);
}

TEST_CASE(one_more_than_the_limit_gets_503_and_the_end)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    double evicted = server_metric(&fixture->server, "channeld_connections_evicted_total");
    hold(fixture, conns);
    for (int i = 0; i < 10; i++) {
        AUTO(http_response_free) struct http_response response;
        AUTO(http_close) struct http_conn extra = http_connect(fixture->server.port);
        assert_int_equal(http_exchange(&extra, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
        assert_int_equal(response.status, 503);
        assert_string_equal(http_header(&response, "Connection"), "close");
        json_assert_error(response.body);
        assert_int_equal(http_read_eof(&extra), 0);
    }
    fixture_expect_metric(fixture, "channeld_connections_rejected_total", 10);
    fixture_expect_metric(fixture, "channeld_connections_evicted_total", evicted);
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
    for (int i = 0; i < LIMIT; i++) {
        assert_int_equal(http_send_text(&conns[i], "Host: a\r\n" FIXTURE_AUTH "\r\n"), 0);
        http_expect(&conns[i], 200);
    }
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH), 200);
    release(conns);
}

/* Many more than may stay to be told: each of them has its request sent before it is accepted. */
TEST_CASE(a_flood_over_the_limit_gets_503)
{
    enum { FLOOD = 400 };
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    struct http_pool flood;
    AUTOFREE char *request = http_format("GET", "/api/channels/", FIXTURE_AUTH);
    hold(fixture, conns);
    process_signal(&fixture->server.process, SIGSTOP);
    http_pool_open(&flood, fixture->server.port, FLOOD, 0);
    http_pool_send(&flood, request, strlen(request));
    process_signal(&fixture->server.process, SIGCONT);
    const struct http_pool_end ended = http_pool_await_end(&flood, 503, NULL, 0, WAIT_DEADLINE_MS);
    assert_int_equal(ended.answered, FLOOD);
    assert_int_equal(ended.reset + ended.left, 0);
    http_pool_close(&flood);
    release(conns);
}
