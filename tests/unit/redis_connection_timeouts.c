/* Time limits of a connection: the reply timeout, the heartbeat, replies that take long, a slow handshake. */
#include "base/clock.h"
#include "unit/fixtures/redis_fake.h"

static struct fake_redis fake;

/* From a command until its timeout counts. */
enum { TIMEOUT_MS = REDIS_CONNECTION_REPLY_TIMEOUT_MS + REDIS_CONNECTION_SECOND_LOOK_MS };

/* In each turn of a drip. */
enum { DRIP_MS = 5 };

/* What does not end is waited for at least so long, while it makes progress. */
enum { AT_LEAST_MS = (REDIS_CONNECTION_REPLY_HEARTBEATS_MAX - 1) * REDIS_CONNECTION_HEARTBEAT_MS };

/* Waits for the loss of the connection; returns how long after `began` it was. */
static int64_t await_loss(int64_t began)
{
    SESSION_UNTIL(session.lost == 1);
    return wait_now_ms() - began;
}

TEST_CASE(reply_timeout_ends_the_connection)
{
    session_open_ready(&fake);
    fake.mute = true;
    int64_t began = wait_now_ms();
    assert_int_equal(session_send("ECHO", "a"), 0);
    assert_int_equal(await_loss(began), TIMEOUT_MS);
    assert_int_equal(session.sent[0].losses, 1);
    session_end();
}

TEST_CASE(heartbeat_notices_a_silent_server)
{
    session_open_ready(&fake);
    fake.mute = true;
    assert_int_equal(await_loss(wait_now_ms()), REDIS_CONNECTION_HEARTBEAT_MS + TIMEOUT_MS);
    assert_non_null(
        strstr(buf_c_str(&fake.log), "PING\nROLE\nPING\n")); /* the handshake's and the heartbeat's */
    session_end();
}

TEST_CASE(refused_heartbeat_ends_the_connection)
{
    session_open_ready(&fake);
    fake.ping = "-BUSY Redis is busy running a script.\r\n";
    assert_int_equal(await_loss(wait_now_ms()), REDIS_CONNECTION_HEARTBEAT_MS);
    fake.ping = "+PONG\r\n";
    SESSION_UNTIL(session.ready == 2);
    session_end();
}

/* A Redis that cannot save refuses writes and PING, but may be read. */
TEST_CASE(misconf_does_not_end_the_connection)
{
    session_open(&fake);
    fake.ping = "-MISCONF Redis is configured to save RDB snapshots\r\n";
    session_start();
    session_turn_for(2 * REDIS_CONNECTION_HEARTBEAT_MS + REDIS_CONNECTION_HEARTBEAT_MS / 2);
    assert_int_equal(session.lost, 0);
    assert_true(redis_connection_last_pong_ms(session_connection()) +
                    2 * (uint64_t)REDIS_CONNECTION_HEARTBEAT_MS >=
                clock_boot_ms());
    session_end();
}

/* Each reply takes its time, but none longer than the limit. */
TEST_CASE(slow_replies_do_not_end_the_connection)
{
    session_open_ready(&fake);
    fake.slice = 1;
    int64_t until = wait_now_ms() + REDIS_CONNECTION_REPLY_TIMEOUT_MS + REDIS_CONNECTION_HEARTBEAT_MS;
    while (wait_now_ms() < until) {
        if (session.answered == session.sent_count)
            assert_int_equal(session_send("ECHO", "a text that takes a while"), 0);
        session_turn();
        session_pass(DRIP_MS);
    }
    assert_int_equal(session.lost, 0);
    fake.slice = 0;
    SESSION_UNTIL(session.answered == session.sent_count);
    session_end();
}

/* One turn in which the server sends a little more. */
static void drip(const char *piece)
{
    struct fake_connection *c = fake_current(&fake);
    if (c->out.len == 0)
        buf_append_str(&c->out, piece);
    session_turn();
    session_pass(DRIP_MS);
}

/* A ready connection with a command that the server does not answer by itself; returns since when. */
static int64_t begin_hanging(void)
{
    session_open_ready(&fake);
    fake.mute = true;
    int64_t began = wait_now_ms();
    assert_int_equal(session_send("HANG", NULL), 0);
    return began;
}

/* Drips until the connection is lost; returns how long after `began` that was. */
static int64_t drip_until_lost(int64_t began, const char *piece)
{
    while (session.lost == 0)
        drip(piece);
    return wait_now_ms() - began;
}

static void expect_reconnection(void)
{
    fake.mute = false;
    SESSION_UNTIL(session.ready == 2);
    session_end();
}

