/* Deadlines of connections: slow clients are closed, not before their time, and others are left alone. */
#include "unit/fixtures/http_server.h"

#include <sys/socket.h>

#include "http/connection.h"

/* A deadline counts at the second tick behind it. */
enum { TICKS_MS = 200, SHORT_MS = 100, LONG_MS = 300 };

/* The loop's clock may be behind by a few milliseconds. */
static void expect_at_least(int64_t began, int ms)
{
    assert_true(wait_now_ms() - began >= ms - 20);
}

/* Sends the two in turns until the connection ends. */
static void send_until_ended(struct client *c, const char *text, const char *other)
{
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    while (!c->ended) {
        (void)send(c->fd, text, strlen(text), MSG_NOSIGNAL);
        (void)send(c->fd, other, strlen(other), MSG_NOSIGNAL);
        test_server_turn_for(10);
        assert_true(wait_left_ms(until) > 0);
    }
}

SERVER_TEST_WITH(an_unfinished_request_is_answered_with_408, t.options.head_timeout_ms = SHORT_MS)
{
    static const char *const begun[] = {"GET / HTTP/1.1\r\nHost: a\r\n",
                                        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"};
    int64_t began = wait_now_ms();
    struct client *silent = client_open();
    struct client *dribbling = client_sending("GET /now HTTP/1.1\r\nX: "); /* the timeout is total */
    struct client *c[] = {client_sending(begun[0]), client_sending(begun[1])};
    send_until_ended(dribbling, "x", "y");
    assert_int_equal(client_count(dribbling, "HTTP/1.1 408"), 1);
    for (size_t i = 0; i < TEST_COUNT(c); i++) {
        TURN_UNTIL(c[i]->ended);
        assert_int_equal(client_count(c[i], "HTTP/1.1 408 Request Timeout\r\n"), 1);
        client_expect_bodies(c[i], "rejected");
    }
    TURN_UNTIL(silent->ended); /* without a response */
    assert_int_equal(silent->in.len, 0);
    expect_at_least(began, SHORT_MS);
    assert_int_equal(t.metrics.connections_timed_out_total, 4);
    assert_int_equal(t.rejected, 3);
    assert_int_equal(t.handled, 0);
}

static bool standing_still(void *arg)
{
    (void)arg;
    return true;
}

/* As when the process was stopped and continued: the time is over, but what came in time was not read yet. */
SERVER_TEST_WITH(input_that_came_in_time_counts_though_it_is_read_late, t.options.head_timeout_ms = SHORT_MS)
{
    struct client *c = client_open();
    TURN_UNTIL(t.metrics.connections_open == 1);
    client_send(c, GET("/now?x"));
    assert_true(wait_holds(standing_still, NULL, SHORT_MS + TICKS_MS));
    TURN_UNTIL(c->ended || c->in.len > 0);
    client_expect_bodies(c, "x");
    assert_int_equal(t.metrics.connections_timed_out_total, 0);
}

SERVER_TEST_WITH(each_request_renews_the_head_timeout_and_each_response_the_idle_timeout,
                 t.options.head_timeout_ms = 400, t.options.idle_timeout_ms = 400)
{
    enum { ROUNDS = 6, ROUND_MS = 120 }; /* together longer than a timeout and its ticks */
    struct client *slow = client_open();
    struct client *pausing = client_open();
    for (int i = 0; i < ROUNDS; i++) {
        client_send(slow, "GET /now?x HTTP/1.1\r\n");
        client_send(pausing, GET("/now?a"));
        test_server_turn_for(ROUND_MS);
        client_send(slow, "Host: a\r\n\r\n");
        TURN_UNTIL(client_count(slow, "\r\n\r\nx") == i + 1);
    }
    assert_int_equal(client_count(pausing, "\r\n\r\na"), ROUNDS);
    assert_false(slow->ended || pausing->ended);
}

/* RFC 9112 section 2.2: an empty line belongs to no request, and has no head timeout. */
SERVER_TEST_WITH(an_idle_connection_is_closed_after_the_idle_timeout, t.options.head_timeout_ms = SHORT_MS,
                 t.options.idle_timeout_ms = LONG_MS)
{
    static const char *const lines[] = {"", "\r\n", "\r", "\r\n\r\n\r\n"};
    struct client *c[TEST_COUNT(lines)];
    int64_t began = wait_now_ms();
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        c[i] = client_sending(GET("/now?a"));
        client_send(c[i], lines[i]);
    }
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        TURN_UNTIL(c[i]->ended);
        expect_at_least(began, LONG_MS);
        client_expect_bodies(c[i], "a");
    }
    assert_int_equal(t.rejected, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, TEST_COUNT(lines));
}

