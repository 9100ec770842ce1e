/* Connections that have much to be answered, and others that have little. */
#include "unit/http_world.h"

static struct world w;

static void begin(void)
{
    world_init(&w);
    world_open(&w);
}

/* Has the server read all of a long pipeline and one request of another client in the same turn of the loop.
 */
static struct client *pipeline_beside_another(struct client **other)
{
    enum { REQUESTS = 1000 };
    struct client *greedy = client_open(&w);
    *other = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_open == 2);
    for (int i = 0; i < REQUESTS; i++)
        client_send(greedy, GET("/now?a"));
    client_send(*other, GET("/now?b"));
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    return greedy;
}

TEST(a_long_pipeline_is_served_in_turn_with_others)
{
    struct client *other = NULL;
    begin();
    struct client *greedy = pipeline_beside_another(&other);
    assert_in_range(w.handled, 2, HTTP_OUTPUT_MAX + 1);
    client_receive(other);
    client_expect_bodies(other, "b");
    WORLD_UNTIL(&w, client_count(greedy, "\r\n\r\na") == 1000);
    assert_false(greedy->ended);
    world_fini(&w);
}

TEST(a_connection_that_waits_for_its_turn_may_go_and_may_be_closed)
{
    struct client *other = NULL;
    begin();
    client_reset(pipeline_beside_another(&other));
    WORLD_UNTIL(&w, w.metrics.connections_open == 1);
    client_close(other);
    WORLD_UNTIL(&w, w.metrics.connections_open == 0);
    (void)pipeline_beside_another(&other);
    world_fini(&w); /* asserts that nothing is left */
}

/* Its next request has come; that others are served first is not its fault. */
TEST(who_waits_for_its_turn_is_not_idle)
{
    struct client *second = NULL;
    begin();
    struct client *greedy = pipeline_beside_another(&second);
    client_receive(second);
    client_expect_bodies(second, "b");
    client_send(second, GET("/now?c") GET("/now?d"));
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_false(list_empty(&w.server->waiting));
    struct http_connection *last = LIST_ENTRY(w.server->waiting.prev, struct http_connection, turn);
    assert_true(last->pending_input.len > 0);
    assert_int_equal(last->deadline.kind, DEADLINE_NONE);
    WORLD_UNTIL(&w, client_count(greedy, "\r\n\r\na") == 1000);
    client_receive(second);
    client_expect_bodies(second, "b c d");
    world_fini(&w);
}

/* Each has more than one turn's worth of requests with the server. */
static void open_pipelines(int count)
{
    struct buf requests = BUF_INIT;
    for (int i = 0; i < 4 * HTTP_OUTPUT_MAX; i++)
        buf_append_str(&requests, GET("/now?a"));
    struct client *greedy[CLIENTS_MAX];
    uint64_t open = w.metrics.connections_open + (unsigned)count;
    for (int i = 0; i < count; i++)
        greedy[i] = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_open == open);
    for (int i = 0; i < count; i++)
        client_send(greedy[i], buf_c_str(&requests));
    buf_fini(&requests);
}

TEST(who_asks_one_thing_does_not_wait_for_many_who_ask_much)
{
    enum { PIPELINES = 64 };
    begin();
    struct client *other = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_open == 1);
    open_pipelines(PIPELINES);
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_in_range(w.handled, 1, PIPELINES * HTTP_OUTPUT_MAX / 2);
    int before = w.handled;
    client_send(other, GET("/now?b"));
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    client_receive(other);
    client_expect_bodies(other, "b");
    assert_in_range(w.handled - before, 1, PIPELINES * HTTP_OUTPUT_MAX / 2);
    WORLD_UNTIL(&w, w.handled == 1 + PIPELINES * 4 * HTTP_OUTPUT_MAX);
    world_fini(&w);
}

