/*
 * A connection to Redis: handshake, replies in order, pushes, errors, servers that are no Redis; its loss, at
 * any moment and in any way, after which every command is told once, in order; its end.
 */
#include <errno.h>
#include <stdlib.h>

#include "support/tempdir.h"
#include "support/text.h"
#include "unit/fixtures/redis_fake.h"

static struct fake_redis fake;

TEST_CASE(handshake_makes_the_connection_ready)
{
    session_open(&fake);
    session_connect();
    assert_false(redis_connection_is_ready(session_connection()));
    assert_int_equal(session_send("ECHO", "early"), -ENOTCONN);
    SESSION_UNTIL(session.ready == 1);
    assert_true(redis_connection_is_ready(session_connection()));
    assert_buf(&fake.log, "HELLO 3 SETNAME test\nROLE\nPING\n");
    assert_int_equal(session.metrics.redis_connects_total, 1);
    assert_int_equal(session.metrics.redis_connected, 1);
    assert_int_equal(session.metrics.redis_disconnects_total, 0);
    session_end();
    assert_int_equal(session.lost, 0);
}

TEST_CASE(handshake_authenticates_and_selects)
{
    static char user[] = "reader";
    static char password[] = "secret";
    session_open(&fake);
    session.endpoint.user = user;
    session.endpoint.password = password;
    session.endpoint.db = 12;
    session_start();
    assert_buf(&fake.log, "HELLO 3 AUTH reader secret SETNAME test\nSELECT 12\nROLE\nPING\n");
    session_end();
}

TEST_CASE(local_socket_connects)
{
    struct tempdir dir;
    char path[TEMPDIR_PATH_SIZE + 8];
    tempdir_init(&dir);
    fake_init(&fake);
    (void)snprintf(path, sizeof path, "%s/redis", dir.path);
    fake_listen_unix(&fake, path);
    session_begin(&fake, "");
    session.endpoint.transport = REDIS_TRANSPORT_UNIX;
    session.endpoint.host = NULL;
    session.endpoint.path = path;
    session_start();
    assert_int_equal(session_send("ECHO", "x"), 0);
    SESSION_UNTIL(session.answered == 1);
    session_end();
    tempdir_fini(&dir);
}

TEST_CASE(missing_local_socket_is_tried_again)
{
    static char path[] = "/nonexistent/redis";
    session_open(&fake);
    session.endpoint.transport = REDIS_TRANSPORT_UNIX;
    session.endpoint.host = NULL;
    session.endpoint.path = path;
    session_start_refused();
    session_end();
}

TEST_CASE(replies_keep_the_order_of_the_commands)
{
    enum { COUNT = 1000 };
    session_open_ready(&fake);
    for (int i = 0; i < COUNT; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        assert_int_equal(session_send("ECHO", number), 0);
    }
    SESSION_UNTIL(session.answered == COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(session.sent[i].replies, 1);
        assert_int_equal(strtol(session.sent[i].text, NULL, 10), i);
    }
    session_end();
}

TEST_CASE(replies_may_arrive_in_single_bytes)
{
    session_open(&fake);
    fake.slice = 1;
    session_start();
    for (int i = 0; i < 20; i++)
        assert_int_equal(session_send(i % 3 == 0 ? "FAIL" : "ECHO", "some text"), 0);
    SESSION_UNTIL(session.answered == 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(session.sent[i].errors, i % 3 == 0);
        assert_string_equal(session.sent[i].text, i % 3 == 0 ? "" : "some text");
    }
    assert_int_equal(session.lost, 0);
    session_end();
}

static int sent_again;

static void send_once_more(struct session *s, const struct redis_reply *reply)
{
    (void)s;
    if (reply != NULL && sent_again < 5) {
        sent_again++;
        assert_int_equal(session_send("ECHO", "more"), 0);
    }
}

TEST_CASE(commands_may_be_sent_in_a_callback)
{
    sent_again = 0;
    session_open_ready(&fake);
    session.during_reply = send_once_more;
    assert_int_equal(session_send("ECHO", "first"), 0);
    SESSION_UNTIL(session.answered == 6);
    session_end();
}

