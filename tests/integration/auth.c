/* Authentication: who is let in, by which way of sending the key, and what is checked before it. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const char *const endpoints[] = {
    "/api/channels/",
    "/api/channel/by-id/0/",
    "/api/channel/by-link/?link=https%3A%2F%2Fmax.ru%2Fsample_2",
};

static int start(void **state)
{
    *state = fixture_new(3, NULL);
    return 0;
}

static int status_of(struct fixture *fixture, const char *target, const char *headers)
{
    return http_get_status(fixture->server.port, target, headers);
}

static void key_in_header_opens_every_endpoint(void **state)
{
    for (size_t i = 0; i < TEST_COUNT(endpoints); i++) {
        assert_int_equal(status_of(*state, endpoints[i], FIXTURE_AUTH), 200);
        assert_int_equal(status_of(*state, endpoints[i], "x-api-key:" FIXTURE_KEY " \r\n"), 200);
    }
}

static void key_in_query_opens_every_endpoint(void **state)
{
    for (size_t i = 0; i < TEST_COUNT(endpoints); i++) {
        char *target =
            text_printf("%s%capi_key=%s", endpoints[i], strchr(endpoints[i], '?') ? '&' : '?', FIXTURE_KEY);
        assert_int_equal(status_of(*state, target, NULL), 200);
        free(target);
    }
}

static void key_in_query_is_percent_decoded(void **state)
{
    struct fixture *fixture = *state;
    catalogue_issue_key(&fixture->redis, "a key+with/odd&signs=");
    assert_int_equal(status_of(fixture, "/api/channels/?api_key=a%20key%2Bwith%2Fodd%26signs%3D", NULL), 200);
}

static void no_key_is_refused_everywhere(void **state)
{
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(endpoints); i++) {
        struct http_response response;
        http_get(fixture->server.port, endpoints[i], NULL, &response);
        assert_int_equal(response.status, 401);
        json_assert_same(response.body, "{\"success\":false,\"error\":\"Invalid or missing API key\"}");
        assert_non_null(http_header(&response, "WWW-Authenticate"));
        assert_string_equal(http_header(&response, "Content-Type"), "application/json");
        http_response_free(&response);
    }
}

static void wrong_keys_are_refused(void **state)
{
    static const char *const headers[] = {
        "X-Api-Key: wrong\r\n",
        "X-Api-Key: \r\n",
        "X-Api-Key: " FIXTURE_KEY "x\r\n",
        "Authorization: Bearer " FIXTURE_KEY "\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(headers); i++)
        assert_int_equal(status_of(*state, "/api/channels/", headers[i]), 401);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=", NULL), 401);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=wrong", NULL), 401);
    assert_int_equal(status_of(*state, "/api/channels/?API_KEY=" FIXTURE_KEY, NULL), 401);
}

/* What is stored must open nothing: a leaked copy of Redis lets nobody in. */
static void stored_digest_is_no_key(void **state)
{
    char digest[65];
    catalogue_digest(FIXTURE_KEY, digest);
    char *headers = text_printf("X-Api-Key: %s\r\n", digest);
    assert_int_equal(status_of(*state, "/api/channels/", headers), 401);
    free(headers);
}

static void header_wins_over_query_even_when_wrong(void **state)
{
    assert_int_equal(status_of(*state, "/api/channels/?api_key=" FIXTURE_KEY, "X-Api-Key: wrong\r\n"), 401);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=wrong", FIXTURE_AUTH), 200);
}

/* Whichever of the two was picked, a proxy that checks keys may pick the other. */
static void of_two_different_keys_none_is_picked(void **state)
{
    static const char *const headers[] = {
        FIXTURE_AUTH "X-Api-Key: wrong\r\n",
        "X-Api-Key: wrong\r\n" FIXTURE_AUTH,
        FIXTURE_AUTH FIXTURE_AUTH "x-api-key:\r\n",
    };
    for (size_t i = 0; i < TEST_COUNT(headers); i++)
        assert_int_equal(status_of(*state, "/api/channels/", headers[i]), 400);
    assert_int_equal(status_of(*state, "/api/channels/", FIXTURE_AUTH FIXTURE_AUTH), 200);
    assert_int_equal(status_of(*state, "/api/channels/", "X-Api-Key: " FIXTURE_KEY ", " FIXTURE_KEY "\r\n"),
                     401);
}

static void first_key_in_query_counts(void **state)
{
    assert_int_equal(status_of(*state, "/api/channels/?api_key=" FIXTURE_KEY "&api_key=wrong", NULL), 200);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=wrong&api_key=" FIXTURE_KEY, NULL), 401);
}

static void key_is_checked_before_parameters(void **state)
{
    static const char *const bad[] = {
        "/api/channels/?page=0", "/api/channels/?page=abc",     "/api/channel/by-id/abc/",
        "/api/channel/by-link/", "/api/channel/by-link/?link=",
    };
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(status_of(*state, bad[i], NULL), 401);
        assert_int_equal(status_of(*state, bad[i], FIXTURE_AUTH), 400);
    }
}

static void key_is_checked_before_existence(void **state)
{
    assert_int_equal(status_of(*state, "/api/channel/by-id/424242/", NULL), 401);
    assert_int_equal(status_of(*state, "/api/channel/by-id/424242/", FIXTURE_AUTH), 404);
}

struct revocation {
    struct fixture *fixture;
    int status;
};

static bool key_gives(void *arg)
{
    struct revocation *revocation = arg;
    return status_of(revocation->fixture, "/api/channels/", "X-Api-Key: short-lived\r\n") ==
           revocation->status;
}

static void keys_take_effect_and_lose_it_at_once(void **state)
{
    char digest[65];
    struct revocation revocation = {.fixture = *state, .status = 200};
    catalogue_issue_key(&revocation.fixture->redis, "short-lived");
    assert_true(wait_until(key_gives, &revocation, 500));
    catalogue_digest("short-lived", digest);
    redis_do(&revocation.fixture->redis, "SREM channels:api_keys %s", digest);
    revocation.status = 401;
    assert_true(wait_until(key_gives, &revocation, 500));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_in_header_opens_every_endpoint),
        cmocka_unit_test(key_in_query_opens_every_endpoint),
        cmocka_unit_test(key_in_query_is_percent_decoded),
        cmocka_unit_test(no_key_is_refused_everywhere),
        cmocka_unit_test(wrong_keys_are_refused),
        cmocka_unit_test(stored_digest_is_no_key),
        cmocka_unit_test(header_wins_over_query_even_when_wrong),
        cmocka_unit_test(of_two_different_keys_none_is_picked),
        cmocka_unit_test(first_key_in_query_counts),
        cmocka_unit_test(key_is_checked_before_parameters),
        cmocka_unit_test(key_is_checked_before_existence),
        cmocka_unit_test(keys_take_effect_and_lose_it_at_once),
    };
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
