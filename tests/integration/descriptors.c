/* Descriptors that run out: fewer connections are promised, and those that wait are let in as soon as there
 * is room. */

#include <stdlib.h>
#include <sys/resource.h>

#include "support/fixture.h"

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
TEST_CASE(fewer_descriptors_than_connections_are_obeyed_and_told)
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
