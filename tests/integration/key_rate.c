/*
 * The rate limit of API keys: what is granted to a key whichever worker its requests come to, what the client
 * is told, what counts and what does not, and what a limited key costs Redis.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

/* Few enough per second that a test knows how many were granted, and that a client need not wait for long. */
#define RATE      "CHANNELD_KEY_RATE=60/m,burst=20"
#define CARD      "/api/channel/by-id/0/"
#define CARD_PATH "channel/by-id/0/"

enum { BURST = 20, CONNECTIONS = 48 };

/* One key for each test: they are valid from the start, for every worker. */
#define KEYS(X) \
    X(SHARED) X(TOLD) X(REFUSED) X(WAITS) X(ONE) X(OTHER) X(QUERY) X(KINDS) X(ELSEWHERE) X(PAGE) X(BROKEN)
#define KEY(name) static const char KEY_##name[] = "the-key-" #name;
KEYS(KEY)
#undef KEY

static void fill(struct redis *redis)
{
    catalogue_put_samples(redis, 3);
#define ISSUE(name) catalogue_issue_key(redis, KEY_##name);
    KEYS(ISSUE)
#undef ISSUE
}

static int setup(void **state)
{
    *state = fixture_new_with(&(struct fixture_spec){
        .env = ENV(RATE, "CHANNELD_WORKERS=4", "CHANNELD_CORS_ORIGINS=https://app.example"), .fill = fill});
    return 0;
}

TEST_GROUP(setup, fixture_teardown)

static const char *auth(const char *key)
{
    return text_temp("X-Api-Key: %s\r\n", key);
}

/* Sends requests, each over a connection of its own, until one is refused with *response: how many were
 * granted. */
static int exhaust_with(struct fixture *fixture, const char *key, struct http_response *response)
{
    for (int granted = 0; granted < 2000; granted++) {
        http_get(fixture->server.port, CARD, auth(key), response);
        if (response->status == 429)
            return granted;
        assert_int_equal(response->status, 200);
        http_response_free(response);
    }
    fail_msg("no request of %s is refused", key);
    return 0;
}

static int exhaust(struct fixture *fixture, const char *key)
{
    AUTO(http_response_free) struct http_response response;
    return exhaust_with(fixture, key, &response);
}

static bool has_passed(void *arg)
{
    return wait_now_ms() >= *(int64_t *)arg;
}

static void let_pass(int64_t seconds)
{
    int64_t until = wait_now_ms() + seconds * 1000;
    assert_true(wait_until(has_passed, &until, WAIT_DEADLINE_MS));
}

/* "key";r=5;t=1 */
static void parse_limit(const struct http_response *response, int *remaining, int *seconds)
{
    const char *value = http_header(response, "RateLimit");
    assert_non_null(value);
    const char *r = strstr(value, ";r=");
    const char *t = strstr(value, ";t=");
    assert_non_null(r);
    assert_non_null(t);
    *remaining = (int)strtol(r + 3, NULL, 10);
    *seconds = (int)strtol(t + 3, NULL, 10);
    assert_string_equal(value, text_temp("\"key\";r=%d;t=%d", *remaining, *seconds));
    assert_string_equal(http_header(response, "RateLimit-Policy"), "\"key\";q=60;w=60");
}

static void assert_no_fields(const struct http_response *response)
{
    assert_null(http_header(response, "RateLimit"));
    assert_null(http_header(response, "RateLimit-Policy"));
}

TEST_CASE(workers_together_grant_no_more_than_the_policy)
{
    struct fixture *fixture = *state;
    double limited = server_metric(&fixture->server, "channeld_key_rate_limited_total");
    int64_t began = wait_now_ms();
    static struct http_conn conn[CONNECTIONS];
    AUTOFREE char *request = http_format("GET", CARD, auth(KEY_SHARED));
    int granted = 0;
    int refused = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        conn[i] = http_connect(fixture->server.port);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CONNECTIONS; i++)
            assert_int_equal(http_send_text(&conn[i], request), 0);
        for (int i = 0; i < CONNECTIONS; i++) {
            AUTO(http_response_free) struct http_response response;
            assert_int_equal(http_read(&conn[i], false, &response), 0);
            granted += response.status == 200;
            refused += response.status == 429;
        }
    }
    int gained = (int)((wait_now_ms() - began) / 1000) + 1;
    assert_int_equal(granted + refused, 3 * CONNECTIONS);
    assert_true(granted >= BURST);
    assert_true(granted <= BURST + gained);
    assert_true(server_metric(&fixture->server, "channeld_key_rate_limited_total") - limited == refused);
    for (int i = 0; i < CONNECTIONS; i++)
        http_close(&conn[i]);
}

