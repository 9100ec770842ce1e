/*
 * Requests when allocations fail: each allocation of a request fails in turn, alone or together with all
 * after it. The client gets its response, a 500, or a closed connection; the next request is served; and no
 * memory is leaked.
 */

#include <stdlib.h>
#include <string.h>

#include "oom/memory.h"
#include "support/fixture.h"

enum { CHANNELS = 120, SAMPLE = 7, ENOUGH = 400, TIMES_MAX = 4, SAMPLE_STEP = 7 };

static struct memory memory;

/* One kind of request; in its path, %s is the id or the encoded link of a channel. */
struct route {
    const char *name, *method, *path;
    int status;
    bool admin, linked;
    const char *headers;
};

#define KEY     FIXTURE_AUTH
#define EXPIRED "a-key-that-has-expired"
static const struct route ROUTES[] = {
    {"card by id", "GET", "/api/channel/by-id/%s/", 200, false, false, KEY},
    {"card by link", "GET", "/api/channel/by-link/?link=%s", 200, false, true, KEY},
    {"list", "GET", "/api/channels/", 200, false, false, KEY},
    {"last page", "GET", "/api/channels/?page=2&api_key=" FIXTURE_KEY, 200, false, false, NULL},
    {"not modified", "GET", "/api/channel/by-id/%s/", 304, false, false, KEY "If-None-Match: *\r\n"},
    {"HEAD", "HEAD", "/api/channel/by-id/%s/", 200, false, false, KEY},
    {"no such channel", "GET", "/api/channel/by-id/123456789123/", 404, false, false, KEY},
    {"no such link", "GET", "/api/channel/by-link/?link=https%%3A%%2F%%2Fmax.ru%%2Fno", 404, false, false,
     KEY},
    {"link of another card", "GET", "/api/channel/by-link/?link=https%%3A%%2F%%2Fmax.ru%%2Fold", 404, false,
     false, KEY},
    {"wrong key", "GET", "/api/channels/", 401, false, false, "X-Api-Key: wrong\r\n"},
    {"expired key", "GET", "/api/channels/", 401, false, false, "X-Api-Key: " EXPIRED "\r\n"},
    {"no key", "GET", "/api/channels/", 401, false, false, NULL},
    {"bad parameter", "GET", "/api/channels/?page=0", 400, false, false, KEY},
    {"no such path", "GET", "/nothing", 404, false, false, KEY},
    {"refused method", "DELETE", "/api/channels/", 405, false, false, KEY},
    {"refused request", "GET", "/%%", 400, false, false, KEY "Host: b\r\n"},
    {"metrics", "GET", "/metrics", 200, true, false, NULL},
    {"readyz", "GET", "/readyz", 200, true, false, NULL},
    {"livez", "GET", "/livez", 200, true, false, NULL},
    {"version", "GET", "/version", 200, true, false, NULL}};

static char *target_of(const struct route *route)
{
    AUTOFREE char *link = catalogue_link(SAMPLE);
    AUTOFREE char *encoded = text_percent_encode(link);
    AUTOFREE char *id = text_printf("%lld", (long long)catalogue_id(SAMPLE));
    char *target = NULL;
    const char *argument = route->linked ? encoded : id;
    const char *hole = strstr(route->path, "%s");
    size_t before = hole != NULL ? (size_t)(hole - route->path) : strlen(route->path);
    target = text_printf("%.*s%s%s", (int)before, route->path, hole != NULL ? argument : "",
                         hole != NULL ? hole + 2 : "");
    for (char *p = target; (p = strstr(p, "%%")) != NULL; p++)
        memmove(p, p + 1, strlen(p));
    return target;
}

/* Invalidates the sample, its page, the index and the keys, and waits until the server has applied that. */
static void make_cold(struct fixture *fixture)
{
    enum { CHANGED = 6 };
    static int turn;
    struct redis *redis = &fixture->redis;
    long long id = (long long)catalogue_id(SAMPLE);
    server_await_metric(&fixture->server, "channeld_redis_connected", 1); /* the failure may have cost it */
    double before = server_metric(&fixture->server, "channeld_cache_invalidations_total");
    redis_do(redis, "HSET channels:card:%lld category2 turn", id);
    redis_do(redis, "ZADD channels:index %d %lld", 1000000 + ++turn, (long long)catalogue_id(CHANNELS - 1));
    redis_do(redis, turn % 2 == 1 ? "SADD channels:api_keys other" : "SREM channels:api_keys other");
    redis_do(redis, "HSET channels:card:123456789123 title gone");
    redis_do(redis, "DEL channels:card:123456789123");
    redis_do(redis, "HSET channels:card:%lld category2 turn", (long long)catalogue_id(0));
    server_await_metric(&fixture->server, "channeld_cache_invalidations_total", before + CHANGED);
}

