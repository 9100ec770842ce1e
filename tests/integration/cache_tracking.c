/*
 * Tracking by key: each kind of read is tracked by each server, and a full tracking table, out of which Redis
 * evicts keys by invalidating them, costs commands, but no response is wrong.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 101 };

static const char *const BY_KEY[] = {"CHANNELD_WORKERS=1", "CHANNELD_TRACKING=keys", NULL};

/* ---- each kind of read ---- */

struct read_case {
    const char *path;
    const char *before[3]; /* commands before the path is read */
    const char *change;    /* one command, after which the response has the text; it had not before */
    const char *text;
};

static const struct read_case READS[] = {
    {"channel/by-id/5/", {"HSET channels:card:5 title old"}, "HSET channels:card:5 title new", "\"new\""},
    {"channel/by-id/6/", {"HSET channels:card:6 title six"}, "UNLINK channels:card:6", "not found"},
    {"channel/by-link/?link=https://max.ru/a",
     {"HSET channels:card:7 title old link https://max.ru/a", "SET channels:link:https://max.ru/a 7"},
     "HSET channels:card:7 title new",
     "\"new\""},
    {"channel/by-link/?link=https://max.ru/a",
     {NULL},
     "HSET channels:card:7 link https://max.ru/b",
     "not found"},
    {"channel/by-link/?link=https://max.ru/b",
     {"SET channels:link:https://max.ru/b 7"},
     "UNLINK channels:card:7",
     "not found"},
    {"channels/", {NULL}, "ZADD channels:index -1 5", "\"new\""},
    {"channels/", {NULL}, "HSET channels:card:5 title newer", "\"newer\""},
    {"channels/", {"ZADD channels:index -1 8"}, "HSET channels:card:8 title eight", "\"eight\""},
    {"channels/",
     {"ZADD channels:index -1 9", "SET channels:card:9 nonsense", "HSET spare title nine"},
     "RENAME spare channels:card:9", /* it was no hash */
     "\"nine\""},
    {"channels/?page=2", {NULL}, "ZREMRANGEBYRANK channels:index 0 3", "\"count\":0"},
    {"channels/?page=2", {NULL}, "ZADD channels:index -1 5", "\"count\":1"}, /* it was beyond the last */
    {"channels/", {NULL}, "DEL channels:api_keys", "Invalid or missing API key"},
};

struct reading {
    struct fixture *fixture;
    const char *path;
};

static bool costs_nothing(void *arg)
{
    const struct reading *r = arg;
    struct http_response response;
    double before = fixture_commands(r->fixture);
    fixture_get(r->fixture, r->path, &response);
    http_response_free(&response);
    return fixture_commands(r->fixture) == before;
}

static void expect_tracked(struct fixture *f, const struct read_case *c)
{
    struct http_response response;
    for (size_t i = 0; i < TEST_COUNT(c->before) && c->before[i] != NULL; i++)
        redis_do(&f->redis, c->before[i]);
    if (!wait_until(costs_nothing, &(struct reading){f, c->path}, WAIT_DEADLINE_MS))
        fail_msg("%s is not cached", c->path);
    fixture_get(f, c->path, &response);
    if (strstr(response.body, c->text) != NULL)
        fail_msg("%s has %s before %s", c->path, c->text, c->change);
    http_response_free(&response);
    redis_do(&f->redis, c->change);
    fixture_await_text(f, c->path, c->text, true);
}

/* The audit would notice in the end what is not tracked. */
static void expect_reads_tracked(const char *program)
{
    AUTO(fixture_drop)
    struct fixture *f =
        fixture_new_with(&(struct fixture_spec){.channels = CHANNELS, .env = BY_KEY, .program = program});
    for (size_t i = 0; i < TEST_COUNT(READS); i++)
        expect_tracked(f, &READS[i]);
    fixture_expect_metric(f, "channeld_cache_audit_failures_total", 0);
    fixture_expect_metric(f, "channeld_redis_tracking_refused_total", 0);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    fixture_await(f, "channels/", 200);
}

TEST_CASE(each_kind_of_read_is_tracked)
{
    expect_reads_tracked(NULL);
    AUTOFREE char *redis_8 = redis_other_program("redis8-server");
    AUTOFREE char *valkey = redis_other_program("valkey-server");
    expect_reads_tracked(redis_8);
    expect_reads_tracked(valkey);
}

/* ---- a full tracking table ---- */

static const char *const TINY_TABLE[] = {"--tracking-table-max-keys", "10", NULL};

static struct fixture *begin_with_tiny_table(void)
{
    return fixture_new_with(
        &(struct fixture_spec){.channels = CHANNELS, .env = BY_KEY, .redis_args = TINY_TABLE});
}

static double hits(struct fixture *f)
{
    return server_metric(&f->server, "channeld_cache_hits_total");
}

TEST_CASE(a_full_tracking_table_leaves_the_cache_in_use)
{
    enum { REQUESTS = 200 };
    AUTO(fixture_drop) struct fixture *f = begin_with_tiny_table();
    fixture_expect(f, "channels/", 200); /* more keys than the table holds */
    double before = hits(f);
    for (int i = 0; i < REQUESTS; i++)
        fixture_expect(f, i % 20 == 0 ? "channels/" : "channel/by-id/0/", 200);
    assert_true(hits(f) - before > REQUESTS / 2.0);
}

/* Ids that do not exist, each another, with a valid key. */
static void flood(struct fixture *f, int count)
{
    enum { PIPELINE = 10 };
    AUTO(http_close) struct http_conn conn = http_connect(f->server.port);
    for (int sent = 0; sent < count; sent += PIPELINE) {
        for (int i = 0; i < PIPELINE; i++)
            assert_int_equal(
                http_send_text(&conn, text_temp("GET /api/channel/by-id/9%05d/ HTTP/1.1\r\nHost: a\r\n%s\r\n",
                                                sent + i, FIXTURE_AUTH)),
                0);
        for (int i = 0; i < PIPELINE; i++)
            http_expect(&conn, 404);
    }
}

/*
 * The API key set is among the keys that Redis evicts then. Its portions are read no more often for that, and
 * what is checked again is the key in use.
 */
TEST_CASE(unknown_ids_do_not_make_the_api_keys_be_read_all_the_time)
{
    enum { UNKNOWN = 10000, KEYS = 200, PORTION_MS = 1000, CHECKS_PER_ID = 4 };
    AUTO(fixture_drop) struct fixture *f = begin_with_tiny_table();
    catalogue_issue_keys(&f->redis, KEYS);
    fixture_expect(f, "channel/by-id/0/", 200);
    long long portions = redis_calls(&f->redis, "sscan");
    long long checks = redis_calls(&f->redis, "smismember");
    int64_t began = wait_now_ms();
    flood(f, UNKNOWN);
    long long took_ms = wait_now_ms() - began;
    portions = redis_calls(&f->redis, "sscan") - portions;
    checks = redis_calls(&f->redis, "smismember") - checks;
    print_message("%d ids in %lld ms: %lld portions of the API keys, %lld checks\n", UNKNOWN, took_ms,
                  portions, checks);
    assert_in_range(portions, 0, took_ms / PORTION_MS + 2);
    assert_in_range(checks, 1, CHECKS_PER_ID * UNKNOWN);
}
