/* Losing Redis: whenever and however it goes, every command is told once, in order, and the connection comes
 * back. */
#include "base/clock.h"
#include "base/log.h"
#include "unit/redis_fake.h"

static struct fake fake;

static void begin(void)
{
    fake_open(&fake);
    session_begin(&fake, "127.0.0.1");
}

static void begin_ready(void)
{
    begin();
    session_connect();
    SESSION_UNTIL(session.ready == 1);
}

static void ask_some(struct session *s)
{
    (void)s;
    assert_int_equal(session_ask("ECHO", "one"), 0);
    assert_int_equal(session_ask("FAIL", NULL), 0);
    assert_int_equal(session_ask("ECHO", "two"), 0);
}

/* Redis goes after so many bytes; what was answered was, the rest is lost, and the next connection serves
 * again. */
static bool lose_after(long bytes)
{
    begin();
    fake.close_after = bytes;
    session.during_ready = ask_some;
    session_connect();
    SESSION_UNTIL(fake.close_after == ALL || session.answered == 3);
    bool cut = fake.close_after == ALL;
    fake.close_after = ALL;
    SESSION_UNTIL(session.asked_count >= 3 && session.answered == session.asked_count &&
                  redis_connection_is_ready(session.redis_connection));
    session_turn_for(5);
    SESSION_UNTIL(session.answered == session.asked_count &&
                  redis_connection_is_ready(session.redis_connection));
    assert_int_equal(session.ready, session.lost + 1);
    bool gone = false;
    for (size_t i = 0; i < session.asked_count;
         i++) { /* within a connection nothing is answered after a loss */
        gone = i % 3 == 0 ? false : gone;
        assert_true(!gone || session.asked[i].losses == 1);
        gone = session.asked[i].losses == 1;
    }
    session_end();
    return cut;
}

TEST(it_may_go_after_any_byte)
{
    long bytes = 0;
    while (lose_after(bytes))
        bytes++;
    assert_true(bytes > (long)sizeof HELLO_REPLY + 20);
}

