/* Requests that arrive in pieces: at every byte boundary, and byte by byte. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const char plain[] = "GET /api/channel/by-id/-1/?x=%41 HTTP/1.1\r\nHost: a.example:80\r\n"
                            "X-Request-Id: r-1\r\nX-Api-Key: " FIXTURE_KEY "\r\n\r\n";
static const char with_length[] = "GET /api/channel/by-id/-1/ HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n"
                                  "X-Api-Key: " FIXTURE_KEY "\r\n\r\nhello world";
static const char with_chunks[] =
    "GET /api/channel/by-id/-1/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    "X-Api-Key: " FIXTURE_KEY "\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: v\r\n\r\n";

FIXTURE(5, NULL)

static void read_card(struct http_conn *conn)
{
    struct http_response response;
    int error = http_read(conn, false, &response);
    if (error != 0)
        fail_msg("no answer: %s", strerror(-error));
    assert_int_equal(response.status, 200);
    assert_int_equal(json_integer_at(response.body, "data.max_channel_id"), -1);
    http_response_free(&response);
}

/* All over one connection, so that what one request leaves behind would spoil the next. */
static void send_split_everywhere(struct fixture *fixture, const char *request)
{
    struct http_conn conn;
    size_t length = strlen(request);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    for (size_t at = 1; at < length; at++) {
        assert_int_equal(http_send(&conn, request, at), 0);
        /* Gives the server the time to see the first part alone, and must bring no answer yet. */
        if (http_is_readable(&conn, 2))
            fail_msg("an answer after %zu of %zu bytes", at, length);
        assert_int_equal(http_send(&conn, request + at, length - at), 0);
        read_card(&conn);
    }
    http_close(&conn);
}

TEST_CASE(request_split_at_every_byte_is_answered)
{
    send_split_everywhere(*state, plain);
}

TEST_CASE(request_with_body_split_at_every_byte_is_answered)
{
    send_split_everywhere(*state, with_length);
}

TEST_CASE(chunked_request_split_at_every_byte_is_answered)
{
    send_split_everywhere(*state, with_chunks);
}

TEST_CASE(byte_by_byte_is_answered)
{
    struct fixture *fixture = *state;
    static const char *const requests[] = {plain, with_length, with_chunks};
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    for (size_t i = 0; i < TEST_COUNT(requests); i++) {
        for (const char *c = requests[i]; *c != '\0'; c++)
            assert_int_equal(http_send(&conn, c, 1), 0);
        read_card(&conn);
    }
    http_close(&conn);
}

/* The end of one request and the start of the next arrive together. */
TEST_CASE(pieces_across_request_boundaries_are_answered)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    char *requests = text_printf("%s%s%s%s", plain, with_length, with_chunks, plain);
    size_t length = strlen(requests);
    for (size_t piece = 7; piece < 200; piece += 31) {
        assert_int_equal(http_open(&conn, fixture->server.port), 0);
        for (size_t at = 0; at < length; at += piece) {
            size_t rest = length - at;
            assert_int_equal(http_send(&conn, requests + at, rest < piece ? rest : piece), 0);
        }
        for (int i = 0; i < 4; i++)
            read_card(&conn);
        assert_false(http_is_readable(&conn, 5));
        http_close(&conn);
    }
    free(requests);
}
