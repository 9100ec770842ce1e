/* Deadlines of connections: what is too slow is ended, in time and not before, and what is not is left alone.
 */
#include "unit/http_world.h"

enum { TICK_MS = 200, SHORT_MS = 300 }; /* deadlines are looked at once a tick */

static struct world w;

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
    world_init(&w);
    w.options.head_timeout_ms = SHORT_MS;
    world_open(&w);
    int64_t began = wait_now_ms();
    struct client *c = client_open(&w);
    WORLD_UNTIL(&w, c->ended);
    expect_after(began, SHORT_MS);
    assert_int_equal(c->in.len, 0);
    assert_int_equal(w.metrics.connections_timed_out_total, 1);
    assert_int_equal(w.handled + w.refused, 0);
    world_fini(&w);
}

TEST(an_unfinished_request_is_answered_with_408)
{
    world_init(&w);
    w.options.head_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, "GET / HTTP/1.1\r\nHost: a\r\n");
    WORLD_UNTIL(&w, c->ended);
    assert_int_equal(client_count(c, "HTTP/1.1 408 Request Timeout\r\n"), 1);
    client_expect_bodies(c, "refused");
    assert_int_equal(w.metrics.connections_timed_out_total, 1);
    world_fini(&w);
}

TEST(unfinished_content_is_answered_with_408)
{
    world_init(&w);
    w.options.head_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    WORLD_UNTIL(&w, c->ended);
    assert_int_equal(client_count(c, "HTTP/1.1 408"), 1);
    world_fini(&w);
}

TEST(the_time_for_a_request_is_total_so_that_dribbling_does_not_help)
{
    world_init(&w);
    w.options.head_timeout_ms = SHORT_MS;
    world_open(&w);
    int64_t began = wait_now_ms();
    struct client *c = client_open(&w);
    client_send(c, "GET /now HTTP/1.1\r\nX: ");
    while (!c->ended) {
        (void)send(c->fd, "x", 1, MSG_NOSIGNAL);
        world_turn_for(&w, 10);
        assert_true(wait_now_ms() - began < SHORT_MS + TICK_MS + wait_slack_ms());
    }
    assert_int_equal(client_count(c, "HTTP/1.1 408"), 1);
    assert_int_equal(w.handled, 0);
    world_fini(&w);
}

static bool standing_still(void *arg)
{
    (void)arg;
    return true;
}

/* As when the process was stopped and continued: the time is over, but what came in time was not read yet. */
TEST(what_came_before_the_deadline_counts_though_it_is_read_after)
{
    world_init(&w);
    w.options.head_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_open == 1);
    client_send(c, "GET /now?x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(wait_holds(standing_still, NULL, 2 * SHORT_MS));
    WORLD_UNTIL(&w, c->ended || c->in.len > 0);
    client_expect_bodies(c, "x");
    assert_int_equal(w.metrics.connections_timed_out_total, 0);
    world_fini(&w);
}

TEST(each_request_has_its_time_anew)
{
    world_init(&w);
    w.options.head_timeout_ms = 2 * (uint64_t)SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    for (int i = 0; i < 5; i++) {
        client_send(c, "GET /now?x HTTP/1.1\r\n");
        world_turn_for(&w, SHORT_MS / 2);
        client_send(c, "Host: a\r\n\r\n");
        WORLD_UNTIL(&w, client_count(c, "\r\n\r\nx") == i + 1);
    }
    assert_false(c->ended);
    world_fini(&w);
}

TEST(an_idle_connection_is_closed_after_the_idle_timeout_alone)
{
    world_init(&w);
    w.options.idle_timeout_ms = 3 * (uint64_t)SHORT_MS;
    w.options.head_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, GET("/now?a"));
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\na") == 1);
    int64_t began = wait_now_ms();
    WORLD_UNTIL(&w, c->ended);
    expect_after(began, 3 * SHORT_MS);
    client_expect_bodies(c, "a");
    assert_int_equal(w.metrics.connections_timed_out_total, 1);
    world_fini(&w);
}

TEST(the_first_byte_of_a_request_ends_idleness)
{
    world_init(&w);
    w.options.idle_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, GET("/now?a") "G");
    world_turn_for(&w, SHORT_MS + 2 * TICK_MS);
    assert_false(c->ended);
    client_send(c, "ET /now?b HTTP/1.1\r\nHost: a\r\n\r\n");
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\nb") == 1);
    world_fini(&w);
}

/* RFC 9112 section 2.2: an empty line belongs to no request. */
TEST(an_empty_line_does_not_begin_a_request)
{
    static const char *const lines[] = {"\r\n", "\r", "\r\n\r\n\r\n"};
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        world_init(&w);
        w.options.head_timeout_ms = SHORT_MS;
        w.options.idle_timeout_ms = 3 * (uint64_t)SHORT_MS;
        world_open(&w);
        struct client *c = client_open(&w);
        client_send(c, GET("/now?a"));
        client_send(c, lines[i]);
        WORLD_UNTIL(&w, c->ended);
        client_expect_bodies(c, "a");
        assert_int_equal(w.refused, 0);
        world_fini(&w);
    }
}

