/* What is cached, that it follows every change of Redis, and how it is used without Redis. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const char *const ONE_WORKER[] = {"CHANNELD_WORKERS=1", NULL};
static const char *const NO_CACHE[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_SIZE=0", NULL};

static void await(struct fixture *f, const char *path, const char *text, bool contained)
{
    fixture_await_text(f, path, text, contained);
}

TEST_CASE(repeated_requests_cost_no_redis_commands)
{
    static const char *const paths[] = {"channel/by-id/5/", "channel/by-link/?link=https://max.ru/five",
                                        "channel/by-link/?link=https://web.max.ru/five", "channels/",
                                        "channels/?page=9"};
    AUTO(fixture_drop) struct fixture *f = fixture_new(3, ONE_WORKER);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\",\"link\":\"https://max.ru/five\"}", 5);
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        fixture_expect(f, paths[i], 200);
    double before = fixture_commands(f);
    double hits = server_metric(&f->server, "channeld_cache_hits_total");
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < TEST_COUNT(paths); i++)
            fixture_expect(f, paths[i], 200);
    assert_true(fixture_commands(f) == before);
    assert_true(server_metric(&f->server, "channeld_cache_hits_total") == hits + 50);
}

TEST_CASE(wrong_keys_cost_no_redis_commands)
{
    AUTO(fixture_drop) struct fixture *f = fixture_new(3, ONE_WORKER);
    fixture_expect(f, "channel/by-id/0/", 200); /* the keys are held */
    double before = fixture_commands(f);
    for (int i = 0; i < 20; i++)
        assert_int_equal(http_get_status(f->server.port, "/api/channels/", FIXTURE_WRONG), 401);
    assert_true(fixture_commands(f) == before);
}

TEST_CASE(what_does_not_exist_is_not_cached)
{
    static const char *const absent[] = {"channel/by-id/404/", "channel/by-link/?link=https://max.ru/nobody"};
    AUTO(fixture_drop) struct fixture *f = fixture_new(3, ONE_WORKER);
    fixture_expect(f, "channel/by-id/0/", 200);
    double entries = server_metric(&f->server, "channeld_cache_entries");
    for (size_t i = 0; i < TEST_COUNT(absent); i++) {
        for (int round = 0; round < 5; round++) {
            double before = fixture_commands(f);
            fixture_expect(f, absent[i], 404);
            assert_true(fixture_commands(f) > before);
        }
    }
    assert_true(server_metric(&f->server, "channeld_cache_entries") == entries);
}

TEST_CASE(without_a_cache_every_request_reads_redis)
{
    AUTO(fixture_drop) struct fixture *f = fixture_new(3, NO_CACHE);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\"}", 5);
    double before = fixture_commands(f);
    for (int i = 0; i < 10; i++)
        fixture_expect(f, "channel/by-id/5/", 200);
    assert_true(fixture_commands(f) == before + 30); /* key, its info, and card */
    redis_do(&f->redis, "HSET channels:card:5 title changed");
    AUTOFREE char *body = fixture_body(f, "channel/by-id/5/"); /* at once, without waiting */
    assert_non_null(strstr(body, "changed"));
}

/* Its card arrives together with the result for the key; it must be neither sent nor kept. */
TEST_CASE(wrong_key_gets_nothing_of_a_card)
{
    struct fixture *f = fixture_new(3, NO_CACHE);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\"}", 5);
    for (int i = 0; i < 10; i++)
        assert_int_equal(http_get_status(f->server.port, "/api/channel/by-id/5/", FIXTURE_WRONG), 401);
    fixture_free(f); /* under AddressSanitizer a leak is an exit code other than 0 */
}

TEST_CASE(changed_index_keeps_the_summaries)
{
    AUTO(fixture_drop) struct fixture *f = fixture_new(100, ONE_WORKER);
    fixture_expect(f, "channels/", 200);
    double before = fixture_commands(f);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"first\"}", -1);
    await(f, "channels/", "\"first\"", true);
    assert_true(fixture_commands(f) <=
                before + 2 * 3); /* size, ids, the new one; twice if the card came in between */
    redis_do(&f->redis, "ZREM channels:index 5");
    await(f, "channels/", "\"first\"", false);
}

