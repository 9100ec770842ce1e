/* What is refused before any routing: one answer, then the end, whatever else was sent. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define GOOD "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"

FIXTURE(3, NULL)

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

TEST_CASE(other_versions_are_505)
{
    assert_refused(*state, "GET /api/channels/ HTTP/1.2\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
    assert_refused(*state, "GET /api/channels/ HTTP/2.0\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
    assert_refused(*state, "GET /api/channels/ HTTP/0.9\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
    assert_refused(*state, "GET /api/channels/ HTTP/3.0\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 505);
}

TEST_CASE(unknown_methods_are_501)
{
    assert_refused(*state, "BREW /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 501);
    assert_refused(*state, "get /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 501);
    assert_refused(*state, "GETX /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 501);
}

TEST_CASE(missing_or_repeated_host_is_400)
{
    assert_head_refused(*state, FIXTURE_AUTH, 400);
    assert_head_refused(*state, "Host: a\r\nHost: a\r\n" FIXTURE_AUTH, 400);
    assert_head_refused(*state, "Host: a\r\n" FIXTURE_AUTH "host: b\r\n", 400);
}

TEST_CASE(invalid_host_is_400)
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

TEST_CASE(valid_hosts_are_served)
{
    static const char *const hosts[] = {
        "Host: a",     "host:api.example",         "Host: api.example:8080", "Host: 127.0.0.1:80",
        "Host: [::1]", "Host: [2001:db8::1]:8080", "Host: a_b-c.d",          "Host:   padded  ",
    };
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        assert_served(*state, hosts[i]);
}

TEST_CASE(transfer_encoding_in_1_0_is_400)
{
    assert_refused(*state,
                   "GET /api/channels/ HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" FIXTURE_AUTH
                   "\r\n0\r\n\r\n",
                   400);
}

TEST_CASE(ambiguous_lengths_are_400)
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

TEST_CASE(fragment_or_control_bytes_in_the_target_are_400)
{
    static const char bytes[] = {'#', 1, 8, 11, 27, 31, 127, 0};
    for (size_t i = 0; i < sizeof bytes; i++) {
        char target[] = "/api/channels/?x=_&page=1";
        target[strlen("/api/channels/?x=")] = bytes[i];
        assert_target_refused(*state, target, sizeof target - 1);
    }
}

TEST_CASE(malformed_headers_are_400)
{
    assert_head_refused(*state, "Host: a\r\nBad Name: x\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nName : x\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nNoColon\r\n", 400);
    assert_head_refused(*state, "Host: a\r\n: x\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nX: a\x01z\r\n", 400);
    assert_head_refused(*state, "Host: a\r\nX: one\r\n two\r\n", 400);
    assert_head_refused(*state, " Host: a\r\n", 400);
}

TEST_CASE(malformed_line_ends_are_400)
{
    assert_refused(*state, "GET /api/channels/ HTTP/1.1\nHost: a\n\n", 400);
    assert_refused(*state, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n\rX", 400);
    assert_refused(*state, "GET /api/channels/ HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400);
}

TEST_CASE(malformed_chunks_end_the_connection)
{
    struct fixture *fixture = *state;
    static const char request[] =
        "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "zz\r\nabc\r\n0\r\n\r\n" GOOD;
    http_expect_refusal(fixture->server.port, request, strlen(request), 400);
}

TEST_CASE(good_requests_before_a_bad_one_are_answered)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    static const int statuses[] = {200, 200, 400};
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, GOOD GOOD "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n" GOOD GOOD), 0);
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        http_expect(&conn, statuses[i]);
    }
    assert_int_equal(http_read_eof(&conn), 0);
    http_close(&conn);
}

TEST_CASE(what_is_no_http_is_refused)
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

TEST_CASE(refusals_are_counted)
{
    struct fixture *fixture = *state;
    assert_true(server_metric(&fixture->server, "channeld_requests_rejected_total") >= 10);
}
