/*
 * HTTP messages: HEAD, persistent connections, HTTP/1.0, requests that arrive in pieces, and pipelined ones:
 * all answered, in order, and no faster than the client reads.
 */

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 120, PIPELINED = 50 };

FIXTURE(CHANNELS, NULL)

static void open_connection(struct fixture *fixture, struct http_conn *conn)
{
    assert_int_equal(http_open(conn, fixture->server.port), 0);
}

/* Sends the text and reads one answer with that status. */
static void converse(struct http_conn *conn, const char *text, int status, struct http_response *response)
{
    assert_int_equal(http_send_text(conn, text), 0);
    int error = http_read(conn, false, response);
    if (error != 0)
        fail_msg("no answer: %s", strerror(-error));
    assert_int_equal(response->status, status);
}

static void assert_head_like_get(struct fixture *fixture, const char *target, const char *headers)
{
    struct http_conn conn;
    AUTO(http_response_free) struct http_response get;
    struct http_response head;
    http_get(fixture->server.port, target, headers, &get);
    open_connection(fixture, &conn);
    assert_int_equal(http_exchange(&conn, "HEAD", target, headers, &head), 0);
    assert_int_equal(head.status, get.status);
    assert_string_equal(http_header(&head, "Content-Length"), http_header(&get, "Content-Length"));
    assert_string_equal(http_header(&head, "Content-Type"), http_header(&get, "Content-Type"));
    if (get.status == 200)
        assert_string_equal(http_header(&head, "ETag"), http_header(&get, "ETag"));
    http_response_free(&head);
    /* What follows has to be the next answer: a body after HEAD would be taken for it. */
    assert_int_equal(http_exchange(&conn, "GET", target, headers, &head), 0);
    assert_int_equal(head.status, get.status);
    assert_string_equal(head.body, get.body);
    http_response_free(&head);
    http_close(&conn);
}

TEST_CASE(head_answers_like_get_without_a_body)
{
    assert_head_like_get(*state, "/api/channels/", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channel/by-id/0/", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channel/by-link/?link=https://max.ru/sample_3", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channels/?page=0", FIXTURE_AUTH);
    assert_head_like_get(*state, "/api/channels/", NULL);
    assert_head_like_get(*state, "/nothing", NULL);
}

TEST_CASE(connection_is_kept_for_many_requests)
{
    AUTO(http_close) struct http_conn conn;
    open_connection(*state, &conn);
    for (int i = 0; i < 200; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_exchange(&conn, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, &response), 0);
        assert_int_equal(response.status, 200);
        assert_null(http_header(&response, "Connection"));
    }
}

TEST_CASE(errors_keep_the_connection)
{
    static const char *const targets[] = {"/nothing", "/api/channels/?page=0", "/api/channel/by-id/4242/"};
    AUTO(http_close) struct http_conn conn;
    open_connection(*state, &conn);
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        struct http_response response;
        assert_int_equal(http_exchange(&conn, "GET", targets[i], FIXTURE_AUTH, &response), 0);
        assert_in_range(response.status, 400, 404);
        http_response_free(&response);
        assert_int_equal(http_exchange(&conn, "GET", targets[i], NULL, &response), 0);
        http_response_free(&response);
    }
}

TEST_CASE(connection_closes_when_asked)
{
    static const char *const headers[] = {"Connection: close\r\n", "Connection: Close\r\n",
                                          "Connection: x-other, close\r\n"};
    for (size_t i = 0; i < TEST_COUNT(headers); i++) {
        AUTO(http_close) struct http_conn conn;
        AUTO(http_response_free) struct http_response response;
        AUTOFREE char *both = text_printf("%s%s", FIXTURE_AUTH, headers[i]);
        open_connection(*state, &conn);
        assert_int_equal(http_exchange(&conn, "GET", "/api/channels/", both, &response), 0);
        assert_int_equal(response.status, 200);
        assert_string_equal(http_header(&response, "Connection"), "close");
        assert_int_equal(http_read_eof(&conn), 0);
    }
}

/* The text is answered with one 200 and the end of the connection. */
static void expect_one_response(struct fixture *fixture, const char *text, bool half_close)
{
    AUTO(http_close) struct http_conn conn;
    open_connection(fixture, &conn);
    assert_int_equal(http_send_text(&conn, text), 0);
    if (half_close)
        assert_int_equal(http_finish(&conn), 0);
    http_expect(&conn, 200);
    assert_int_equal(http_read_eof(&conn), 0);
}