/* Metrics differ from time to time, and a response to HEAD has no content. */
static void expect_same_body(const struct route *route, const struct http_response *response,
                             const char *body, int n)
{
    if (!route->admin && response->body_length > 0 && strcmp(response->body, body) != 0)
        fail_msg("%s: allocation %d failed, and a response is %s, not %s", route->name, n, response->body,
                 body);
}

static void check_outcome(const struct route *route, int error, const struct http_response *response,
                          const char *body, int n)
{
    if (error != 0 || response->status == 500)
        return;
    if (response->status != route->status)
        fail_msg("%s: allocation %d failed, the answer was %d", route->name, n, response->status);
    expect_same_body(route, response, body, n);
}

static void expect_service(struct fixture *fixture, const struct route *route, const char *target,
                           const char *body, int n)
{
    AUTO(http_response_free) struct http_response response;
    int port = route->admin ? fixture->server.admin_port : fixture->server.port;
    int error = http_try(port, route->method, target, route->headers, &response);
    if (!process_is_running(&fixture->server.process))
        fail_msg("%s: allocation %d failed, and the server has ended with %d", route->name, n,
                 fixture->server.process.status);
    if (error != 0 || response.status != route->status)
        fail_msg("%s: after the failure of allocation %d the next one gets %d", route->name, n,
                 error != 0 ? error : response.status);
    expect_same_body(route, &response, body, n);
}

/* The content of the response while nothing fails. Owned. */
static char *body_of(struct fixture *fixture, const struct route *route, const char *target)
{
    AUTO(http_response_free) struct http_response response;
    int port = route->admin ? fixture->server.admin_port : fixture->server.port;
    assert_int_equal(http_try(port, route->method, target, route->headers, &response), 0);
    assert_int_equal(response.status, route->status);
    return text_printf("%s", response.body_length > 0 ? response.body : "");
}

/* Lets allocations fail, the first one and every `step`-th after it, until there are no more; returns about
 * how many there were. */
static int fail_each(struct fixture *fixture, const struct route *route, enum memory_failure how, bool cold,
                     int first, int step)
{
    AUTOFREE char *target = target_of(route);
    int port = route->admin ? fixture->server.admin_port : fixture->server.port;
    int n = first - step;
    if (cold)
        make_cold(fixture);
    AUTOFREE char *body = body_of(fixture, route, target);
    do {
        n += step;
        struct http_response response;
        if (cold)
            make_cold(fixture);
        memory_fail(&memory, n, how);
        int error = http_try(port, route->method, target, route->headers, &response);
        int failures = memory_restore(&memory);
        check_outcome(route, error, &response, body, n);
        if (error == 0)
            http_response_free(&response);
        expect_service(fixture, route, target, body, n);
        if (failures == 0)
            break;
    } while (n < ENOUGH);
    assert_true(n < ENOUGH);
    return n - 1;
}

/* Something may be left for good after the first times, but not each time. Each route begins with another of
 * its allocations, so that a sample is not of the same ones. */
static void fail_all(struct fixture *fixture, enum memory_failure how, bool cold, int step)
{
    for (size_t i = 0; i < TEST_COUNT(ROUTES); i++) {
        const struct route *route = &ROUTES[i];
        if (cold && route->admin)
            continue;
        int first = 1 + (int)i % step;
        int count = fail_each(fixture, route, how, cold, first, step);
        for (int times = 1, kept = true; kept; times++) {
            int64_t live = memory_live(&memory);
            (void)fail_each(fixture, route, how, cold, first, step);
            kept = !memory_await_live(&memory, live);
            if (kept && times == TIMES_MAX)
                fail_msg("%s: each time more is left: %lld blocks", route->name,
                         (long long)memory_live(&memory));
        }
        print_message("%s: one in %d of about %d allocations failed\n", route->name, step, count);
    }
}