TEST_CASE(pushes_are_not_replies)
{
    session_open_ready(&fake);
    fake_send(&fake, ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_int_equal(session_send("ECHO", "a"), 0);
    session_turn_for(20);
    fake_send(&fake, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
    assert_int_equal(session_send("ECHO", "b"), 0);
    SESSION_UNTIL(session.answered == 2);
    assert_string_equal(session.sent[0].text, "a");
    assert_string_equal(session.sent[1].text, "b");
    assert_int_equal(session.lost, 0);
    session_end();
}

/* Bytes that cannot be end the connection, and a new one is made. */
static void check_lost_after(const char *bytes, bool with_command)
{
    session_open_ready(&fake);
    if (with_command)
        assert_int_equal(session_send("HANG", NULL), 0);
    session_turn_for(5);
    fake_send(&fake, bytes);
    SESSION_UNTIL(session.lost == 1);
    assert_false(session.metrics.redis_connected);
    SESSION_UNTIL(session.ready == 2);
    assert_int_equal(session_send("ECHO", "again"), 0);
    SESSION_UNTIL(session.answered == session.sent_count);
    assert_int_equal(session.sent[session.sent_count - 1].replies, 1);
    assert_int_equal(session.lost, 1);
    session_end();
}

TEST_CASE(reply_without_a_command_ends_the_connection)
{
    check_lost_after("+surprise\r\n", false);
    check_lost_after("-ERR surprise\r\n", false);
    check_lost_after("$3\r\nabc\r\n$3\r\nabc\r\n", true);
}

TEST_CASE(invalid_resp_ends_the_connection)
{
    check_lost_after("nonsense\r\n", false);
    check_lost_after("HTTP/1.1 400 Bad Request\r\n\r\n", true);
    check_lost_after("$-5\r\n", true);
    check_lost_after("*99999999999999999999\r\n", true);
}

TEST_CASE(deeply_nested_reply_ends_the_connection)
{
    struct buf deep = BUF_INIT;
    for (int i = 0; i < 10000; i++)
        buf_append_str(&deep, "*1\r\n");
    check_lost_after(buf_c_str(&deep), true);
    buf_fini(&deep);
}

/* A handshake that fails is repeated, without telling the owner, until it succeeds. */
static void check_retry(const char **reply, const char *error)
{
    session_open(&fake);
    session.endpoint.db = 1;
    const char *good = *reply;
    *reply = error;
    session_start_refused();
    assert_false(redis_connection_is_ready(session_connection()));
    fake.hello = FAKE_HELLO;
    *reply = good;
    SESSION_UNTIL(session.ready == 1);
    assert_int_equal(session.lost, 0);
    session_end();
}

TEST_CASE(refused_handshake_is_tried_again)
{
    check_retry(&fake.hello, "-WRONGPASS invalid username-password pair\r\n");
    check_retry(&fake.hello, "-ERR unknown command 'HELLO'\r\n");
    check_retry(&fake.select, "-ERR DB index is out of range\r\n");
    check_retry(&fake.ping, "-LOADING Redis is loading the dataset in memory\r\n");
    check_retry(&fake.ping, "-MASTERDOWN Link with MASTER is down\r\n");
}

/* --- closing: in every state and in every callback, with nothing left --- */

enum state { BACKOFF, LOOK_UP, CONNECTING, HANDSHAKE, IDLE, NOT_WRITTEN, NOT_ANSWERED, STATES };

/* Returns how many commands are pending then. */
static size_t reach(enum state state)
{
    enum { COUNT = 200 };
    fake_open(&fake);
    session_begin(&fake, state == LOOK_UP ? "localhost" : "127.0.0.1");
    fake.mute = state == HANDSHAKE;
    if (state == BACKOFF)
        fake_stop_listening(&fake);
    session_connect();
    if (state == BACKOFF)
        SESSION_UNTIL(session.metrics.redis_disconnects_total >= 2);
    if (state == HANDSHAKE)
        SESSION_UNTIL(fake.log.len > 0);
    if (state < IDLE)
        return 0;
    SESSION_UNTIL(session.ready == 1);
    fake.mute = true;
    if (state == IDLE)
        return 0;
    session_send_many(COUNT, "x");
    if (state == NOT_ANSWERED)
        session_turn_for(20);
    return COUNT;
}

TEST_CASE(close_in_every_state_tells_pending_commands_at_once)
{
    for (int i = 0; i < STATES; i++) {
        size_t pending = reach((enum state)i);
        session_close();
        assert_int_equal(session.answered, pending);
        assert_int_equal(session.closed, 0); /* from the loop, not from within */
        session_end();
        assert_int_equal(session.lost, 0);
        for (size_t k = 0; k < pending; k++)
            assert_int_equal(session.sent[k].losses, 1);
    }
}

static void close_session(struct session *s)
{
    (void)s;
    session_close();
}

static void close_at_first_callback(struct session *s, const struct redis_reply *reply)
{
    (void)reply;
    if (s->answered == 1)
        close_session(s);
}

/* It was closed by a callback, after so many losses. */
static void end_closed(int lost)
{
    SESSION_UNTIL(session.closed == 1);
    session_end();
    assert_int_equal(session.lost, lost);
}

TEST_CASE(close_in_on_ready)
{
    session_open(&fake);
    session.during_ready = close_session;
    session_connect();
    end_closed(0);
}

TEST_CASE(close_in_a_reply_with_more_behind_it)
{
    session_open(&fake);
    session.during_reply = close_at_first_callback;
    session_start();
    session_send_many(50, "x");
    end_closed(0);
    assert_int_equal(session.sent[0].replies, 1);
    for (int i = 1; i < 50; i++)
        assert_int_equal(session.sent[i].losses, 1);
}

TEST_CASE(close_in_the_callback_of_a_lost_command)
{
    session_open(&fake);
    session.during_reply = close_at_first_callback;
    session_start();
    fake.mute = true;
    session_send_many(50, "x");
    session_turn_for(20);
    fake_drop_all(&fake, false);
    end_closed(1); /* the owner is told first */
}

TEST_CASE(close_in_on_lost)
{
    session_open(&fake);
    session.during_lost = close_session;
    session_start();
    fake_drop_all(&fake, false);
    end_closed(1);
}

static int refused_sends;

static void try_send(struct session *s, const struct redis_reply *reply)
{
    (void)s;
    if (reply != NULL)
        return;
    assert_int_equal(session_try_send("ECHO", "x"), -ENOTCONN);
    refused_sends++;
}

TEST_CASE(sending_is_refused_while_losses_are_told)
{
    refused_sends = 0;
    session_open(&fake);
    session.during_reply = try_send;
    session_start();
    fake.mute = true;
    session_send_many(10, "x");
    session_turn_for(20);
    fake_drop_all(&fake, false);
    SESSION_UNTIL(session.lost == 1);
    assert_int_equal(refused_sends, 10);
    session.during_reply = NULL;
    session_end();
}

/* --- losing Redis --- */

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
                  redis_connection_is_ready(session_connection()));
    session_turn_for(5);
    SESSION_UNTIL(session.answered == session.sent_count && redis_connection_is_ready(session_connection()));
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
    session_turn_loop(); /* sends them */
    fake_turn(&fake);    /* answers two and closes, before the loop turns again */
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
    enum { ATTEMPTS = 8 };
    int pause = REDIS_SESSION_BACKOFF_MIN_MS;
    session_open(&fake);
    fake_stop_listening(&fake);
    session_connect();
    await_attempts(ATTEMPTS);
    for (int i = 1; i < ATTEMPTS; i++) {
        assert_in_range(attempts_ms[i] - attempts_ms[i - 1], pause / 2, pause);
        pause = 2 * pause < REDIS_SESSION_BACKOFF_MAX_MS ? 2 * pause : REDIS_SESSION_BACKOFF_MAX_MS;
    }
    session_end();
}

