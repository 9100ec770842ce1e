/*
 * The limit of connections where several servers share it, where all may give way, and where more clients are
 * rejected than may stay. Which connection of one server gives way: tests/simulation/http.
 */
#include "unit/fixtures/http_server.h"

enum { APART_MS = 5 }; /* between two events whose order counts */

static struct client *client_idle(void)
{
    struct client *c = client_sending(GET("/now?idle"));
    TURN_UNTIL(client_count(c, "\r\n\r\nidle") == 1);
    test_server_turn_for(APART_MS);
    return c;
}

/* A new connection is served, for which that one is closed. */
static struct client *expect_evicted(struct client *evicted)
{
    struct client *c = client_sending(GET("/now?new"));
    TURN_UNTIL(evicted->ended && client_count(c, "\r\n\r\nnew") == 1);
    assert_int_equal(evicted->error, 0);
    test_server_turn_for(APART_MS);
    return c;
}

/* A new connection is told that there is no room, and ended in order. */
static void expect_503(void)
{
    struct client *c = client_open();
    TURN_UNTIL(c->ended);
    assert_int_equal(c->error, 0);
    assert_int_equal(client_count(c, "HTTP/1.1 503 Service Unavailable\r\n"), 1);
}

/* Where the options say so, in the order of arrival; first those that wait for a request. */
SERVER_TEST_WITH(others_give_way_as_well, t.max_connections = 3, t.options.evict_any = true)
{
    struct client *reader = client_open();
    reader->reads = false;
    client_send(reader, GET("/big"));
    struct client *busy = client_sending(GET("/later?a"));
    TURN_UNTIL(t.handled == 2);
    struct client *idle = client_open();
    TURN_UNTIL(http_balancer_total(t.balancer) == 3);
    struct client *next = client_sending(GET("/later?b"));
    TURN_UNTIL(idle->ended && t.later_count == 2);
    struct client *last = client_sending(GET("/later?c"));
    TURN_UNTIL(t.later_count == 3 && client_server_fd(reader) < 0);
    assert_int_equal(t.metrics.connections_rejected_total, 0);
    expect_503();
    for (int i = 0; i < 3; i++)
        test_server_answer(0);
    client_await_bodies(busy, "a");
    client_await_bodies(next, "b");
    client_await_bodies(last, "c");
}

/* ---- several servers, one limit ---- */

static struct http_server *second;

/* A second server on the loop, at an address of its own. Returns its port. */
static int open_second(void)
{
    struct addr address;
    struct sockaddr_in in = {0};
    socklen_t len = sizeof in;
    t.options.number = 1;
    assert_int_equal(http_server_new(&t.loop, &t.options, &second), 0);
    assert_int_equal(addr_parse(SPAN("127.0.0.1:0"), &address), 0);
    assert_int_equal(http_server_listen(second, &address), 0);
    assert_int_equal(getsockname(find_listener(t.listener), (struct sockaddr *)&in, &len), 0);
    return ntohs(in.sin_port);
}

static void close_second(void)
{
    http_server_close(second, test_server_on_closed, &t);
    TURN_UNTIL(t.closed == 1);
    t.closed = 0;
}

SERVER_TEST_WITH(a_connection_of_another_server_gives_way, t.servers = 2, t.max_connections = 2)
{
    int first_port = t.port;
    int second_port = open_second();
    struct client *busy = client_sending(GET("/later?busy"));
    TURN_UNTIL(t.later_count == 1);
    struct client *a = client_idle(); /* the other has it, which has fewer */
    struct client *b = expect_evicted(a);
    t.port = second_port;
    struct client *c = expect_evicted(b); /* its own */
    t.port = first_port;
    struct client *d = expect_evicted(c);
    client_send(d, GET("/later?d"));
    TURN_UNTIL(t.later_count == 2);
    expect_503();
    test_server_answer(1);
    client_await_bodies(d, "new d");
    test_server_answer(0);
    client_await_bodies(busy, "busy");
    assert_int_equal(t.metrics.connections_evicted_total, 3);
    assert_int_equal(t.metrics.connections_rejected_total, 1);
    close_second();
}

/* ---- what a client is told ---- */

/* All of them get their 503: those beyond are closed at once, without a reset where the request has arrived.
 */
SERVER_TEST_WITH(only_max_rejections_connections_over_the_limit_stay, t.max_connections = 1)
{
    enum { REJECTIONS = 64, FLOOD = REJECTIONS + 20 };
    struct client *first = client_sending(GET("/later?a"));
    TURN_UNTIL(t.later_count == 1);
    struct client *flood[FLOOD];
    for (int i = 0; i < FLOOD; i++)
        flood[i] = client_sending(GET("/now?b"));
    TURN_UNTIL(t.metrics.connections_rejected_total == FLOOD);
    assert_in_range(t.metrics.connections_open, 1, 1 + REJECTIONS);
    for (int i = 0; i < FLOOD; i++) {
        TURN_UNTIL(flood[i]->ended);
        assert_int_equal(flood[i]->error, 0);
        assert_int_equal(client_count(flood[i], "HTTP/1.1 503"), 1);
    }
    test_server_answer(0);
    client_await_bodies(first, "a");
}
