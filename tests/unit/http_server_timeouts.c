/* Timeouts of a busy server, by a virtual clock. The simulation has the others. */
#include "unit/fixtures/http_server.h"

#include "unit/fixtures/clock.h"

enum { TICK_MS = 100, SLOW_MS = 150 };

static void stand_still(void)
{
    clock_advance(SLOW_MS);
}

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
