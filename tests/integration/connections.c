/* Connections: their deadlines, and descriptors that run out. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/fixture.h"

enum { TIMEOUT_MS = 500, EARLY_MS = 100 };

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
    AUTO(http_response_free) struct http_response response;
    int64_t began = wait_now_ms();
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    assert_int_equal(http_send_text(&conn, text), 0);
    int error = http_read(&conn, false, &response);
    if (error != 0)
        fail_msg("no 408: %s", strerror(-error));
    assert_took_the_timeout(began);
    assert_int_equal(response.status, 408);
    assert_string_equal(http_header(&response, "Connection"), "close");
    json_assert_error(response.body);
    assert_int_equal(http_read_eof(&conn), 0);
}

TEST_CASE(unfinished_head_is_408_in_time)
{
    assert_timed_out(*state, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n");
    assert_timed_out(*state, "GET /api/chan");
    assert_timed_out(*state, "G");
}

TEST_CASE(idle_connection_is_closed_without_a_response)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    assert_int_equal(http_exchange(&conn, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
    int64_t began = wait_now_ms();
    assert_int_equal(http_read_eof(&conn), 0);
    assert_took_the_timeout(began);
}

TEST_CASE(timeouts_are_counted)
{
    struct fixture *fixture = *state;
    assert_true(server_metric(&fixture->server, "channeld_connections_timed_out_total") >= 1);
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
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, NULL);
    AUTO(http_close) struct http_conn waiting;
    AUTO(http_response_free) struct http_response response;
    AUTO(http_close) struct http_conn kept = http_connect(fixture->server.port);
    assert_int_equal(http_exchange(&kept, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
    limit_descriptors(fixture, 3);
    http_start_get(&waiting, fixture->server.port, "/api/channels/", FIXTURE_AUTH);
    server_await_log(&fixture->server, "cannot accept connections, pausing");
    http_ask(&kept, "GET", "/api/channels/", FIXTURE_AUTH, 200);
    assert_false(http_is_readable(&waiting, 0));
    limit_descriptors(fixture, 1024);
    http_expect(&waiting, 200);
}

static void start_with_descriptors(struct server *server, int limit)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    const struct server_spec spec = {
        .redis_url = "redis://127.0.0.1:1", .env = env, .wait = SERVER_WAIT_NOTHING};
    assert_int_equal(setenv("TEST_WRAPPER", text_temp("prlimit --nofile=%d:%d", limit, limit), 1), 0);
    server_start(server, &spec);
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
}

TEST_CASE(too_few_descriptors_to_serve_are_an_error)
{
    enum { ENOUGH = 320 + 40 + 16 };
    struct server server;
    start_with_descriptors(&server, ENOUGH);
    server_await_log(&server, "channeld started");
    server_stop(&server);
    start_with_descriptors(&server, ENOUGH - 1);
    server_expect_exit(&server, 1);
    AUTOFREE char *errors = process_stderr(&server.process);
    assert_non_null(strstr(errors, "the limit of open files (ulimit -n) is 375: at least 376 are needed"));
    server_kill(&server);
}

static struct fixture *start_with_500_descriptors(void)
{
    assert_int_equal(setenv("TEST_WRAPPER", "prlimit --nofile=500:500", 1), 0);
    struct fixture *fixture = fixture_new(1, ENV("CHANNELD_MAX_CONNECTIONS=10000", "CHANNELD_WORKERS=1"));
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
    return fixture;
}

/* Those beyond the reserve, which is 320 and 40 for the worker, are for connections. */
TEST_CASE(fewer_descriptors_than_connections_lower_the_limit)
{
    enum { LEFT = 500 - 320 - 40 };
    struct http_conn conns[LEFT];
    AUTO(fixture_drop) struct fixture *fixture = start_with_500_descriptors();
    server_await_log(&fixture->server, "too few descriptors for max-connections, which is lowered");
    for (int i = 0; i < LEFT; i++) {
        assert_int_equal(http_open(&conns[i], fixture->server.port), 0);
        http_ask(&conns[i], "GET", "/api/channels/", FIXTURE_AUTH, 200);
    }
    assert_false(http_is_readable(&conns[0], 0));
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH), 200);
    assert_int_equal(http_read_eof(&conns[0]), 0); /* it gave way */
    assert_false(http_is_readable(&conns[1], 0));
    for (int i = 0; i < LEFT; i++)
        http_close(&conns[i]);
}

/* The admin listener has a limit of its own, at which the oldest idle connection gives way. */
TEST_CASE(admin_connections_are_limited)
{
    enum { LEFT = 256 };
    struct http_conn conns[LEFT + 1];
    AUTO(fixture_drop) struct fixture *fixture = start_with_500_descriptors();
    for (int i = 0; i <= LEFT; i++)
        assert_int_equal(http_open(&conns[i], fixture->server.admin_port), 0);
    assert_true(http_is_readable(&conns[0], WAIT_DEADLINE_MS));
    assert_false(http_is_readable(&conns[LEFT / 2], 0));
    for (int i = 0; i <= LEFT; i++)
        http_close(&conns[i]);
}

static void serves_without(const char *closed)
{
    AUTO(tempdir_fini) struct tempdir dir;
    tempdir_init(&dir);
    AUTOFREE char *script = text_printf("%s/without", dir.path);
    AUTOFREE char *wrapper = text_printf("sh %s", script);
    assert_true(text_write_file(script, text_temp("exec \"$@\" %s\n", closed)));
    assert_int_equal(setenv("TEST_WRAPPER", wrapper, 1), 0);
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, NULL);
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(fixture_status(fixture, "channels/"), 200);
    server_stop(&fixture->server);
}

/* libuv ends the process when it is to close one of the first three. */
TEST_CASE(closed_standard_descriptors_are_replaced)
{
    if (getenv("TEST_WRAPPER") != NULL)
        test_skip("TEST_WRAPPER is in use");
    serves_without("<&-");
    serves_without(">&-");
    serves_without("2>&-");
    serves_without("<&- >&- 2>&-");
}
