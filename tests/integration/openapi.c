/*
 * The OpenAPI document is served, and every response that it describes is one that clients get: all statuses
 * of all operations, with and without CORS. The test openapi.responses holds them to it.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define ORIGIN  "https://app.example"
#define BROWSER "Origin: " ORIGIN "\r\nX-Request-Id: tour\r\n"

enum { LARGE = 20000 }; /* more than a head may have */

static const char *const paths[] = {"/api/channels/", "/api/channel/by-id/0/",
                                    "/api/channel/by-link/?link=https://max.ru/sample_1",
                                    "/api/openapi.json"};
static const char *const methods[] = {"GET", "HEAD", "OPTIONS"};

enum {
    PATHS = TEST_COUNT(paths),
    METHODS = TEST_COUNT(methods),
    OPERATIONS = PATHS * METHODS,
    PATHS_WITH_KEY = PATHS - 1
};

FIXTURE(120, NULL)

/* ---- the document ---- */

static void get_document(struct fixture *fixture, const char *headers, struct http_response *response)
{
    http_get(fixture->server.port, "/api/openapi.json", headers, response);
}

TEST_CASE(document_needs_no_key)
{
    AUTO(http_response_free) struct http_response response;
    get_document(*state, NULL, &response);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_header(&response, "Content-Type"), "application/json");
    assert_string_equal(http_header(&response, "Cache-Control"), "no-cache");
    json_assert_at(response.body, "servers.0.url", "\"/api\"");
}

TEST_CASE(document_has_no_white_space_between_its_tokens)
{
    AUTO(http_response_free) struct http_response response;
    get_document(*state, NULL, &response);
    bool quoted = false;
    for (const char *at = response.body; *at != '\0'; at++) {
        if (*at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && strchr(" \n\t\r", *at) != NULL)
            fail_msg("white space before: %.40s", at);
    }
}

TEST_CASE(server_of_the_document_is_the_base_path)
{
    static const char *const rows[][3] = {
        {"CHANNELD_BASE_PATH=/v9/data/", "/v9/data/openapi.json", "\"/v9/data\""},
        {"CHANNELD_BASE_PATH=v9", "/v9/openapi.json", "\"/v9\""},
        {"CHANNELD_BASE_PATH=/", "/openapi.json", "\"/\""}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, ENV(rows[i][0]));
        AUTO(http_response_free) struct http_response response;
        http_get(fixture->server.port, rows[i][1], NULL, &response);
        assert_int_equal(response.status, 200);
        json_assert_at(response.body, "servers.0.url", rows[i][2]);
    }
}

TEST_CASE(document_is_304_for_its_tag_alone)
{
    AUTO(http_response_free) struct http_response first;
    AUTO(http_response_free) struct http_response again;
    AUTO(http_response_free) struct http_response other;
    get_document(*state, NULL, &first);
    get_document(*state, text_temp("If-None-Match: %s\r\n", http_header(&first, "ETag")), &again);
    assert_int_equal(again.status, 304);
    assert_int_equal(again.body_length, 0);
    get_document(*state, "If-None-Match: \"other\"\r\n", &other);
    assert_int_equal(other.status, 200);
}

TEST_CASE(document_is_served_without_redis)
{
    struct fixture fixture;
    fixture_serve(&fixture, "redis://127.0.0.1:1", NULL, SERVER_WAIT_LISTENING);
    assert_int_equal(http_get_status(fixture.server.port, "/api/openapi.json", NULL), 200);
    server_stop(&fixture.server);
}

TEST_CASE(document_needs_a_key_where_it_is_set_so)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, ENV("CHANNELD_OPENAPI_AUTH=on"));
    AUTO(http_response_free) struct http_response without;
    AUTO(http_response_free) struct http_response with;
    get_document(fixture, FIXTURE_WRONG, &without);
    assert_int_equal(without.status, 401);
    get_document(fixture, FIXTURE_AUTH, &with);
    assert_int_equal(with.status, 200);
    assert_string_equal(http_header(&with, "Cache-Control"), "private, no-cache");
    json_assert_at(with.body, "servers.0.url", "\"/api\"");
}

TEST_CASE(requests_for_the_document_have_their_own_metric_and_log_route)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, ENV("CHANNELD_ACCESS_LOG=all"));
    assert_int_equal(http_get_status(fixture->server.port, "/api/openapi.json", NULL), 200);
    fixture_expect_metric(fixture, "channeld_requests_total{route=\"openapi\",status=\"200\"}", 1);
    server_expect_log(&fixture->server, "\"route\":\"openapi\",\"status\":200", 1);
}

/* ---- every status of every operation ---- */

struct row {
    int status;
    const char *target;
    const char *headers;
};