TEST_CASE(reconnection_begins_anew_with_short_pauses_after_one_that_has_stayed)
{
    session_open(&fake);
    fake_stop_listening(&fake);
    session_connect();
    await_attempts(5);
    fake_listen(&fake, "127.0.0.1", fake.port);
    SESSION_UNTIL(session.ready == 1);
    session_turn_for(REDIS_SESSION_STAYED_MS);
    int64_t began = wait_now_ms();
    fake_drop_all(&fake, false);
    SESSION_UNTIL(session.ready == 2);
    assert_in_range(wait_now_ms() - began, REDIS_SESSION_BACKOFF_MIN_MS / 2, REDIS_SESSION_BACKOFF_MIN_MS);
    session_end();
}

/* It is no use, however often it can be connected to. */
TEST_CASE(server_that_drops_each_connection_is_connected_to_ever_more_rarely)
{
    enum { SECONDS = 30 };
    session_open(&fake);
    session_start();
    int64_t until = wait_now_ms() + SECONDS * INT64_C(1000);
    while (wait_now_ms() < until) {
        session_turn();
        if (redis_connection_is_ready(session_connection()))
            fake_drop_all(&fake, false);
    }
    assert_in_range(fake.accepted, SECONDS, 2 * SECONDS + 10);
    session_end();
}

/* Workers that lose Redis together must not come back in step: of ten first pauses no two thirds are the
 * same. */
TEST_CASE(reconnection_pauses_are_random)
{
    enum { ROUNDS = 10, WIDTH_MS = REDIS_SESSION_BACKOFF_MIN_MS / 2 };
    int seen[WIDTH_MS + 2] = {0};
    int most = 0;
    for (int i = 0; i < ROUNDS; i++) {
        session_open(&fake);
        fake_stop_listening(&fake);
        session_connect();
        await_attempts(1);
        session_turn_loop();
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
