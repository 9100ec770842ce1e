/* What a connection makes of a Redis' word about itself: its version, its role, its link to the master. */
#include "base/clock.h"
#include "base/log.h"
#include "redis/role.h"
#include "support/text.h"
#include "unit/redis_fake.h"

#define REPLICA(link) "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n" link "\r\n:7\r\n"

static const char MASTER[] = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
static const char LINKED[] = REPLICA("$9\r\nconnected");
static const char CUT_OFF[] = REPLICA("$7\r\nconnect");
static const char DENIED[] = "-NOPERM this user has no permissions to run this command\r\n";

static struct fake fake;
static char info[128];

static void begin(const char *role)
{
    fake_open(&fake);
    fake.role = role;
    session_begin(&fake, "127.0.0.1");
}

static void begin_ready(const char *role)
{
    begin(role);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
}

/* What the fake says of its link from now on. */
static void set_link(const char *status, int silent_s)
{
    char text[96];
    int n = snprintf(text, sizeof text, "master_link_status:%s\r\nmaster_last_io_seconds_ago:%d\r\n", status,
                     silent_s);
    (void)snprintf(info, sizeof info, "$%d\r\n%s\r\n", n, text);
    fake.info = info;
}

static size_t times(const char *command)
{
    return text_count(buf_c_str(&fake.log), command);
}

static void expect_role(enum redis_role_kind role)
{
    for (int i = 0; i < REDIS_ROLE_KINDS; i++)
        assert_int_equal(session.metrics.redis_role[i], i == (int)role);
}

static void end(void)
{
    session_end();
    for (int i = 0; i < REDIS_ROLE_KINDS; i++)
        assert_int_equal(session.metrics.redis_role[i], 0);
    assert_int_equal(session.metrics.redis_replica_lag_seconds, 0);
}

/* --- version --- */

static bool tracks(const char *hello)
{
    begin(MASTER);
    fake.hello = hello;
    session.tracking_prefix = SPAN("c:");
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    bool tracking = redis_connection_is_tracking(session.redis_connection);
    assert_int_equal(times("CLIENT TRACKING ON BCAST PREFIX c:\n"), tracking);
    assert_int_equal(session.metrics.redis_tracking_refused_total, !tracking);
    end();
    return tracking;
}

TEST(tracking_is_asked_for_where_redis_orders_it_with_replies)
{
    assert_true(tracks("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.5\r\n"));
    assert_false(tracks("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.4\r\n"));
    assert_true(tracks("%2\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n8.1.0\r\n"));
    assert_false(tracks("+OK\r\n"));
}

TEST(each_connection_is_judged_by_its_own_version)
{
    begin(MASTER);
    fake.hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n6.2.7\r\n";
    session.tracking_prefix = SPAN("c:");
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    assert_false(redis_connection_is_tracking(session.redis_connection));
    fake.hello = HELLO_REPLY;
    fake_drop_all(&fake);
    SESSION_UNTIL(session.ready == 2);
    assert_true(redis_connection_is_tracking(session.redis_connection));
    end();
}

/* --- role --- */

TEST(a_master_is_asked_for_its_role_with_every_heartbeat)
{
    begin_ready(MASTER);
    expect_role(REDIS_ROLE_MASTER);
    SESSION_UNTIL(times("PING\n") == 3);
    assert_int_equal(times("ROLE\nPING\n"), 3);
    assert_int_equal(times("INFO"), 0);
    assert_true(redis_connection_good_ms(session.redis_connection) == UINT64_MAX);
    end();
}

TEST(a_replica_is_asked_for_its_link_as_well)
{
    begin(LINKED);
    set_link("up", 7);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    expect_role(REDIS_ROLE_REPLICA);
    assert_int_equal(session.metrics.redis_replica_lag_seconds, 7);
    set_link("up", 3);
    SESSION_UNTIL(session.metrics.redis_replica_lag_seconds == 3);
    assert_int_equal(times("ROLE\nINFO replication\nPING\n"), 2);
    uint64_t good_ms = redis_connection_good_ms(session.redis_connection);
    assert_in_range(clock_boot_ms() - good_ms, 3000, 4000 + (uint64_t)wait_slack_ms());
    assert_int_equal(session.lost, 0);
    end();
}

static void expect_not_taken_until_good(const char *role, const char *status, int silent_s)
{
    begin(role);
    set_link(status, silent_s);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 3);
    assert_int_equal(session.ready, 0);
    fake.role = LINKED;
    set_link("up", 0);
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST(a_replica_without_its_master_is_not_taken_into_use)
{
    expect_not_taken_until_good(CUT_OFF, "down", -1);
    expect_not_taken_until_good(LINKED, "down", -1);
    expect_not_taken_until_good(LINKED, "up", REDIS_MASTER_SILENCE_MAX_S + 1);
}

/* Lost, and since when: as the last good heartbeat told. */
static void expect_lost_as_of(const char *role, const char *status, int silent_s)
{
    enum { SILENT_BEFORE_S = 9 };
    begin(LINKED);
    set_link("up", SILENT_BEFORE_S);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    uint64_t good_ms = redis_connection_good_ms(session.redis_connection);
    fake.role = role;
    set_link(status, silent_s);
    SESSION_UNTIL(session.lost == 1);
    assert_true(redis_connection_good_ms(session.redis_connection) == good_ms);
    assert_in_range(clock_boot_ms() - good_ms, SILENT_BEFORE_S * 1000,
                    SILENT_BEFORE_S * 1000 + 2 * REDIS_CONNECTION_HEARTBEAT_MS + (uint64_t)wait_slack_ms());
    session_turn_for(2 * REDIS_CONNECTION_BACKOFF_MIN_MS);
    assert_int_equal(session.ready, 1);
    end();
}