static void expect_rows(struct fixture *fixture, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
        AUTOFREE char *headers = text_printf("%s" BROWSER, rows[i].headers);
        http_ask(&conn, "GET", rows[i].target, headers, rows[i].status);
        /* Also without what is optional. */
        http_ask(&conn, "HEAD", rows[i].target, rows[i].headers, rows[i].status);
        http_ask(&conn, "HEAD", rows[i].target, headers, rows[i].status);
    }
}

/* The document comes last: with PATHS_WITH_KEY it needs none. */
static void expect_responses(struct fixture *fixture, size_t with_key)
{
    static const struct row rows[] = {
        {404, "/api/channel/by-id/4242/", FIXTURE_AUTH},
        {404, "/api/channel/by-id/a%2Fb/", FIXTURE_AUTH},
        {404, "/api/channel/by-link/?link=https://max.ru/nobody", FIXTURE_AUTH},
        {404, "/api/", ""},
        {400, "/api/channels/?page=0", FIXTURE_AUTH},
        {400, "/api/channel/by-id/x/", FIXTURE_AUTH},
        {400, "/api/channel/by-link/", FIXTURE_AUTH},
    };
    expect_rows(fixture, rows, TEST_COUNT(rows));
    for (size_t i = 0; i < PATHS; i++) {
        const struct row by_key[] = {
            {200, paths[i], FIXTURE_AUTH},
            {304, paths[i], FIXTURE_AUTH "If-None-Match: *\r\n"},
            {412, paths[i], FIXTURE_AUTH "If-Match: \"other\"\r\n"},
            {i < with_key ? 401 : 200, paths[i], ""},
            {i < with_key ? 401 : 200, paths[i], FIXTURE_WRONG},
        };
        expect_rows(fixture, by_key, TEST_COUNT(by_key));
    }
}

static void expect_options(struct fixture *fixture, int status)
{
    AUTO(http_close) struct http_conn absent = http_connect(fixture->server.port);
    http_ask(&absent, "OPTIONS", "/api/channel/by-id/a%2Fb/", BROWSER, 404);
    for (size_t i = 0; i < PATHS; i++) {
        AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
        http_ask(&conn, "OPTIONS", paths[i], NULL, status);
        http_ask(&conn, "OPTIONS", paths[i], BROWSER "Access-Control-Request-Method: GET\r\n", status);
        http_ask(&conn, "POST", paths[i], BROWSER, 405);
    }
}

/* Sends a request that is rejected, or the part of one, and awaits its response. */
static void expect_rejection(struct fixture *fixture, const char *method, const char *request, int status)
{
    AUTO(http_response_free) struct http_response response = {0};
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    (void)http_send_text(&conn, request);
    int error = http_read(&conn, strcmp(method, "HEAD") == 0, &response);
    if (error != 0 || response.status != status)
        fail_msg("%.60s: %d (%s), expected %d", request, response.status, strerror(-error), status);
    assert_string_equal(http_header(&response, "Connection"), "close");
}

static void expect_rejections(struct fixture *fixture, const char *method, const char *path)
{
    AUTOFREE char *large = text_repeat('a', LARGE);
    const char *mark = strchr(path, '?') == NULL ? "?" : "&";
    AUTOFREE char *without_host = text_printf("%s %s HTTP/1.1\r\n\r\n", method, path);
    AUTOFREE char *content =
        text_printf("%s %s HTTP/1.1\r\nHost: x\r\n" BROWSER "Content-Length: 99999999\r\n\r\n", method, path);
    AUTOFREE char *target = text_printf("%s %s%sx=%s HTTP/1.1\r\nHost: x\r\n\r\n", method, path, mark, large);
    AUTOFREE char *field =
        text_printf("%s %s HTTP/1.1\r\nHost: x\r\n" BROWSER "X: %s\r\n\r\n", method, path, large);
    AUTOFREE char *coding = text_printf("%s %s HTTP/1.1\r\nHost: x\r\n" BROWSER
                                        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                                        method, path);
    AUTOFREE char *version = text_printf("%s %s HTTP/3.7\r\nHost: x\r\n" BROWSER "\r\n", method, path);
    expect_rejection(fixture, method, without_host, 400);
    expect_rejection(fixture, method, content, 413);
    expect_rejection(fixture, method, target, 414);
    expect_rejection(fixture, method, field, 431);
    expect_rejection(fixture, method, coding, 501);
    expect_rejection(fixture, method, version, 505);
}

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

TEST_CASE(every_status_without_cors)
{
    expect_responses(*state, PATHS_WITH_KEY);
    expect_options(*state, 405);
}

