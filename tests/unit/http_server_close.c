/*
 * The beginning and the end of a server: at once, with connections in every state. tests/simulation/http
 * tells what an orderly end means for each connection.
 */
#include "unit/fixtures/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/connection.h"

static int try_connect(int port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int err = connect(fd, (struct sockaddr *)&in, sizeof in) == 0 ? 0 : errno;
    close(fd);
    return err;
}

TEST_CASE(a_server_that_never_listened_ends)
{
    static struct http_server *s;
    test_server_init();
    assert_int_equal(uv_loop_init(&t.loop), 0);
    assert_int_equal(http_server_new(&t.loop, &t.options, &s), 0);
    http_server_stop_listening(s); /* nothing to stop */
    http_server_close(s, test_server_on_closed, &t);
    assert_int_equal(uv_run(&t.loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(t.closed, 1);
    assert_int_equal(uv_loop_close(&t.loop), 0);
}

SERVER_TEST(listening_on_an_address_in_use_fails)
{
    struct addr taken;
    char text[32];
    struct http_server *second = NULL;
    (void)snprintf(text, sizeof text, "127.0.0.1:%d", t.port);
    assert_int_equal(addr_parse(span_of(text), &taken), 0);
    assert_int_equal(http_server_new(&t.loop, &t.options, &second), 0);
    assert_int_equal(http_server_listen(second, &taken), -EADDRINUSE);
    http_server_close(second, test_server_on_closed, &t);
    TURN_UNTIL(t.closed == 1);
    t.closed = 0;
    struct client *c = client_sending(GET("/now?a"));
    TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
}

/* A server that listens where the one of the test does. */
static int listen_beside(struct http_server **out)
{
    struct addr address;
    char text[32];
    (void)snprintf(text, sizeof text, "127.0.0.1:%d", t.port);
    assert_int_equal(addr_parse(span_of(text), &address), 0);
    assert_int_equal(http_server_new(&t.loop, &t.options, out), 0);
    return http_server_listen(*out, &address);
}

static void close_beside(struct http_server *s)
{
    http_server_close(s, test_server_on_closed, &t);
    TURN_UNTIL(t.closed == 1);
    t.closed = 0;
}

SERVER_TEST_WITH(a_further_server_shares_the_address, t.servers = 2)
{
    enum { COUNT = 100 };
    struct http_metrics metrics = {0};
    struct http_server *s = NULL;
    t.options.number = 1;
    t.options.metrics = &metrics;
    assert_int_equal(listen_beside(&s), 0);
    for (int i = 0; i < COUNT; i++) {
        struct client *c = client_sending(GET("/now?a"));
        TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
    }
    assert_true(metrics.connections_accepted_total > 0 && t.metrics.connections_accepted_total > 0);
    assert_int_equal(metrics.connections_accepted_total + t.metrics.connections_accepted_total, COUNT);
    close_beside(s);
}

/* As from another process. */
SERVER_TEST_WITH(another_first_server_finds_the_address_in_use, t.servers = 2)
{
    struct http_server *s = NULL;
    assert_int_equal(listen_beside(&s), -EADDRINUSE);
    close_beside(s);
}

TEST_CASE(ages_differ_by_up_to_a_fifth)
{
    enum { COUNT = 100, LONG_MS = 1000000 };
    uint64_t random = 1;
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t age = http_connection_age_ms(LONG_MS, &random);
        assert_in_range(age, LONG_MS - LONG_MS / 10, LONG_MS + LONG_MS / 10);
        low = age < low ? age : low;
        high = age > high ? age : high;
    }
    assert_true(high - low > LONG_MS / 10);
    assert_int_equal(http_connection_age_ms(1, &random), 1);
}

SERVER_TEST(queued_connections_are_served_when_the_listener_closes)
{
    enum { COUNT = 150 }; /* more than the loop accepts in one turn */
    struct client *c[COUNT];
    for (int i = 0; i < COUNT; i++) {
        c[i] = client_open(); /* connected by the kernel; the loop has not turned yet */
        client_send(c[i], GET("/now?a"));
    }
    http_server_announce_close(t.server);
    http_server_stop_listening(t.server);
    http_server_stop_listening(t.server); /* harmless */
    http_server_finish(t.server, test_server_on_finished, &t);
    assert_int_equal(try_connect(t.port), ECONNREFUSED);
    for (int i = 0; i < COUNT; i++) {
        TURN_UNTIL(c[i]->ended);
        assert_int_equal(c[i]->error, 0);
        client_expect_bodies(c[i], "a");
        client_close(c[i]);
    }
    TURN_UNTIL(t.finished == 1);
    assert_int_equal(t.metrics.connections_accepted_total, COUNT);
}

/* The loop has not read it yet. Closing the connection would reset it. */
SERVER_TEST(request_in_the_kernel_is_answered_when_the_server_finishes)
{
    struct client *idle = client_sending(GET("/now?idle"));
    struct client *c = client_sending(GET("/now?a"));
    TURN_UNTIL(client_count(idle, "\r\n\r\nidle") == 1 && client_count(c, "\r\n\r\na") == 1);
    client_send(c, GET("/now?b"));
    http_server_announce_close(t.server);
    http_server_stop_listening(t.server);
    http_server_finish(t.server, test_server_on_finished, &t);
    client_await_end(c, "a b");
    client_await_end(idle, "idle");
    assert_int_equal(c->error, 0);
    TURN_UNTIL(t.finished == 1);
}

SERVER_TEST(finishing_without_connections_is_complete_at_once)
{
    http_server_stop_listening(t.server);
    http_server_finish(t.server, test_server_on_finished, &t);
    TURN_UNTIL(t.finished == 1);
    test_server_turn_for(20);
    assert_int_equal(t.finished, 1);
}

/* Puts connections into every state that lasts. */
static void open_in_every_state(void)
{
    struct client *c[7];
    for (int i = 0; i < 7; i++) {
        c[i] = client_open();
        c[i]->reads = i != 4 && i != 5;
    }
    client_send(c[1], "GET /half");                       /* a request that is being read */
    client_send(c[2], GET("/now?a"));                     /* idle */
    client_send(c[3], GET("/later?b") GET("/now?never")); /* waits for its answer, with more behind it */
    client_send(c[4], GET("/big"));                       /* an answer that is not taken */
    client_send(c[5], GET("/mid") GET("/later?c"));       /* the same, with a request behind it */
    client_send(c[6], "GET /now?d HTTP/1.0\r\n\r\n");     /* lingers */
    TURN_UNTIL(t.handled == 6 && c[6]->ended);
    test_server_turn_for(20);
    assert_int_equal(t.later_count, 2);
    assert_int_equal(t.metrics.connections_open, 7);
}

SERVER_TEST_WITH(closing_ends_connections_in_every_state_and_cancels_requests_once, t.tight = true)
{
    open_in_every_state();
    test_server_close(); /* asserts that nothing is left */
    assert_int_equal(t.cancelled, 2);
    assert_int_equal(t.finished, 0);
}

SERVER_TEST_WITH(closing_while_finishing_does_not_call_finished, t.tight = true)
{
    open_in_every_state();
    test_server_finish();
    test_server_close();
    assert_int_equal(t.cancelled, 2);
    assert_int_equal(t.finished, 0);
}
