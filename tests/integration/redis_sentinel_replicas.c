/* Reading from replicas that Sentinels name: a replica that is lost, cut off or alone is left for another. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/sentinel.h"

enum { MOVE_MS = 3000, TRIAL_MS = 30000, STAY_MS = 30000, GRACE_MS = 5000 };

static struct sentinel_cluster cluster;
static struct fixture fixture;

/* One worker, so that it has one connection. `user` is "name:password@" or "". */
static void start_channeld(const char *user)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    static const char scheme[] = "redis+sentinel://";
    AUTOFREE char *url = text_printf("%s%s%s?role=replica", scheme, user, cluster.url + strlen(scheme));
    fixture_serve(&fixture, url, env, SERVER_WAIT_READY);
}

static void write_catalogue(int replicas)
{
    catalogue_issue_key(&cluster.redis[0], FIXTURE_KEY);
    catalogue_put(&cluster.redis[0], "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    assert_int_equal(redis_integer(&cluster.redis[0], "WAIT %d %d", replicas, WAIT_DEADLINE_MS / 2),
                     replicas);
}

static int set_up_with(int replicas)
{
    sentinel_cluster_start(&cluster, replicas, 1);
    write_catalogue(replicas);
    /* No replica is to be promoted: these tests are about replicas. */
    redis_do(&cluster.sentinel[0], "SENTINEL SET " SENTINEL_MASTER " quorum 5");
    start_channeld("");
    return 0;
}

static int set_up_two_replicas(void **state)
{
    (void)state;
    return set_up_with(2);
}

static int set_up_one_replica(void **state)
{
    (void)state;
    return set_up_with(1);
}

static int tear_down(void **state)
{
    (void)state;
    fixture_fini(&fixture);
    sentinel_cluster_stop(&cluster);
    return 0;
}

static bool is_connected_to(int redis)
{
    if (!process_is_running(&cluster.redis[redis].process))
        return false;
    redis_disconnect(&cluster.redis[redis]);
    AUTOFREE char *list = redis_text(&cluster.redis[redis], "CLIENT LIST TYPE normal");
    return strstr(list, "name=channeld") != NULL;
}

/* The Redis that it is connected to; -1 when none. */
static int connected_redis(void)
{
    for (int i = 0; i < cluster.redis_count; i++)
        if (is_connected_to(i))
            return i;
    return -1;
}

static bool is_at(void *arg)
{
    return is_connected_to(*(int *)arg) && fixture_status(&fixture, "channel/by-id/1/") == 200;
}

static void expect_move_to(int redis, int at_most_ms)
{
    if (!wait_until(is_at, &redis, at_most_ms + WAIT_DEADLINE_MS))
        fail_msg("connected to %d, not to %d", connected_redis(), redis);
    assert_int_equal(fixture_status(&fixture, "channel/by-id/404/"), 404); /* which needs Redis */
}

/* With sixteen workers the odds that one of two replicas is left out by chance are one to thirty thousand. */
TEST_CASE_WITH(workers_share_the_replicas, set_up_two_replicas, tear_down)
{
    static const char *const env[] = {"CHANNELD_WORKERS=16", NULL};
    struct server many;
    server_stop(&fixture.server);
    AUTOFREE char *url = text_printf("%s?role=replica", cluster.url);
    struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&many, &spec);
    server_await_metric(&many, "channeld_redis_connected", 16);
    assert_false(is_connected_to(0));
    assert_true(is_connected_to(1));
    assert_true(is_connected_to(2));
    server_stop(&many);
}

TEST_CASE_WITH(killed_replica_is_left_for_the_other, set_up_two_replicas, tear_down)
{
    int first = connected_redis();
    assert_in_range(first, 1, 2);
    redis_kill(&cluster.redis[first]);
    expect_move_to(3 - first, MOVE_MS);
}

static bool no_master_stands_in(void *unused)
{
    (void)unused;
    return (int)server_metric(&fixture.server, "channeld_redis_stand_ins") == 0;
}

/* The master is used when there is no replica, and only until there is one that stays. */
SLOW_TEST_WITH(master_stands_in_until_there_is_a_replica_again, set_up_one_replica, tear_down)
{
    assert_int_equal(connected_redis(), 1);
    redis_kill(&cluster.redis[1]);
    expect_move_to(0, MOVE_MS);
    server_await_metric(&fixture.server, "channeld_redis_stand_ins", 1);
    redis_restart(&cluster.redis[1]);
    sentinel_cluster_await_link(&cluster, 1);
    int64_t began = wait_now_ms();
    assert_true(wait_until(no_master_stands_in, NULL, TRIAL_MS + STAY_MS + 2 * MOVE_MS + WAIT_DEADLINE_MS));
    assert_true(wait_now_ms() - began > STAY_MS);
    expect_move_to(1, MOVE_MS);
    assert_int_equal((int)server_metric(&fixture.server, "channeld_redis_failovers_total"), 1);
}

/* Sentinel cannot ping it any more, while it still replicates. */
SLOW_TEST_WITH(replica_that_sentinel_calls_down_is_left_for_the_other, set_up_two_replicas, tear_down)
{
    server_stop(&fixture.server);
    for (int i = 0; i < cluster.redis_count; i++)
        redis_do(&cluster.redis[i], "ACL SETUSER app on >secret ~* +@all");
    start_channeld("app:secret@");
    int first = connected_redis();
    assert_in_range(first, 1, 2);
    redis_do(&cluster.redis[first], "ACL SETUSER default -ping");
    expect_move_to(3 - first, GRACE_MS + MOVE_MS);
    server_await_log(&fixture.server, "it is reported as down");
    redis_do(&cluster.redis[first], "ACL SETUSER default +ping");
}
