/* The limit of connections a process holds: exact, polite, and not the admin listener's. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { LIMIT = 6 };

FIXTURE(3, "CHANNELD_MAX_CONNECTIONS=6", NULL)

/* Opens a connection and makes a request over it: its status, or a negative errno. */
static int open_and_ask(struct fixture *fixture, struct http_conn *conn)
{
    struct http_response response;
    int error = http_open(conn, fixture->server.port);
    if (error == 0)
        error = http_exchange(conn, "GET", "/api/channels/", FIXTURE_AUTH, &response);
    if (error != 0)
        return error;
    int status = response.status;
    http_response_free(&response);
    return status;
}

static bool is_let_in(void *arg)
{
    struct http_conn conn;
    int status = open_and_ask(arg, &conn);
    http_close(&conn);
    return status == 200;
}

/* Connections of the test before may still be about to close. */
static void fill(struct fixture *fixture, struct http_conn *conns)
{
    for (int i = 0; i < LIMIT; i++) {
        int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
        while (open_and_ask(fixture, &conns[i]) != 200) {
            http_close(&conns[i]);
            assert_true(wait_left_ms(deadline) > 0);
        }
    }
}

static void release(struct http_conn *conns)
{
    for (int i = 0; i < LIMIT; i++)
        http_close(&conns[i]);
}

TEST_CASE(one_more_than_the_limit_gets_503_and_the_end)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    struct http_conn extra;
    struct http_response response;
    fill(fixture, conns);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(http_open(&extra, fixture->server.port), 0);
        assert_int_equal(http_exchange(&extra, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
        assert_int_equal(response.status, 503);
        assert_string_equal(http_header(&response, "Connection"), "close");
        json_assert_error(response.body);
        assert_int_equal(http_read_eof(&extra), 0);
        http_response_free(&response);
        http_close(&extra);
    }
    assert_true(server_metric(&fixture->server, "channeld_connections_rejected_total") >= 10);
    release(conns);
}

TEST_CASE(connections_below_the_limit_are_not_disturbed)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    struct http_conn extra;
    fill(fixture, conns);
    assert_int_equal(open_and_ask(fixture, &extra), 503);
    http_close(&extra);
    for (int i = 0; i < LIMIT; i++) {
        http_ask(&conns[i], "GET", "/api/channels/", FIXTURE_AUTH, 200);
    }
    release(conns);
}

TEST_CASE(place_that_becomes_free_is_given_again)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    struct http_conn extra;
    fill(fixture, conns);
    assert_int_equal(open_and_ask(fixture, &extra), 503);
    http_close(&extra);
    http_close(&conns[2]);
    assert_true(wait_until(is_let_in, fixture, WAIT_DEADLINE_MS));
    release(conns);
}

TEST_CASE(admin_listener_answers_at_the_limit)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    fill(fixture, conns);
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
    release(conns);
}

/* Descriptors must come back however a connection ends. */
TEST_CASE(many_short_connections_leave_nothing_behind)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    for (int i = 0; i < 300; i++) {
        struct http_conn conn;
        assert_int_equal(http_open(&conn, fixture->server.port), 0);
        if (i % 3 == 0)
            (void)http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\n");
        if (i % 3 == 1)
            (void)http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n");
        http_close(&conn);
    }
    fill(fixture, conns);
    release(conns);
}
