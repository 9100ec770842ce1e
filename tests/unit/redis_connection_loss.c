/* Losing Redis, at any moment and in any way: every command is told once, in order, and the connection comes
 * back. */
#include "unit/fixtures/redis_fake.h"

static struct fake_redis fake;

static void send_some(struct session *s)
{
    (void)s;
    assert_int_equal(session_send("ECHO", "one"), 0);
    assert_int_equal(session_send("FAIL", NULL), 0);
    assert_int_equal(session_send("ECHO", "two"), 0);
}

/* The server closes after so many bytes: what was not answered is lost, and the next connection serves again.
 */
static bool lose_after(long bytes)
{
    session_open(&fake);
    fake.close_after = bytes;
    session.during_ready = send_some;
    session_connect();
    SESSION_UNTIL(fake.close_after == NEVER || session.answered == 3);
    bool cut = fake.close_after == NEVER;
    fake.close_after = NEVER;
    SESSION_UNTIL(session.sent_count >= 3 && session.answered == session.sent_count &&
                  redis_connection_is_ready(session.connection));
    session_turn_for(5);
    SESSION_UNTIL(session.answered == session.sent_count && redis_connection_is_ready(session.connection));
    assert_int_equal(session.ready, session.lost + 1);
    bool gone = false;
    for (size_t i = 0; i < session.sent_count;
         i++) { /* within a connection nothing is answered after a loss */
        gone = i % 3 == 0 ? false : gone;
        assert_true(!gone || session.sent[i].losses == 1);
        gone = session.sent[i].losses == 1;
    }
    session_end();
    return cut;
}

TEST_CASE(loss_after_every_byte)
{
    long bytes = 0;
    while (lose_after(bytes))
        bytes++;
    assert_true(bytes > (long)strlen(FAKE_HELLO) + 20);
}

static void check_replies_before_the_end(bool reset)
{
    session_open_ready(&fake);
    assert_int_equal(session_send("ECHO", "a"), 0);
    assert_int_equal(session_send("ECHO", "b"), 0);
    assert_int_equal(session_send("HANG", NULL), 0);
    (void)uv_run(&session.loop, UV_RUN_NOWAIT); /* sends them */
    fake_turn(&fake);                           /* answers two and closes, before the loop turns again */
    fake_drop_all(&fake, reset);
    SESSION_UNTIL(session.lost == 1);
    assert_int_equal(session.sent[0].replies, 1);
    assert_int_equal(session.sent[1].replies, 1);
    assert_int_equal(session.sent[2].losses, 1);
    session_end();
}

TEST_CASE(replies_before_a_close_or_a_reset_are_delivered)
{
    check_replies_before_the_end(false);
    check_replies_before_the_end(true);
}

static int64_t attempts_ms[16]; /* when each failed */

/* Waits until `count` attempts have failed. */
static void await_attempts(uint64_t count)
{
    for (uint64_t i = session.metrics.redis_disconnects_total; i < count; i++) {
        SESSION_UNTIL(session.metrics.redis_disconnects_total > i);
        attempts_ms[i] = wait_now_ms();
    }
}

/* Of each pause half is random: 25 to 50 ms, 50 to 100, 100 to 200, 200 to 400, 400 to 800, 500 to 1000, ...
 */
TEST_CASE(reconnection_backs_off_from_50_ms_to_a_second)
{
    enum { ATTEMPTS = 8, TIMER_MS = 2 };
    int pause = REDIS_CONNECTION_BACKOFF_MIN_MS;
    session_open(&fake);
    fake_stop_listening(&fake);
    session_connect();
    await_attempts(ATTEMPTS);
    for (int i = 1; i < ATTEMPTS; i++) {
        assert_in_range(attempts_ms[i] - attempts_ms[i - 1], pause / 2 - TIMER_MS, pause + wait_slack_ms());
        pause = 2 * pause < REDIS_CONNECTION_BACKOFF_MAX_MS ? 2 * pause : REDIS_CONNECTION_BACKOFF_MAX_MS;
    }
    session_end();
}

TEST_CASE(reconnection_begins_anew_with_short_pauses_after_success)
{
    session_open(&fake);
    fake_stop_listening(&fake);
    session_connect();
    await_attempts(5);
    fake_listen(&fake, "127.0.0.1", fake.port);
    SESSION_UNTIL(session.ready == 1);
    int64_t began = wait_now_ms();
    fake_drop_all(&fake, false);
    SESSION_UNTIL(session.ready == 2);
    assert_true(wait_now_ms() - began <= REDIS_CONNECTION_BACKOFF_MIN_MS + wait_slack_ms());
    session_end();
}

/* Workers that lose Redis together must not come back in step: of ten first pauses no two thirds are the
 * same. */
TEST_CASE(reconnection_pauses_are_random)
{
    enum { ROUNDS = 10, WIDTH_MS = REDIS_CONNECTION_BACKOFF_MIN_MS / 2 };
    int seen[WIDTH_MS + 2] = {0};
    int most = 0;
    for (int i = 0; i < ROUNDS; i++) {
        session_open(&fake);
        fake_stop_listening(&fake);
        session_connect();
        await_attempts(1);
        (void)uv_run(&session.loop, UV_RUN_NOWAIT);
        int pause = uv_backend_timeout(&session.loop) - WIDTH_MS;
        int bounded = pause < 0 ? 0 : pause > WIDTH_MS ? WIDTH_MS + 1 : pause;
        most = ++seen[bounded] > most ? seen[bounded] : most;
        session_end();
    }
    assert_true(most <= ROUNDS * 2 / 3);
}

TEST_CASE(reason_of_a_refused_connection_is_logged)
{
    session_log(LOG_INFO);
    session_open(&fake);
    fake_stop_listening(&fake);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 1);
    assert_non_null(strstr(session_logged(), "Connection refused"));
    session_end();
}
