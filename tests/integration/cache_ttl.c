/*
 * Responses that may have changed: those of a cache by TTL, where Redis refuses to track what was read, and
 * those served while Redis is lost. Both say how old they may be; fresh ones say nothing.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { TTL_S = 2, CHANNELS = 3 };

#define CARD    "channel/by-id/1/"
#define BY_LINK "channel/by-link/?link=https://max.ru/one"
#define PAGE    "channels/"

static void write_title(struct redis *redis, const char *title)
{
    redis_do(redis, "HSET channels:card:1 max_channel_id 1 title %s link https://max.ru/one", title);
}

static void fill(struct redis *redis)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    write_title(redis, "old");
    redis_do(redis, "SET channels:link:https://max.ru/one 1");
    redis_do(redis, "ZADD channels:index 1 1");
    redis_do(redis, "ACL SETUSER untracked on nopass ~* +@all -client|tracking");
}

/* A Redis that refuses to track. */
static struct fixture *start(const char *ttl)
{
    const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=2s", ttl, NULL};
    return fixture_new_with(&(struct fixture_spec){.env = env, .fill = fill, .userinfo = "untracked:x@"});
}

/* The number behind `name`, with which the field begins; fails without either. */
static long long number_in(const struct http_response *response, const char *field, const char *name)
{
    const char *value = http_header(response, field);
    assert_non_null(value);
    assert_int_equal(strncmp(value, name, strlen(name)), 0);
    return strtoll(value + strlen(name), NULL, 10);
}

static void expect_fresh(struct fixture *f, const char *path)
{
    AUTO(http_response_free) struct http_response response;
    fixture_get(f, path, &response);
    assert_int_equal(response.status, 200);
    assert_null(http_header(&response, "Cache-Status"));
    assert_null(http_header(&response, "Age"));
}

static void expect_aged(const struct http_response *response)
{
    assert_int_equal(response->status, 200);
    long long ttl = number_in(response, "Cache-Status", "channeld; hit; ttl=");
    assert_in_range(number_in(response, "Age", ""), 0, TTL_S);
    assert_in_range(ttl, 0, TTL_S);
}

struct request {
    struct fixture *fixture;
    const char *path;
};

/* A hit by TTL, whose age is within it; or the first response after the TTL, which is none. */
static bool is_hit(void *arg)
{
    const struct request *request = arg;
    AUTO(http_response_free) struct http_response response;
    fixture_get(request->fixture, request->path, &response);
    bool hit = http_header(&response, "Cache-Status") != NULL;
    if (hit)
        expect_aged(&response);
    return hit;
}

static void expect_hit(struct fixture *f, const char *path)
{
    struct request request = {f, path};
    assert_true(wait_until(is_hit, &request, WAIT_DEADLINE_MS));
}

static bool is_new(void *arg)
{
    const struct request *request = arg;
    AUTOFREE char *body = fixture_body(request->fixture, request->path);
    return strstr(body, "\"new\"") != NULL;
}

TEST_CASE(without_tracking_each_response_is_served_for_the_ttl)
{
    static const char *const paths[] = {CARD, BY_LINK, PAGE};
    AUTO(fixture_drop) struct fixture *f = start("CHANNELD_CACHE_TTL=2s");
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        struct request request = {f, paths[i]};
        write_title(&f->redis, "old");
        fixture_await_text(f, paths[i], "\"old\"", true);
        int64_t changed = wait_now_ms();
        write_title(&f->redis, "new");
        assert_true(wait_until(is_new, &request, WAIT_DEADLINE_MS));
        assert_in_range(wait_now_ms() - changed, 0, wait_bound_ms(1000 * TTL_S + 300));
        expect_hit(f, paths[i]);
    }
    fixture_expect_metric(f, "channeld_cache_by_ttl", 1);
    server_await_log(&f->server, "what is cached is served for the TTL");
}

TEST_CASE(without_a_ttl_nothing_is_cached_where_redis_refuses_to_track)
{
    AUTO(fixture_drop) struct fixture *f = start("CHANNELD_CACHE_TTL=0s");
    expect_fresh(f, CARD);
    write_title(&f->redis, "new");
    fixture_expect_text(f, CARD, "\"new\"");
    expect_fresh(f, CARD);
    fixture_expect_metric(f, "channeld_cache_by_ttl", 0);
    server_await_log(&f->server, "redis does not track: nothing is cached on this connection");
}

TEST_CASE(where_redis_tracks_the_ttl_changes_nothing)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_TTL=1h", NULL};
    AUTO(fixture_drop) struct fixture *f = fixture_new_with(&(struct fixture_spec){.env = env, .fill = fill});
    expect_fresh(f, CARD);
    expect_fresh(f, CARD);
    write_title(&f->redis, "new");
    fixture_expect_text(f, CARD, "\"new\"");
    redis_do(&f->redis, "DEL channels:api_keys");
    fixture_expect(f, CARD, 401);
    fixture_expect_metric(f, "channeld_cache_by_ttl", 0);
}

static bool is_aged(void *arg)
{
    AUTO(http_response_free) struct http_response response;
    fixture_get(arg, CARD, &response);
    assert_int_equal(response.status, 200);
    return number_in(&response, "Age", "") >= 2;
}

/* Asks with the entity tag that it got before; the response is 304. Owned. */
static char *condition_of(struct fixture *f, const char *path)
{
    AUTO(http_response_free) struct http_response response;
    fixture_get(f, path, &response);
    return text_printf(FIXTURE_AUTH "If-None-Match: %s\r\n", http_header(&response, "ETag"));
}

static void expect_aged_304(struct fixture *f, const char *path, const char *condition)
{
    AUTO(http_response_free) struct http_response response;
    AUTOFREE char *target = text_printf("/api/%s", path);
    http_get(f->server.port, target, condition, &response);
    assert_int_equal(response.status, 304);
    assert_in_range(number_in(&response, "Age", ""), 2, 3600);
}

TEST_CASE(response_without_redis_says_since_when_it_may_have_changed)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_STALE_LIMIT=1h", NULL};
    static const char *const paths[] = {CARD, BY_LINK, PAGE};
    AUTO(fixture_drop) struct fixture *f = fixture_new_with(&(struct fixture_spec){.env = env, .fill = fill});
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        expect_fresh(f, paths[i]);
    AUTOFREE char *card = condition_of(f, CARD);
    AUTOFREE char *page = condition_of(f, PAGE);
    redis_kill(&f->redis);
    server_await_metric(&f->server, "channeld_redis_connected", 0);
    assert_true(wait_until(is_aged, f, WAIT_DEADLINE_MS));
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        AUTO(http_response_free) struct http_response response;
        fixture_get(f, paths[i], &response);
        assert_int_equal(number_in(&response, "Cache-Status", "channeld; hit; ttl="),
                         -number_in(&response, "Age", ""));
    }
    expect_aged_304(f, CARD, card);
    expect_aged_304(f, PAGE, page);
    AUTO(http_response_free) struct http_response refused;
    http_get(f->server.port, "/api/" CARD, FIXTURE_WRONG, &refused);
    assert_int_equal(refused.status, 500); /* whether it is a key cannot be known */
    assert_null(http_header(&refused, "Cache-Status"));
}
