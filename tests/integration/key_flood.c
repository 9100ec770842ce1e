/* Thousands of wrong keys, each another: they cost no memory, and valid keys do not notice them. */

#include <stdlib.h>

#include "support/fixture.h"

enum { WRONG_KEYS = 20000, PIPELINE = 50, HELD_KEYS = 100000, MANY_KEYS = 100001, SLACK_BYTES = 8 << 20 };

/* One worker: what was remembered for one request is remembered for all. */
static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_SIZE=1MiB", NULL};

/* So many requests with a wrong key each, all refused. */
static void flood(struct fixture *fixture, int count)
{
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    for (int sent = 0; sent < count; sent += PIPELINE) {
        for (int i = 0; i < PIPELINE; i++) {
            char *request = text_printf(
                "GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\nX-Api-Key: wrong-%d\r\n\r\n", sent + i);
            assert_int_equal(http_send_text(&conn, request), 0);
            free(request);
        }
        for (int i = 0; i < PIPELINE; i++) {
            http_expect(&conn, 401);
        }
    }
    http_close(&conn);
}

TEST_CASE(wrong_keys_cost_neither_redis_nor_memory)
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

static bool costs_nothing(void *arg)
{
    struct fixture *fixture = arg;
    long long asked = redis_calls(&fixture->redis, "sismember");
    assert_int_equal(fixture_status(fixture, "channel/by-id/0/"), 200);
    return redis_calls(&fixture->redis, "sismember") == asked;
}

/* As many as are held. */
TEST_CASE(wrong_keys_beside_many_good_ones_do_not_cost_redis)
{
    struct fixture *fixture = fixture_new(3, env);
    catalogue_issue_keys(&fixture->redis, HELD_KEYS - 1); /* and the one that asks */
    assert_int_equal(redis_integer(&fixture->redis, "SCARD channels:api_keys"), HELD_KEYS);
    assert_true(wait_until(costs_nothing, fixture, WAIT_DEADLINE_MS));
    long long asked = redis_calls(&fixture->redis, "sismember");
    flood(fixture, WRONG_KEYS);
    assert_int_equal(redis_calls(&fixture->redis, "sismember"), asked);
    assert_true(redis_calls(&fixture->redis, "sscan") > 0);
    fixture_free(fixture);
}

/* More digests than are held: each is asked about once, and verdicts are remembered. */
static struct fixture *begin_with_many_keys(void)
{
    struct fixture *fixture = fixture_new(3, env);
    catalogue_issue_keys(&fixture->redis, MANY_KEYS);
    return fixture;
}

TEST_CASE(wrong_keys_push_out_no_verdict_on_a_valid_one)
{
    struct fixture *fixture = begin_with_many_keys();
    assert_true(wait_until(costs_nothing, fixture, WAIT_DEADLINE_MS));
    long long asked = redis_calls(&fixture->redis, "sismember");
    flood(fixture, WRONG_KEYS);
    assert_true(redis_calls(&fixture->redis, "sismember") >= asked + WRONG_KEYS); /* the flood was one */
    assert_true(costs_nothing(fixture));
    assert_true(server_metric(&fixture->server, "channeld_cache_bytes") <= 1 << 20);
    fixture_free(fixture);
}