TEST_CASE(granted_requests_tell_what_remains)
{
    struct fixture *fixture = *state;
    struct http_conn conn = http_connect(fixture->server.port);
    for (int i = 0; i < 5; i++) {
        AUTO(http_response_free) struct http_response response;
        int remaining;
        int seconds;
        assert_int_equal(http_exchange(&conn, "GET", CARD, auth(KEY_TOLD), &response), 0);
        assert_int_equal(response.status, 200);
        parse_limit(&response, &remaining, &seconds);
        assert_true(remaining < BURST && remaining >= BURST - i - 1);
        assert_int_equal(seconds, 1);
        assert_null(http_header(&response, "Retry-After"));
    }
    http_close(&conn);
}

TEST_CASE(refusal_is_an_error_that_says_when_to_retry)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    assert_true(exhaust_with(fixture, KEY_REFUSED, &response) >= BURST);
    json_assert_same(response.body, "{\"success\":false,\"error\":\"Too many requests\"}");
    assert_string_equal(http_header(&response, "Content-Type"), "application/json");
    assert_string_equal(http_header(&response, "Cache-Control"), "no-store");
    assert_non_null(http_header(&response, "X-Request-Id"));
    assert_null(http_header(&response, "WWW-Authenticate"));
    int remaining;
    int seconds;
    parse_limit(&response, &remaining, &seconds);
    assert_int_equal(remaining, 0);
    assert_int_equal(seconds, 1);
    assert_string_equal(http_header(&response, "Retry-After"), "1");
    server_await_log(&fixture->server, "\"status\":429");
}

TEST_CASE(client_that_waits_as_told_is_served)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 2; i++) {
        AUTO(http_response_free) struct http_response response;
        (void)exhaust_with(fixture, KEY_WAITS, &response);
        let_pass(strtol(http_header(&response, "Retry-After"), NULL, 10));
        assert_int_equal(http_get_status(fixture->server.port, CARD, auth(KEY_WAITS)), 200);
    }
}

TEST_CASE(keys_do_not_share_a_limit)
{
    struct fixture *fixture = *state;
    (void)exhaust(fixture, KEY_ONE);
    assert_true(exhaust(fixture, KEY_OTHER) >= BURST);
}

TEST_CASE(key_in_the_query_is_the_same_key)
{
    struct fixture *fixture = *state;
    (void)exhaust(fixture, KEY_QUERY);
    int64_t began = wait_now_ms();
    int granted = 0;
    for (int i = 0; i < BURST; i++)
        granted +=
            http_get_status(fixture->server.port, text_temp(CARD "?api_key=%s", KEY_QUERY), NULL) == 200;
    assert_true(granted <= 1 + (wait_now_ms() - began) / 1000);
}

TEST_CASE(all_requests_of_a_valid_key_count)
{
    struct fixture *fixture = *state;
    char condition[80];
    {
        AUTO(http_response_free) struct http_response response;
        http_get(fixture->server.port, CARD, auth(KEY_KINDS), &response);
        (void)snprintf(condition, sizeof condition, "If-None-Match: %s\r\n", http_header(&response, "ETag"));
    }
    const struct {
        const char *method, *target, *field;
        int status;
    } requests[] = {
        {"GET", CARD, condition, 304},
        {"HEAD", CARD, "", 200},
        {"GET", "/api/channels/", "", 200},
        {"GET", "/api/channels/?page=x", "", 400},
        {"GET", "/api/channel/by-id/x/", "", 400},
        {"GET", "/api/channel/by-link/", "", 400},
        {"GET", "/api/channel/by-id/4242/", "", 404},
        {"GET", "/api/channel/by-link/?link=https://max.ru/sample_1", "", 200},
    };
    /* Fewer requests than the burst, in less time than it takes to gain one each. */
    int64_t began = wait_now_ms();
    for (size_t i = 0; i < TEST_COUNT(requests); i++) {
        AUTO(http_response_free) struct http_response response;
        int remaining;
        int seconds;
        http_call(fixture->server.port, requests[i].method, requests[i].target,
                  text_temp("%s%s", auth(KEY_KINDS), requests[i].field), &response);
        assert_int_equal(response.status, requests[i].status);
        parse_limit(&response, &remaining, &seconds);
        int used = 2 + (int)i; /* with the one above */
        int gained = (int)((wait_now_ms() - began) / 1000) + 2;
        assert_true(remaining >= BURST - used && remaining <= BURST - used + gained);
    }
}

