/*
 * A plain address of a replica, or of a master that is made one. Without its master its data is outdated, and
 * a key that the master has revoked works for no longer than the stale limit.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/proxy.h"

enum { STALE_LIMIT_MS = 1000, NOTICE_MS = 2000 };

#define CARD "channel/by-id/1/"

static struct redis master;
static struct proxy *line; /* between the replica and its master */
static struct fixture f;   /* its Redis is the replica */

static bool is_linked(void *arg)
{
    AUTOFREE char *info = redis_text(arg, "INFO replication");
    return strstr(info, "master_link_status:up") != NULL;
}

/* A link is up some time before the master sends what is written: it waits for the replica's first ACK. */
static bool is_replicated(void *arg)
{
    return redis_integer(arg, "EXISTS replicated") == 1;
}

static void serve_replica(void)
{
    static const char *const env[] = {"CHANNELD_STALE_LIMIT=1s", "CHANNELD_REQUEST_TIMEOUT=500ms", NULL};
    server_start(&f.server, &(struct server_spec){f.redis.url, env, SERVER_WAIT_READY});
}

/* A master that pings every second, and a replica behind a proxy. */
static int set_up(void **state)
{
    static const char *const master_args[] = {"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period",
                                              "1", NULL};
    (void)state;
    memset(&f, 0, sizeof f);
    redis_start(&master, master_args);
    catalogue_issue_key(&master, FIXTURE_KEY);
    catalogue_put_samples(&master, 10);
    catalogue_put(&master, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    line = proxy_new(master.port);
    redis_start(&f.redis, NULL);
    redis_do(&f.redis, "REPLICAOF 127.0.0.1 %d", proxy_port(line));
    assert_true(wait_until(is_linked, &f.redis, WAIT_DEADLINE_MS));
    redis_do(&master, "SET replicated yes");
    assert_true(wait_until(is_replicated, &f.redis, WAIT_DEADLINE_MS));
    serve_replica();
    fixture_expect_in_the_end(&f, CARD, 200);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fixture_fini(&f);
    proxy_free(line);
    redis_stop(&master);
    return 0;
}

static void revoke_all(struct redis *redis)
{
    redis_do(redis, "DEL channels:api_keys");
}

static bool is_not_served(void *arg)
{
    (void)arg;
    return fixture_status(&f, CARD) != 200;
}

static double role(const char *name)
{
    double value = server_metric(&f.server, text_temp("channeld_redis_role{role=\"%s\"}", name));
    return value;
}

/* The key works for the stale limit, and no longer; then channeld is not ready. */
static void expect_end_within(int limit_ms)
{
    revoke_all(&master);
    assert_true(wait_until(is_not_served, NULL, limit_ms + WAIT_DEADLINE_MS));
    assert_int_equal(fixture_status(&f, CARD), 500);
    server_await_admin(&f.server, "/readyz", 503);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_connected"), 0);
    assert_int_equal((int)(role("replica") + role("master") + role("unknown")), 0);
}

static void expect_truth_again(void)
{
    fixture_await(&f, CARD, 401);
    server_await_metric(&f.server, "channeld_redis_role{role=\"replica\"}", 2);
}

TEST_CASE_WITH(revoked_key_reaches_a_linked_replica, set_up, tear_down)
{
    assert_int_equal((int)role("replica"), 2);
    assert_int_equal((int)(role("master") + role("unknown")), 0);
    revoke_all(&master);
    fixture_await(&f, CARD, 401);
    assert_in_range((int)server_metric(&f.server, "channeld_redis_replica_lag_seconds"), 0, 3);
    assert_false(server_has_lost_redis(&f.server));
}

/* Without those that redis_do() adds. */
static long long commands_of_others(struct redis *redis)
{
    return redis_info_number(redis, "total_commands_processed") - redis_calls(redis, "ping");
}

/* What tracking costs is done by the server that has the trackers: the replica. */
TEST_CASE_WITH(readers_of_a_replica_cost_its_master_nothing, set_up, tear_down)
{
    enum { WRITES = 100 };
    long long clients = redis_info_number(&master, "connected_clients");
    long long commands = commands_of_others(&master);
    for (int i = 0; i < WRITES; i++)
        redis_do(&master, "HSET channels:card:1 title t%d", i);
    fixture_await_text(&f, CARD, "\"t99\"", true);
    assert_int_equal(redis_info_number(&f.redis, "tracking_clients"), 2);
    assert_true(server_metric(&f.server, "channeld_cache_invalidations_total") > 0);
    assert_int_equal(redis_info_number(&master, "tracking_clients"), 0);
    assert_int_equal(redis_info_number(&master, "tracking_total_keys"), 0);
    assert_int_equal(redis_info_number(&master, "tracking_total_prefixes"), 0);
    assert_int_equal(redis_info_number(&master, "connected_clients"), clients);
    AUTOFREE char *list = redis_text(&master, "CLIENT LIST");
    assert_null(strstr(list, "name=channeld"));
    assert_int_equal(redis_calls(&master, "hmget"), 0);
    assert_int_equal(redis_calls(&master, "role"), 0);
    assert_int_equal(redis_calls(&master, "client|tracking"), 0);
    /* The writes, those that follow them here, and one acknowledgement of the replica a second. */
    assert_in_range(commands_of_others(&master) - commands, WRITES, 2 * WRITES);
}

TEST_CASE_WITH(replica_without_its_link_is_lost_from_its_last_update_on, set_up, tear_down)
{
    proxy_set_refusing(line, true);
    proxy_inject(line, PROXY_RESET);
    expect_end_within(STALE_LIMIT_MS + NOTICE_MS);
    server_await_log(&f.server, "its link to the master is down");
    proxy_restore(line);
    expect_truth_again();
}
