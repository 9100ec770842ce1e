/*
 * Responses of docs/openapi.json that need time or other clients, of all operations, with and without CORS.
 * The others are in tests/integration/requests/openapi.http; the test openapi.responses holds all to it.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define ORIGIN  "https://app.example"
#define BROWSER "Origin: " ORIGIN "\r\nX-Request-Id: tour\r\n"

enum { LARGE = 1000000 };

static const char *const paths[] = {"/api/channels/", "/api/channel/by-id/0/",
                                    "/api/channel/by-link/?link=https://max.ru/sample_1",
                                    "/api/openapi.json"};
static const char *const methods[] = {"GET", "HEAD", "OPTIONS"};

enum {
    PATHS = TEST_COUNT(paths),
    METHODS = TEST_COUNT(methods),
    OPERATIONS = PATHS * METHODS,
};

/* All wait at the same time. */
static void expect_timeouts(const char *origins)
{
    AUTO(fixture_fini) struct fixture fixture;
    struct http_conn conn[OPERATIONS];
    fixture_serve(&fixture, "redis://127.0.0.1:1",
                  ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins), "CHANNELD_HEADER_TIMEOUT=1s"),
                  SERVER_WAIT_LISTENING);
    for (size_t i = 0; i < OPERATIONS; i++) {
        conn[i] = http_connect(fixture.server.port);
        AUTOFREE char *begun =
            text_printf("%s %s HTTP/1.1\r\nHost: x\r\n", methods[i % METHODS], paths[i / METHODS]);
        assert_int_equal(http_send_text(&conn[i], begun), 0);
    }
    for (size_t i = 0; i < OPERATIONS; i++) {
        AUTO(http_response_free) struct http_response response = {0};
        assert_int_equal(http_read(&conn[i], strcmp(methods[i % METHODS], "HEAD") == 0, &response), 0);
        assert_int_equal(response.status, 408);
        http_close(&conn[i]);
    }
}

TEST_CASE(every_operation_that_takes_too_long)
{
    expect_timeouts(ORIGIN);
    expect_timeouts("*");
}

/* Opens a connection; true when a request over it is served. */
static bool begin(struct fixture *fixture, struct http_conn *conn)
{
    AUTO(http_response_free) struct http_response response = {0};
    http_close(conn);
    *conn = http_connect(fixture->server.port);
    return http_exchange(conn, "GET", "/api/channels/", FIXTURE_AUTH, &response) == 0 &&
           response.status == 200;
}

/* One connection more than the limit; the other is in use, so it does not give way. */
static void expect_overload(const char *origins)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(1, ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins),
                                                 "CHANNELD_MAX_CONNECTIONS=1", "CHANNELD_HEADER_TIMEOUT=5m"));
    AUTO(http_close) struct http_conn first = {.fd = -1};
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    while (!begin(fixture, &first)) /* a connection of the start may still be about to close */
        assert_true(wait_left_ms(deadline) > 0);
    assert_int_equal(http_send_text(&first, "GET /api/channels/ HTTP/1.1\r\n"), 0);
    for (size_t i = 0; i < OPERATIONS; i++) {
        AUTO(http_response_free) struct http_response response;
        http_call(fixture->server.port, methods[i % METHODS], paths[i / METHODS], BROWSER, &response);
        assert_int_equal(response.status, 503);
        assert_string_equal(http_header(&response, "Connection"), "close");
    }
}

TEST_CASE(every_operation_beyond_the_limit_of_connections)
{
    expect_overload(ORIGIN);
    expect_overload("*");
}

/* A client does not read a large card, so that there is no room for another. */
static void expect_no_room(const char *origins)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(1, ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins),
                                                 "CHANNELD_WORKERS=1", "CHANNELD_MAX_UNSENT=64KiB",
                                                 "CHANNELD_KEY_RATE=100000/s", "CHANNELD_DRAIN_TIMEOUT=1s"));
    AUTOFREE char *text = text_repeat('x', LARGE);
    AUTOFREE char *request = http_format("GET", "/api/channel/by-id/901/", FIXTURE_AUTH);
    AUTO(http_pool_close) struct http_pool reader;
    for (int id = 901; id <= 902; id++)
        redis_do(&fixture->redis, "HSET channels:card:%d max_channel_id %d description %s", id, id, text);
    http_pool_open(&reader, fixture->server.port, 1, 4096);
    http_pool_send(&reader, request, strlen(request));
    server_await_metric(&fixture->server, "channeld_responses_unsent_bytes", LARGE);
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    http_ask(&conn, "GET", "/api/channel/by-id/902/", FIXTURE_AUTH, 503);
    http_ask(&conn, "GET", "/api/channel/by-id/902/", FIXTURE_AUTH BROWSER, 503);
}

TEST_CASE(a_large_response_without_room)
{
    expect_no_room(ORIGIN);
    expect_no_room("*");
}
