/* A replica that Sentinel has named must follow the master that Sentinel names, by whatever name. */
#include "base/clock.h"
#include "redis/sentinel.h"
#include "unit/fixtures/redis_fake.h"

enum { LIMIT_MS = 2500 }; /* the stale limit, which is less than the grace that there is at most */

static struct fake_redis redis;
static struct fake_redis sentinel;
static char master[128];   /* the Sentinel's reply about it */
static char replicas[256]; /* and about the replica, which is `redis` */
static char role[128];     /* the replica's reply to ROLE */

static void name_master(const char *host, int port)
{
    sentinel_name(master, host, port);
}

static void follow(const char *host, int port)
{
    (void)snprintf(role, sizeof role, "*5\r\n$5\r\nslave\r\n$%zu\r\n%s\r\n:%d\r\n$9\r\nconnected\r\n:7\r\n",
                   strlen(host), host, port);
}

static int list_replica(char *out, size_t size, int port, const char *flags)
{
    char digits[8];
    int n = snprintf(digits, sizeof digits, "%d", port);
    return snprintf(
        out, size,
        "%%4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$%d\r\n%s\r\n$5\r\nflags\r\n$%zu\r\n%s\r\n"
        "$18\r\nmaster-link-status\r\n$2\r\nok\r\n",
        n, digits, strlen(flags), flags);
}

static void flag_replica(const char *flags)
{
    int n = snprintf(replicas, sizeof replicas, "*1\r\n");
    (void)list_replica(replicas + n, sizeof replicas - (size_t)n, redis.port, flags);
}

/* The master is at a port where nobody listens. */
static void begin(uint64_t stale_limit_ms)
{
    static char unused[128];
    fake_open(&redis);
    fake_open(&sentinel);
    session_begin_by_sentinel(&redis, &sentinel, "127.0.0.1", unused);
    session.endpoint.discovery.replica = true;
    session.stale_limit_ms = stale_limit_ms;
    name_master("10.0.0.1", 1);
    follow("10.0.0.1", 1);
    flag_replica("slave");
    sentinel.sentinel = master;
    sentinel.replicas = replicas;
    redis.role = role;
    redis.info = "$53\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:0\r\n\r\n";
}

static void begin_ready(uint64_t stale_limit_ms)
{
    begin(stale_limit_ms);
    session_start();
}

static void end(void)
{
    session_end();
    session.other = NULL;
    fake_fini(&sentinel);
}

TEST_CASE(replica_of_the_named_master_is_kept)
{
    begin_ready(0);
    session_turn_for(3 * REDIS_CONNECTION_HEARTBEAT_MS);
    assert_int_equal(session.lost, 0);
    end();
}

/* With a grace: as long as data may be stale. And its data counts as good until Sentinel changed its mind. */
TEST_CASE(replica_of_a_deposed_master_is_left)
{
    begin_ready(LIMIT_MS);
    uint64_t began_ms = clock_boot_ms();
    name_master("10.0.0.2", 1);
    SESSION_UNTIL(session.lost == 1);
    uint64_t took_ms = clock_boot_ms() - began_ms;
    assert_in_range(took_ms, LOCATOR_INTERVAL_MS + LIMIT_MS,
                    LOCATOR_INTERVAL_MS + LIMIT_MS + REDIS_CONNECTION_HEARTBEAT_MS);
    assert_true(session_valid_until_ms() <= began_ms + LOCATOR_INTERVAL_MS + REDIS_CONNECTION_HEARTBEAT_MS);
    session_turn_for(4 * REDIS_SESSION_BACKOFF_MIN_MS); /* and is not taken again */
    assert_int_equal(session.ready, 1);
    follow("10.0.0.2", 1);
    SESSION_UNTIL(session.ready == 2);
    end();
}

