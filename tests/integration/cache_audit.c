/*
 * A Redis that accepts CLIENT TRACKING and sends no invalidations is noticed by reading again what is cached.
 * That one which does send them never fails this audit is what the simulation and coherence show.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 5, NOTICE_MS = 60000 };

#define CARD "channel/by-id/0/" /* sample 2 */

static const char FAILURES[] = "channeld_cache_audit_failures_total";
static const char SUSPENDED[] = "channeld_cache_suspended";
static const char *const ONE_WORKER[] = {"CHANNELD_WORKERS=1", NULL};

static bool is_noticed(void *arg)
{
    struct fixture *f = arg;
    return server_metric(&f->server, FAILURES) >= 1;
}

static void expect_noticed(struct fixture *f, const char *key)
{
    assert_true(wait_until_politely(is_noticed, f, NOTICE_MS));
    assert_true(server_metric(&f->server, SUSPENDED) >= 1);
    server_await_log(&f->server, "no invalidation arrived for a change");
    AUTOFREE char *log = server_log(&f->server);
    if (strstr(log, key) == NULL)
        fail_msg("%s is not named: %s", key, log);
    assert_int_equal(text_count(log, "no invalidation arrived for a change"), 1);
}

/* From now on each request reads Redis, over the same connection. */
static void expect_uncached(struct fixture *f)
{
    double before = fixture_commands(f);
    for (int i = 0; i < 5; i++)
        fixture_expect(f, CARD, 200);
    assert_true(fixture_commands(f) >= before + 10); /* key and card */
    assert_true(server_metric(&f->server, "channeld_redis_connects_total") < 2);
    redis_do(&f->redis, "HSET channels:card:0 title at-once");
    fixture_expect_text(f, CARD, "at-once");
}

/* ---- a server that answers CLIENT itself, as a proxy may ---- */

static struct fixture *begin_without_invalidations(void)
{
    static const char *const args[] = {"--rename-command", "CLIENT", "GENUINE", "--rename-command", "TOUCH",
                                       "CLIENT",           NULL};
    struct fixture *f =
        fixture_new_with(&(struct fixture_spec){.channels = CHANNELS, .env = ONE_WORKER, .redis_args = args});
    for (int i = 0; i < 2; i++) {
        fixture_expect(f, CARD, 200);
        fixture_expect(f, "channels/", 200);
        fixture_expect(f, "channel/by-link/?link=https://max.ru/sample_1", 200);
    }
    assert_true(server_metric(&f->server, "channeld_redis_tracking_refused_total") < 1);
    return f;
}

/* The digest of a key is in no line of the log. A new connection is trusted again. */
TEST_CASE(missed_revocation_of_a_key_is_noticed)
{
    AUTO(fixture_drop) struct fixture *f = begin_without_invalidations();
    char digest[65];
    catalogue_digest(FIXTURE_KEY, digest);
    redis_do(&f->redis, "SREM channels:api_keys %s", digest);
    expect_noticed(f, "\"channels:api_keys\"");
    fixture_expect(f, CARD, 401);
    AUTOFREE char *log = server_log(&f->server);
    assert_null(strstr(log, digest));
    redis_do(&f->redis, "SADD channels:api_keys %s", digest);
    redis_do(&f->redis, "GENUINE KILL TYPE normal SKIPME yes");
    server_await_metric(&f->server, "channeld_redis_connects_total", 2);
    server_await_metric_below(&f->server, SUSPENDED, 0);
    fixture_expect(f, CARD, 200);
    double before = fixture_commands(f);
    fixture_expect(f, CARD, 200);
    assert_true(fixture_commands(f) == before);
}

/* Redis sends no invalidations for it. */
TEST_CASE(swapped_database_is_noticed)
{
    AUTO(fixture_drop) struct fixture *f = fixture_new(CHANNELS, ONE_WORKER);
    redis_do(&f->redis, "SELECT 1");
    catalogue_put_samples(&f->redis, CHANNELS);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    redis_do(&f->redis, "HSET channels:card:0 title swapped");
    for (int i = 0; i < 2; i++)
        fixture_expect(f, CARD, 200);
    redis_do(&f->redis, "SWAPDB 0 1");
    redis_do(&f->redis, "SELECT 0");
    expect_noticed(f, "channels:card:0");
    expect_uncached(f);
}