TEST(empty_lines_without_end_do_not_keep_a_connection_open)
{
    world_init(&w);
    w.options.idle_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, GET("/now?a"));
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    while (!c->ended) {
        (void)send(c->fd, "\r\n\r\n\r\n", 5, MSG_NOSIGNAL); /* an odd number, so that halves are among them */
        (void)send(c->fd, "\n\r\n", 3, MSG_NOSIGNAL);
        world_turn_for(&w, 10);
        assert_true(wait_left_ms(until) > 0);
    }
    client_expect_bodies(c, "a");
    assert_int_equal(w.refused, 0);
    assert_int_equal(w.metrics.connections_timed_out_total, 1);
    world_fini(&w);
}

TEST(empty_lines_around_a_request_change_nothing)
{
    world_init(&w);
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, "\r\n\r\n" GET("/now?a") "\r\n" GET("/later?b") "\r\n\r");
    WORLD_UNTIL(&w, w.later_count == 1);
    world_answer(&w, 0);
    client_send(c, "\n\r\n" GET("/now?c"));
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\nc") == 1);
    client_expect_bodies(c, "a b c");
    client_send(c, "\r");
    world_turn_for(&w, 20);
    client_send(c, GET("/now?d"));
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "a b c refused");
    assert_int_equal(client_count(c, "HTTP/1.1 400"), 1);
    world_fini(&w);
}

TEST(a_request_may_wait_for_its_answer_longer_than_any_of_the_clients_deadlines)
{
    world_init(&w);
    w.options.idle_timeout_ms = w.options.head_timeout_ms = w.options.write_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, GET("/later?a"));
    WORLD_UNTIL(&w, w.later_count == 1);
    world_turn_for(&w, SHORT_MS + 2 * TICK_MS);
    assert_int_equal(w.abandoned, 0);
    assert_false(c->ended);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\na") == 1);
    world_fini(&w);
}

TEST(a_client_that_does_not_take_its_answer_is_closed)
{
    world_init(&w);
    w.options.write_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    c->reads = false;
    int64_t began = wait_now_ms();
    client_send(c, GET("/big"));
    WORLD_UNTIL(&w, w.handled == 1);
    WORLD_UNTIL(&w, w.metrics.connections_open == 0);
    expect_after(began, SHORT_MS);
    assert_int_equal(w.big->refs, 1);
    assert_int_equal(w.metrics.connections_timed_out_total, 1);
    world_fini(&w);
}

/* Taking a little now and then is not taking it all: the time is total. */
TEST(a_client_that_takes_its_answer_too_slowly_is_closed)
{
    world_init(&w);
    w.options.write_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    c->reads = false;
    client_send(c, GET("/big"));
    int64_t until = wait_deadline(WAIT_DEADLINE_MS);
    WORLD_UNTIL(&w, w.handled == 1);
    while (w.metrics.connections_open == 1) {
        char few[1024];
        if (read(c->fd, few, sizeof few) == 0)
            break;
        world_turn_for(&w, 10);
        assert_true(wait_left_ms(until) > 0);
    }
    world_fini(&w);
}

TEST(a_request_that_waits_behind_an_answer_nobody_takes_is_abandoned)
{
    world_init(&w);
    w.tight = true;
    w.options.write_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    c->reads = false;
    client_send(c, GET("/mid") GET("/later?a"));
    WORLD_UNTIL(&w, w.later_count == 1);
    WORLD_UNTIL(&w, w.metrics.connections_open == 0);
    assert_int_equal(w.abandoned, 1);
    assert_int_equal(w.later_count, 0);
    world_fini(&w);
}

/* An answer that comes later does not give the client more time for those before it. */
TEST(a_later_answer_does_not_move_the_deadline_of_those_before)
{
    world_init(&w);
    w.tight = true;
    w.options.write_timeout_ms = 2 * (uint64_t)SHORT_MS;
    world_open(&w);
    struct client *c = client_open(&w);
    c->reads = false;
    client_send(c, GET("/mid") GET("/later?a"));
    WORLD_UNTIL(&w, w.later_count == 1);
    int64_t began = wait_now_ms();
    world_turn_for(&w, SHORT_MS);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, w.metrics.connections_open == 0);
    expect_after(began, 2 * SHORT_MS);
    world_fini(&w);
}

TEST(a_client_that_does_not_close_after_the_last_answer_is_not_waited_for_long)
{
    world_init(&w);
    world_open(&w);
    struct client *c = client_open(&w);
    client_send(c, "GET /now?a HTTP/1.0\r\n\r\n");
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "a");
    int64_t began = wait_now_ms();
    while (w.metrics.connections_open == 1 &&
           wait_now_ms() - began < HTTP_LINGER_MS + 2 * TICK_MS + wait_slack_ms()) {
        (void)send(c->fd, "more", 4, MSG_NOSIGNAL); /* thrown away */
        world_turn_for(&w, 20);
    }
    expect_after(began, HTTP_LINGER_MS);
    assert_int_equal(w.metrics.connections_open, 0);
    assert_int_equal(w.metrics.connections_timed_out_total, 0);
    assert_int_equal(w.handled, 1);
    world_fini(&w);
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