TEST_CASE(connection_ends_after_the_last_response)
{
    expect_one_response(*state,
                        "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" FIXTURE_AUTH "\r\n"
                        "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n",
                        false);
    expect_one_response(*state, "GET /api/channels/ HTTP/1.0\r\n" FIXTURE_AUTH "\r\n", false);
    expect_one_response(*state, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", true);
}

TEST_CASE(http_1_0_is_kept_when_asked)
{
    AUTO(http_close) struct http_conn conn;
    struct http_response response;
    open_connection(*state, &conn);
    for (int i = 0; i < 3; i++) {
        converse(&conn, "GET /api/channels/ HTTP/1.0\r\nConnection: keep-alive\r\n" FIXTURE_AUTH "\r\n", 200,
                 &response);
        assert_non_null(http_header(&response, "Connection"));
        assert_string_equal(http_header(&response, "Connection"), "keep-alive");
        http_response_free(&response);
    }
}

TEST_CASE(empty_lines_before_a_request_are_skipped)
{
    AUTO(http_close) struct http_conn conn;
    AUTO(http_response_free) struct http_response response;
    open_connection(*state, &conn);
    converse(&conn, "\r\nGET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n", 200, &response);
}

/* ---- requests in pieces ---- */

static const char plain[] = "GET /api/channel/by-id/-1/?x=%41 HTTP/1.1\r\nHost: a.example:80\r\n"
                            "X-Request-Id: r-1\r\nX-Api-Key: " FIXTURE_KEY "\r\n\r\n";
static const char with_length[] = "GET /api/channel/by-id/-1/ HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n"
                                  "X-Api-Key: " FIXTURE_KEY "\r\n\r\nhello there";
static const char with_chunks[] =
    "GET /api/channel/by-id/-1/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
    "X-Api-Key: " FIXTURE_KEY "\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: v\r\n\r\n";

static void read_card(struct http_conn *conn)
{
    AUTO(http_response_free) struct http_response response;
    int error = http_read(conn, false, &response);
    if (error != 0)
        fail_msg("no answer: %s", strerror(-error));
    assert_int_equal(response.status, 200);
    assert_int_equal(json_integer_at(response.body, "data.max_channel_id"), -1);
}

/* All over one connection, so that any leftover of a request would spoil the next. */
TEST_CASE(request_split_at_every_byte_is_answered)
{
    static const char *const requests[] = {plain, with_length, with_chunks};
    struct fixture *fixture = *state;
    AUTO(http_close) struct http_conn conn;
    open_connection(fixture, &conn);
    for (size_t i = 0; i < TEST_COUNT(requests); i++) {
        size_t length = strlen(requests[i]);
        for (size_t at = 1; at < length; at++) {
            assert_int_equal(http_send(&conn, requests[i], at), 0);
            /* Gives the server time to read the first part alone, which must not be answered yet. */
            if (http_is_readable(&conn, 1))
                fail_msg("a response after %zu of %zu bytes", at, length);
            assert_int_equal(http_send(&conn, requests[i] + at, length - at), 0);
            read_card(&conn);
        }
    }
}

TEST_CASE(request_byte_by_byte_is_answered)
{
    struct fixture *fixture = *state;
    static const char *const requests[] = {plain, with_length, with_chunks};
    AUTO(http_close) struct http_conn conn;
    open_connection(fixture, &conn);
    for (size_t i = 0; i < TEST_COUNT(requests); i++) {
        for (const char *c = requests[i]; *c != '\0'; c++)
            assert_int_equal(http_send(&conn, c, 1), 0);
        read_card(&conn);
    }
}

/* The end of one request and the start of the next arrive together. */
TEST_CASE(pieces_across_requests_are_answered)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    AUTOFREE char *requests = text_printf("%s%s%s%s", plain, with_length, with_chunks, plain);
    size_t length = strlen(requests);
    for (size_t piece = 7; piece < 200; piece += 31) {
        open_connection(fixture, &conn);
        for (size_t at = 0; at < length; at += piece) {
            size_t rest = length - at;
            assert_int_equal(http_send(&conn, requests + at, rest < piece ? rest : piece), 0);
        }
        for (int i = 0; i < 4; i++)
            read_card(&conn);
        assert_false(http_is_readable(&conn, 5));
        http_close(&conn);
    }
}

/* ---- pipelining ---- */