/* Values that are unknown are null, in the list as well. */
TEST_CASE(unknown_values_are_null)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(5, NULL);
    redis_do(&fixture->redis, "DEL channels:card:0");
    redis_do(&fixture->redis, "HSET channels:card:0 link https://max.ru/sample_0");
    fixture_await_text(fixture, "channel/by-id/0/", "\"title\":null", true);
    fixture_await_text(fixture, "channels/", "\"title\":null,\"description\":null,\"avatar\":null", true);
    redis_do(&fixture->redis, "DEL channels:card:0");
    redis_do(&fixture->redis, "HSET channels:card:0 title alone");
    fixture_await_text(fixture, "channel/by-id/0/", "\"link\":null", true);
    fixture_await_text(fixture, "channels/", "\"link\":null", true);
}

static void expect_all(const char *origins)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(120, ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins)));
    expect_responses(fixture, PATHS_WITH_KEY);
    expect_options(fixture, 204);
    for (size_t i = 0; i < OPERATIONS; i++)
        expect_rejections(fixture, methods[i % METHODS], paths[i / METHODS]);
    expect_timeouts(origins);
}

TEST_CASE(every_status_with_named_origins)
{
    expect_all(ORIGIN);
}

TEST_CASE(every_status_with_any_origin)
{
    expect_all("*");
}

static void expect_unavailable(const char *origins)
{
    struct fixture fixture;
    fixture_serve(&fixture, "redis://127.0.0.1:1",
                  ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins), "CHANNELD_OPENAPI_AUTH=on",
                      "CHANNELD_REQUEST_TIMEOUT=100ms"),
                  SERVER_WAIT_LISTENING);
    for (size_t i = 0; i < PATHS; i++)
        expect_rows(&fixture, &(struct row){500, paths[i], FIXTURE_AUTH}, 1);
    server_stop(&fixture.server);
}

TEST_CASE(every_operation_without_redis)
{
    expect_unavailable(ORIGIN);
    expect_unavailable("*");
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
        AUTOFREE char *request = http_format(methods[i % METHODS], paths[i / METHODS], BROWSER);
        expect_rejection(fixture, methods[i % METHODS], request, 503);
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
    struct fixture *fixture =
        fixture_new(1, ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins), "CHANNELD_WORKERS=1",
                           "CHANNELD_MAX_UNSENT=64KiB", "CHANNELD_KEY_RATE=100000/s",
                           "CHANNELD_REQUEST_TIMEOUT=200ms", "CHANNELD_DRAIN_TIMEOUT=1s"));
    AUTOFREE char *text = text_repeat('x', (size_t)50 * LARGE);
    AUTOFREE char *request = http_format("GET", "/api/channel/by-id/901/", FIXTURE_AUTH);
    AUTO(http_pool_close) struct http_pool reader;
    for (int id = 901; id <= 902; id++)
        redis_do(&fixture->redis, "HSET channels:card:%d max_channel_id %d description %s", id, id, text);
    http_pool_open(&reader, fixture->server.port, 1, 4096);
    http_pool_send(&reader, request, strlen(request));
    server_await_metric(&fixture->server, "channeld_responses_unsent_bytes", 50 * LARGE);
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    http_ask(&conn, "GET", "/api/channel/by-id/902/", FIXTURE_AUTH, 503);
    http_ask(&conn, "GET", "/api/channel/by-id/902/", FIXTURE_AUTH BROWSER, 503);
}

TEST_CASE(a_large_response_without_room)
{
    expect_no_room(ORIGIN);
    expect_no_room("*");
}

/* ---- limited keys ---- */

/* The fields of the limit are on all responses to a valid key. */
static void expect_limited(const char *origins)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(
        120, ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins), "CHANNELD_OPENAPI_AUTH=on",
                 "CHANNELD_KEY_RATE=100000/s", "CHANNELD_STALE_LIMIT=0s", "CHANNELD_REQUEST_TIMEOUT=500ms"));
    expect_responses(fixture, PATHS);
    redis_kill(&fixture->redis);
    fixture_await(fixture, "channels/", 500);
    for (size_t i = 0; i < PATHS; i++)
        expect_rows(fixture, &(struct row){500, paths[i], FIXTURE_AUTH}, 1);
}

static void expect_refused(const char *origins)
{
    AUTO(fixture_drop)
    struct fixture *fixture =
        fixture_new(1, ENV(text_temp("CHANNELD_CORS_ORIGINS=%s", origins), "CHANNELD_OPENAPI_AUTH=on",
                           "CHANNELD_KEY_RATE=1/h,burst=1"));
    fixture_expect(fixture, "channels/", 200);
    for (size_t i = 0; i < PATHS; i++)
        expect_rows(fixture, &(struct row){429, paths[i], FIXTURE_AUTH}, 1);
}

TEST_CASE(every_operation_with_limited_keys)
{
    expect_limited(ORIGIN);
    expect_refused(ORIGIN);
    expect_refused("*");
}