/* Its key was found valid, and it cost Redis a read. */
TEST_CASE(request_of_a_valid_key_counts_also_if_its_data_cannot_be_read)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_auth_total{outcome=\"unavailable\"}");
    int status = 500;
    redis_do(&fixture->redis, "SET channels:card:424242 text");
    for (int i = 0; i < 2000 && status == 500; i++)
        status = http_get_status(fixture->server.port, "/api/channel/by-id/424242/", auth(KEY_BROKEN));
    assert_int_equal(status, 429);
    fixture_expect_metric(fixture, "channeld_auth_total{outcome=\"unavailable\"}", before);
}

TEST_CASE(wrong_keys_are_never_limited)
{
    struct fixture *fixture = *state;
    double limited = server_metric(&fixture->server, "channeld_key_rate_limited_total");
    struct http_conn conn = http_connect(fixture->server.port);
    for (int i = 0; i < 10 * BURST; i++) {
        AUTO(http_response_free) struct http_response response;
        const char *headers = i % 2 == 0 ? FIXTURE_WRONG : text_temp("X-Api-Key: wrong-%d\r\n", i);
        assert_int_equal(http_exchange(&conn, "GET", CARD, headers, &response), 0);
        assert_int_equal(response.status, 401);
        assert_no_fields(&response);
    }
    http_close(&conn);
    assert_true(server_metric(&fixture->server, "channeld_key_rate_limited_total") == limited);
}

TEST_CASE(what_needs_no_key_is_not_limited)
{
    struct fixture *fixture = *state;
    (void)exhaust(fixture, KEY_ELSEWHERE);
    const struct {
        const char *method, *target;
        int status;
    } requests[] = {{"OPTIONS", CARD, 204},
                    {"GET", "/api/openapi.json", 200},
                    {"GET", "/api/nothing/", 404},
                    {"DELETE", CARD, 405}};
    for (size_t i = 0; i < TEST_COUNT(requests) * BURST; i++) {
        AUTO(http_response_free) struct http_response response;
        size_t n = i % TEST_COUNT(requests);
        http_call(fixture->server.port, requests[n].method, requests[n].target,
                  text_temp("%sOrigin: https://app.example\r\nAccess-Control-Request-Method: GET\r\n",
                            auth(KEY_ELSEWHERE)),
                  &response);
        assert_int_equal(response.status, requests[n].status);
        assert_no_fields(&response);
    }
}

TEST_CASE(web_pages_may_read_the_fields)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    http_get(fixture->server.port, CARD, text_temp("%sOrigin: https://app.example\r\n", auth(KEY_PAGE)),
             &response);
    const char *exposed = http_header(&response, "Access-Control-Expose-Headers");
    assert_non_null(strstr(exposed, "RateLimit,"));
    assert_non_null(strstr(exposed, "RateLimit-Policy"));
    assert_non_null(strstr(exposed, "Retry-After"));
}

/* ---- other servers ---- */

TEST_CASE(limited_key_costs_redis_nothing)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(3, ENV("CHANNELD_KEY_RATE=20/h", "CHANNELD_CACHE_SIZE=0"));
    long long before = redis_calls(&fixture->redis, "sismember");
    assert_int_equal(exhaust(fixture, FIXTURE_KEY), BURST);
    long long checked = redis_calls(&fixture->redis, "sismember");
    long long read = redis_calls(&fixture->redis, "hmget");
    assert_int_equal(checked - before, BURST);
    for (int i = 0; i < 50; i++)
        fixture_expect(fixture, CARD_PATH, 429);
    assert_int_equal(redis_calls(&fixture->redis, "sismember"), checked);
    assert_int_equal(redis_calls(&fixture->redis, "hmget"), read);
}

