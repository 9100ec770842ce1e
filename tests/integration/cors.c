/* Requests from web pages of other origins: off by default, on for the origins that are named. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define PREFLIGHT "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: x-api-key\r\n"

FIXTURE(3, "CHANNELD_CORS_ORIGINS=https://app.example,http://localhost:3000", NULL)

static void get_with_origin(struct fixture *fixture, const char *method, const char *origin, const char *more,
                            struct http_response *response)
{
    char *headers = text_printf("Origin: %s\r\n%s", origin, more);
    http_call(fixture->server.port, method, "/api/channels/", headers, response);
    free(headers);
}

TEST_CASE(off_by_default)
{
    struct fixture *fixture = fixture_new(1, NULL);
    struct http_response response;
    get_with_origin(fixture, "GET", "https://app.example", FIXTURE_AUTH, &response);
    assert_int_equal(response.status, 200);
    assert_null(http_header(&response, "Access-Control-Allow-Origin"));
    http_response_free(&response);
    get_with_origin(fixture, "OPTIONS", "https://app.example", PREFLIGHT, &response);
    assert_int_equal(response.status, 405);
    assert_null(http_header(&response, "Access-Control-Allow-Origin"));
    http_response_free(&response);
    fixture_free(fixture);
}

TEST_CASE(named_origins_are_allowed)
{
    static const char *const origins[] = {"https://app.example", "http://localhost:3000"};
    for (size_t i = 0; i < TEST_COUNT(origins); i++) {
        struct http_response response;
        get_with_origin(*state, "GET", origins[i], FIXTURE_AUTH, &response);
        assert_int_equal(response.status, 200);
        assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), origins[i]);
        assert_non_null(http_header(&response, "Vary"));
        assert_non_null(strcasestr(http_header(&response, "Vary"), "Origin"));
        assert_null(http_header(&response, "Access-Control-Allow-Credentials"));
        http_response_free(&response);
    }
}

/* A page has to be able to read why it was refused. */
TEST_CASE(errors_can_be_read_by_named_origins)
{
    struct http_response response;
    get_with_origin(*state, "GET", "https://app.example", "", &response);
    assert_int_equal(response.status, 401);
    assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), "https://app.example");
    http_response_free(&response);
}

TEST_CASE(other_origins_are_not_allowed)
{
    static const char *const origins[] = {
        "https://other.example",    "http://app.example", "https://app.example:8443",
        "https://app.example.evil", "https://app.exampl", "null",
        "https://x.app.example",    "http://localhost",
    };
    for (size_t i = 0; i < TEST_COUNT(origins); i++) {
        struct http_response response;
        get_with_origin(*state, "GET", origins[i], FIXTURE_AUTH, &response);
        assert_int_equal(response.status, 200);
        assert_null(http_header(&response, "Access-Control-Allow-Origin"));
        http_response_free(&response);
        get_with_origin(*state, "OPTIONS", origins[i], PREFLIGHT, &response);
        assert_null(http_header(&response, "Access-Control-Allow-Origin"));
        http_response_free(&response);
    }
}

TEST_CASE(asterisk_allows_every_origin)
{
    static const char *const env[] = {"CHANNELD_CORS_ORIGINS=*", NULL};
    struct fixture *fixture = fixture_new(1, env);
    struct http_response response;
    get_with_origin(fixture, "GET", "https://any.example", FIXTURE_AUTH, &response);
    assert_int_equal(response.status, 200);
    const char *allowed = http_header(&response, "Access-Control-Allow-Origin");
    assert_non_null(allowed);
    assert_string_equal(allowed, "*");
    http_response_free(&response);
    fixture_get(fixture, "channels/", &response); /* a cache may give it to a page */
    assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), "*");
    http_response_free(&response);
    fixture_free(fixture);
}

TEST_CASE(requests_without_an_origin_are_served)
{
    struct http_response response;
    fixture_get(*state, "channels/", &response);
    assert_int_equal(response.status, 200);
    assert_null(http_header(&response, "Access-Control-Allow-Origin"));
    http_response_free(&response);
}

TEST_CASE(preflight_is_answered_without_a_key)
{
    struct http_response response;
    get_with_origin(*state, "OPTIONS", "https://app.example", PREFLIGHT, &response);
    assert_int_equal(response.status, 204);
    assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), "https://app.example");
    assert_non_null(http_header(&response, "Access-Control-Allow-Methods"));
    assert_non_null(strstr(http_header(&response, "Access-Control-Allow-Methods"), "GET"));
    assert_non_null(http_header(&response, "Access-Control-Allow-Headers"));
    static const char *const fields[] = {"x-api-key", "traceparent", "tracestate", "baggage"};
    for (size_t i = 0; i < TEST_COUNT(fields); i++)
        assert_non_null(strcasestr(http_header(&response, "Access-Control-Allow-Headers"), fields[i]));
    http_response_free(&response);
}

TEST_CASE(preflight_leaves_the_connection_in_step)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    http_ask(&conn, "OPTIONS", "/api/channels/", "Origin: https://app.example\r\n" PREFLIGHT, 204);
    http_ask(&conn, "GET", "/api/channels/", FIXTURE_AUTH, 200);
    http_close(&conn);
}