/* With a name and an expiry: never is a key valid without them. */
static void put_info(struct fixture *fixture, const char *key, const char *info)
{
    char digest[65];
    catalogue_digest(key, digest);
    redis_do(&fixture->redis, "MULTI");
    redis_do(&fixture->redis, "SADD channels:api_keys %s", digest);
    redis_do(&fixture->redis, "HSET channels:api_key_info %s %s", digest, info);
    redis_do(&fixture->redis, "EXEC");
}

static struct fixture *start(const char *cache_size, const char *tracking)
{
    memory_init(&memory);
    const char *const env[] = {memory.preload, memory.file, "CHANNELD_WORKERS=1", cache_size, tracking, NULL};
    struct fixture *fixture = fixture_new(CHANNELS, env);
    redis_do(&fixture->redis, "SET channels:link:https://max.ru/old %lld", (long long)catalogue_id(SAMPLE));
    redis_do(&fixture->redis, "HSET channels:card:%lld followers_history %s", (long long)catalogue_id(SAMPLE),
             "{ \"2026-11-20\": 7 }"); /* which has to be parsed */
    put_info(fixture, FIXTURE_KEY, "{\"name\":\"named\",\"expires\":\"2999-01-01T00:00:00Z\"}");
    put_info(fixture, EXPIRED, "{\"name\":\"late\",\"expires\":\"2020-01-01T00:00:00Z\"}");
    return fixture;
}

static int start_with_cache(void **state)
{
    *state = start("CHANNELD_CACHE_SIZE=8MiB", "CHANNELD_TRACKING=keys");
    return 0;
}

/* make_cold() counts the invalidations: a broadcast tells of what was not read as well. */
static int start_by_broadcast(void **state)
{
    *state = start("CHANNELD_CACHE_SIZE=8MiB", "CHANNELD_TRACKING=broadcast");
    return 0;
}

static int start_without_cache(void **state)
{
    *state = start("CHANNELD_CACHE_SIZE=0", NULL);
    return 0;
}

static int end(void **state)
{
    (void)fixture_teardown(state);
    memory_fini(&memory);
    return 0;
}

TEST_CASE_WITH(cached_responses_survive_a_sample_of_failures, start_with_cache, end)
{
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
        fail_all(*state, how, false, SAMPLE_STEP);
}

TEST_CASE_WITH(responses_read_from_redis_survive_a_sample_of_failures, start_by_broadcast, end)
{
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
        fail_all(*state, how, true, SAMPLE_STEP);
}

SLOW_TEST_WITH(cached_responses_survive_any_failure, start_with_cache, end)
{
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
        fail_all(*state, how, false, 1);
}

SLOW_TEST_WITH(responses_read_from_redis_survive_any_failure, start_by_broadcast, end)
{
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
        fail_all(*state, how, true, 1);
}

SLOW_TEST_WITH(responses_without_a_cache_survive_any_failure, start_without_cache, end)
{
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
        fail_all(*state, how, false, 1);
}

/* A connection that stays, with one request. */
static void open_and_request(struct fixture *fixture, struct http_conn *conn)
{
    AUTO(http_response_free) struct http_response response;
    AUTOFREE char *request = http_format("GET", "/api/channels/", FIXTURE_AUTH);
    bool answered = http_open(conn, fixture->server.port) == 0 && http_send_text(conn, request) == 0 &&
                    http_read(conn, false, &response) == 0;
    if (!answered)
        fail_msg("no answer; running: %d", process_is_running(&fixture->server.process));
}

/* Each has a higher descriptor than the one before, for which the loop makes the second allocation. */
SLOW_TEST_WITH(new_connections_survive_a_failure_each, start_with_cache, end)
{
    enum { CONNECTIONS = 300 };
    struct fixture *fixture = *state;
    struct http_conn conn[CONNECTIONS];
    int open = 0;
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH),
                     200); /* now a hit */
    for (; open < CONNECTIONS; open++) {
        memory_fail(&memory, 2, MEMORY_ONCE);
        open_and_request(fixture, &conn[open]);
        (void)memory_restore(&memory);
    }
    for (int i = 0; i < open; i++)
        http_close(&conn[i]);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_AUTH), 200);
}