/* Retry-After of a slow rate: more than a second, and no earlier than the reset. */
TEST_CASE(long_waits_are_told)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, ENV("CHANNELD_KEY_RATE=1/m"));
    fixture_expect(fixture, CARD_PATH, 200);
    AUTO(http_response_free) struct http_response response;
    fixture_get(fixture, CARD_PATH, &response);
    assert_int_equal(response.status, 429);
    long wait = strtol(http_header(&response, "Retry-After"), NULL, 10);
    assert_true(wait > 30 && wait <= 60);
    assert_string_equal(http_header(&response, "RateLimit"), text_temp("\"key\";r=0;t=%ld", wait));
    assert_string_equal(http_header(&response, "RateLimit-Policy"), "\"key\";q=1;w=60");
}

/* Whether the key is found invalid in memory or in Redis. */
TEST_CASE(revoked_key_is_unauthorized_and_no_longer_limited)
{
    static const char *const caches[] = {"CHANNELD_CACHE_SIZE=0", "CHANNELD_CACHE_SIZE=1MiB"};
    for (size_t c = 0; c < TEST_COUNT(caches); c++) {
        AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, ENV(RATE, caches[c]));
        (void)exhaust(fixture, FIXTURE_KEY);
        redis_do(&fixture->redis, "DEL channels:api_keys");
        redis_do(&fixture->redis, "SADD channels:api_keys %s",
                 "0000000000000000000000000000000000000000000000000000000000000000");
        fixture_await(fixture, CARD_PATH, 401); /* after the wait of the limit */
        for (int i = 0; i < 2 * BURST; i++) {
            AUTO(http_response_free) struct http_response response;
            fixture_get(fixture, CARD_PATH, &response);
            assert_int_equal(response.status, 401);
            assert_no_fields(&response);
        }
    }
}

/* The next interval of the limit begins in half an hour. */
TEST_CASE(key_that_is_known_to_be_revoked_is_not_limited)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(3, ENV("CHANNELD_WORKERS=1", "CHANNELD_KEY_RATE=2/h"));
    (void)exhaust(fixture, FIXTURE_KEY);
    redis_do(&fixture->redis, "DEL channels:api_keys");
    catalogue_issue_key(&fixture->redis, KEY_OTHER);
    fixture_await(fixture, CARD_PATH, 401);
    AUTO(http_response_free) struct http_response response;
    fixture_get(fixture, CARD_PATH, &response);
    assert_int_equal(response.status, 401);
    assert_no_fields(&response);
}

static bool are_in_flight(void *arg)
{
    return server_metric(arg, "channeld_requests_in_flight") == 2 * BURST;
}

/* Nobody knows the key yet: it has no bucket when its requests come. */
TEST_CASE(requests_that_wait_for_the_check_of_their_key_are_limited_after_it)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(3, ENV("CHANNELD_WORKERS=1", "CHANNELD_KEY_RATE=2/h,burst=20"));
    static struct http_conn conn[2 * BURST];
    int granted = 0;
    int refused = 0;
    AUTOFREE char *request = http_format("GET", CARD, auth(KEY_OTHER));
    catalogue_issue_key(&fixture->redis, KEY_OTHER);
    redis_pause(&fixture->redis);
    for (int i = 0; i < 2 * BURST; i++) {
        conn[i] = http_connect(fixture->server.port);
        assert_int_equal(http_send_text(&conn[i], request), 0);
    }
    assert_true(wait_until(are_in_flight, &fixture->server, WAIT_DEADLINE_MS));
    redis_resume(&fixture->redis);
    for (int i = 0; i < 2 * BURST; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&conn[i], false, &response), 0);
        granted += response.status == 200;
        refused += response.status == 429;
        http_close(&conn[i]);
    }
    assert_int_equal(granted, BURST);
    assert_int_equal(refused, BURST);
}

TEST_CASE(without_the_setting_nothing_is_limited_or_told)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, NULL);
    for (int i = 0; i < 200; i++) {
        AUTO(http_response_free) struct http_response response;
        fixture_get(fixture, CARD_PATH, &response);
        assert_int_equal(response.status, 200);
        assert_no_fields(&response);
    }
}
