/* The end of a server: orderly, and at once, with connections in every state. */
#include "unit/http_world.h"

static struct world w;

static void begin(void)
{
    world_init(&w);
    world_open(&w);
}

static int try_connect(int port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err = connect(fd, (struct sockaddr *)&in, sizeof in) == 0 ? 0 : errno;
    close(fd);
    return err;
}

TEST(a_server_that_never_listened_ends)
{
    static struct http_server *s;
    world_init(&w);
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_int_equal(http_server_new(&w.loop, &w.options, &s), 0);
    http_server_stop_listening(s); /* nothing to stop */
    http_server_close(s, world_on_closed, &w);
    assert_int_equal(uv_run(&w.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(w.closed, 1);
    assert_int_equal(uv_loop_close(&w.loop), 0);
}

TEST(an_address_in_use_is_an_error_after_which_the_server_ends_as_ever)
{
    struct addr taken;
    char text[32];
    struct http_server *second = NULL;
    begin();
    (void)snprintf(text, sizeof text, "127.0.0.1:%d", w.port);
    assert_int_equal(addr_parse(span_of(text), &taken), 0);
    assert_int_equal(http_server_new(&w.loop, &w.options, &second), 0);
    assert_int_equal(http_server_listen(second, &taken), -EADDRINUSE);
    http_server_close(second, world_on_closed, &w);
    WORLD_UNTIL(&w, w.closed == 1);
    w.closed = 0;
    struct client *c = client_open(&w);
    client_send(c, GET("/now?a"));
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\na") == 1);
    world_fini(&w);
}

TEST(listeners_share_an_address_when_asked_to)
{
    struct addr any;
    struct http_server *s[2];
    world_init(&w);
    w.options.reuse_port = true;
    world_open(&w);
    char text[32];
    (void)snprintf(text, sizeof text, "127.0.0.1:%d", w.port);
    assert_int_equal(addr_parse(span_of(text), &any), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(http_server_new(&w.loop, &w.options, &s[i]), 0);
        assert_int_equal(http_server_listen(s[i], &any), 0);
    }
    for (int i = 0; i < 20; i++) {
        struct client *c = client_open(&w);
        client_send(c, GET("/now?a"));
        WORLD_UNTIL(&w, client_count(c, "\r\n\r\na") == 1);
        client_close(c);
    }
    for (int i = 0; i < 2; i++)
        http_server_close(s[i], world_on_closed, &w);
    WORLD_UNTIL(&w, w.closed == 2);
    w.closed = 0;
    world_fini(&w);
}

TEST(after_the_announcement_every_answer_is_the_last_of_its_connection)
{
    begin();
    struct client *busy = client_open(&w);
    client_send(busy, GET("/later?a") GET("/now?b"));
    WORLD_UNTIL(&w, w.later_count == 1);
    struct client *idle = client_open(&w);
    client_send(idle, GET("/now?c"));
    WORLD_UNTIL(&w, client_count(idle, "\r\n\r\nc") == 1);
    assert_int_equal(client_count(idle, "Connection: close"), 0);
    http_server_announce_close(w.server);
    struct client *late = client_open(&w);
    client_send(late, GET("/now?d"));
    client_send(idle, GET("/now?e"));
    world_answer(&w, 0);
    WORLD_UNTIL(&w, busy->ended && idle->ended && late->ended);
    client_expect_bodies(busy, "a");
    client_expect_bodies(idle, "c e");
    client_expect_bodies(late, "d");
    assert_int_equal(client_count(busy, "Connection: close\r\n"), 1);
    assert_int_equal(client_count(idle, "Connection: close\r\n"), 1);
    world_fini(&w);
}

enum { AGE_MS = 200 };

static void begin_with_age(uint64_t age_ms)
{
    world_init(&w);
    w.options.max_connection_age_ms = age_ms;
    world_open(&w);
}

static struct http_connection *only_conn(void)
{
    return LIST_ENTRY(w.server->conns.next, struct http_connection, link);
}

/* A client whose connection has reached its age, and that has had one answer. */
static struct client *open_old(void)
{
    begin_with_age(AGE_MS);
    struct client *c = client_open(&w);
    client_send(c, GET("/now?young"));
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\nyoung") == 1);
    WORLD_UNTIL(&w, w.server->ticked_ms >= only_conn()->retire_ms);
    return c;
}

TEST(an_old_connection_ends_with_its_next_answer_and_not_without_one)
{
    struct client *c = open_old();
    assert_false(c->ended); /* its next request is not lost */
    assert_int_equal(client_count(c, "Connection: close"), 0);
    client_send(c, GET("/now?old"));
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "young old");
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
    assert_int_equal(c->error, 0);
    assert_int_equal(w.metrics.connections_max_age_reached_total, 1);
    client_close(c);
    WORLD_UNTIL(&w, w.metrics.connections_open == 0); /* no deadline had to pass */
    assert_int_equal(w.metrics.connections_timed_out_total, 0);
    world_fini(&w);
}

TEST(an_answer_that_comes_late_may_be_the_last)
{
    begin_with_age(AGE_MS);
    struct client *c = client_open(&w);
    client_send(c, GET("/later?a"));
    WORLD_UNTIL(&w, w.later_count == 1 && w.server->ticked_ms >= only_conn()->retire_ms);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "a");
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
    world_fini(&w);
}

