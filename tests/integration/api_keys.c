/*
 * API keys: how many of them, right and wrong ones, are checked in memory and in Redis. How they are sent,
 * and what is checked before them: tests/integration/requests/keys.http.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static int status_of(struct fixture *fixture, const char *target, const char *headers)
{
    return http_get_status(fixture->server.port, target, headers);
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

/* ---- many keys: they are read at a pace, 24 per second ---- */

enum { MANY_KEYS = 100001 };

static const char *const patient[] = {"CHANNELD_REQUEST_TIMEOUT=20s", NULL};

TEST_CASE(keys_of_a_large_set_are_checked_in_redis_once)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, patient);
    catalogue_issue_keys(&fixture->redis, MANY_KEYS);
    assert_true(redis_integer(&fixture->redis, "SCARD channels:api_keys") > MANY_KEYS);
    for (int i = 0; i < 40; i++)
        assert_int_equal(status_of(fixture, "/api/channels/", FIXTURE_AUTH), 200);
    double before = fixture_commands(fixture);
    for (int i = 0; i < 40; i++)
        assert_int_equal(status_of(fixture, "/api/channels/", FIXTURE_AUTH), 200);
    assert_true(fixture_commands(fixture) == before);
    expect_issued_and_revoked_at_once(fixture);
}

static bool is_valid(void *arg)
{
    return fixture_status(arg, "channels/") == 200;
}

/* ---- floods of wrong keys, each another ---- */

enum { CHECKED_KEYS = 1000, PIPELINE = 50 };

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

/* While a set is scanned, which takes hours. */
TEST_CASE(wrong_keys_do_not_evict_the_result_for_a_valid_one)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, env);
    catalogue_issue_keys(&fixture->redis, MANY_KEYS);
    assert_true(wait_until(is_valid, fixture, WAIT_DEADLINE_MS));
    long long asked = redis_calls(&fixture->redis, "smismember");
    flood(fixture, CHECKED_KEYS);
    assert_true(redis_calls(&fixture->redis, "smismember") >= asked + CHECKED_KEYS); /* one after the other */
    double before = fixture_commands(fixture);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
    assert_true(fixture_commands(fixture) == before);
    assert_true(server_metric(&fixture->server, "channeld_cache_bytes") <= 1 << 20);
}

/* ---- nothing is read for an invalid key, where it is checked with each request ---- */

#define BROKEN_LINK "channel/by-link/?link=https%3A%2F%2Fmax.ru%2Fbroken"

static void fill_broken(struct redis *redis)
{
    catalogue_put_samples(redis, 3);
    catalogue_issue_key(redis, FIXTURE_KEY);
    redis_do(redis, "SET channels:card:77 x");
    redis_do(redis, "LPUSH channels:link:https://max.ru/broken x");
    redis_do(redis, "ACL SETUSER limited on nopass ~* +@all");
}

/* So many replies to reads of data. */
static long long data_reads(struct fixture *f)
{
    static const char *const commands[] = {"get", "zrange"};
    AUTOFREE char *errors = redis_text(&f->redis, "INFO errorstats");
    const char *wrong_type = strstr(errors, "errorstat_WRONGTYPE:count=");
    long long count = wrong_type == NULL ? 0 : strtoll(strchr(wrong_type, '=') + 1, NULL, 10);
    for (size_t i = 0; i < TEST_COUNT(commands); i++)
        count += redis_calls(&f->redis, commands[i]);
    return count;
}

static void expect_nothing_read_without_key(struct fixture *f, bool by_ttl)
{
    static const char *const paths[] = {"/api/channel/by-id/77/", "/api/channel/by-id/78/", "/api/channels/",
                                        ("/api/" BROKEN_LINK)};
    catalogue_issue_key(&f->redis, "another");
    assert_true(wait_until(another_is_valid, f, WAIT_DEADLINE_MS));
    char digest[65];
    catalogue_digest("another", digest);
    redis_do(&f->redis, "SREM channels:api_keys %s", digest);
    if (!by_ttl) /* it was valid a moment ago */
        assert_int_equal(status_of(f, paths[0], "X-Api-Key: another\r\n"), 401);
    assert_true(wait_until(another_is_invalid, f, WAIT_DEADLINE_MS));
    long long before = data_reads(f);
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        assert_int_equal(status_of(f, paths[i], FIXTURE_WRONG), 401);
        assert_int_equal(status_of(f, paths[i], "X-Api-Key: another\r\n"), 401);
    }
    assert_int_equal(data_reads(f), before);
    fixture_expect_metric(f, "channeld_redis_error_replies_total", 0);
    AUTOFREE char *log = server_log(&f->server);
    assert_null(strstr(log, "\"level\":\"error\""));
    assert_int_equal(fixture_status(f, "channel/by-id/77/"), 500);
    assert_int_equal(fixture_status(f, BROKEN_LINK), 500);
}

TEST_CASE(nothing_is_read_for_an_invalid_key_where_keys_are_checked_with_each_request)
{
    static const struct {
        const char *setting, *denied; /* by Redis */
    } modes[] = {{"CHANNELD_CACHE_SIZE=0", NULL},
                 {"CHANNELD_CACHE_TTL=1s", "-client|tracking"},
                 {"CHANNELD_CACHE_TTL=0", "-client|tracking"}};
    for (size_t i = 0; i < TEST_COUNT(modes); i++) {
        AUTO(fixture_drop)
        struct fixture *f =
            fixture_new_with(&(struct fixture_spec){.env = ENV("CHANNELD_WORKERS=1", modes[i].setting),
                                                    .fill = fill_broken,
                                                    .userinfo = "limited:x@"});
        if (modes[i].denied != NULL) {
            redis_do(&f->redis, "ACL SETUSER limited %s", modes[i].denied);
            redis_do(&f->redis, "CLIENT KILL USER limited");
            server_await_metric(&f->server, "channeld_redis_connects_total", 2);
        }
        expect_nothing_read_without_key(f, i == 1);
    }
}
