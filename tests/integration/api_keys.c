/*
 * API keys: how they are sent, what is checked before them, and how many of them, right and wrong ones, are
 * checked in memory and in Redis.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const char *const endpoints[] = {"/api/channels/", "/api/channel/by-id/0/",
                                        "/api/channel/by-link/?link=https%3A%2F%2Fmax.ru%2Fsample_2"};

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
        assert_int_equal(status_of(*state,
                                   text_temp("%s%capi_key=%s", endpoints[i],
                                             strchr(endpoints[i], '?') ? '&' : '?', FIXTURE_KEY),
                                   NULL),
                         200);
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
        AUTO(http_response_free) struct http_response response;
        http_get(fixture->server.port, endpoints[i], NULL, &response);
        assert_int_equal(response.status, 401);
        json_assert_same(response.body, "{\"success\":false,\"error\":\"Invalid or missing API key\"}");
        assert_non_null(http_header(&response, "WWW-Authenticate"));
        assert_string_equal(http_header(&response, "Content-Type"), "application/json");
    }
}

TEST_CASE(wrong_keys_are_refused)
{
    static const char *const headers[] = {"X-Api-Key: wrong\r\n", "X-Api-Key: \r\n",
                                          "X-Api-Key: " FIXTURE_KEY "x\r\n",
                                          "Authorization: Bearer " FIXTURE_KEY "\r\n"};
    for (size_t i = 0; i < TEST_COUNT(headers); i++)
        assert_int_equal(status_of(*state, "/api/channels/", headers[i]), 401);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=", NULL), 401);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=wrong", NULL), 401);
    assert_int_equal(status_of(*state, "/api/channels/?API_KEY=" FIXTURE_KEY, NULL), 401);
}

/* A leaked copy of Redis contains no usable key. */
TEST_CASE(stored_digest_is_no_key)
{
    char digest[65];
    catalogue_digest(FIXTURE_KEY, digest);
    assert_int_equal(status_of(*state, "/api/channels/", text_temp("X-Api-Key: %s\r\n", digest)), 401);
}

TEST_CASE(header_wins_over_query_even_when_wrong)
{
    assert_int_equal(status_of(*state, "/api/channels/?api_key=" FIXTURE_KEY, "X-Api-Key: wrong\r\n"), 401);
    assert_int_equal(status_of(*state, "/api/channels/?api_key=wrong", FIXTURE_AUTH), 200);
}

/* Whichever of the two was used, a proxy that checks keys may use the other. */
TEST_CASE(two_different_keys_are_refused)
{
    static const char *const headers[] = {FIXTURE_AUTH "X-Api-Key: wrong\r\n",
                                          "X-Api-Key: wrong\r\n" FIXTURE_AUTH,
                                          FIXTURE_AUTH FIXTURE_AUTH "x-api-key:\r\n"};
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
    static const char *const bad[] = {"/api/channels/?page=0", "/api/channels/?page=abc",
                                      "/api/channel/by-id/abc/", "/api/channel/by-link/",
                                      "/api/channel/by-link/?link="};
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

/* On every worker: each request has a connection of its own. */
static bool all_workers_give(struct fixture *fixture, int status)
{
    for (int i = 0; i < 12; i++)
        if (status_of(fixture, "/api/channels/", "X-Api-Key: another\r\n") != status)
            return false;
    return true;
}

static bool another_is_valid(void *arg)
{
    return all_workers_give(arg, 200);
}

static bool another_is_invalid(void *arg)
{
    return all_workers_give(arg, 401);
}

static void expect_issued_and_revoked_at_once(struct fixture *fixture)
{
    char digest[65];
    catalogue_digest("another", digest);
    for (int round = 0; round < 5; round++) {
        redis_do(&fixture->redis, "SADD channels:api_keys %s", digest);
        assert_true(wait_until(another_is_valid, fixture, WAIT_DEADLINE_MS));
        redis_do(&fixture->redis, "SREM channels:api_keys %s", digest);
        assert_true(wait_until(another_is_invalid, fixture, WAIT_DEADLINE_MS));
    }
}

TEST_CASE(issued_and_revoked_keys_take_effect)
{
    expect_issued_and_revoked_at_once(*state);
}

/* ---- many keys: 30,000 are held in memory, read in portions; of more, each is checked in Redis once ---- */

enum { KEYS_HELD = 30000, KEYS_BEYOND = 100001 };

static bool no_key_is_checked_in_redis(void *arg)
{
    struct fixture *fixture = arg;
    long long before = redis_calls(&fixture->redis, "sismember");
    for (int i = 0; i < 12; i++)
        assert_int_equal(status_of(fixture, "/api/channels/", i % 2 == 0 ? FIXTURE_AUTH : FIXTURE_WRONG),
                         i % 2 == 0 ? 200 : 401);
    return redis_calls(&fixture->redis, "sismember") == before;
}

TEST_CASE(held_keys_are_checked_in_memory)
{
    static const char *const patient[] = {"CHANNELD_REQUEST_TIMEOUT=20s", NULL};
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, patient);
    catalogue_issue_keys(&fixture->redis, KEYS_HELD);
    expect_issued_and_revoked_at_once(fixture);
    /* The set changes again and again while it is read: every response is right, and in the end it is held.
     */
    for (int i = 0; i < 100; i++) {
        redis_do(&fixture->redis, i % 2 == 0 ? "SADD channels:api_keys x" : "SREM channels:api_keys x");
        assert_int_equal(status_of(fixture, "/api/channels/", FIXTURE_AUTH), 200);
        assert_int_equal(status_of(fixture, "/api/channels/", FIXTURE_WRONG), 401);
    }
    assert_true(wait_until(no_key_is_checked_in_redis, fixture, WAIT_DEADLINE_MS));
}

