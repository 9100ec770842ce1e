/* Deadlines of connections: slow clients are closed, not before their time, and others are left alone. */
#include "unit/fixtures/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include "http/connection.h"

enum { TICKS_MS = 200, SHORT_MS = 150 }; /* a deadline counts at the second tick behind it */

static struct test_server t;

/* The loop's clock may be behind by a few milliseconds. */
static void expect_at_least(int64_t began, int ms)
{
    assert_true(wait_now_ms() - began >= ms - 20);
}

TEST_CASE(a_silent_connection_is_closed_without_a_response)
{
    test_server_init(&t);
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    int64_t began = wait_now_ms();
    struct client *c = client_open(&t);
    TURN_UNTIL(&t, c->ended);
    expect_at_least(began, SHORT_MS);
    assert_int_equal(c->in.len, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    assert_int_equal(t.handled + t.rejected, 0);
    test_server_close(&t);
}

TEST_CASE(an_unfinished_request_is_answered_with_408)
{
    test_server_init(&t);
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, "GET / HTTP/1.1\r\nHost: a\r\n");
    TURN_UNTIL(&t, c->ended);
    assert_int_equal(client_count(c, "HTTP/1.1 408 Request Timeout\r\n"), 1);
    client_expect_bodies(c, "rejected");
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    test_server_close(&t);
}

TEST_CASE(unfinished_content_is_answered_with_408)
{
    test_server_init(&t);
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    TURN_UNTIL(&t, c->ended);
    assert_int_equal(client_count(c, "HTTP/1.1 408"), 1);
    test_server_close(&t);
}

TEST_CASE(the_head_timeout_is_total)
{
    test_server_init(&t);
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, "GET /now HTTP/1.1\r\nX: ");
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    while (!c->ended) {
        (void)send(c->fd, "x", 1, MSG_NOSIGNAL);
        test_server_turn_for(&t, 10);
        assert_true(wait_left_ms(until) > 0);
    }
    assert_int_equal(client_count(c, "HTTP/1.1 408"), 1);
    assert_int_equal(t.handled, 0);
    test_server_close(&t);
}

static bool standing_still(void *arg)
{
    (void)arg;
    return true;
}

/* As when the process was stopped and continued: the time is over, but what came in time was not read yet. */
TEST_CASE(input_that_came_in_time_counts_though_it_is_read_late)
{
    test_server_init(&t);
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    TURN_UNTIL(&t, t.metrics.connections_open == 1);
    client_send(c, "GET /now?x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(wait_holds(standing_still, NULL, 2 * SHORT_MS));
    TURN_UNTIL(&t, c->ended || c->in.len > 0);
    client_expect_bodies(c, "x");
    assert_int_equal(t.metrics.connections_timed_out_total, 0);
    test_server_close(&t);
}

TEST_CASE(each_request_has_the_whole_head_timeout)
{
    test_server_init(&t);
    t.options.head_timeout_ms = 4 * (uint64_t)SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    for (int i = 0; i < 5; i++) {
        client_send(c, "GET /now?x HTTP/1.1\r\n");
        test_server_turn_for(&t, SHORT_MS);
        client_send(c, "Host: a\r\n\r\n");
        TURN_UNTIL(&t, client_count(c, "\r\n\r\nx") == i + 1);
    }
    assert_false(c->ended);
    test_server_close(&t);
}

TEST_CASE(an_idle_connection_is_closed_after_the_idle_timeout)
{
    test_server_init(&t);
    t.options.idle_timeout_ms = 3 * (uint64_t)SHORT_MS;
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, GET("/now?a"));
    TURN_UNTIL(&t, client_count(c, "\r\n\r\na") == 1);
    int64_t began = wait_now_ms();
    TURN_UNTIL(&t, c->ended);
    expect_at_least(began, 3 * SHORT_MS);
    client_expect_bodies(c, "a");
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    test_server_close(&t);
}

TEST_CASE(the_first_byte_of_a_request_ends_the_idle_timeout)
{
    test_server_init(&t);
    t.options.idle_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, GET("/now?a") "G");
    test_server_turn_for(&t, SHORT_MS + 2 * TICKS_MS);
    assert_false(c->ended);
    client_send(c, "ET /now?b HTTP/1.1\r\nHost: a\r\n\r\n");
    TURN_UNTIL(&t, client_count(c, "\r\n\r\nb") == 1);
    test_server_close(&t);
}

/* RFC 9112 section 2.2: an empty line belongs to no request. */
TEST_CASE(an_empty_line_does_not_begin_a_request)
{
    static const char *const lines[] = {"\r\n", "\r", "\r\n\r\n\r\n"};
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        test_server_init(&t);
        t.options.head_timeout_ms = SHORT_MS;
        t.options.idle_timeout_ms = 3 * (uint64_t)SHORT_MS;
        test_server_open(&t);
        struct client *c = client_open(&t);
        client_send(c, GET("/now?a"));
        client_send(c, lines[i]);
        TURN_UNTIL(&t, c->ended);
        client_expect_bodies(c, "a");
        assert_int_equal(t.rejected, 0);
        test_server_close(&t);
    }
}

TEST_CASE(endless_empty_lines_do_not_keep_a_connection_open)
{
    test_server_init(&t);
    t.options.idle_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, GET("/now?a"));
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    while (!c->ended) {
        (void)send(c->fd, "\r\n\r\n\r\n", 5, MSG_NOSIGNAL); /* an odd number, so that halves are among them */
        (void)send(c->fd, "\n\r\n", 3, MSG_NOSIGNAL);
        test_server_turn_for(&t, 10);
        assert_true(wait_left_ms(until) > 0);
    }
    client_expect_bodies(c, "a");
    assert_int_equal(t.rejected, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    test_server_close(&t);
}