TEST(what_stands_behind_an_old_connections_answer_is_answered_first)
{
    struct client *c = open_old();
    client_send(c, GET("/now?a") GET("/later?b") GET("/now?c") GET("/now?d"));
    WORLD_UNTIL(&w, w.later_count == 1);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "young a b c d");
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
    world_fini(&w);
}

/* It has always sent more than was answered, and still does not stay for ever. */
TEST(a_client_that_pipelines_without_end_gets_its_age_twice)
{
    enum { MANY = 300, GAP_MS = 5 };
    struct client *c = open_old();
    struct buf requests = BUF_INIT;
    for (int i = 0; i < MANY; i++)
        buf_append_str(&requests, GET("/later?0"));
    assert_true(requests.len < HTTP_READ_BUFFER); /* all of it is read at once */
    client_send(c, buf_c_str(&requests));
    buf_fini(&requests);
    const uint64_t retire_ms = only_conn()->retire_ms;
    int answered = 0;
    for (; !c->ended; answered++) {
        WORLD_UNTIL(&w, c->ended || w.later_count == 1);
        world_turn_for(&w, GAP_MS);
        if (w.later_count == 1)
            world_answer(&w, 0);
        assert_true(answered < MANY);
    }
    assert_true(w.server->ticked_ms >= retire_ms + AGE_MS);
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
    world_fini(&w);
}

TEST(ages_are_spread_and_none_is_no_age)
{
    enum { COUNT = 100, LONG_MS = 1000000 };
    begin_with_age(LONG_MS);
    uint64_t now = uv_now(&w.loop);
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t age = http_server_retire_ms(w.server) - now;
        assert_in_range(age, LONG_MS - LONG_MS / 10, LONG_MS + LONG_MS / 10);
        low = age < low ? age : low;
        high = age > high ? age : high;
    }
    assert_true(high - low > LONG_MS / 10);
    world_fini(&w);
    begin_with_age(0);
    assert_int_equal(http_server_retire_ms(w.server), UINT64_MAX);
    world_fini(&w);
    begin_with_age(1);
    assert_in_range(http_server_retire_ms(w.server), uv_now(&w.loop) + 1, uv_now(&w.loop) + 1);
    world_fini(&w);
}

TEST(what_the_kernel_has_queued_is_served_before_the_listener_closes)
{
    enum { COUNT = 150 }; /* more than the loop accepts in one turn */
    begin();
    struct client *c[COUNT];
    for (int i = 0; i < COUNT; i++) {
        c[i] = client_open(&w); /* connected by the kernel; the loop has not turned yet */
        client_send(c[i], GET("/now?a"));
    }
    http_server_announce_close(w.server);
    http_server_stop_listening(w.server);
    http_server_stop_listening(w.server); /* harmless */
    http_server_finish(w.server, world_on_finished, &w);
    assert_int_equal(try_connect(w.port), ECONNREFUSED);
    for (int i = 0; i < COUNT; i++) {
        WORLD_UNTIL(&w, c[i]->ended);
        assert_int_equal(c[i]->error, 0);
        client_expect_bodies(c[i], "a");
        client_close(c[i]);
    }
    WORLD_UNTIL(&w, w.finished == 1);
    assert_int_equal(w.metrics.connections_accepted_total, COUNT);
    world_fini(&w);
}

TEST(finishing_without_connections_is_finished_already)
{
    begin();
    http_server_stop_listening(w.server);
    http_server_finish(w.server, world_on_finished, &w);
    WORLD_UNTIL(&w, w.finished == 1);
    world_turn_for(&w, 20);
    assert_int_equal(w.finished, 1);
    world_fini(&w);
}

TEST(finishing_ends_the_idle_at_once_and_waits_for_the_others)
{
    begin();
    struct client *idle = client_open(&w);
    struct client *busy = client_open(&w);
    client_send(idle, GET("/now?a"));
    WORLD_UNTIL(&w, client_count(idle, "\r\n\r\na") == 1);
    client_send(idle, "\r\n"); /* of no request */
    client_send(busy, GET("/later?b"));
    WORLD_UNTIL(&w, w.later_count == 1);
    http_server_announce_close(w.server);
    http_server_stop_listening(w.server);
    http_server_finish(w.server, world_on_finished, &w);
    WORLD_UNTIL(&w, idle->ended);
    assert_int_equal(idle->error, 0);
    client_close(idle);
    world_turn_for(&w, 50);
    assert_int_equal(w.finished, 0);
    assert_false(busy->ended);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, busy->ended);
    client_expect_bodies(busy, "b");
    client_close(busy);
    WORLD_UNTIL(&w, w.finished == 1);
    assert_int_equal(w.abandoned, 0);
    world_fini(&w);
}

