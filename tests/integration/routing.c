/* Paths, methods and query strings: what is found, what is not, and in which order that is checked. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

FIXTURE(150, NULL)

TEST_CASE(unknown_paths_are_not_found_without_a_key)
{
    static const char *const targets[] = {"/", "/api/channels/1/", "/livez", "/readyz", "/metrics"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        AUTO(http_response_free) struct http_response response;
        http_get(fixture->server.port, targets[i], NULL, &response);
        if (response.status != 404)
            fail_msg("%s: %d", targets[i], response.status);
        json_assert_error(response.body);
        assert_int_equal(http_get_status(fixture->server.port, targets[i], FIXTURE_AUTH), 404);
    }
}

TEST_CASE(a_path_elsewhere_is_told_where_the_api_is)
{
    static const struct {
        const char *path, *error;
    } rows[] = {{"/", "\"Path not found: the API is under /api/\""},
                {"/channels/", "\"Path not found: the API is under /api/\""},
                {"/api", "\"Path not found: the API is under /api/\""},
                {"/api/", "\"Path not found\""},
                {"/api/channel/", "\"Path not found\""}};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTO(http_response_free) struct http_response response;
        http_get(fixture->server.port, rows[i].path, NULL, &response);
        json_assert_at(response.body, "error", rows[i].error);
    }
}

TEST_CASE(slash_at_the_end_is_optional)
{
    static const char *const pairs[][2] = {
        {"channels/", "channels"},
        {"channels/?page=1", "channels?page=1"},
        {"channel/by-id/0/", "channel/by-id/0"},
        {"channel/by-link/?link=https://max.ru/sample_0", "channel/by-link?link=https://max.ru/sample_0"},
    };
    for (size_t i = 0; i < TEST_COUNT(pairs); i++) {
        AUTOFREE char *with = fixture_body(*state, pairs[i][0]);
        AUTOFREE char *without = fixture_body(*state, pairs[i][1]);
        assert_string_equal(with, without);
    }
}

TEST_CASE(other_methods_are_refused_before_the_key)
{
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"};
    static const char *const targets[] = {"/api/channels/", "/api/channel/by-id/0/", "/api/channel/by-link/"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(methods) * TEST_COUNT(targets); i++) {
        AUTO(http_response_free) struct http_response response;
        http_call(fixture->server.port, methods[i / TEST_COUNT(targets)], targets[i % TEST_COUNT(targets)],
                  NULL, &response);
        assert_int_equal(response.status, 405);
        assert_string_equal(http_header(&response, "Allow"), "GET, HEAD");
        json_assert_error(response.body);
    }
}

/* RFC 9110 section 9.3.7: it is about the server, whatever holds for its paths. */
TEST_CASE(options_of_the_server_are_answered)
{
    static const char *const headers[] = {NULL, FIXTURE_AUTH, "Origin: https://app.example\r\n"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(headers); i++) {
        AUTO(http_response_free) struct http_response response;
        http_call(fixture->server.port, "OPTIONS", "*", headers[i], &response);
        assert_int_equal(response.status, 204);
        assert_string_equal(http_header(&response, "Allow"), "GET, HEAD, OPTIONS");
        assert_null(http_header(&response, "Access-Control-Allow-Origin"));
    }
    assert_int_equal(http_get_status(fixture->server.port, "*", FIXTURE_AUTH), 404);
}

TEST_CASE(path_is_checked_before_the_method)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    http_call(fixture->server.port, "POST", "/api/nothing/", NULL, &response);
    assert_int_equal(response.status, 404);
    assert_null(http_header(&response, "Allow"));
}

TEST_CASE(refused_method_leaves_the_connection_open)
{
    struct fixture *fixture = *state;
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    http_ask(&conn, "DELETE", "/api/channels/", NULL, 405);
    http_ask(&conn, "GET", "/api/channels/", FIXTURE_AUTH, 200);
}

TEST_CASE(base_path_can_be_changed)
{
    static const char *const paths[][2] = {
        {"CHANNELD_BASE_PATH=/v9/data/", "/v9/data/channels/"},
        {"CHANNELD_BASE_PATH=v9", "/v9/channels/"}, /* completed with slashes */
        {"CHANNELD_BASE_PATH=/", "/channels/"}};
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, ENV(paths[i][0]));
        assert_int_equal(http_get_status(fixture->server.port, paths[i][1], FIXTURE_AUTH), 200);
        assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH), 404);
    }
}

/* RFC 9112 section 3.2.2: a server has to accept the absolute form. */
TEST_CASE(absolute_form_is_understood)
{
    struct fixture *fixture = *state;
    assert_int_equal(http_get_status(fixture->server.port, "http://api.example/api/channels/", FIXTURE_AUTH),
                     200);
}