/* However much of it has come: the content is as long as four reads. */
TEST(who_sends_much_is_read_once_in_a_turn)
{
    enum { READS = 4 };
    world_init(&w);
    w.options.body_max = (size_t)(READS + 1) * HTTP_READ_BUFFER;
    world_open(&w);
    struct client *greedy = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_open == 1);
    struct buf request = BUF_INIT;
    buf_printf(&request, "POST /now?a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n",
               READS * HTTP_READ_BUFFER);
    for (int i = 0; i < READS * HTTP_READ_BUFFER; i++)
        buf_append_char(&request, 'x');
    client_send(greedy, buf_c_str(&request));
    buf_fini(&request);
    for (int turns = 0; turns < READS; turns++) {
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        assert_int_equal(w.handled, 0);
    }
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    assert_int_equal(w.handled, 1);
    client_receive(greedy);
    client_expect_bodies(greedy, "a");
    world_fini(&w);
}

/* Lets the server turn once while so many connections wait to be accepted; returns how many were. */
static int accepted_in_one_turn(int waiting)
{
    int before = (int)w.metrics.connections_open;
    for (int i = 0; i < waiting; i++)
        (void)client_open(&w);
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    return (int)w.metrics.connections_open - before;
}

TEST(many_who_only_connect_are_accepted_few_at_a_time)
{
    enum { NEWCOMERS = 40 };
    begin();
    struct client *other = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_open == 1);
    client_send(other, GET("/now?b"));
    assert_in_range(accepted_in_one_turn(NEWCOMERS), 1, NEWCOMERS / 4);
    client_receive(other);
    client_expect_bodies(other, "b");
    WORLD_UNTIL(&w, w.metrics.connections_open == 1 + NEWCOMERS);
    world_fini(&w);
}

TEST(newcomers_are_accepted_in_proportion_to_what_others_ask)
{
    enum { NEWCOMERS = 40 };
    begin();
    open_pipelines(8);
    WORLD_UNTIL(&w, w.handled == 8 * 4 * HTTP_OUTPUT_MAX);
    assert_int_equal(accepted_in_one_turn(NEWCOMERS), NEWCOMERS);
    world_fini(&w);
}

TEST(many_deadlines_at_once_leave_others_their_turn)
{
    enum { SILENT = 200, SHORT_MS = 300 };
    world_init(&w);
    w.options.head_timeout_ms = SHORT_MS;
    world_open(&w);
    struct client *other = client_open(&w);
    client_send(other, GET("/now?a"));
    for (int i = 0; i < SILENT; i++)
        client_send(client_open(&w), "G");
    while (w.metrics.connections_open < 1 + SILENT || w.refused == 0)
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    assert_in_range(w.refused, 1, SILENT / 2);
    client_send(other, GET("/now?b"));
    (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    client_receive(other);
    client_expect_bodies(other, "a b");
    assert_in_range(w.refused, 1, SILENT - 1);
    WORLD_UNTIL(&w, w.refused == SILENT);
    world_fini(&w);
}

/* What is in memory for a client is as much as one write may hold and an answer more. */
TEST(large_answers_are_not_made_before_those_in_front_are_taken)
{
    begin();
    struct client *greedy = client_open(&w);
    greedy->reads = false;
    client_send(greedy, GET("/big") GET("/big") GET("/big"));
    WORLD_UNTIL(&w, w.handled == 1);
    world_turn_for(&w, 50);
    assert_int_equal(w.handled, 1);
    greedy->reads = true;
    WORLD_UNTIL(&w, w.handled == 3);
    WORLD_UNTIL(&w, client_count(greedy, "HTTP/1.1 200") == 3);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_one_thing_does_not_wait_for_many_who_ask_much),
        cmocka_unit_test(who_sends_much_is_read_once_in_a_turn),
        cmocka_unit_test(many_who_only_connect_are_accepted_few_at_a_time),
        cmocka_unit_test(newcomers_are_accepted_in_proportion_to_what_others_ask),
        cmocka_unit_test(many_deadlines_at_once_leave_others_their_turn),
        cmocka_unit_test(large_answers_are_not_made_before_those_in_front_are_taken),
        cmocka_unit_test(a_long_pipeline_is_served_in_turn_with_others),
        cmocka_unit_test(who_waits_for_its_turn_is_not_idle),
        cmocka_unit_test(a_connection_that_waits_for_its_turn_may_go_and_may_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