/* One that has just connected may still speak, and is then served as long as that takes. */
TEST(finishing_waits_a_second_for_the_first_byte_of_a_connection)
{
    begin();
    struct client *silent = client_open(&w);
    struct client *late = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_open == 2);
    http_server_announce_close(w.server);
    http_server_stop_listening(w.server);
    http_server_finish(w.server, world_on_finished, &w);
    int64_t began = wait_now_ms();
    world_turn_for(&w, HTTP_LAST_CALL_MS / 2);
    assert_false(silent->ended);
    client_send(late, "GET /now?a HTTP/1.1\r\n");
    WORLD_UNTIL(&w, silent->ended);
    assert_in_range(wait_now_ms() - began, HTTP_LAST_CALL_MS - 50, HTTP_LAST_CALL_MS + wait_slack_ms());
    assert_int_equal(silent->error, 0);
    assert_false(late->ended);
    client_send(late, "Host: a\r\n\r\n");
    WORLD_UNTIL(&w, late->ended);
    client_expect_bodies(late, "a");
    client_close(late);
    client_close(silent);
    WORLD_UNTIL(&w, w.finished == 1);
    assert_int_equal(w.metrics.connections_timed_out_total, 0);
    world_fini(&w);
}

/* Its answer was given before the announcement, so it does not say that the connection closes; it does all
 * the same. */
TEST(a_connection_whose_answer_is_being_written_ends_after_it)
{
    begin();
    struct client *c = client_open(&w);
    c->reads = false;
    client_send(c, GET("/big"));
    WORLD_UNTIL(&w, w.handled == 1);
    world_turn_for(&w, 20);
    http_server_announce_close(w.server);
    http_server_stop_listening(w.server);
    http_server_finish(w.server, world_on_finished, &w);
    c->reads = true;
    WORLD_UNTIL(&w, c->ended);
    assert_int_equal(c->error, 0);
    assert_true(c->in.len > BIG_SIZE);
    assert_memory_equal(c->in.data + c->in.len - BIG_SIZE, w.big->data, BIG_SIZE);
    client_close(c);
    WORLD_UNTIL(&w, w.finished == 1);
    world_fini(&w);
}

/* Puts connections into every state that lasts. */
static void open_in_every_state(void)
{
    struct client *c[7];
    for (int i = 0; i < 7; i++) {
        c[i] = client_open(&w);
        c[i]->reads = i != 4 && i != 5;
    }
    client_send(c[1], "GET /half");                       /* a request that is being read */
    client_send(c[2], GET("/now?a"));                     /* idle */
    client_send(c[3], GET("/later?b") GET("/now?never")); /* waits for its answer, with more behind it */
    client_send(c[4], GET("/big"));                       /* an answer that is not taken */
    client_send(c[5], GET("/mid") GET("/later?c"));       /* the same, with a request behind it */
    client_send(c[6], "GET /now?d HTTP/1.0\r\n\r\n");     /* lingers */
    WORLD_UNTIL(&w, w.handled == 6 && c[6]->ended);
    world_turn_for(&w, 20);
    assert_int_equal(w.later_count, 2);
    assert_int_equal(w.metrics.connections_open, 7);
}

TEST(closing_ends_connections_in_every_state_and_abandons_each_waiting_request_once)
{
    world_init(&w);
    w.tight = true;
    world_open(&w);
    open_in_every_state();
    world_fini(&w); /* asserts that nothing is left */
    assert_int_equal(w.abandoned, 2);
    assert_int_equal(w.finished, 0);
}

TEST(closing_while_finishing_does_not_say_finished)
{
    world_init(&w);
    w.tight = true;
    world_open(&w);
    open_in_every_state();
    http_server_announce_close(w.server);
    http_server_stop_listening(w.server);
    http_server_finish(w.server, world_on_finished, &w);
    world_fini(&w);
    assert_int_equal(w.abandoned, 2);
    assert_int_equal(w.finished, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_never_listened_ends),
        cmocka_unit_test(an_address_in_use_is_an_error_after_which_the_server_ends_as_ever),
        cmocka_unit_test(listeners_share_an_address_when_asked_to),
        cmocka_unit_test(after_the_announcement_every_answer_is_the_last_of_its_connection),
        cmocka_unit_test(an_old_connection_ends_with_its_next_answer_and_not_without_one),
        cmocka_unit_test(an_answer_that_comes_late_may_be_the_last),
        cmocka_unit_test(what_stands_behind_an_old_connections_answer_is_answered_first),
        cmocka_unit_test(a_client_that_pipelines_without_end_gets_its_age_twice),
        cmocka_unit_test(ages_are_spread_and_none_is_no_age),
        cmocka_unit_test(what_the_kernel_has_queued_is_served_before_the_listener_closes),
        cmocka_unit_test(finishing_without_connections_is_finished_already),
        cmocka_unit_test(finishing_ends_the_idle_at_once_and_waits_for_the_others),
        cmocka_unit_test(finishing_waits_a_second_for_the_first_byte_of_a_connection),
        cmocka_unit_test(a_connection_whose_answer_is_being_written_ends_after_it),
        cmocka_unit_test(closing_ends_connections_in_every_state_and_abandons_each_waiting_request_once),
        cmocka_unit_test(closing_while_finishing_does_not_say_finished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
