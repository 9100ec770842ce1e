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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_pipeline_is_served_in_turn_with_others),
        cmocka_unit_test(a_connection_that_waits_for_its_turn_may_go_and_may_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
