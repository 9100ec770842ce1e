/* Fairness: clients with many requests beside those with few, and clients that only connect. */
#include "unit/fixtures/http_server.h"

#include <sys/socket.h>

#include "http/connection.h"

/* Has the server read all of a long pipeline and one request of another client in the same turn of the loop.
 */
static struct client *pipeline_beside_another(struct client **other)
{
    enum { REQUESTS = 1000 };
    struct client *greedy = client_open();
    *other = client_open();
    TURN_UNTIL(t.metrics.connections_open == 2);
    for (int i = 0; i < REQUESTS; i++)
        client_send(greedy, GET("/now?a"));
    client_send(*other, GET("/now?b"));
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    return greedy;
}

SERVER_TEST(a_long_pipeline_is_served_in_turns)
{
    struct client *other = NULL;
    struct client *greedy = pipeline_beside_another(&other);
    assert_in_range(t.handled, 2, HTTP_OUTPUT_MAX + 1);
    client_receive(other);
    client_expect_bodies(other, "b");
    TURN_UNTIL(client_count(greedy, "\r\n\r\na") == 1000);
    assert_false(greedy->ended);
}

SERVER_TEST(a_connection_in_the_run_queue_may_be_reset_or_closed)
{
    struct client *other = NULL;
    client_reset(pipeline_beside_another(&other));
    TURN_UNTIL(t.metrics.connections_open == 1);
    client_close(other);
    TURN_UNTIL(t.metrics.connections_open == 0);
    (void)pipeline_beside_another(&other);
    /* asserts that nothing is left */
}

/* Each has more than one turn's worth of requests with the server. */
static void open_pipelines(int count)
{
    SCOPED_BUF(requests);
    for (int i = 0; i < 4 * HTTP_OUTPUT_MAX; i++)
        buf_append_str(&requests, GET("/now?a"));
    struct client *greedy[CLIENTS_MAX];
    uint64_t open = t.metrics.connections_open + (unsigned)count;
    for (int i = 0; i < count; i++)
        greedy[i] = client_open();
    TURN_UNTIL(t.metrics.connections_open == open);
    for (int i = 0; i < count; i++)
        client_send(greedy[i], buf_c_str(&requests));
}

SERVER_TEST(a_single_request_does_not_wait_for_many_pipelines)
{
    enum { PIPELINES = 64 };
    struct client *other = client_open();
    TURN_UNTIL(t.metrics.connections_open == 1);
    open_pipelines(PIPELINES);
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    assert_in_range(t.handled, 1, PIPELINES * HTTP_OUTPUT_MAX / 2);
    int before = t.handled;
    client_send(other, GET("/now?b"));
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    client_receive(other);
    client_expect_bodies(other, "b");
    assert_in_range(t.handled - before, 1, PIPELINES * HTTP_OUTPUT_MAX / 2);
    TURN_UNTIL(t.handled == 1 + PIPELINES * 4 * HTTP_OUTPUT_MAX);
}

enum { READS = 4 };

/* However much of it has come: the content is as long as four reads. */
SERVER_TEST_WITH(a_connection_is_read_once_per_turn,
                 t.options.body_max = (size_t)(READS + 1) * HTTP_READ_BUFFER)
{
    struct client *greedy = client_open();
    TURN_UNTIL(t.metrics.connections_open == 1);
    SCOPED_BUF(request);
    buf_printf(&request, "POST /now?a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n",
               READS * HTTP_READ_BUFFER);
    for (int i = 0; i < READS * HTTP_READ_BUFFER; i++)
        buf_append_char(&request, 'x');
    client_send(greedy, buf_c_str(&request));
    for (int turns = 0; turns < READS; turns++) {
        (void)uv_run(&t.loop, UV_RUN_NOWAIT);
        assert_int_equal(t.handled, 0);
    }
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    assert_int_equal(t.handled, 1);
    client_receive(greedy);
    client_expect_bodies(greedy, "a");
}

/* Lets the server turn once while so many connections wait to be accepted; returns how many were. */
static int accepted_in_one_turn(int waiting)
{
    int before = (int)t.metrics.connections_open;
    for (int i = 0; i < waiting; i++)
        (void)client_open();
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
    return (int)t.metrics.connections_open - before;
}

SERVER_TEST(an_idle_server_accepts_few_connections_per_turn)
{
    enum { NEWCOMERS = 40 };
    struct client *other = client_open();
    TURN_UNTIL(t.metrics.connections_open == 1);
    client_send(other, GET("/now?b"));
    assert_int_equal(accepted_in_one_turn(NEWCOMERS), HTTP_ACCEPTS_MIN);
    client_receive(other);
    client_expect_bodies(other, "b");
    TURN_UNTIL(t.metrics.connections_open == 1 + NEWCOMERS);
}

SERVER_TEST(a_busy_server_accepts_more_connections_per_turn)
{
    open_pipelines(8);
    TURN_UNTIL(t.handled == 8 * 4 * HTTP_OUTPUT_MAX);
    assert_int_equal(accepted_in_one_turn(HTTP_ACCEPTS_MAX + 1), HTTP_ACCEPTS_MAX);
}

/* What is in memory for a client is as much as one write may hold and an answer more. */
SERVER_TEST(large_responses_wait_until_earlier_ones_are_taken)
{
    struct client *greedy = client_open();
    greedy->reads = false;
    client_send(greedy, GET("/big") GET("/big") GET("/big"));
    TURN_UNTIL(t.handled == 1);
    test_server_turn_for(50);
    assert_int_equal(t.handled, 1);
    greedy->reads = true;
    TURN_UNTIL(t.handled == 3);
    TURN_UNTIL(client_count(greedy, "HTTP/1.1 200") == 3);
}
