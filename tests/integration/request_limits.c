/*
 * The limits of requests: bodies are read and dropped up to 64 KiB, request line and headers have 16 KiB
 * together, to the byte.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const size_t BODY_LIMIT = 65536;

FIXTURE(3, NULL)

static char *request_with_length(size_t length)
{
    AUTOFREE char *body = text_repeat('b', length);
    char *request =
        text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n" FIXTURE_AUTH "\r\n%s",
                    length, body);
    return request;
}

/* The body comes in chunks of at most that size. */
static char *request_with_chunks(size_t length, size_t chunk)
{
    char *request = text_printf(
        "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" FIXTURE_AUTH "\r\n");
    while (length > 0) {
        size_t size = length < chunk ? length : chunk;
        AUTOFREE char *data = text_repeat('c', size);
        request = text_append(request, text_temp("%zx\r\n%s\r\n", size, data));
        length -= size;
    }
    return text_append(request, "0\r\n\r\n");
}

/* Served, and so is a request after it on the same connection. Frees the request. */
static void assert_served(struct fixture *fixture, char *request)
{
    struct http_conn conn = http_connect(fixture->server.port);
    assert_int_equal(http_send_text(&conn, request), 0);
    http_expect(&conn, 200);
    http_ask(&conn, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, 200);
    http_close(&conn);
    free(request);
}

static void assert_refused(struct fixture *fixture, char *request, int status)
{
    http_expect_refusal(fixture->server.port, request, strlen(request), status);
    free(request);
}

TEST_CASE(bodies_up_to_the_limit_are_dropped_and_longer_ones_refused)
{
    assert_served(*state, request_with_length(0));
    assert_served(*state, request_with_length(1));
    assert_served(*state, request_with_length(BODY_LIMIT));
    assert_refused(*state, request_with_length(BODY_LIMIT + 1), 413);
    assert_refused(*state, request_with_length(BODY_LIMIT * 16), 413);
}

TEST_CASE(chunked_bodies_up_to_the_limit_are_dropped_and_longer_ones_refused)
{
    assert_served(*state, request_with_chunks(0, 1));
    assert_served(*state, request_with_chunks(5, 1));
    assert_served(*state, request_with_chunks(BODY_LIMIT, BODY_LIMIT));
    assert_served(*state, request_with_chunks(BODY_LIMIT, 1000));
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, BODY_LIMIT + 1), 413);
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, 1000), 413);
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, BODY_LIMIT), 413);
    assert_refused(*state, request_with_chunks(BODY_LIMIT * 8, 4096), 413);
}

TEST_CASE(refusal_does_not_wait_for_the_body)
{
    static const char head[] = "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n";
    assert_refused(*state, text_printf(head, BODY_LIMIT + 1), 413);
    assert_refused(*state, text_printf(head, (size_t)INT64_MAX), 413);
}

/* Whatever the answer would have been: too much is refused before routing. */
TEST_CASE(refusal_comes_before_routing)
{
    char *request =
        text_printf("POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", BODY_LIMIT + 1);
    assert_refused(*state, request, 413);
}

TEST_CASE(body_limit_can_be_changed)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, ENV("CHANNELD_MAX_BODY_SIZE=1KiB"));
    assert_served(fixture, request_with_length(1024));
    assert_refused(fixture, request_with_length(1025), 413);
    assert_served(fixture, request_with_chunks(1024, 100));
    assert_refused(fixture, request_with_chunks(1025, 100), 413);
}

/* ---- heads ---- */

static const size_t HEAD_LIMIT = 16384;

/* A request whose head, with the empty line that ends it, has exactly `length` bytes, by a long header.
 * Owned. */
static char *head_of(size_t length)
{
    static const char start_text[] = "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "X-Padding: ";
    AUTOFREE char *padding = text_repeat('p', length - strlen(start_text) - strlen("\r\n\r\n"));
    char *head = text_printf("%s%s\r\n\r\n", start_text, padding);
    assert_int_equal(strlen(head), length);
    return head;
}

/* A request whose line, with its line end, has exactly `length` bytes. Owned. */
static char *line_of(size_t length)
{
    static const char start_text[] = "GET /api/channels/?x=";
    static const char end_text[] = " HTTP/1.1\r\n";
    AUTOFREE char *padding = text_repeat('q', length - strlen(start_text) - strlen(end_text));
    char *request = text_printf("%s%s%sHost: a\r\n" FIXTURE_AUTH "\r\n", start_text, padding, end_text);
    return request;
}

/* Frees the requests. */
static void assert_heads_served(struct fixture *fixture, char *requests, int count)
{
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    assert_int_equal(http_send_text(&conn, requests), 0);
    for (int i = 0; i < count; i++) {
        http_expect(&conn, 200);
    }
    free(requests);
}

TEST_CASE(heads_up_to_16384_bytes_are_served_and_longer_ones_refused)
{
    assert_heads_served(*state, head_of(HEAD_LIMIT), 1);
    assert_refused(*state, head_of(HEAD_LIMIT + 1), 431);
    assert_refused(*state, head_of(HEAD_LIMIT * 20), 431);
}

/* A request line that fills the limit leaves no room for headers. */
TEST_CASE(request_line_over_the_limit_is_414)
{
    assert_heads_served(*state, line_of(HEAD_LIMIT - 200), 1);
    assert_refused(*state, line_of(HEAD_LIMIT), 431);
    assert_refused(*state, line_of(HEAD_LIMIT + 3), 414);
    assert_refused(*state, line_of(HEAD_LIMIT * 3), 414);
}

TEST_CASE(refusal_does_not_wait_for_the_end_of_the_line)
{
    struct fixture *fixture = *state;
    AUTOFREE char *padding = text_repeat('r', HEAD_LIMIT + 4096);
    assert_refused(fixture, text_printf("GET /%s", padding), 414);
    assert_refused(fixture, text_printf("GET / HTTP/1.1\r\nHost: a\r\nX: %s", padding), 431);
}

TEST_CASE(limit_counts_pieces_together)
{
    struct fixture *fixture = *state;
    static const size_t extra[] = {0, 1};
    static const int statuses[] = {200, 431};
    for (size_t i = 0; i < TEST_COUNT(extra); i++) {
        AUTOFREE char *request = head_of(HEAD_LIMIT + extra[i]);
        AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
        for (size_t at = 0; at < strlen(request); at += 5000) {
            (void)http_send(&conn, request + at, strnlen(request + at, 5000));
            (void)http_is_readable(&conn, 5);
        }
        http_expect(&conn, statuses[i]);
    }
}

TEST_CASE(every_pipelined_head_has_the_limit_for_itself)
{
    AUTOFREE char *first = head_of(HEAD_LIMIT);
    AUTOFREE char *second = head_of(HEAD_LIMIT - 1);
    assert_heads_served(*state, text_printf("%s%s%s", first, second, first), 3);
}

TEST_CASE(many_small_headers_are_served)
{
    char *request = text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH);
    while (strlen(request) < HEAD_LIMIT - 20)
        request = text_append(request, "a:b\r\n");
    request = text_append(request, "\r\n");
    assert_heads_served(*state, request, 1);
}

TEST_CASE(head_limit_can_be_changed)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, ENV("CHANNELD_MAX_HEADER_SIZE=1KiB"));
    char *request = head_of(1024);
    assert_heads_served(fixture, request, 1);
    assert_refused(fixture, head_of(1025), 431);
}