static void expect_replies_before_the_end(bool reset)
{
    begin_ready();
    assert_int_equal(session_ask("ECHO", "a"), 0);
    assert_int_equal(session_ask("ECHO", "b"), 0);
    assert_int_equal(session_ask("HANG", NULL), 0);
    (void)uv_run(&session.loop, UV_RUN_NOWAIT); /* sends them */
    fake_turn(&fake);                           /* answers two and closes, before the loop turns again */
    const struct linger none = {.l_onoff = 1};
    for (int i = 0; reset && i < FAKE_CONNS_MAX; i++)
        (void)setsockopt(fake.conn[i].fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    fake_drop_all(&fake);
    SESSION_UNTIL(session.lost == 1);
    assert_int_equal(session.asked[0].replies, 1);
    assert_int_equal(session.asked[1].replies, 1);
    assert_int_equal(session.asked[2].losses, 1);
    session_end();
}

TEST(replies_that_came_before_the_end_are_read_before_it)
{
    expect_replies_before_the_end(false);
}

TEST(replies_that_came_before_a_reset_are_read_before_it)
{
    expect_replies_before_the_end(true);
}

TEST(a_silent_redis_is_given_up_after_the_limit_and_not_before)
{
    begin_ready();
    fake.mute = true;
    assert_int_equal(session_ask("ECHO", "a"), 0);
    int64_t began = wait_now_ms();
    SESSION_UNTIL(session.lost == 1);
    int64_t took = wait_now_ms() - began;
    assert_true(took >= REDIS_CONNECTION_REPLY_TIMEOUT_MS - 1);
    assert_true(took <= REDIS_CONNECTION_REPLY_TIMEOUT_MS + wait_slack_ms());
    assert_int_equal(session.asked[0].losses, 1);
    session_end();
}

TEST(silence_is_noticed_without_any_command)
{
    begin_ready();
    fake.mute = true;
    int64_t began = wait_now_ms();
    SESSION_UNTIL(session.lost == 1);
    int64_t took = wait_now_ms() - began;
    assert_true(took <= REDIS_CONNECTION_HEARTBEAT_MS + REDIS_CONNECTION_REPLY_TIMEOUT_MS + wait_slack_ms());
    assert_non_null(
        strstr(buf_c_str(&fake.log), "PING\nROLE\nPING\n")); /* the greeting's and the heartbeat's */
    session_end();
}

TEST(a_refused_heartbeat_ends_the_connection)
{
    begin_ready();
    fake.ping = "-BUSY Redis is busy running a script.\r\n";
    int64_t began = wait_now_ms();
    SESSION_UNTIL(session.lost == 1);
    assert_true(wait_now_ms() - began <= REDIS_CONNECTION_HEARTBEAT_MS + wait_slack_ms());
    fake.ping = "+PONG\r\n";
    SESSION_UNTIL(session.ready == 2);
    session_end();
}

/* Such a Redis may be read: only writes are refused, and PING. */
TEST(a_redis_that_cannot_save_is_kept_and_connected_to)
{
    begin();
    fake.ping = "-MISCONF Redis is configured to save RDB snapshots\r\n";
    session_connect();
    SESSION_UNTIL(session.ready == 1);
    session_turn_for(2 * REDIS_CONNECTION_HEARTBEAT_MS + REDIS_CONNECTION_HEARTBEAT_MS / 2);
    assert_int_equal(session.lost, 0);
    assert_true(redis_connection_last_pong_ms(session.redis_connection) +
                    2 * (uint64_t)REDIS_CONNECTION_HEARTBEAT_MS >=
                clock_boot_ms());
    session_end();
}

/* Each reply takes its time, but none longer than the limit. */
TEST(a_redis_that_answers_slowly_is_kept)
{
    begin_ready();
    fake.slice = 1;
    int64_t until = wait_now_ms() + REDIS_CONNECTION_REPLY_TIMEOUT_MS + REDIS_CONNECTION_HEARTBEAT_MS;
    while (wait_now_ms() < until) {
        if (session.answered == session.asked_count)
            assert_int_equal(session_ask("ECHO", "a text that takes a while"), 0);
        session_turn();
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(session.lost, 0);
    fake.slice = 0;
    SESSION_UNTIL(session.answered == session.asked_count);
    session_end();
}

/* One turn in which the server goes on with what it says, little by little. */
static void drip(const char *piece)
{
    struct fake_conn *c = fake_current(&fake);
    if (c->out.len == 0)
        buf_append_str(&c->out, piece);
    session_turn();
    (void)poll(NULL, 0, 5);
}

/* The heartbeat waits behind it. */
TEST(a_large_reply_is_waited_for_while_more_of_it_comes)
{
    enum { SIZE = 1 << 20, WHILE_MS = REDIS_CONNECTION_REPLY_TIMEOUT_MS + 2 * REDIS_CONNECTION_HEARTBEAT_MS };
    static char rest[SIZE];
    begin_ready();
    fake.mute = true;
    assert_int_equal(session_ask("HANG", NULL), 0);
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
    fake_say(&fake, "\r\n+PONG\r\n");
    fake.mute = false;
    SESSION_UNTIL(session.asked[0].replies == 1);
    session_end();
}

/* Sent again on the next connection it would end that one, too. */
TEST(a_reply_that_does_not_end_fails_its_command_alone)
{
    enum { AT_LEAST_MS = (REDIS_CONNECTION_REPLY_HEARTBEATS_MAX - 1) * REDIS_CONNECTION_HEARTBEAT_MS };
    begin_ready();
    fake.mute = true;
    assert_int_equal(session_ask("HANG", NULL), 0);
    assert_int_equal(session_ask("HANG", NULL), 0);
    fake_say(&fake, "*2\r\n$500000000\r\n");
    int64_t began = wait_now_ms();
    while (session.lost == 0)
        drip("x");
    assert_true(wait_now_ms() - began >= AT_LEAST_MS);
    assert_int_equal(session.asked[0].errors, 1);
    assert_int_equal(session.asked[1].losses, 1);
    assert_int_equal(session.metrics.redis_oversize_replies_total, 1);
    fake.mute = false;
    SESSION_UNTIL(session.ready == 2);
    session_end();
}

/* Commands may be lost where changes are still told. */
TEST(pushes_are_no_progress)
{
    begin_ready();
    fake.mute = true;
    assert_int_equal(session_ask("HANG", NULL), 0);
    fake_say(&fake, ">2\r\n$10\r\ninvalidate\r\n*1000000\r\n");
    int64_t began = wait_now_ms();
    while (session.lost == 0)
        drip("$1\r\nk\r\n");
    assert_in_range(wait_now_ms() - began, REDIS_CONNECTION_REPLY_TIMEOUT_MS - 1,
                    REDIS_CONNECTION_REPLY_TIMEOUT_MS + wait_slack_ms());
    assert_int_equal(session.asked[0].losses, 1);
    fake.mute = false;
    SESSION_UNTIL(session.ready == 2);
    session_end();
}

/* This process was stopped for longer than the limit; the replies lie in the socket and are read before it
 * judges. */
TEST(after_a_stop_what_lies_in_the_socket_is_read_first)
{
    begin_ready();
    assert_int_equal(session_ask("ECHO", "a"), 0);
    (void)uv_run(&session.loop, UV_RUN_NOWAIT); /* sends it */
    fake_turn(&fake);                           /* answers it */
    (void)poll(NULL, 0, REDIS_CONNECTION_REPLY_TIMEOUT_MS + REDIS_CONNECTION_HEARTBEAT_MS + 200);
    session_turn_for(100);
    assert_int_equal(session.asked[0].replies, 1);
    assert_int_equal(session.lost, 0);
    assert_int_equal(session.ready, 1);
    session_end();
}

TEST(a_greeting_that_is_not_answered_is_given_up)
{
    begin();
    fake.mute = true;
    session_connect();
    int64_t began = wait_now_ms();
    SESSION_UNTIL(session.metrics.redis_disconnects_total == 1);
    int64_t took = wait_now_ms() - began;
    assert_true(took >= REDIS_CONNECTION_CONNECT_TIMEOUT_MS - 1 &&
                took <= REDIS_CONNECTION_CONNECT_TIMEOUT_MS + wait_slack_ms());
    fake.mute = false;
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session.lost, 0);
    session_end();
}

TEST(attempts_come_at_growing_intervals_and_at_short_ones_again_after_success)
{
    begin();
    fake_stop_listening(&fake);
    session_connect();
    session_turn_for(1000);
    uint64_t attempts = session.metrics.redis_disconnects_total;
    assert_in_range(attempts, 3, 6); /* at 0, then after 25 to 50, 50 to 100, 100 to 200, 200 to 400 ms ... */
    session_turn_for(2000);
    attempts = session.metrics.redis_disconnects_total - attempts;
    assert_in_range(attempts, 1, 5); /* every 500 to 1000 ms */
    fake_listen(&fake, "127.0.0.1", fake.port);
    SESSION_UNTIL(session.ready == 1);
    int64_t began = wait_now_ms();
    fake_drop_all(&fake);
    SESSION_UNTIL(session.ready == 2);
    assert_true(wait_now_ms() - began <= REDIS_CONNECTION_BACKOFF_MIN_MS + wait_slack_ms());
    session_end();
}

TEST(the_reason_of_a_refused_connection_is_logged_as_it_is)
{
    int ends[2];
    static char text[8192];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(log_start(ends[1], LOG_INFO), 0);
    begin();
    fake_stop_listening(&fake);
    session_connect();
    SESSION_UNTIL(session.metrics.redis_disconnects_total >= 1);
    log_stop();
    ssize_t n = read(ends[0], text, sizeof text - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "Connection refused"));
    close(ends[0]);
    close(ends[1]);
    session_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_may_go_after_any_byte),
        cmocka_unit_test(replies_that_came_before_the_end_are_read_before_it),
        cmocka_unit_test(replies_that_came_before_a_reset_are_read_before_it),
        cmocka_unit_test(a_silent_redis_is_given_up_after_the_limit_and_not_before),
        cmocka_unit_test(silence_is_noticed_without_any_command),
        cmocka_unit_test(a_refused_heartbeat_ends_the_connection),
        cmocka_unit_test(a_redis_that_cannot_save_is_kept_and_connected_to),
        cmocka_unit_test(a_redis_that_answers_slowly_is_kept),
        cmocka_unit_test(a_large_reply_is_waited_for_while_more_of_it_comes),
        cmocka_unit_test(a_reply_that_does_not_end_fails_its_command_alone),
        cmocka_unit_test(pushes_are_no_progress),
        cmocka_unit_test(after_a_stop_what_lies_in_the_socket_is_read_first),
        cmocka_unit_test(a_greeting_that_is_not_answered_is_given_up),
        cmocka_unit_test(attempts_come_at_growing_intervals_and_at_short_ones_again_after_success),
        cmocka_unit_test(the_reason_of_a_refused_connection_is_logged_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