TEST(a_replica_that_has_lost_its_master_is_lost_from_when_it_last_heard_it)
{
    expect_lost_as_of(CUT_OFF, "down", -1);
    expect_lost_as_of(LINKED, "down", -1);
    expect_lost_as_of(LINKED, "up", REDIS_MASTER_SILENCE_MAX_S + 1);
    expect_lost_as_of(LINKED, "nonsense", 0);
}

TEST(a_server_that_changes_its_role_is_connected_to_anew)
{
    begin_ready(MASTER);
    uint64_t last_pong_ms = redis_connection_last_pong_ms(session.redis_connection);
    fake.role = LINKED;
    set_link("up", 0);
    SESSION_UNTIL(session.lost == 1);
    assert_in_range(redis_connection_good_ms(session.redis_connection), last_pong_ms,
                    last_pong_ms + REDIS_CONNECTION_HEARTBEAT_MS + (uint64_t)wait_slack_ms());
    SESSION_UNTIL(session.ready == 2);
    expect_role(REDIS_ROLE_REPLICA);
    fake.role = MASTER;
    SESSION_UNTIL(session.ready == 3);
    expect_role(REDIS_ROLE_MASTER);
    assert_int_equal(session.lost, 2);
    end();
}

TEST(a_sentinel_is_no_redis)
{
    begin("*2\r\n$8\r\nsentinel\r\n*0\r\n");
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 2);
    assert_int_equal(session.ready, 0);
    end();
}

/* --- what an ACL denies --- */

static char *logged(int fd)
{
    static char text[8192];
    log_stop();
    ssize_t n = read(fd, text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    return text;
}

static void begin_logged(int ends[2], const char *role, const char *reply_to_info)
{
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(log_start(ends[1], LOG_WARN), 0);
    begin(role);
    fake.info = reply_to_info;
    session_connect();
    SESSION_UNTIL(session.ready == 1);
}

/* It serves, says so once, and asks no more: each denial would stand in Redis' own log. */
TEST(without_role_it_serves_and_says_so_once)
{
    int ends[2];
    begin_logged(ends, DENIED, DENIED);
    expect_role(REDIS_ROLE_UNKNOWN);
    SESSION_UNTIL(times("PING\n") == 3);
    assert_int_equal(times("ROLE\n"), 1);
    fake_drop_all(&fake);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(times("ROLE\n"), 2);
    assert_int_equal(text_count(logged(ends[0]), "redis denies ROLE"), 1);
    close(ends[0]);
    close(ends[1]);
    end();
}

TEST(without_info_a_replica_is_judged_by_its_role)
{
    int ends[2];
    begin_logged(ends, LINKED, DENIED);
    expect_role(REDIS_ROLE_REPLICA);
    SESSION_UNTIL(times("PING\n") == 3);
    assert_int_equal(times("INFO"), 1);
    assert_true(redis_connection_good_ms(session.redis_connection) >=
                redis_connection_last_pong_ms(session.redis_connection));
    fake.role = CUT_OFF;
    SESSION_UNTIL(session.lost == 1);
    assert_true(redis_connection_good_ms(session.redis_connection) <=
                redis_connection_last_pong_ms(session.redis_connection));
    fake.role = LINKED;
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(text_count(logged(ends[0]), "redis denies INFO"), 1);
    close(ends[0]);
    close(ends[1]);
    end();
}

TEST(a_role_that_is_denied_from_now_on_is_known_no_more)
{
    begin(LINKED);
    set_link("up", 5);
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    fake.role = DENIED;
    SESSION_UNTIL(session.metrics.redis_role[REDIS_ROLE_UNKNOWN] == 1);
    expect_role(REDIS_ROLE_UNKNOWN);
    assert_true(redis_connection_good_ms(session.redis_connection) == UINT64_MAX);
    assert_int_equal(session.lost, 0);
    end();
}

TEST(a_server_in_trouble_is_not_one_that_denies)
{
    begin_ready(MASTER);
    fake.role = "-BUSY Redis is busy running a script.\r\n";
    SESSION_UNTIL(session.lost == 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tracking_is_asked_for_where_redis_orders_it_with_replies),
        cmocka_unit_test(each_connection_is_judged_by_its_own_version),
        cmocka_unit_test(a_master_is_asked_for_its_role_with_every_heartbeat),
        cmocka_unit_test(a_replica_is_asked_for_its_link_as_well),
        cmocka_unit_test(a_replica_without_its_master_is_not_taken_into_use),
        cmocka_unit_test(a_replica_that_has_lost_its_master_is_lost_from_when_it_last_heard_it),
        cmocka_unit_test(a_server_that_changes_its_role_is_connected_to_anew),
        cmocka_unit_test(a_sentinel_is_no_redis),
        cmocka_unit_test(without_role_it_serves_and_says_so_once),
        cmocka_unit_test(without_info_a_replica_is_judged_by_its_role),
        cmocka_unit_test(a_role_that_is_denied_from_now_on_is_known_no_more),
        cmocka_unit_test(a_server_in_trouble_is_not_one_that_denies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