TEST_CASE(cache_serves_no_longer_than_the_stale_limit)
{
    AUTO(fixture_drop)
    struct fixture *f = fixture_new(
        3, ENV("CHANNELD_WORKERS=1", "CHANNELD_STALE_LIMIT=1s", "CHANNELD_REQUEST_TIMEOUT=300ms"));
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\"}", 5);
    fixture_expect_in_the_end(f, "channel/by-id/5/", 200);
    redis_kill(&f->redis);
    server_await_metric_below(&f->server, "channeld_redis_connected", 0);
    fixture_expect(f, "channel/by-id/6/", 500); /* not cached */
    await(f, "channel/by-id/5/", "Internal server error", true);
}

TEST_CASE(stale_limit_of_keys_can_be_shorter)
{
    AUTO(fixture_drop)
    struct fixture *f = fixture_new(
        3, ENV("CHANNELD_WORKERS=1", "CHANNELD_STALE_KEYS_LIMIT=0", "CHANNELD_REQUEST_TIMEOUT=300ms"));
    fixture_expect_in_the_end(f, "channels/", 200);
    redis_kill(&f->redis);
    server_await_metric_below(&f->server, "channeld_redis_connected", 0);
    await(f, "channels/", "Internal server error", true);
}

/* ---- without a cache ---- */

static int uncached(void **state)
{
    *state = fixture_new(3, ENV("CHANNELD_CACHE_SIZE=0"));
    return 0;
}

/* The key is checked even where nothing else is queried: without a valid one no parameter is checked. */
TEST_CASE_WITH(uncached_bad_parameters_are_400_for_valid_keys_only, uncached, fixture_teardown)
{
    static const char *const bad[] = {"channels/?page=0", "channel/by-id/abc/", "channel/by-link/"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_int_equal(fixture_status(fixture, bad[i]), 400);
        AUTOFREE char *target = text_printf("/api/%s", bad[i]);
        assert_int_equal(http_get_status(fixture->server.port, target, FIXTURE_WRONG), 401);
        assert_int_equal(http_get_status(fixture->server.port, target, NULL), 401);
    }
}

TEST_CASE_WITH(uncached_responses_are_the_same, uncached, fixture_teardown)
{
    struct fixture *fixture = *state;
    for (int round = 0; round < 3; round++) {
        fixture_expect_sample(fixture, 1);
        assert_int_equal(
            http_get_status(fixture->server.port, "/api/channel/by-id/-9223372036854775808/", FIXTURE_WRONG),
            401);
        fixture_expect(fixture, "channel/by-id/4242/", 404);
        fixture_expect(fixture, "channels/?page=7", 200);
    }
    /* Redis was not asked to track. */
    assert_int_equal((int)server_metric(&fixture->server, "channeld_cache_untracked"), 0);
}

/* A link key without a number is a mistake of the loader: counted, and not found. */
TEST_CASE_WITH(uncached_invalid_link_is_counted_and_not_found, uncached, fixture_teardown)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_invalid_values_total");
    redis_do(&fixture->redis, "SET channels:link:https://max.ru/nonsense many");
    assert_int_equal(fixture_status(fixture, "channel/by-link/?link=https://max.ru/nonsense"), 404);
    server_await_metric(&fixture->server, "channeld_invalid_values_total", before + 1);
}

/* Both workers fill their share, which together is the setting. */
TEST_CASE(cache_size_is_split_among_the_workers)
{
    enum { CHANNELS = 1500, CONNECTIONS = 12, CACHE_BYTES = 512 * 1024 };
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(
        CHANNELS, ENV("CHANNELD_CACHE_SIZE=512KiB", "CHANNELD_WORKERS=2", "CHANNELD_ACCESS_LOG=off"));
    for (int i = 0; i < CONNECTIONS; i++) {
        AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
        for (size_t n = 0; n < CHANNELS; n++) {
            AUTO(http_response_free) struct http_response response;
            AUTOFREE char *target = text_printf("/api/channel/by-id/%lld/", (long long)catalogue_id(n));
            assert_int_equal(http_exchange(&conn, "GET", target, FIXTURE_AUTH, &response), 0);
            assert_int_equal(response.status, 200);
        }
    }
    assert_true(server_metric(&fixture->server, "channeld_cache_evictions_total") > 0);
    double bytes = server_metric(&fixture->server, "channeld_cache_bytes");
    if (bytes > CACHE_BYTES || bytes < 0.7 * CACHE_BYTES)
        fail_msg("%g bytes are cached, of %d", bytes, CACHE_BYTES);
}
