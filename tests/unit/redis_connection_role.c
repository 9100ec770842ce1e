/* A connection checks the server's version, its role and its link to the master. */
#include "base/clock.h"
#include "redis/server.h"
#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

#define REPLICA(link) "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n" link "\r\n:7\r\n"

static const char MASTER[] = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
static const char LINKED[] = REPLICA("$9\r\nconnected");
static const char CUT_OFF[] = REPLICA("$7\r\nconnect");
static const char DENIED[] = "-NOPERM this user has no permissions to run this command\r\n";

/* Replicas tell whole seconds, rounded down. */
enum { SECOND_MS = 1000 };

static struct fake_redis fake;
static char info[256];

static void begin(const char *role)
{
    fake_open(&fake);
    fake.role = role;
    session_begin(&fake, "127.0.0.1");
}

static void begin_ready(const char *role)
{
    begin(role);
    session_start();
}

static void set_info(const char *text)
{
    (void)snprintf(info, sizeof info, "$%zu\r\n%s\r\n", strlen(text), text);
    fake.info = info;
}

/* The fake's link from now on. */
static void set_link(const char *status, int last_io_s)
{
    AUTOFREE char *text =
        text_printf("master_link_status:%s\r\nmaster_last_io_seconds_ago:%d\r\n", status, last_io_s);
    set_info(text);
}

/* The same for one whose link answers all the time, at that position. */

/* Ready at a replica with such a link. */
static void begin_linked(int last_io_s)
{
    begin(LINKED);
    set_link("up", last_io_s);
    session_start();
}

static size_t times(const char *command)
{
    return text_count(buf_c_str(&fake.log), command);
}

static void check_role(enum redis_role_kind role)
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

static bool tracks_with(enum redis_tracking_mode wanted, const char *command, const char *hello)
{
    begin(MASTER);
    fake.hello = hello;
    session.tracking.mode = wanted;
    session.tracking.prefix = SPAN("c:");
    session.tracking.names = (const struct span[]){SPAN("a"), SPAN("bc")};
    session.tracking.name_count = 2;
    session_start();
    bool tracking = redis_connection_is_tracking(session_connection());
    assert_int_equal(times("CLIENT "), tracking);
    assert_int_equal(times(command), tracking);
    assert_int_equal(session.metrics.redis_tracking_refused_total, !tracking);
    end();
    return tracking;
}

static bool tracks(const char *hello)
{
    bool by_key = tracks_with(REDIS_TRACKING_KEYS, "CLIENT TRACKING ON OPTOUT\n", hello);
    bool broadcast =
        tracks_with(REDIS_TRACKING_BROADCAST, "CLIENT TRACKING ON BCAST PREFIX c:a PREFIX c:bc\n", hello);
    assert_int_equal(by_key, broadcast);
    return by_key;
}

TEST_CASE(tracking_depends_on_the_version)
{
    assert_true(tracks("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.5\r\n"));
    assert_false(tracks("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.4\r\n"));
    assert_true(tracks("%2\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n8.1.0\r\n"));
    assert_false(tracks("+OK\r\n"));
}

TEST_CASE(tracking_depends_on_the_version_of_each_connection)
{
    begin(MASTER);
    fake.hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n6.2.7\r\n";
    session.tracking.mode = REDIS_TRACKING_KEYS;
    session_start();
    assert_false(redis_connection_is_tracking(session_connection()));
    fake.hello = FAKE_HELLO;
    fake_drop_all(&fake, false);
    SESSION_UNTIL(session.ready == 2);
    assert_true(redis_connection_is_tracking(session_connection()));
    end();
}

/* Redis was busy with a script, which had ended by the PING of the handshake. */
TEST_CASE(tracking_that_is_refused_for_a_moment_is_tried_again)
{
    const char *tracking = fake.tracking;
    begin(MASTER);
    fake.tracking = "-BUSY Redis is busy running a script.\r\n";
    session.tracking.mode = REDIS_TRACKING_KEYS;
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total > 0);
    assert_int_equal(session.ready, 0);
    fake.tracking = tracking;
    SESSION_UNTIL(session.ready == 1);
    assert_true(redis_connection_is_tracking(session_connection()));
    assert_int_equal(session.metrics.redis_tracking_refused_total, 0);
    end();
}

/* --- role --- */

TEST_CASE(heartbeat_asks_a_master_for_its_role)
{
    begin_ready(MASTER);
    check_role(REDIS_ROLE_MASTER);
    SESSION_UNTIL(times("PING\n") == 3);
    assert_int_equal(times("ROLE\nPING\n"), 3);
    assert_int_equal(times("INFO"), 0);
    assert_true(session_valid_until_ms() == UINT64_MAX);
    end();
}

TEST_CASE(heartbeat_asks_a_replica_for_its_link)
{
    begin_linked(7);
    check_role(REDIS_ROLE_REPLICA);
    assert_int_equal(session.metrics.redis_replica_lag_seconds, 7);
    set_link("up", 3);
    SESSION_UNTIL(session.metrics.redis_replica_lag_seconds == 3);
    assert_int_equal(times("ROLE\nINFO replication\nPING\n"), 2);
    uint64_t valid_until_ms = session_valid_until_ms();
    assert_int_equal(clock_boot_ms() - valid_until_ms, 3000 + SECOND_MS);
    assert_int_equal(session.lost, 0);
    end();
}

