/* Authentication: who is let in, by which way of sending the key, and what is checked before it. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const char *const endpoints[] = {
    "/api/channels/",
    "/api/channel/by-id/0/",
    "/api/channel/by-link/?link=https%3A%2F%2Fmax.ru%2Fsample_2",
};

FIXTURE(3, NULL)

static int status_of(struct fixture *fixture, const char *target, const char *headers)
{
    return http_get_status(fixture->server.port, target, headers);
}

TEST_CASE(key_in_header_opens_every_endpoint)
{
    for (size_t i = 0; i < TEST_COUNT(endpoints); i++) {
        assert_int_equal(status_of(*state, endpoints[i], FIXTURE_AUTH), 200);
        assert_int_equal(status_of(*state, endpoints[i], "x-api-key:" FIXTURE_KEY " \r\n"), 200);
    }
}

TEST_CASE(key_in_query_opens_every_endpoint)
{
    for (size_t i = 0; i < TEST_COUNT(endpoints); i++) {
        char *target =
            text_printf("%s%capi_key=%s", endpoints[i], strchr(endpoints[i], '?') ? '&' : '?', FIXTURE_KEY);
        assert_int_equal(status_of(*state, target, NULL), 200);
        free(target);
    }
}

TEST_CASE(key_in_query_is_percent_decoded)
{
    struct fixture *fixture = *state;
    catalogue_issue_key(&fixture->redis, "a key+with/odd&signs=");
    assert_int_equal(status_of(fixture, "/api/channels/?api_key=a%20key%2Bwith%2Fodd%26signs%3D", NULL), 200);
}

TEST_CASE(no_key_is_refused_everywhere)
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

TEST_CASE(wrong_keys_are_refused)
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
TEST_CASE(stored_digest_is_no_key)
{
    char digest[65];
    catalogue_digest(FIXTURE_KEY, digest);
    char *headers = text_printf("X-Api-Key: %s\r\n", digest);
    assert_int_equal(status_of(*state, "/api/channels/", headers), 401);
    free(headers);
}

TEST_CASE(header_wins_over_query_even_when_wrong)
{
    assert_int_equal(status_of(*state, "/api/channels/?api_key=" FIXTURE_KEY, "X-Api-Key: wrong\r\n"), 401);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=wrong", FIXTURE_AUTH), 200);
}

/* Whichever of the two was picked, a proxy that checks keys may pick the other. */
TEST_CASE(of_two_different_keys_none_is_picked)
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

TEST_CASE(first_key_in_query_counts)
{
    assert_int_equal(status_of(*state, "/api/channels/?api_key=" FIXTURE_KEY "&api_key=wrong", NULL), 200);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=wrong&api_key=" FIXTURE_KEY, NULL), 401);
}

TEST_CASE(key_is_checked_before_parameters)
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

TEST_CASE(key_is_checked_before_existence)
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

TEST_CASE(keys_take_effect_and_lose_it_at_once)
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
