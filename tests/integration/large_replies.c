/*
 * What Redis sends may be of any size. A card that is too large fails its own requests and nothing else, and
 * a push that names more keys than any reply may hold is applied, all of it, in bounded memory.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/footprint.h"

enum { CHANNELS = 150, TOO_LARGE = 70 << 20, KEYS = 100000, NAME_SIZE = 800 };

static const char *const ONE_WORKER[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=30s", NULL};
static const char *const UNCACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=30s",
                                       "CHANNELD_CACHE_SIZE=0", NULL};

static const char CARD[] = "{\"max_channel_id\":5,\"title\":\"five\",\"link\":\"https://max.ru/five\"}";

static double metric(struct fixture *f, const char *name)
{
    return server_metric(&f->server, name);
}

/* The description of channel 5 is larger than any reply may be. */
static void store_too_large_a_card(struct fixture *f)
{
    char *text = text_repeat('x', TOO_LARGE);
    redis_do(&f->redis, "HSET channels:card:5 description %b", text, (size_t)TOO_LARGE);
    free(text);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

/* Several at a time, each with its own connection; the failing one in between. */
static void expect_only_the_large_card_to_fail(struct fixture *f)
{
    enum { TOGETHER = 9, LARGE = TOGETHER / 2 };
    struct http_conn conn[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        char *target =
            text_printf("/api/channel/by-id/%lld/", i == LARGE ? 5 : (long long)catalogue_id((size_t)i));
        http_start_get(&conn[i], f->server.port, target, FIXTURE_AUTH);
        free(target);
    }
    for (int i = 0; i < TOGETHER; i++) {
        http_expect(&conn[i], i == LARGE ? 500 : 200);
        http_close(&conn[i]);
    }
}

/* A card that is too large is left out of its page. */
static void expect_on_first_page(struct fixture *f, bool expected)
{
    char *page = fixture_body(f, "channels/");
    assert_int_equal(strstr(page, "\"five\"") != NULL, expected);
    free(page);
}

static void check_a_large_card(const char *const *env)
{
    enum { ROUNDS = 3, KEPT_KIB = 24 * 1024 };
    struct fixture *f = fixture_new(CHANNELS, env);
    catalogue_put(&f->redis, CARD, 5);
    assert_int_equal(fixture_status(f, "channel/by-id/5/"), 200);
    expect_on_first_page(f, true);
    double flushes = metric(f, "channeld_cache_flushes_total");
    long before_kib = footprint_of(f->server.process.pid).peak_kib;
    store_too_large_a_card(f);
    for (int i = 0; i < ROUNDS; i++)
        expect_only_the_large_card_to_fail(f);
    assert_int_equal(fixture_status(f, "channel/by-link/?link=https://max.ru/five"), 500);
    assert_true(metric(f, "channeld_redis_oversize_replies_total") == ROUNDS + 1);
    expect_on_first_page(f, false);
    assert_true(metric(f, "channeld_redis_disconnects_total") == 0);
    assert_true(metric(f, "channeld_cache_flushes_total") == flushes);
    long grown_kib = footprint_of(f->server.process.pid).peak_kib - before_kib;
    if (footprint_is_meaningful())
        assert_in_range(grown_kib, 0, KEPT_KIB);
    server_await_log(&f->server, "\"key\":\"channels:card:5\"");
    char *log = server_log(&f->server);
    assert_int_equal(count(log, "channels:card:5"), 1);
    free(log);
    redis_do(&f->redis, "HSET channels:card:5 description small");
    assert_int_equal(fixture_status(f, "channel/by-id/5/"), 200);
    expect_on_first_page(f, true);
    fixture_free(f);
}

TEST_CASE(a_card_that_is_too_large_fails_alone)
{
    check_a_large_card(ONE_WORKER);
}

TEST_CASE(a_card_that_is_too_large_fails_alone_without_a_cache)
{
    check_a_large_card(UNCACHED);
}

/* Members that are no digests, and one that is too large: keys are asked about one by one. */
TEST_CASE(a_set_of_keys_that_is_too_large_is_read_once)
{
    struct fixture *f = fixture_new(3, ONE_WORKER);
    char *text = text_repeat('x', TOO_LARGE);
    redis_do(&f->redis, "SADD channels:api_keys %b", text, (size_t)TOO_LARGE);
    free(text);
    server_await_metric(&f->server, "channeld_redis_oversize_replies_total", 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(fixture_status(f, "channels/"), 200);
        assert_int_equal(http_get_status(f->server.port, "/api/channels/", "X-Api-Key: wrong\r\n"), 401);
    }
    assert_true(metric(f, "channeld_redis_oversize_replies_total") == 1);
    assert_true(metric(f, "channeld_redis_disconnects_total") == 0);
    fixture_free(f);
}

/* What the names of many links begin with, which are so long that few keys are enough. Owned. */
static char *long_link(void)
{
    char *filler = text_repeat('a', NAME_SIZE - 100);
    char *link = text_printf("channels:link:https://max.ru/%s", filler);
    free(filler);
    return link;
}

static void store_links(struct fixture *f, const char *link)
{
    enum { AT_A_TIME = 10000 };
    for (int first = 0; first < KEYS; first += AT_A_TIME)
        redis_do(&f->redis, "EVAL %s 0 %s %d %d",
                 "for i = ARGV[2], ARGV[3] do redis.call('SET', ARGV[1] .. ':' .. i, '1') end", link, first,
                 first + AT_A_TIME - 1);
    server_await_metric(&f->server, "channeld_cache_invalidations_total", KEYS);
}

/* UNLINK of so many keys that the largest reply could not hold their names, with a card before and one behind
 * them: all of it is one push. */
static void unlink_many(struct fixture *f, const char *link, const char *first, const char *last)
{
    size_t used = 0;
    const char **args = calloc(KEYS + 3, sizeof *args);
    char(*names)[NAME_SIZE] = calloc(KEYS, sizeof *names);
    assert_non_null(args);
    assert_non_null(names);
    args[used++] = "UNLINK";
    args[used++] = first;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s:%d", link, i);
        args[used++] = names[i];
    }
    args[used++] = last;
    redis_do_argv(&f->redis, used, args, NULL);
    free(names);
    free(args);
}

