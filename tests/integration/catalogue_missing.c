/*
 * A Redis with neither an index nor API keys: emptied, or started without its data. It counts as one that is
 * still loading: the cache serves for the stale limit, then 500; never a 401 for a valid key, a 404 or a page
 * with missing items.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

#define CARD "channel/by-id/-9223372036854775808/"

enum { CHANNELS = 3 };

static const char GAUGE[] = "channeld_catalogue_missing";
static const char KEYS_GAUGE[] = "channeld_api_keys_missing";
static const char CONNECTED[] = "channeld_redis_connected";

static const char *const CACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms", NULL};
static const char *const UNCACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms",
                                       "CHANNELD_CACHE_SIZE=0", NULL};

static char *readiness(struct fixture *f)
{
    AUTO(http_response_free) struct http_response response;
    http_get(f->server.admin_port, "/readyz", NULL, &response);
    char *text = text_printf("%d %s", response.status, response.body);
    return text;
}

static void expect_readiness(struct fixture *f, const char *expected)
{
    AUTOFREE char *text = readiness(f);
    assert_string_equal(text, expected);
}

/* The whole catalogue comes back at once. */
static void put_catalogue(struct fixture *f)
{
    redis_do(&f->redis, "MULTI");
    catalogue_put_samples(&f->redis, CHANNELS);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    redis_do(&f->redis, "EXEC");
}

static void await_recovery(struct fixture *f)
{
    fixture_await(f, CARD, 200);
    server_await_metric_below(&f->server, GAUGE, 0);
    server_await_admin(&f->server, "/readyz", 200);
}

static void await_missing(struct fixture *f)
{
    server_await_metric(&f->server, GAUGE, 1);
    server_await_metric_below(&f->server, CONNECTED, 0);
}

/* ---- from the start ---- */

static void fill_nothing(struct redis *redis)
{
    redis_do(redis, "PING");
}

static void begin_empty(struct fixture *f, const char *const *env)
{
    fixture_init(f, &(struct fixture_spec){.env = env, .fill = fill_nothing, .wait = SERVER_WAIT_LISTENING});
    await_missing(f);
}

TEST_CASE(not_ready_before_there_is_a_catalogue)
{
    const char *const *const envs[] = {CACHED, UNCACHED};
    for (size_t i = 0; i < TEST_COUNT(envs); i++) {
        AUTO(fixture_fini) struct fixture f;
        begin_empty(&f, envs[i]);
        expect_readiness(&f, "503 Not ready: Redis holds no catalogue\n");
        fixture_expect(&f, CARD, 500);
        fixture_expect(&f, "channels/", 500);
        assert_int_equal(server_admin_status(&f.server, "/livez"), 200);
        server_await_log(&f.server, "no catalogue");
        put_catalogue(&f);
        await_recovery(&f);
        fixture_expect_in_the_end(&f, "channel/by-id/424242/", 404);
        expect_readiness(&f, "200 Ready\n");
    }
}

TEST_CASE(index_or_keys_alone_are_a_catalogue)
{
    const char *const *const envs[] = {CACHED, UNCACHED};
    for (size_t i = 0; i < TEST_COUNT(envs); i++) {
        AUTO(fixture_fini) struct fixture f;
        begin_empty(&f, envs[i]);
        catalogue_put_samples(&f.redis, 2);
        server_await_metric(&f.server, CONNECTED, 1);
        fixture_expect_in_the_end(&f, CARD, 401); /* an index without keys */
        server_await_metric(&f.server, KEYS_GAUGE, 1);
        redis_do(&f.redis, "MULTI");
        redis_do(&f.redis, "DEL channels:index");
        catalogue_issue_key(&f.redis, FIXTURE_KEY);
        redis_do(&f.redis, "EXEC");
        fixture_await(&f, CARD, 200);
        server_await_metric_below(&f.server, KEYS_GAUGE, 0);
        AUTOFREE char *body = fixture_body(&f, "channels/"); /* keys without an index */
        assert_non_null(strstr(body, "\"count\":0"));
        fixture_expect_in_the_end(&f, "channel/by-id/424242/", 404);
        assert_true(server_metric(&f.server, "channeld_redis_connects_total") < 2);
    }
}

/* ---- lost meanwhile ---- */

static void flush(struct redis *redis)
{
    redis_do(redis, "FLUSHALL");
}

static void flush_the_database(struct redis *redis)
{
    redis_do(redis, "FLUSHDB");
}

static void delete_both(struct redis *redis)
{
    redis_do(redis, "DEL channels:index channels:api_keys");
}

static void delete_one_by_one(struct redis *redis)
{
    redis_do(redis, "DEL channels:index");
    redis_do(redis, "DEL channels:api_keys");
}

static void start_without_data(struct redis *redis)
{
    redis_kill(redis);
    redis_restart(redis);
}

static void remember_everything(struct fixture *f, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fixture_expect_in_the_end(f, paths[i], 200);
    double before = server_metric(&f->server, "channeld_redis_commands_total");
    for (size_t i = 0; i < count; i++)
        fixture_expect_in_the_end(f, paths[i], 200);
    assert_true(server_metric(&f->server, "channeld_redis_commands_total") == before);
}

TEST_CASE(cache_serves_without_a_catalogue)
{
    static void (*const losses[])(struct redis * redis) = {flush, flush_the_database, start_without_data};
    for (size_t i = 0; i < TEST_COUNT(losses); i++) {
        AUTO(fixture_drop)
        struct fixture *f = fixture_new(CHANNELS, ENV("CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms",
                                                      "CHANNELD_STALE_LIMIT=60s"));
        AUTOFREE char *link = catalogue_link(1);
        AUTOFREE char *by_link = text_printf("channel/by-link/?link=%s", link);
        const char *const paths[] = {CARD, by_link, "channels/", "channels/?page=9"};
        size_t count = TEST_COUNT(paths);
        remember_everything(f, paths, TEST_COUNT(paths));
        losses[i](&f->redis);
        await_missing(f);
        for (size_t n = 0; n < 2 * count; n++)
            fixture_expect_in_the_end(f, paths[n % count], 200);
        fixture_expect(f, "channel/by-id/424242/", 500);
        assert_int_equal(http_get_status(f->server.port, "/api/" CARD, "X-Api-Key: wrong\r\n"), 500);
        expect_readiness(f, "200 Ready: Redis holds no catalogue, serving from the cache\n");
        put_catalogue(f);
        await_recovery(f);
        fixture_expect_in_the_end(f, "channel/by-id/424242/", 404);
    }
}

/* A deletion of the set of keys is a change of the keys: none counts until it was checked. */
TEST_CASE(without_keys_and_index_nothing_is_refused)
{
    static void (*const losses[])(struct redis * redis) = {delete_both, delete_one_by_one};
    for (size_t i = 0; i < TEST_COUNT(losses); i++) {
        AUTO(fixture_drop)
        struct fixture *f =
            fixture_new(CHANNELS, ENV("CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms"));
        fixture_expect_in_the_end(f, CARD, 200);
        losses[i](&f->redis);
        await_missing(f);
        fixture_expect(f, CARD, 500);
        fixture_expect(f, "channels/", 500);
        put_catalogue(f);
        await_recovery(f);
    }
}