TEST_CASE(keys_beyond_the_limit_are_checked_in_redis)
{
    static const char *const patient[] = {"CHANNELD_REQUEST_TIMEOUT=20s", NULL};
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, patient);
    catalogue_issue_keys(&fixture->redis, KEYS_BEYOND);
    assert_true(redis_integer(&fixture->redis, "SCARD channels:api_keys") > KEYS_BEYOND);
    for (int i = 0; i < 40; i++)
        assert_int_equal(status_of(fixture, "/api/channels/", FIXTURE_AUTH), 200);
    /* A valid one once by each worker, and again where the set was still being read. */
    assert_in_range(redis_calls(&fixture->redis, "sismember"), 1, 4);
    long long before = redis_calls(&fixture->redis, "sismember");
    for (int i = 0; i < 40; i++)
        assert_int_equal(status_of(fixture, "/api/channels/", FIXTURE_WRONG), 401);
    assert_in_range(redis_calls(&fixture->redis, "sismember") - before, 40, 80); /* a wrong one each time */
    expect_issued_and_revoked_at_once(fixture);
}

/* ---- floods of wrong keys, each another ---- */

enum { WRONG_KEYS = 20000, PIPELINE = 50, HELD_KEYS = 100000, MANY_KEYS = 100001, SLACK_BYTES = 8 << 20 };

/* One worker: what is cached for one request is cached for all. A busy machine needs time for the scripts. */
static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_SIZE=1MiB",
                                  "CHANNELD_REQUEST_TIMEOUT=20s", NULL};

/* So many requests with a wrong key each, all refused. */
static void flood(struct fixture *fixture, int count)
{
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    for (int sent = 0; sent < count; sent += PIPELINE) {
        for (int i = 0; i < PIPELINE; i++) {
            assert_int_equal(
                http_send_text(
                    &conn,
                    text_temp("GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\nX-Api-Key: wrong-%d\r\n\r\n",
                              sent + i)),
                0);
        }
        for (int i = 0; i < PIPELINE; i++) {
            http_expect(&conn, 401);
        }
    }
}

TEST_CASE(wrong_keys_cost_neither_redis_commands_nor_memory)
{
    struct fixture *fixture = fixture_new(3, env);
    assert_int_equal(fixture_status(fixture, "channel/by-id/0/"), 200);
    flood(fixture, WRONG_KEYS / 10);
    long long asked = redis_calls(&fixture->redis, "sismember");
    double resident = server_metric(&fixture->server, "process_resident_memory_bytes");
    flood(fixture, WRONG_KEYS);
    assert_int_equal(redis_calls(&fixture->redis, "sismember"), asked);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed for a while */
    assert_true(server_metric(&fixture->server, "process_resident_memory_bytes") < resident + SLACK_BYTES);
#else
    (void)resident;
#endif
    fixture_free(fixture);
}

static bool is_checked_in_memory(void *arg)
{
    struct fixture *fixture = arg;
    long long asked = redis_calls(&fixture->redis, "sismember");
    assert_int_equal(fixture_status(fixture, "channel/by-id/0/"), 200);
    return redis_calls(&fixture->redis, "sismember") == asked;
}

/* The whole set is, which was read in portions: a wrong key that is new is refused without Redis. */
static bool set_is_held(void *arg)
{
    struct fixture *fixture = arg;
    static int number;
    if (redis_calls(&fixture->redis, "sscan") == 0)
        return false;
    long long asked = redis_calls(&fixture->redis, "sismember");
    assert_int_equal(
        status_of(fixture, "/api/channels/", text_temp("X-Api-Key: another-wrong-%d\r\n", number++)), 401);
    return redis_calls(&fixture->redis, "sismember") == asked;
}

/* As many as are held. */
TEST_CASE(wrong_keys_beside_many_valid_ones_cost_no_redis_commands)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, env);
    catalogue_issue_keys(&fixture->redis, HELD_KEYS - 1); /* and the key of the test */
    assert_int_equal(redis_integer(&fixture->redis, "SCARD channels:api_keys"), HELD_KEYS);
    assert_true(wait_until(set_is_held, fixture, WAIT_DEADLINE_MS));
    long long asked = redis_calls(&fixture->redis, "sismember");
    flood(fixture, WRONG_KEYS);
    assert_int_equal(redis_calls(&fixture->redis, "sismember"), asked);
    assert_true(redis_calls(&fixture->redis, "sscan") > 0);
}

/* More digests than are held: each is checked in Redis once, and the result is cached. */
static struct fixture *begin_with_many_keys(void)
{
    struct fixture *fixture = fixture_new(3, env);
    catalogue_issue_keys(&fixture->redis, MANY_KEYS);
    return fixture;
}

TEST_CASE(wrong_keys_do_not_evict_the_result_for_a_valid_one)
{
    AUTO(fixture_drop) struct fixture *fixture = begin_with_many_keys();
    assert_true(wait_until(is_checked_in_memory, fixture, WAIT_DEADLINE_MS));
    long long asked = redis_calls(&fixture->redis, "sismember");
    flood(fixture, WRONG_KEYS);
    assert_true(redis_calls(&fixture->redis, "sismember") >= asked + WRONG_KEYS); /* the flood was one */
    assert_true(is_checked_in_memory(fixture));
    assert_true(server_metric(&fixture->server, "channeld_cache_bytes") <= 1 << 20);
}