SERVER_TEST_WITH(the_first_byte_of_a_request_ends_the_idle_timeout, t.options.idle_timeout_ms = SHORT_MS)
{
    struct client *c = client_sending(GET("/now?a") "G");
    struct client *flood = client_sending(GET("/now?a"));
    send_until_ended(flood, "\r\n\r\n\r", "\n\r\n"); /* endless empty lines, halves among them, do not */
    client_expect_bodies(flood, "a");
    test_server_turn_for(TICKS_MS);
    assert_false(c->ended);
    client_send(c, "ET /now?b HTTP/1.1\r\nHost: a\r\n\r\n");
    TURN_UNTIL(client_count(c, "\r\n\r\nb") == 1);
    assert_int_equal(t.rejected, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
}

SERVER_TEST(empty_lines_around_a_request_change_nothing)
{
    struct client *c = client_sending("\r\n\r\n" GET("/now?a") "\r\n" GET("/later?b") "\r\n\r");
    TURN_UNTIL(t.later_count == 1);
    test_server_answer(0);
    client_send(c, "\n\r\n" GET("/now?c"));
    client_await_bodies(c, "a b c");
    client_send(c, "\r");
    test_server_turn_for(20);
    client_send(c, GET("/now?d"));
    client_await_end(c, "a b c rejected");
    assert_int_equal(client_count(c, "HTTP/1.1 400"), 1);
}

static void shorten_all(void)
{
    t.options.idle_timeout_ms = t.options.head_timeout_ms = t.options.write_timeout_ms = SHORT_MS;
}

/* The time of lingering is fixed, and the client need not close. */
SERVER_TEST_WITH(no_timeout_applies_to_a_pending_response_or_while_lingering, shorten_all())
{
    struct client *pending = client_sending(GET("/later?a"));
    struct client *lingering = client_sending("GET /now?b HTTP/1.0\r\n\r\n");
    TURN_UNTIL(t.later_count == 1 && lingering->ended);
    client_expect_bodies(lingering, "b");
    int64_t began = wait_now_ms();
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    while (t.metrics.connections_open == 2 && wait_left_ms(until) > 0) {
        (void)send(lingering->fd, "more", 4, MSG_NOSIGNAL); /* is dropped */
        test_server_turn_for(20);
    }
    expect_at_least(began, HTTP_LINGER_MS);
    assert_int_equal(t.metrics.connections_open, 1);
    assert_int_equal(t.handled, 2);
    assert_int_equal(t.cancelled, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 0);
    assert_false(pending->ended);
    test_server_answer(0);
    TURN_UNTIL(client_count(pending, "\r\n\r\na") == 1);
}

SERVER_TEST_WITH(a_client_that_does_not_read_is_closed_after_the_write_timeout,
                 t.options.write_timeout_ms = SHORT_MS)
{
    int64_t began = wait_now_ms();
    struct client *none = client_open();
    struct client *few = client_open(); /* takes a little at a time: the timeout is total */
    none->reads = few->reads = false;
    client_send(none, GET("/big"));
    client_send(few, GET("/big"));
    TURN_UNTIL(t.handled == 2);
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    while (t.metrics.connections_open > 0) {
        char taken[1024];
        (void)recv(few->fd, taken, sizeof taken, MSG_DONTWAIT);
        test_server_turn_for(10);
        assert_true(wait_left_ms(until) > 0);
    }
    expect_at_least(began, SHORT_MS);
    assert_int_equal(t.big->refs, 1);
    assert_int_equal(t.metrics.connections_timed_out_total, 2);
}

SERVER_TEST_WITH(a_request_behind_an_expired_write_is_cancelled, t.tight = true,
                 t.options.write_timeout_ms = SHORT_MS)
{
    struct client *c = client_open();
    c->reads = false;
    client_send(c, GET("/mid") GET("/later?a"));
    TURN_UNTIL(t.later_count == 1);
    TURN_UNTIL(t.metrics.connections_open == 0);
    assert_int_equal(t.cancelled, 1);
    assert_int_equal(t.later_count, 0);
}

/* The connection whose write began first is closed first, although it got another response last. */
SERVER_TEST_WITH(a_later_response_does_not_extend_the_write_timeout, t.tight = true,
                 t.options.write_timeout_ms = LONG_MS)
{
    struct client *first = client_open();
    struct client *second = client_open();
    first->reads = second->reads = false;
    int64_t began = wait_now_ms();
    client_send(first, GET("/mid") GET("/later?a"));
    TURN_UNTIL(t.later_count == 1);
    test_server_turn_for(150);
    client_send(second, GET("/mid"));
    TURN_UNTIL(t.handled == 3);
    test_server_turn_for(20);
    test_server_answer(0);
    TURN_UNTIL(t.metrics.connections_open < 2);
    expect_at_least(began, LONG_MS);
    assert_int_equal(client_server_fd(first), -1);
    assert_int_not_equal(client_server_fd(second), -1);
}