TEST_CASE(empty_lines_around_a_request_change_nothing)
{
    test_server_init(&t);
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, "\r\n\r\n" GET("/now?a") "\r\n" GET("/later?b") "\r\n\r");
    TURN_UNTIL(&t, t.later_count == 1);
    test_server_answer(&t, 0);
    client_send(c, "\n\r\n" GET("/now?c"));
    TURN_UNTIL(&t, client_count(c, "\r\n\r\nc") == 1);
    client_expect_bodies(c, "a b c");
    client_send(c, "\r");
    test_server_turn_for(&t, 20);
    client_send(c, GET("/now?d"));
    TURN_UNTIL(&t, c->ended);
    client_expect_bodies(c, "a b c rejected");
    assert_int_equal(client_count(c, "HTTP/1.1 400"), 1);
    test_server_close(&t);
}

TEST_CASE(a_pending_response_has_no_deadline)
{
    test_server_init(&t);
    t.options.idle_timeout_ms = t.options.head_timeout_ms = t.options.write_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, GET("/later?a"));
    TURN_UNTIL(&t, t.later_count == 1);
    test_server_turn_for(&t, SHORT_MS + 2 * TICKS_MS);
    assert_int_equal(t.cancelled, 0);
    assert_false(c->ended);
    test_server_answer(&t, 0);
    TURN_UNTIL(&t, client_count(c, "\r\n\r\na") == 1);
    test_server_close(&t);
}

TEST_CASE(a_client_that_does_not_read_is_closed_after_the_write_timeout)
{
    test_server_init(&t);
    t.options.write_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    c->reads = false;
    int64_t began = wait_now_ms();
    client_send(c, GET("/big"));
    TURN_UNTIL(&t, t.handled == 1);
    TURN_UNTIL(&t, t.metrics.connections_open == 0);
    expect_at_least(began, SHORT_MS);
    assert_int_equal(t.big->refs, 1);
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    test_server_close(&t);
}

TEST_CASE(the_write_timeout_is_total)
{
    test_server_init(&t);
    t.options.write_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    c->reads = false;
    client_send(c, GET("/big"));
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    TURN_UNTIL(&t, t.handled == 1);
    while (t.metrics.connections_open == 1) {
        char few[1024];
        if (read(c->fd, few, sizeof few) == 0)
            break;
        test_server_turn_for(&t, 10);
        assert_true(wait_left_ms(until) > 0);
    }
    test_server_close(&t);
}

TEST_CASE(a_request_behind_an_expired_write_is_cancelled)
{
    test_server_init(&t);
    t.tight = true;
    t.options.write_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    c->reads = false;
    client_send(c, GET("/mid") GET("/later?a"));
    TURN_UNTIL(&t, t.later_count == 1);
    TURN_UNTIL(&t, t.metrics.connections_open == 0);
    assert_int_equal(t.cancelled, 1);
    assert_int_equal(t.later_count, 0);
    test_server_close(&t);
}

/* The connection whose write began first is closed first, although it got another response last. */
TEST_CASE(a_later_response_does_not_extend_the_write_timeout)
{
    test_server_init(&t);
    t.tight = true;
    t.options.write_timeout_ms = 2 * (uint64_t)SHORT_MS;
    test_server_open(&t);
    struct client *first = client_open(&t);
    struct client *second = client_open(&t);
    first->reads = second->reads = false;
    int64_t began = wait_now_ms();
    client_send(first, GET("/mid") GET("/later?a"));
    TURN_UNTIL(&t, t.later_count == 1);
    test_server_turn_for(&t, SHORT_MS);
    client_send(second, GET("/mid"));
    TURN_UNTIL(&t, t.handled == 3);
    test_server_turn_for(&t, 20);
    test_server_answer(&t, 0);
    TURN_UNTIL(&t, t.metrics.connections_open < 2);
    expect_at_least(began, 2 * SHORT_MS);
    assert_int_equal(client_server_fd(first), -1);
    assert_int_not_equal(client_server_fd(second), -1);
    test_server_close(&t);
}

TEST_CASE(each_response_renews_the_idle_timeout)
{
    test_server_init(&t);
    t.options.idle_timeout_ms = 4 * (uint64_t)SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    for (int i = 0; i < 6; i++) {
        client_send(c, GET("/now?a"));
        test_server_turn_for(&t, SHORT_MS);
    }
    assert_int_equal(client_count(c, "\r\n\r\na"), 6);
    assert_false(c->ended);
    test_server_close(&t);
}

TEST_CASE(lingering_ends_although_the_client_does_not_close)
{
    test_server_init(&t);
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, "GET /now?a HTTP/1.0\r\n\r\n");
    TURN_UNTIL(&t, c->ended);
    client_expect_bodies(c, "a");
    int64_t began = wait_now_ms();
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    while (t.metrics.connections_open == 1 && wait_left_ms(until) > 0) {
        (void)send(c->fd, "more", 4, MSG_NOSIGNAL); /* is dropped */
        test_server_turn_for(&t, 20);
    }
    expect_at_least(began, HTTP_LINGER_MS);
    assert_int_equal(t.metrics.connections_open, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 0);
    assert_int_equal(t.handled, 1);
    test_server_close(&t);
}
