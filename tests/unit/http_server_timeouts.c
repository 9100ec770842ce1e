/* Timeouts, the age of connections, and requests that take long, by a virtual clock. */
#include "unit/fixtures/http_server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "unit/fixtures/clock.h"

enum { AGE_MS = 800, TICK_MS = 100, SLOW_MS = 150, WRITE_TIMEOUT_MS = 1000 };

/* A tick at a time, in which the loop turns. */
static void pass(int ms)
{
    for (; ms > 0; ms -= TICK_MS) {
        clock_advance(ms < TICK_MS ? ms : TICK_MS);
        clock_settle();
        test_server_turn();
    }
}

/* Passes time until a connection has timed out; returns how long it took. */
static int pass_until_timeout(void)
{
    int ms = 0;
    for (; t.metrics.connections_timed_out_total == 0; ms += TICK_MS)
        pass(TICK_MS);
    return ms;
}

static void stand_still(void)
{
    clock_advance(SLOW_MS);
}

/* --- clients that read slowly --- */

/* The client of a response that the kernel has taken. It reads little at a time. */
static struct client *read_slowly(void)
{
    t.tight = true; /* for the client alone: the server is open */
    struct client *c = client_open();
    c->reads = false;
    client_send(c, GET("/mid"));
    TURN_UNTIL(t.handled == 1);
    return c;
}

static bool is_established(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_state == TCP_ESTABLISHED;
}

SERVER_TEST_WITH(an_idle_timeout_loses_nothing_of_a_response, t.options.idle_timeout_ms = 100)
{
    struct client *c = read_slowly();
    const int fd = client_server_fd(c);
    while (is_established(fd))
        pass(TICK_MS);
    c->reads = true;
    TURN_UNTIL(c->ended);
    assert_int_equal(c->error, 0);
    assert_true(c->in.len > MID_SIZE);
    assert_int_equal(t.metrics.connections_timed_out_total, 0);
}

SERVER_TEST_WITH(an_idle_timeout_gives_a_client_that_does_not_read_the_write_timeout,
                 t.options.idle_timeout_ms = 100, t.options.write_timeout_ms = 100)
{
    struct client *c = read_slowly();
    (void)pass_until_timeout();
    c->reads = true;
    TURN_UNTIL(c->ended);
    assert_int_not_equal(c->error, 0);
}

/* However long the write before it took. */
SERVER_TEST_WITH(each_write_has_the_whole_write_timeout, t.tight = true,
                 t.options.write_timeout_ms = WRITE_TIMEOUT_MS)
{
    struct client *c = client_open();
    c->reads = false;
    client_send(c, GET("/mid") GET("/later?b"));
    TURN_UNTIL(t.later_count == 1);
    http_exchange_respond(test_server_take_later(0), &(struct http_response){.status = 200, .body = t.big});
    pass(WRITE_TIMEOUT_MS / 2);
    c->reads = true;
    TURN_UNTIL(c->in.len > MID_SIZE + 8 * 1024); /* more than the kernel holds of the first */
    c->reads = false;
    assert_in_range(pass_until_timeout(), WRITE_TIMEOUT_MS, WRITE_TIMEOUT_MS + 2 * TICK_MS);
}

/* --- aged connections --- */

/* A client whose connection has reached its age, and that has had one answer. */
static struct client *open_old(void)
{
    struct client *c = client_sending(GET("/now?young"));
    TURN_UNTIL(client_count(c, "\r\n\r\nyoung") == 1);
    pass(AGE_MS + AGE_MS / 10 + TICK_MS);
    return c;
}

SERVER_TEST_WITH(pipelined_requests_on_an_aged_connection_are_answered_first,
                 t.options.max_connection_age_ms = AGE_MS)
{
    struct client *c = open_old();
    client_send(c, GET("/now?a") GET("/later?b") GET("/now?c") GET("/now?d"));
    TURN_UNTIL(t.later_count == 1);
    test_server_answer(0);
    client_await_end(c, "young a b c d");
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
}

/* --- a busy server --- */

/* Its next request has come; that other clients are served first is not its fault. Their turns take longer
 * than the idle timeout, together. */
SERVER_TEST_WITH(a_connection_in_the_run_queue_is_not_idle, t.stand_still = stand_still,
                 t.options.idle_timeout_ms = SLOW_MS + SLOW_MS / 2)
{
    enum { OTHERS = 3, REQUESTS = 2 * HTTP_OUTPUT_MAX };
    struct client *others[OTHERS];
    for (int i = 0; i < OTHERS; i++)
        others[i] = client_open();
    struct client *last = client_open();
    TURN_UNTIL(t.metrics.connections_open == OTHERS + 1);
    client_send(last, GET("/now?b"));
    TURN_UNTIL(client_count(last, "\r\n\r\nb") == 1);
    for (int i = 0; i < OTHERS; i++)
        for (int n = 0; n < REQUESTS; n++)
            client_send(others[i], n == 0 || n == HTTP_OUTPUT_MAX ? GET("/slow?a") : GET("/now?a"));
    clock_settle();
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    client_send(last, GET("/now?c") GET("/now?d"));
    TURN_UNTIL(last->ended || client_count(last, "\r\n\r\nd") == 1);
    client_expect_bodies(last, "b c d");
    assert_false(last->ended);
    TURN_UNTIL(t.handled == 3 + OTHERS * REQUESTS);
}

SERVER_TEST_WITH(many_expired_deadlines_do_not_delay_requests, t.options.head_timeout_ms = 300)
{
    enum { SILENT = 200 };
    struct client *other = client_sending(GET("/now?a"));
    for (int i = 0; i < SILENT; i++)
        client_send(client_open(), "G");
    TURN_UNTIL(t.metrics.connections_open == 1 + SILENT && t.handled == 1);
    clock_settle();
    (void)uv_run(&t.loop, UV_RUN_NOWAIT); /* reads what has come */
    while (t.rejected == 0) {
        clock_advance(TICK_MS);
        (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    }
    assert_in_range(t.rejected, 1, SILENT / 2);
    client_send(other, GET("/now?b"));
    clock_settle();
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    clock_settle();
    client_receive(other);
    client_expect_bodies(other, "a b");
    assert_in_range(t.rejected, 1, SILENT - 1);
    TURN_UNTIL(t.rejected == SILENT);
}