TEST_CASE(replica_that_follows_in_time_is_kept)
{
    begin_ready(LIMIT_MS);
    name_master("10.0.0.2", 1);
    session_turn_for(LOCATOR_INTERVAL_MS + LOCATOR_INTERVAL_MS / 4);
    follow("10.0.0.2", 1);
    session_turn_for(LIMIT_MS);
    assert_int_equal(session.lost, 0);
    end();
}

static void check_refused(const char *host, int port)
{
    begin(LIMIT_MS);
    follow(host, port);
    session_start_refused();
    follow("10.0.0.1", 1);
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST_CASE(replica_of_another_master_is_refused)
{
    check_refused("10.0.0.2", 1);
    check_refused("10.0.0.1", 2);
    check_refused("fe80::1%eth0", 1);
}

/* As where Sentinel has addresses and replicas have names, or the reverse. */
TEST_CASE(masters_are_compared_by_address)
{
    begin(LIMIT_MS);
    name_master("127.0.0.1", 1);
    follow("localhost", 1);
    session_start();
    session_turn_for(LIMIT_MS + 2 * REDIS_CONNECTION_HEARTBEAT_MS);
    name_master("LocalHost", 1);
    follow("0127.0.0.1.invalid", 1);
    int64_t began = wait_now_ms();
    SESSION_UNTIL(session.lost == 1);
    assert_true(wait_now_ms() - began >= LIMIT_MS - 2 * REDIS_CONNECTION_HEARTBEAT_MS);
    end();
}

TEST_CASE(masters_are_compared_in_any_spelling)
{
    begin(0);
    name_master("::1", 1);
    follow("0:0:0:0:0:0:0:1", 1);
    session_start();
    session_turn_for(2 * REDIS_CONNECTION_HEARTBEAT_MS);
    assert_int_equal(session.lost, 0);
    end();
}

static void check_left_when(const char *flags)
{
    begin_ready(1000);
    flag_replica(flags);
    SESSION_UNTIL(session.lost == 1);
    end();
}

TEST_CASE(replica_that_is_down_is_left)
{
    check_left_when("s_down,slave");
    check_left_when("slave,disconnected");
}

/* As for a moment after a Sentinel was started. */
TEST_CASE(replica_that_was_down_for_a_moment_is_kept)
{
    begin_ready(LIMIT_MS);
    flag_replica("slave,disconnected");
    session_turn_for(LOCATOR_INTERVAL_MS + LOCATOR_INTERVAL_MS / 4);
    flag_replica("slave");
    session_turn_for(LIMIT_MS);
    assert_int_equal(session.lost, 0);
    end();
}

/* With ?role=replica and no replica that can be used, the master serves. */
TEST_CASE(master_stands_in_for_a_replica)
{
    begin(LIMIT_MS);
    name_master("127.0.0.1", redis.port);
    sentinel.replicas = "*0\r\n";
    redis.role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
    session_start();
    assert_int_equal(session.metrics.redis_role[REDIS_ROLE_MASTER], 1);
    session_turn_for(LOCATOR_INTERVAL_MS + LOCATOR_INTERVAL_MS / 4);
    assert_int_equal(session.lost, 0);
    assert_int_equal(session.metrics.redis_stand_ins, 1);
    end();
    assert_int_equal(session.metrics.redis_stand_ins, 0);
}

/* The master is another server than the replicas. */
static void begin_with_master(struct fake_redis *serving)
{
    begin(LIMIT_MS);
    fake_open(serving);
    session.third = serving;
    name_master("127.0.0.1", serving->port);
}

/* After the replicas have failed, in turn, the master is tried. */
TEST_CASE(master_follows_replicas_that_fail)
{
    static struct fake_redis serving;
    begin_with_master(&serving);
    redis.ping = "-LOADING Redis is loading the dataset in memory\r\n";
    session_start();
    assert_int_equal(session.metrics.redis_role[REDIS_ROLE_MASTER], 1);
    assert_int_equal(serving.accepted, 1);
    assert_true(redis.accepted >= 1);
    end();
    fake_fini(&serving);
}

/* An attempt at a replica has failed after INFO; the master, which stands in, has no lag. */
TEST_CASE(lag_of_a_replica_that_was_not_used_is_not_shown)
{
    static struct fake_redis serving;
    begin_with_master(&serving);
    follow("127.0.0.1", serving.port);
    redis.info = "$54\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:14\r\n\r\n";
    redis.ping = "-MASTERDOWN Link with MASTER is down\r\n";
    session_start();
    assert_int_equal(session.metrics.redis_role[REDIS_ROLE_MASTER], 1);
    session_turn_for(10 * REDIS_CONNECTION_HEARTBEAT_MS);
    assert_int_equal(session.lost, 0);
    assert_int_equal(session.metrics.redis_replica_lag_seconds, 0);
    end();
    fake_fini(&serving);
}

enum { SECOND_ATTEMPT_MS = 2 * REDIS_SESSION_LIMIT_MS };

/* The time of an attempt grows when all servers have timed out, not with each of them. */
TEST_CASE(next_server_is_not_given_more_time_than_the_first)
{
    begin(LIMIT_MS);
    name_master("127.0.0.1", redis.port);
    redis.mute = true;
    session_connect();
    assert_true(session_await_failure(2) < SECOND_ATTEMPT_MS);
    assert_true(session_await_failure(3) >= REDIS_SESSION_LIMIT_MS); /* twice as much as a replica had */
    end();
}

TEST_CASE(master_is_refused_as_replica)
{
    begin(LIMIT_MS);
    redis.role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
    session_start_refused();
    redis.role = role;
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session.metrics.redis_role[REDIS_ROLE_REPLICA], 1);
    end();
}

