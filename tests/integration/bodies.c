/* Bodies of requests are read and dropped, up to 64 KiB. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const size_t BODY_LIMIT = 65536;

FIXTURE(3, NULL)

static char *request_with_length(size_t length)
{
    char *body = text_repeat('b', length);
    char *request =
        text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n" FIXTURE_AUTH "\r\n%s",
                    length, body);
    free(body);
    return request;
}

/* The body comes in chunks of at most that size. */
static char *request_with_chunks(size_t length, size_t chunk)
{
    char *request = text_printf(
        "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" FIXTURE_AUTH "\r\n");
    while (length > 0) {
        size_t size = length < chunk ? length : chunk;
        char *data = text_repeat('c', size);
        char *piece = text_printf("%zx\r\n%s\r\n", size, data);
        request = text_append(request, piece);
        length -= size;
        free(piece);
        free(data);
    }
    return text_append(request, "0\r\n\r\n");
}

/* Served, and so is a request after it on the same connection. Frees the request. */
static void assert_served(struct fixture *fixture, char *request)
{
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, request), 0);
    http_expect(&conn, 200);
    http_ask(&conn, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, 200);
    http_close(&conn);
    free(request);
}

static void assert_refused(struct fixture *fixture, char *request)
{
    http_expect_refusal(fixture->server.port, request, strlen(request), 413);
    free(request);
}

TEST_CASE(bodies_up_to_the_limit_are_dropped)
{
    assert_served(*state, request_with_length(0));
    assert_served(*state, request_with_length(1));
    assert_served(*state, request_with_length(BODY_LIMIT));
}

TEST_CASE(longer_bodies_are_refused)
{
    assert_refused(*state, request_with_length(BODY_LIMIT + 1));
    assert_refused(*state, request_with_length(BODY_LIMIT * 16));
}

TEST_CASE(refusal_does_not_wait_for_the_body)
{
    assert_refused(
        *state,
        text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", BODY_LIMIT + 1));
    assert_refused(*state, text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\n"
                                       "Content-Length: 9223372036854775807\r\n\r\n"));
}

TEST_CASE(chunked_bodies_up_to_the_limit_are_dropped)
{
    assert_served(*state, request_with_chunks(0, 1));
    assert_served(*state, request_with_chunks(5, 1));
    assert_served(*state, request_with_chunks(BODY_LIMIT, BODY_LIMIT));
    assert_served(*state, request_with_chunks(BODY_LIMIT, 1000));
}

TEST_CASE(longer_chunked_bodies_are_refused)
{
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, BODY_LIMIT + 1));
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, 1000));
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, BODY_LIMIT));
}

TEST_CASE(endless_chunks_are_refused)
{
    assert_refused(*state, request_with_chunks(BODY_LIMIT * 8, 4096));
}

/* Whatever the answer would have been: too much is refused before routing. */
TEST_CASE(refusal_comes_before_routing)
{
    char *request =
        text_printf("POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", BODY_LIMIT + 1);
    assert_refused(*state, request);
}

TEST_CASE(limit_can_be_changed)
{
    static const char *const env[] = {"CHANNELD_MAX_BODY_SIZE=1KiB", NULL};
    struct fixture *fixture = fixture_new(3, env);
    assert_served(fixture, request_with_length(1024));
    assert_refused(fixture, request_with_length(1025));
    assert_served(fixture, request_with_chunks(1024, 100));
    assert_refused(fixture, request_with_chunks(1025, 100));
    fixture_free(fixture);
}
