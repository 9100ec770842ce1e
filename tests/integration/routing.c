/* Paths and methods: what is found, what is not, and in which order that is decided. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static int start(void **state)
{
    *state = fixture_new(3, NULL);
    return 0;
}

static void unknown_paths_are_not_found_without_a_key(void **state)
{
    static const char *const targets[] = {
        "/",
        "/api",
        "/api/",
        "/channels/",
        "/api/channel/",
        "/api/channels/1/",
        "/api/channel/by-name/x/",
        "/API/channels/",
        "/api//channels/",
        "/api/channel/by-id/0/more/",
        "/livez",
        "/readyz",
        "/metrics",
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        struct http_response response;
        http_get(fixture->server.port, targets[i], NULL, &response);
        if (response.status != 404)
            fail_msg("%s: %d", targets[i], response.status);
        json_assert_error(response.body);
        http_response_free(&response);
        assert_int_equal(http_get_status(fixture->server.port, targets[i], FIXTURE_AUTH), 404);
    }
}

static void slash_at_the_end_is_optional(void **state)
{
    static const char *const pairs[][2] = {
        {"channels/", "channels"},
        {"channels/?page=1", "channels?page=1"},
        {"channel/by-id/0/", "channel/by-id/0"},
        {"channel/by-link/?link=https://max.ru/sample_0", "channel/by-link?link=https://max.ru/sample_0"},
    };
    for (size_t i = 0; i < TEST_COUNT(pairs); i++) {
        char *with = fixture_body(*state, pairs[i][0]);
        char *without = fixture_body(*state, pairs[i][1]);
        assert_string_equal(with, without);
        free(with);
        free(without);
    }
}

static void other_methods_are_refused_before_the_key(void **state)
{
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"};
    static const char *const targets[] = {"/api/channels/", "/api/channel/by-id/0/", "/api/channel/by-link/"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(methods) * TEST_COUNT(targets); i++) {
        struct http_response response;
        http_call(fixture->server.port, methods[i / TEST_COUNT(targets)], targets[i % TEST_COUNT(targets)],
                  NULL, &response);
        assert_int_equal(response.status, 405);
        assert_string_equal(http_header(&response, "Allow"), "GET, HEAD");
        json_assert_error(response.body);
        http_response_free(&response);
    }
}

static void path_is_checked_before_the_method(void **state)
{
    struct fixture *fixture = *state;
    struct http_response response;
    http_call(fixture->server.port, "POST", "/api/nothing/", NULL, &response);
    assert_int_equal(response.status, 404);
    assert_null(http_header(&response, "Allow"));
    http_response_free(&response);
}

static void refused_method_leaves_the_connection_open(void **state)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_exchange(&conn, "DELETE", "/api/channels/", NULL, &response), 0);
    assert_int_equal(response.status, 405);
    http_response_free(&response);
    assert_int_equal(http_exchange(&conn, "GET", "/api/channels/", FIXTURE_AUTH, &response), 0);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_close(&conn);
}

static void base_path_can_be_changed(void **state)
{
    static const char *const env[] = {"CHANNELD_BASE_PATH=/v9/data/", NULL};
    struct fixture *fixture = fixture_new(1, env);
    (void)state;
    assert_int_equal(http_get_status(fixture->server.port, "/v9/data/channels/", FIXTURE_AUTH), 200);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH), 404);
    fixture_free(fixture);
}

static void base_path_is_completed_with_slashes(void **state)
{
    static const char *const env[] = {"CHANNELD_BASE_PATH=v9", NULL};
    struct fixture *fixture = fixture_new(1, env);
    (void)state;
    assert_int_equal(http_get_status(fixture->server.port, "/v9/channels/", FIXTURE_AUTH), 200);
    fixture_free(fixture);
}

static void base_path_can_be_the_root(void **state)
{
    static const char *const env[] = {"CHANNELD_BASE_PATH=/", NULL};
    struct fixture *fixture = fixture_new(1, env);
    (void)state;
    assert_int_equal(http_get_status(fixture->server.port, "/channels/", FIXTURE_AUTH), 200);
    fixture_free(fixture);
}

/* RFC 9112, section 3.2.2: a server has to accept the absolute form. */
static void absolute_form_is_understood(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(http_get_status(fixture->server.port, "http://api.example/api/channels/", FIXTURE_AUTH),
                     200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_paths_are_not_found_without_a_key),
        cmocka_unit_test(slash_at_the_end_is_optional),
        cmocka_unit_test(other_methods_are_refused_before_the_key),
        cmocka_unit_test(path_is_checked_before_the_method),
        cmocka_unit_test(refused_method_leaves_the_connection_open),
        cmocka_unit_test(base_path_can_be_changed),
        cmocka_unit_test(base_path_is_completed_with_slashes),
        cmocka_unit_test(base_path_can_be_the_root),
        cmocka_unit_test(absolute_form_is_understood),
    };
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