/* The heartbeat waits behind it. */
TEST_CASE(large_reply_may_take_longer_than_the_timeout)
{
    enum { SIZE = 1 << 20, WHILE_MS = REDIS_CONNECTION_REPLY_TIMEOUT_MS + 2 * REDIS_CONNECTION_HEARTBEAT_MS };
    static char rest[SIZE];
    (void)begin_hanging();
    buf_printf(&fake_current(&fake)->out, "$%d\r\n", SIZE);
    int64_t until = wait_now_ms() + WHILE_MS;
    int sent = 0;
    for (; wait_now_ms() < until; sent++) {
        SESSION_UNTIL(fake_current(&fake)->out.len == 0);
        drip("x");
    }
    SESSION_UNTIL(fake_current(&fake)->out.len == 0);
    assert_int_equal(session.lost, 0);
    assert_non_null(strstr(buf_c_str(&fake.log), "PING\n"));
    memset(rest, 'x', sizeof rest);
    buf_append(&fake_current(&fake)->out, rest, (size_t)(SIZE - sent));
    fake_send(&fake, "\r\n+PONG\r\n");
    fake.mute = false;
    SESSION_UNTIL(session.sent[0].replies == 1);
    session_end();
}

/* Sent again on the next connection it would end that one, too. */
TEST_CASE(endless_reply_fails_its_own_command)
{
    int64_t began = begin_hanging();
    assert_int_equal(session_send("HANG", NULL), 0);
    fake_send(&fake, "*2\r\n$500000000\r\n");
    assert_true(drip_until_lost(began, "x") >= AT_LEAST_MS);
    assert_int_equal(session.sent[0].errors, 1);
    assert_int_equal(session.sent[1].losses, 1);
    assert_int_equal(session.metrics.redis_oversize_replies_total, 1);
    expect_reconnection();
}

/* Commands may be lost where invalidations are still pushed. */
TEST_CASE(pushes_do_not_extend_the_timeout)
{
    int64_t began = begin_hanging();
    assert_in_range(drip_until_lost(began, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"), TIMEOUT_MS,
                    TIMEOUT_MS + DRIP_MS);
    assert_int_equal(session.sent[0].losses, 1);
    expect_reconnection();
}

/* The reply is behind it. The push is no reply to the command, which is sent again on the next connection. */
TEST_CASE(large_push_may_take_longer_than_the_timeout_but_must_end)
{
    int64_t began = begin_hanging();
    fake_send(&fake, ">2\r\n$10\r\ninvalidate\r\n*1000000\r\n");
    assert_true(drip_until_lost(began, "$1\r\nk\r\n") >= AT_LEAST_MS);
    assert_int_equal(session.sent[0].errors, 0);
    assert_int_equal(session.sent[0].losses, 1);
    assert_int_equal(session.metrics.redis_oversize_replies_total, 0);
    expect_reconnection();
}

/* This process was stopped for longer than the timeout; the replies are in the socket. */
TEST_CASE(timeout_after_a_stop_reads_the_socket_first)
{
    session_open_ready(&fake);
    assert_int_equal(session_send("ECHO", "a"), 0);
    session_turn_loop(); /* sends it */
    fake_turn(&fake);    /* answers it */
    session_pass(REDIS_CONNECTION_REPLY_TIMEOUT_MS + REDIS_CONNECTION_HEARTBEAT_MS + 200);
    session_turn_for(100);
    assert_int_equal(session.sent[0].replies, 1);
    assert_int_equal(session.lost, 0);
    assert_int_equal(session.ready, 1);
    session_end();
}

/* Otherwise a Redis that needs longer for all that connect at once would have time for none. */
TEST_CASE(attempt_after_one_that_timed_out_has_twice_as_much_time)
{
    session_open(&fake);
    fake.mute = true;
    session_connect();
    assert_in_range(session_await_failure(2), 2 * REDIS_SESSION_LIMIT_MS + REDIS_SESSION_BACKOFF_MIN_MS / 2,
                    2 * REDIS_SESSION_LIMIT_MS + REDIS_SESSION_BACKOFF_MIN_MS);
    fake.mute = false;
    SESSION_UNTIL(session.ready == 1);
    session_end();
}

TEST_CASE(handshake_without_reply_times_out)
{
    session_open(&fake);
    fake.mute = true;
    int64_t began = wait_now_ms();
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total == 1);
    assert_int_equal(wait_now_ms() - began, REDIS_SESSION_LIMIT_MS);
    fake.mute = false;
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session.lost, 0);
    session_end();
}
