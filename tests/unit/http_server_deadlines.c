/* Deadlines of connections: what is too slow is ended, in time and not before, and what is not is left alone.
 */
#include "unit/fixtures/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include "http/connection.h"

enum { TICK_MS = 200, SHORT_MS = 300 }; /* deadlines are looked at once a tick */

static struct test_server t;

/* Asserts that about `ms` have passed since `began`: never less, and no more than the tick and a busy machine
 * explain. */
static void expect_after(int64_t began, int ms)
{
    int64_t took = wait_now_ms() - began;
    assert_true(took >= ms - 20);
    assert_true(took <= ms + TICK_MS + wait_slack_ms());
}

TEST(a_connection_that_says_nothing_is_closed_without_a_word)
{
    test_server_init(&t);
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    int64_t began = wait_now_ms();
    struct client *c = client_open(&t);
    TURN_UNTIL(&t, c->ended);
    expect_after(began, SHORT_MS);
    assert_int_equal(c->in.len, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    assert_int_equal(t.handled + t.rejected, 0);
    test_server_close(&t);
}

TEST(an_unfinished_request_is_answered_with_408)
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

TEST(unfinished_content_is_answered_with_408)
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

TEST(the_time_for_a_request_is_total_so_that_dribbling_does_not_help)
{
    test_server_init(&t);
    t.options.head_timeout_ms = SHORT_MS;
    test_server_open(&t);
    int64_t began = wait_now_ms();
    struct client *c = client_open(&t);
    client_send(c, "GET /now HTTP/1.1\r\nX: ");
    while (!c->ended) {
        (void)send(c->fd, "x", 1, MSG_NOSIGNAL);
        test_server_turn_for(&t, 10);
        assert_true(wait_now_ms() - began < SHORT_MS + TICK_MS + wait_slack_ms());
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
TEST(what_came_before_the_deadline_counts_though_it_is_read_after)
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

TEST(each_request_has_its_time_anew)
{
    test_server_init(&t);
    t.options.head_timeout_ms = 2 * (uint64_t)SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    for (int i = 0; i < 5; i++) {
        client_send(c, "GET /now?x HTTP/1.1\r\n");
        test_server_turn_for(&t, SHORT_MS / 2);
        client_send(c, "Host: a\r\n\r\n");
        TURN_UNTIL(&t, client_count(c, "\r\n\r\nx") == i + 1);
    }
    assert_false(c->ended);
    test_server_close(&t);
}

TEST(an_idle_connection_is_closed_after_the_idle_timeout_alone)
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
    expect_after(began, 3 * SHORT_MS);
    client_expect_bodies(c, "a");
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    test_server_close(&t);
}

TEST(the_first_byte_of_a_request_ends_idleness)
{
    test_server_init(&t);
    t.options.idle_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, GET("/now?a") "G");
    test_server_turn_for(&t, SHORT_MS + 2 * TICK_MS);
    assert_false(c->ended);
    client_send(c, "ET /now?b HTTP/1.1\r\nHost: a\r\n\r\n");
    TURN_UNTIL(&t, client_count(c, "\r\n\r\nb") == 1);
    test_server_close(&t);
}

/* RFC 9112 section 2.2: an empty line belongs to no request. */
TEST(an_empty_line_does_not_begin_a_request)
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

TEST(empty_lines_without_end_do_not_keep_a_connection_open)
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

TEST(empty_lines_around_a_request_change_nothing)
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

TEST(a_request_may_wait_for_its_answer_longer_than_any_of_the_clients_deadlines)
{
    test_server_init(&t);
    t.options.idle_timeout_ms = t.options.head_timeout_ms = t.options.write_timeout_ms = SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, GET("/later?a"));
    TURN_UNTIL(&t, t.later_count == 1);
    test_server_turn_for(&t, SHORT_MS + 2 * TICK_MS);
    assert_int_equal(t.cancelled, 0);
    assert_false(c->ended);
    test_server_answer(&t, 0);
    TURN_UNTIL(&t, client_count(c, "\r\n\r\na") == 1);
    test_server_close(&t);
}

TEST(a_client_that_does_not_take_its_answer_is_closed)
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
    expect_after(began, SHORT_MS);
    assert_int_equal(t.big->refs, 1);
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
    test_server_close(&t);
}

/* Taking a little now and then is not taking it all: the time is total. */
TEST(a_client_that_takes_its_answer_too_slowly_is_closed)
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

TEST(a_request_that_waits_behind_an_answer_nobody_takes_is_abandoned)
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

/* An answer that comes later does not give the client more time for those before it. */
TEST(a_later_answer_does_not_move_the_deadline_of_those_before)
{
    test_server_init(&t);
    t.tight = true;
    t.options.write_timeout_ms = 2 * (uint64_t)SHORT_MS;
    test_server_open(&t);
    struct client *c = client_open(&t);
    c->reads = false;
    client_send(c, GET("/mid") GET("/later?a"));
    TURN_UNTIL(&t, t.later_count == 1);
    int64_t began = wait_now_ms();
    test_server_turn_for(&t, SHORT_MS);
    test_server_answer(&t, 0);
    TURN_UNTIL(&t, t.metrics.connections_open == 0);
    expect_after(began, 2 * SHORT_MS);
    test_server_close(&t);
}

TEST(a_client_that_does_not_close_after_the_last_answer_is_not_waited_for_long)
{
    test_server_init(&t);
    test_server_open(&t);
    struct client *c = client_open(&t);
    client_send(c, "GET /now?a HTTP/1.0\r\n\r\n");
    TURN_UNTIL(&t, c->ended);
    client_expect_bodies(c, "a");
    int64_t began = wait_now_ms();
    while (t.metrics.connections_open == 1 &&
           wait_now_ms() - began < HTTP_LINGER_MS + 2 * TICK_MS + wait_slack_ms()) {
        (void)send(c->fd, "more", 4, MSG_NOSIGNAL); /* thrown away */
        test_server_turn_for(&t, 20);
    }
    expect_after(began, HTTP_LINGER_MS);
    assert_int_equal(t.metrics.connections_open, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 0);
    assert_int_equal(t.handled, 1);
    test_server_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_says_nothing_is_closed_without_a_word),
        cmocka_unit_test(an_unfinished_request_is_answered_with_408),
        cmocka_unit_test(unfinished_content_is_answered_with_408),
        cmocka_unit_test(the_time_for_a_request_is_total_so_that_dribbling_does_not_help),
        cmocka_unit_test(what_came_before_the_deadline_counts_though_it_is_read_after),
        cmocka_unit_test(each_request_has_its_time_anew),
        cmocka_unit_test(an_idle_connection_is_closed_after_the_idle_timeout_alone),
        cmocka_unit_test(the_first_byte_of_a_request_ends_idleness),
        cmocka_unit_test(an_empty_line_does_not_begin_a_request),
        cmocka_unit_test(empty_lines_without_end_do_not_keep_a_connection_open),
        cmocka_unit_test(empty_lines_around_a_request_change_nothing),
        cmocka_unit_test(a_request_may_wait_for_its_answer_longer_than_any_of_the_clients_deadlines),
        cmocka_unit_test(a_client_that_does_not_take_its_answer_is_closed),
        cmocka_unit_test(a_client_that_takes_its_answer_too_slowly_is_closed),
        cmocka_unit_test(a_request_that_waits_behind_an_answer_nobody_takes_is_abandoned),
        cmocka_unit_test(a_later_answer_does_not_move_the_deadline_of_those_before),
        cmocka_unit_test(a_client_that_does_not_close_after_the_last_answer_is_not_waited_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