/* Request i of a mixed sequence, owned. */
static char *mixed_request(size_t i)
{
    char *target = NULL;
    switch (i % 5) {
    case 0:
        target = text_printf("/api/channel/by-id/%" PRId64 "/", catalogue_id(i));
        break;
    case 1:
        target = text_printf("/api/channels/?page=%zu", i);
        break;
    case 2:
        target = text_printf("/api/channel/by-link/?link=https://web.max.ru/sample_%zu", i);
        break;
    case 3:
        target = text_printf("/api/channel/by-id/77777%zu/", i);
        break;
    default:
        target = text_printf("/nothing/%zu", i);
        break;
    }
    char *request = http_format("GET", target, FIXTURE_AUTH);
    free(target);
    return request;
}

static void assert_mixed_answer(size_t i, const struct http_response *response)
{
    AUTOFREE char *card = catalogue_card(i);
    AUTOFREE char *expected = text_printf("{\"success\":true,\"data\":%s}", card);
    switch (i % 5) {
    case 0:
    case 2:
        assert_int_equal(response->status, 200);
        json_assert_same(response->body, expected);
        break;
    case 1:
        assert_int_equal(response->status, 200);
        assert_int_equal(json_integer_at(response->body, "pagination.page"), i);
        break;
    default:
        assert_int_equal(response->status, 404);
        break;
    }
}

TEST_CASE(fifty_requests_in_one_write_are_answered_in_order)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    AUTOFREE char *requests = text_repeat(' ', 0);
    for (size_t i = 0; i < PIPELINED; i++) {
        AUTOFREE char *request = mixed_request(i);
        requests = text_append(requests, request);
    }
    for (int round = 0; round < 3; round++) {
        open_connection(fixture, &conn);
        assert_int_equal(http_send_text(&conn, requests), 0);
        for (size_t i = 0; i < PIPELINED; i++) {
            AUTO(http_response_free) struct http_response response;
            assert_int_equal(http_read(&conn, false, &response), 0);
            assert_mixed_answer(i, &response);
        }
        http_close(&conn);
    }
}

TEST_CASE(pipelined_requests_with_bodies_and_heads_stay_in_step)
{
    static const char requests[] =
        "HEAD /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"
        "GET /api/channel/by-id/1/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" FIXTURE_AUTH
        "\r\nGET /GET /api/channel/by-id/-1/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"
        "POST /api/channels/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n0\r\n\r\n"
        "GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n";
    static const int statuses[] = {200, 200, 200, 405, 200};
    static const int64_t ids[] = {0, 1, -1, 0, 0};
    struct fixture *fixture = *state;
    AUTO(http_close) struct http_conn conn;
    open_connection(fixture, &conn);
    assert_int_equal(http_send_text(&conn, requests), 0);
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&conn, i == 0, &response), 0);
        assert_int_equal(response.status, statuses[i]);
        if (i > 0 && statuses[i] == 200)
            assert_int_equal(json_integer_at(response.body, "data.max_channel_id"), ids[i]);
    }
}

enum { FLOOD = 4000, PADDING = 8000 };

struct flood {
    struct http_conn conn;
    char *request;
    atomic_int sent;
    atomic_int error;
    int seen; /* by the stalled() below */
};

/* Blocks as soon as the server stops reading. */
static void *send_flood(void *arg)
{
    struct flood *flood = arg;
    for (int i = 0; i < FLOOD && atomic_load(&flood->error) == 0; i++) {
        atomic_store(&flood->error, http_send_text(&flood->conn, flood->request));
        atomic_fetch_add(&flood->sent, 1);
    }
    return NULL;
}

static bool has_not_moved(void *arg)
{
    struct flood *flood = arg;
    return atomic_load(&flood->sent) == flood->seen;
}

static bool has_stalled(void *arg)
{
    struct flood *flood = arg;
    flood->seen = atomic_load(&flood->sent);
    return wait_holds(has_not_moved, flood, 300);
}

TEST_CASE(client_that_does_not_read_is_not_read_from)
{
    struct fixture *fixture = *state;
    struct flood flood = {.seen = 0};
    pthread_t thread;
    AUTOFREE char *padding = text_repeat('x', PADDING);
    AUTOFREE char *headers = text_printf("%sX-Padding: %s\r\n", FIXTURE_AUTH, padding);
    flood.request = http_format("GET", "/api/channels/", headers);
    assert_int_equal(http_open(&flood.conn, fixture->server.port), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_flood, &flood), 0);
    assert_true(wait_until(has_stalled, &flood, WAIT_DEADLINE_MS / 2));
    assert_in_range(flood.seen, 1, FLOOD - 1);
    for (int i = 0; i < FLOOD; i++) {
        http_expect(&flood.conn, 200);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&flood.error), 0);
    http_close(&flood.conn);
    free(flood.request);
}
