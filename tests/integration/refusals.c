/* What is refused before any routing: one answer, then the end, whatever else was sent. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define GOOD "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"

static int start(void **state)
{
    *state = fixture_new(3, NULL);
    return 0;
}

/* Refused alone, and with good requests behind it, which must not be answered. */
static void assert_refused(struct fixture *fixture, const char *request, int status)
{
    char *followed = text_printf("%s" GOOD GOOD, request);
    http_expect_refusal(fixture->server.port, request, strlen(request), status);
    http_expect_refusal(fixture->server.port, followed, strlen(followed), status);
    free(followed);
}

static void assert_head_refused(struct fixture *fixture, const char *lines, int status)
{
    char *request = text_printf("GET /api/channels/ HTTP/1.1\r\n%s\r\n", lines);
    assert_refused(fixture, request, status);
    free(request);
}

static void assert_target_refused(struct fixture *fixture, const char *target, size_t length)
{
    char *request = text_printf("GET %*s HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", (int)length, "");
    memcpy(request + strlen("GET "), target, length);
    http_expect_refusal(fixture->server.port, request,
                        strlen("GET  HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n") + length, 400);
    free(request);
}

static void assert_served(struct fixture *fixture, const char *host)
{
    struct http_conn conn;
    struct http_response response;
    char *request = text_printf("GET /api/channels/ HTTP/1.1\r\n%s\r\n" FIXTURE_AUTH "\r\n", host);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, request), 0);
    assert_int_equal(http_read(&conn, false, &response), 0);
    if (response.status != 200)
        fail_msg("%s: %d", host, response.status);
    http_response_free(&response);
    http_close(&conn);
    free(request);
}

static void other_versions_are_505(void **state)
{
    assert_refused(*state, "GET /api/channels/ HTTP/1.2\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
    assert_refused(*state, "GET /api/channels/ HTTP/2.0\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
    assert_refused(*state, "GET /api/channels/ HTTP/0.9\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
    assert_refused(*state, "GET /api/channels/ HTTP/3.0\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
}

static void unknown_methods_are_501(void **state)
{
    assert_refused(*state, "BREW /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 501);
    assert_refused(*state, "get /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 501);
    assert_refused(*state, "GETX /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 501);
}

static void missing_or_repeated_host_is_400(void **state)
{
    assert_head_refused(*state, FIXTURE_AUTH, 400);
    assert_head_refused(*state, "Host: a\r\nHost: a\r\n" FIXTURE_AUTH, 400);
    assert_head_refused(*state, "Host: a\r\n" FIXTURE_AUTH "host: b\r\n", 400);
}

static void invalid_host_is_400(void **state)
{
    static const char *const hosts[] = {
        "a b", "a/b", "user@a", "a:port", "a:80:80", "[::1", "::1", "a?b", "a#b", "a\\b", "a%zz", "\"a\"",
    };
    for (size_t i = 0; i < TEST_COUNT(hosts); i++) {
        char *lines = text_printf("Host: %s\r\n" FIXTURE_AUTH, hosts[i]);
        assert_head_refused(*state, lines, 400);
        free(lines);
    }
}

static void valid_hosts_are_served(void **state)
{
    static const char *const hosts[] = {
        "Host: a",     "host:api.example",         "Host: api.example:8080", "Host: 127.0.0.1:80",
        "Host: [::1]", "Host: [2001:db8::1]:8080", "Host: a_b-c.d",          "Host:   padded  ",
    };
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        assert_served(*state, hosts[i]);
}

static void transfer_encoding_in_1_0_is_400(void **state)
{
    assert_refused(*state,
                   "GET /api/channels/ HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" FIXTURE_AUTH
                   "\r\n0\r\n\r\n",
                   400);
}

static void ambiguous_lengths_are_400(void **state)
{
    assert_head_refused(*state, "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nContent-Length: abc\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nContent-Length: +1\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nContent-Length: -1\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nContent-Length: 1 2\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nContent-Length: 99999999999999999999999\r\n", 400);
}

static void fragment_or_control_bytes_in_the_target_are_400(void **state)
{
    static const char bytes[] = {'#', 1, 8, 11, 27, 31, 127, 0};
    for (size_t i = 0; i < sizeof bytes; i++) {
        char target[] = "/api/channels/?x=_&page=1";
        target[strlen("/api/channels/?x=")] = bytes[i];
        assert_target_refused(*state, target, sizeof target - 1);
    }
}

static void malformed_headers_are_400(void **state)
{
    assert_head_refused(*state, "Host: a\r\nBad Name: x\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nName : x\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nNoColon\r\n", 400);
    assert_head_refused(*state, "Host: a\r\n: x\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nX: a\x01z\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nX: one\r\n two\r\n", 400);
    assert_head_refused(*state, " Host: a\r\n", 400);
}

static void malformed_line_ends_are_400(void **state)
{
    assert_refused(*state, "GET /api/channels/ HTTP/1.1\nHost: a\n\n", 400);
    assert_refused(*state, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n\rX", 400);
    assert_refused(*state, "GET /api/channels/ HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400);
}

static void malformed_chunks_end_the_connection(void **state)
{
    struct fixture *fixture = *state;
    static const char request[] =
        "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "zz\r\nabc\r\n0\r\n\r\n" GOOD;
    http_expect_refusal(fixture->server.port, request, strlen(request), 400);
}

static void good_requests_before_a_bad_one_are_answered(void **state)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    static const int statuses[] = {200, 200, 400};
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, GOOD GOOD "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n" GOOD GOOD), 0);
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        struct http_response response;
        assert_int_equal(http_read(&conn, false, &response), 0);
        assert_int_equal(response.status, statuses[i]);
        http_response_free(&response);
    }
    assert_int_equal(http_read_eof(&conn), 0);
    http_close(&conn);
}

static void what_is_no_http_is_refused(void **state)
{
    struct fixture *fixture = *state;
    static const char tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send(&conn, tls, sizeof tls - 1), 0);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_true(response.status == 400 || response.status == 501);
    assert_int_equal(http_read_eof(&conn), 0);
    http_response_free(&response);
    http_close(&conn);
}

static void refusals_are_counted(void **state)
{
    struct fixture *fixture = *state;
    assert_true(server_metric(&fixture->server, "channeld_requests_rejected_total") >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_versions_are_505),
        cmocka_unit_test(unknown_methods_are_501),
        cmocka_unit_test(missing_or_repeated_host_is_400),
        cmocka_unit_test(invalid_host_is_400),
        cmocka_unit_test(valid_hosts_are_served),
        cmocka_unit_test(transfer_encoding_in_1_0_is_400),
        cmocka_unit_test(ambiguous_lengths_are_400),
        cmocka_unit_test(fragment_or_control_bytes_in_the_target_are_400),
        cmocka_unit_test(malformed_headers_are_400),
        cmocka_unit_test(malformed_line_ends_are_400),
        cmocka_unit_test(malformed_chunks_end_the_connection),
        cmocka_unit_test(good_requests_before_a_bad_one_are_answered),
        cmocka_unit_test(what_is_no_http_is_refused),
        cmocka_unit_test(refusals_are_counted),
    };
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
