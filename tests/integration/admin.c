/* The admin listener: health, version and metrics, on a port of its own. */

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/fixture.h"

enum { OCCUPANTS = 1000 };

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_max > (rlim_t)OCCUPANTS * 2);
}

FIXTURE(5, NULL)

TEST_CASE(health_is_good_when_all_is_well)
{
    static const char *const paths[] = {"/livez",          "/readyz",  "/startupz",
                                        "/readyz?verbose", "/version", "/metrics"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        int status = server_admin_status(&fixture->server, paths[i]);
        if (status != 200)
            fail_msg("%s: %d", paths[i], status);
    }
}

TEST_CASE(health_needs_no_key_and_knows_no_api)
{
    struct fixture *fixture = *state;
    assert_int_equal(server_admin_status(&fixture->server, "/api/channels/"), 404);
    assert_int_equal(server_admin_status(&fixture->server, "/"), 404);
    assert_int_equal(server_admin_status(&fixture->server, "/livez/more"), 404);
}

TEST_CASE(what_is_not_a_get_is_refused)
{
    struct fixture *fixture = *state;
    struct http_response response;
    http_call(fixture->server.admin_port, "DELETE", "/livez", NULL, &response);
    assert_int_equal(response.status, 405);
    assert_string_equal(http_header(&response, "Allow"), "GET, HEAD");
    http_response_free(&response);
    static const char without_host[] = "GET /livez HTTP/1.1\r\n\r\n";
    http_expect_refusal(fixture->server.admin_port, without_host, sizeof without_host - 1, 400);
}

TEST_CASE(version_is_told)
{
    struct fixture *fixture = *state;
    struct http_response response;
    http_get(fixture->server.admin_port, "/version", NULL, &response);
    assert_int_equal(response.status, 200);
    assert_true(response.body_length > 0);
    http_response_free(&response);
}

TEST_CASE(metrics_are_in_the_text_format)
{
    struct fixture *fixture = *state;
    struct http_response response;
    char *rest = NULL;
    http_get(fixture->server.admin_port, "/metrics", NULL, &response);
    assert_non_null(http_header(&response, "Content-Type"));
    assert_ptr_equal(strstr(http_header(&response, "Content-Type"), "text/plain"),
                     http_header(&response, "Content-Type"));
    assert_int_equal(response.body[response.body_length - 1], '\n');
    for (char *line = strtok_r(response.body, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *end = NULL;
        if (line[0] == '#')
            continue;
        assert_true(strncmp(line, "channeld_", 9) == 0 || strncmp(line, "process_", 8) == 0);
        const char *value = strrchr(line, ' ');
        assert_non_null(value);
        (void)strtod(value + 1, &end);
        assert_string_equal(end, "");
    }
    http_response_free(&response);
}

TEST_CASE(requests_are_counted)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_requests_total");
    for (int i = 0; i < 10; i++)
        assert_int_equal(fixture_status(fixture, i % 2 == 0 ? "channels/" : "channel/by-id/4242/"),
                         i % 2 == 0 ? 200 : 404);
    server_await_metric(&fixture->server, "channeld_requests_total", before + 10);
}

TEST_CASE(answers_close_their_connection)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, fixture->server.admin_port), 0);
    assert_int_equal(http_exchange(&conn, "GET", "/livez", NULL, &response), 0);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_header(&response, "Connection"), "close");
    http_response_free(&response);
    assert_int_equal(http_read_eof(&conn), 0);
    http_close(&conn);
}

/* More than the admin listener takes, each having sent `text`; those that were closed already are passed
 * over. */
static void occupy(struct fixture *fixture, struct http_conn conns[OCCUPANTS], const char *text)
{
    for (int i = 0; i < OCCUPANTS; i++) {
        assert_int_equal(http_open(&conns[i], fixture->server.admin_port), 0);
        (void)http_send_text(&conns[i], text);
    }
}

static void send_each(struct http_conn conns[OCCUPANTS], const char *text)
{
    for (int i = 0; i < OCCUPANTS; i++)
        (void)http_send_text(&conns[i], text);
}

TEST_CASE(probes_are_answered_while_others_hold_connections)
{
    /* idle; a head that goes on and on; an answer that is not read */
    static const char *const sent[] = {
        "", "GET /livez HTTP/1.1\r\nX: ", "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"};
    struct fixture *fixture = *state;
    struct http_conn *conns = calloc(OCCUPANTS, sizeof *conns);
    assert_non_null(conns);
    raise_descriptor_limit();
    for (size_t i = 0; i < TEST_COUNT(sent); i++) {
        occupy(fixture, conns, sent[i]);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
            assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
            assert_true(server_metric(&fixture->server, "process_open_fds") < OCCUPANTS);
            if (i == 1)
                send_each(conns, "x");
        }
        for (int c = 0; c < OCCUPANTS; c++)
            http_close(&conns[c]);
    }
    free(conns);
}

TEST_CASE(redis_connection_is_named_and_one_a_worker)
{
    struct fixture *fixture = *state;
    char *clients = redis_text(&fixture->redis, "CLIENT LIST");
    assert_int_equal(text_count(clients, "name=channeld"), 2);
    free(clients);
    double connected = server_metric(&fixture->server, "channeld_redis_connected");
    assert_true(connected > 1.5 && connected < 2.5);
}