static void check_refused_until_good(const char *role, const char *status, int last_io_s)
{
    begin(role);
    set_link(status, last_io_s);
    session_start_refused();
    fake.role = LINKED;
    set_link("up", 0);
    SESSION_UNTIL(session.ready == 1);
    end();
}

TEST_CASE(replica_without_its_master_is_refused)
{
    check_refused_until_good(CUT_OFF, "down", -1);
    check_refused_until_good(LINKED, "down", -1);
    check_refused_until_good(LINKED, "up", REDIS_MASTER_SILENCE_MAX_S + 1);
}

/* Lost, and since when: as the last good heartbeat told. */
static void check_lost_as_of(const char *role, const char *status, int last_io_s)
{
    enum { SILENT_BEFORE_S = 9 };
    begin_linked(SILENT_BEFORE_S);
    uint64_t valid_until_ms = session_valid_until_ms();
    fake.role = role;
    set_link(status, last_io_s);
    SESSION_UNTIL(session.lost == 1);
    assert_true(session_valid_until_ms() == valid_until_ms);
    assert_int_equal(clock_boot_ms() - valid_until_ms,
                     SILENT_BEFORE_S * 1000 + SECOND_MS + REDIS_CONNECTION_HEARTBEAT_MS);
    session_turn_for(2 * REDIS_SESSION_BACKOFF_MIN_MS);
    assert_int_equal(session.ready, 1);
    end();
}

TEST_CASE(replica_that_loses_its_master_was_good_until_it_last_heard_it)
{
    check_lost_as_of(CUT_OFF, "down", -1);
    check_lost_as_of(LINKED, "down", -1);
    check_lost_as_of(LINKED, "up", REDIS_MASTER_SILENCE_MAX_S + 1);
    check_lost_as_of(LINKED, "nonsense", 0);
}

TEST_CASE(role_change_makes_a_new_connection)
{
    begin_ready(MASTER);
    uint64_t last_pong_ms = redis_connection_last_pong_ms(session_connection());
    fake.role = LINKED;
    set_link("up", 0);
    SESSION_UNTIL(session.lost == 1);
    assert_int_equal(session_valid_until_ms(), last_pong_ms);
    SESSION_UNTIL(session.ready == 2);
    check_role(REDIS_ROLE_REPLICA);
    fake.role = MASTER;
    SESSION_UNTIL(session.ready == 3);
    check_role(REDIS_ROLE_MASTER);
    assert_int_equal(session.lost, 2);
    for (int i = 0; i < REDIS_FAILOVER_KINDS; i++)
        assert_int_equal(session.metrics.redis_failovers_total[i], i == REDIS_FAILOVER_ROLE ? 2 : 0);
    end();
}

TEST_CASE(sentinel_is_refused_as_redis)
{
    begin("*2\r\n$8\r\nsentinel\r\n*0\r\n");
    session_start_refused();
    end();
}

/* --- what an ACL denies --- */

static void begin_logged(const char *role, const char *reply_to_info)
{
    session_log(LOG_WARN);
    begin(role);
    fake.info = reply_to_info;
    session_start();
}

/* It serves, logs it once, and asks no more: each denial would be in the log of Redis. */
TEST_CASE(denied_role_is_logged_once)
{
    begin_logged(DENIED, DENIED);
    check_role(REDIS_ROLE_UNKNOWN);
    SESSION_UNTIL(times("PING\n") == 3);
    assert_int_equal(times("ROLE\n"), 1);
    fake_drop_all(&fake, false);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(times("ROLE\n"), 2);
    assert_int_equal(text_count(session_logged(), "redis denies ROLE"), 1);
    end();
}

TEST_CASE(denied_info_leaves_the_role)
{
    begin_logged(LINKED, DENIED);
    check_role(REDIS_ROLE_REPLICA);
    SESSION_UNTIL(times("PING\n") == 3);
    assert_int_equal(times("INFO"), 1);
    assert_true(session_valid_until_ms() >= redis_connection_last_pong_ms(session_connection()));
    fake.role = CUT_OFF;
    SESSION_UNTIL(session.lost == 1);
    assert_true(session_valid_until_ms() <= session.last_pong_ms);
    fake.role = LINKED;
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(text_count(session_logged(), "redis denies INFO"), 1);
    end();
}

TEST_CASE(role_that_is_denied_later_becomes_unknown)
{
    begin_linked(5);
    fake.role = DENIED;
    SESSION_UNTIL(session.metrics.redis_role[REDIS_ROLE_UNKNOWN] == 1);
    check_role(REDIS_ROLE_UNKNOWN);
    assert_true(session_valid_until_ms() == UINT64_MAX);
    assert_int_equal(session.lost, 0);
    end();
}

TEST_CASE(other_errors_to_role_end_the_connection)
{
    begin_ready(MASTER);
    fake.role = "-BUSY Redis is busy running a script.\r\n";
    SESSION_UNTIL(session.lost == 1);
    end();
}