static void list_two(char *out, size_t size, int first, int second)
{
    int n = snprintf(out, size, "*2\r\n");
    n += list_replica(out + n, size - (size_t)n, first, "slave");
    (void)list_replica(out + n, size - (size_t)n, second, "slave");
}

TEST_CASE(replica_that_is_lost_as_soon_as_it_is_used_gives_way_to_another)
{
    static struct fake_redis second;
    static char two[512];
    begin(30000);
    fake_open(&second);
    second.role = role;
    second.info = redis.info;
    session.third = &second;
    list_two(two, sizeof two, redis.port, second.port);
    sentinel.replicas = two;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    struct fake_redis *sick = redis.accepted > 0 ? &redis : &second;
    const struct fake_redis *other = sick == &redis ? &second : &redis;
    for (int losses = 1; other->accepted == 0; losses++) {
        fake_drop_all(sick, true);
        SESSION_UNTIL(session.ready > losses || other->accepted > 0);
        assert_in_range(losses, 1, 2);
    }
    end();
    fake_fini(&second);
}

/* One of them still names a master that is gone. The replicas that the other one names refuse. */
TEST_CASE(master_stands_in_although_two_sentinels_disagree)
{
    enum { ATTEMPTS = 20 };
    static struct fake_redis outdated;
    static char gone[128];
    static char host[] = "127.0.0.1";
    static char two[512];
    begin(30000);
    fake_open(&outdated);
    session.third = &outdated;
    session.endpoint.discovery.count = 2;
    session.endpoint.discovery.at[1].host = host;
    session.endpoint.discovery.at[1].port = outdated.port;
    sentinel_name(gone, "127.0.0.1", 1);
    outdated.sentinel = gone;
    outdated.replicas = "*0\r\n";
    name_master("127.0.0.1", redis.port);
    redis.role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
    list_two(two, sizeof two, 2, 3);
    sentinel.replicas = two;
    session_connect();
    SESSION_UNTIL(session.ready == 1 || session.metrics.redis_disconnects_total == ATTEMPTS);
    assert_int_equal(session.ready, 1);
    end();
    fake_fini(&outdated);
}