TEST_CASE(a_push_of_any_size_is_applied)
{
    enum { KEPT_KIB = 16 * 1024 };
    struct fixture *f = fixture_new(3, ONE_WORKER);
    char *link = long_link();
    store_links(f, link);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"first\"}", 5);
    catalogue_put(&f->redis, "{\"max_channel_id\":6,\"title\":\"last\"}", 6);
    catalogue_put(&f->redis, "{\"max_channel_id\":7,\"title\":\"untouched\"}", 7);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fixture_status(f, "channel/by-id/5/"), 200);
        assert_int_equal(fixture_status(f, "channel/by-id/6/"), 200);
        assert_int_equal(fixture_status(f, "channel/by-id/7/"), 200);
    }
    double invalidated = metric(f, "channeld_cache_invalidations_total");
    double flushes = metric(f, "channeld_cache_flushes_total");
    long before_kib = footprint_of(f->server.process.pid).peak_kib;
    unlink_many(f, link, "channels:card:5", "channels:card:6");
    free(link);
    server_await_metric(&f->server, "channeld_cache_invalidations_total", invalidated + KEYS + 2);
    assert_int_equal(fixture_status(f, "channel/by-id/5/"), 404);
    assert_int_equal(fixture_status(f, "channel/by-id/6/"), 404);
    double misses = metric(f, "channeld_cache_misses_total");
    assert_int_equal(fixture_status(f, "channel/by-id/7/"), 200); /* from memory, as before */
    assert_true(metric(f, "channeld_cache_misses_total") == misses);
    assert_true(metric(f, "channeld_cache_flushes_total") == flushes);
    assert_true(metric(f, "channeld_redis_disconnects_total") == 0);
    long grown_kib = footprint_of(f->server.process.pid).peak_kib - before_kib;
    if (footprint_is_meaningful())
        assert_in_range(grown_kib, 0, KEPT_KIB);
    fixture_free(f);
}
