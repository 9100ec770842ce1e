/* Connections: their deadlines, their number, and descriptors that run out. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/fixture.h"

enum { TIMEOUT_MS = 500, BUSY_MS = 1500, EARLY_MS = 100, LIMIT = 6 };

FIXTURE(3, "CHANNELD_HEADER_TIMEOUT=500ms", "CHANNELD_IDLE_TIMEOUT=500ms", NULL)

static void assert_took_the_timeout(int64_t began)
{
    int64_t took = wait_now_ms() - began;
    if (took < TIMEOUT_MS - EARLY_MS || took > wait_bound_ms(TIMEOUT_MS))
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

/* The deadline is for the whole head: further bytes do not extend it. */
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
    assert_true(http_is_readable(&conn, wait_bound_ms(TIMEOUT_MS)));
    assert_took_the_timeout(began);
    http_close(&conn);
}

TEST_CASE(idle_connection_is_closed_without_a_response)
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

/* Every request is answered, the last of a connection with Connection: close. */
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

/* A client that does not read its response is closed at the write timeout. */
TEST_CASE(client_that_does_not_read_is_closed)
{
    /* Sanitizers need time for such a card. */
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

/* ---- the limit of connections: exact, and not that of the admin listener ---- */

static int limited(void **state)
{
    static const char *const env[] = {"CHANNELD_MAX_CONNECTIONS=6", NULL};
    *state = fixture_new(3, env);
    return 0;
}

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

static bool is_accepted(void *arg)
{
    struct http_conn conn;
    int status = open_and_ask(arg, &conn);
    http_close(&conn);
    return status == 200;
}

/* Connections of the previous test may still be about to close. */
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

TEST_CASE_WITH(one_more_than_the_limit_gets_503_and_the_end, limited, fixture_teardown)
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

TEST_CASE_WITH(connections_below_the_limit_are_not_disturbed, limited, fixture_teardown)
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

TEST_CASE_WITH(place_that_becomes_free_is_given_again, limited, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    struct http_conn extra;
    fill(fixture, conns);
    assert_int_equal(open_and_ask(fixture, &extra), 503);
    http_close(&extra);
    http_close(&conns[2]);
    assert_true(wait_until(is_accepted, fixture, WAIT_DEADLINE_MS));
    release(conns);
}

TEST_CASE_WITH(admin_listener_answers_at_the_limit, limited, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct http_conn conns[LIMIT];
    fill(fixture, conns);
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
    release(conns);
}

/* Descriptors must come back however a connection ends. */
TEST_CASE_WITH(many_short_connections_leave_nothing_behind, limited, fixture_teardown)
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

/* ---- descriptors that run out ---- */

static void limit_descriptors(struct fixture *fixture, rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(prlimit(fixture->server.process.pid, RLIMIT_NOFILE, NULL, &limit), 0);
    limit.rlim_cur = count;
    assert_int_equal(prlimit(fixture->server.process.pid, RLIMIT_NOFILE, &limit, NULL), 0);
}

/* The kernel takes the connection, and its request, into the queue of the listener. */
TEST_CASE(a_connection_that_cannot_be_accepted_waits)
{
    struct fixture *fixture = fixture_new(3, NULL);
    struct http_conn kept;
    struct http_conn waiting;
    struct http_response response;
    assert_int_equal(http_open(&kept, fixture->server.port), 0);
    assert_int_equal(http_exchange(&kept, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
    http_response_free(&response);
    limit_descriptors(fixture, 3);
    http_start_get(&waiting, fixture->server.port, "/api/channels/", FIXTURE_AUTH);
    server_await_log(&fixture->server, "cannot accept connections, pausing");
    http_ask(&kept, "GET", "/api/channels/", FIXTURE_AUTH, 200);
    assert_false(http_is_readable(&waiting, 0));
    limit_descriptors(fixture, 1024);
    http_expect(&waiting, 200);
    http_close(&waiting);
    http_close(&kept);
    fixture_free(fixture);
}

/* So few that the reserve for all else is out of reach: half of them are for connections. */
TEST_CASE(fewer_descriptors_than_connections_lower_the_limit)
{
    enum { LEFT = 700 / 2 };
    static const char *const env[] = {"CHANNELD_MAX_CONNECTIONS=10000", "CHANNELD_WORKERS=1", NULL};
    struct http_conn conns[LEFT];
    assert_int_equal(setenv("TEST_WRAPPER", "prlimit --nofile=700:700", 1), 0);
    struct fixture *fixture = fixture_new(1, env);
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
    server_await_log(&fixture->server, "too few descriptors for max-connections, which is lowered");
    for (int i = 0; i < LEFT; i++) {
        assert_int_equal(http_open(&conns[i], fixture->server.port), 0);
        http_ask(&conns[i], "GET", "/api/channels/", FIXTURE_AUTH, 200);
    }
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH), 503);
    for (int i = 0; i < LEFT; i++)
        http_close(&conns[i]);
    fixture_free(fixture);
}

static void serves_without(const char *closed)
{
    struct tempdir dir;
    tempdir_init(&dir);
    char *script = text_printf("%s/without", dir.path);
    char *wrapper = text_printf("sh %s", script);
    char *text = text_printf("exec \"$@\" %s\n", closed);
    assert_true(text_write_file(script, text));
    assert_int_equal(setenv("TEST_WRAPPER", wrapper, 1), 0);
    struct fixture *fixture = fixture_new(3, NULL);
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(fixture_status(fixture, "channels/"), 200);
    server_stop(&fixture->server);
    fixture_free(fixture);
    free(text);
    free(wrapper);
    free(script);
    tempdir_fini(&dir);
}

/* libuv ends the process when it is to close one of the first three. */
TEST_CASE(closed_standard_descriptors_are_replaced)
{
    if (getenv("TEST_WRAPPER") != NULL)
        skip();
    serves_without("<&-");
    serves_without(">&-");
    serves_without("2>&-");
    serves_without("<&- >&- 2>&-");
}
