/* Servers that share one listening socket, as those of all workers, and of the next process, do. */
#include "unit/fixtures/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SERVERS = 2 };

/* The socket, which outlives the servers that share it. */
static int passed;
static struct http_server *server[SERVERS];
static struct http_metrics metrics[SERVERS];
static struct http_balancer *balancer;

static void open_servers(void)
{
    passed = fcntl(t.listener, F_DUPFD_CLOEXEC, 0);
    assert_true(passed >= 0);
    http_server_stop_listening(t.server); /* it closes its descriptor; the socket stays open */
    assert_int_equal(http_balancer_new(SERVERS, t.max_connections, &balancer), 0);
    t.options.balancer = balancer;
    for (int i = 0; i < SERVERS; i++) {
        t.options.number = i;
        metrics[i] = (struct http_metrics){0};
        t.options.metrics = &metrics[i];
        assert_int_equal(http_server_new(&t.loop, &t.options, &server[i]), 0);
        assert_int_equal(http_server_share(server[i], passed), 0);
    }
}

static void close_servers(void)
{
    for (int i = 0; i < SERVERS; i++)
        http_server_close(server[i], test_server_on_closed, &t);
    TURN_UNTIL(t.closed == SERVERS);
    t.closed = 0;
    http_balancer_free(balancer);
}

static void accept_all(void)
{
    for (int i = 0; i < SERVERS; i++)
        http_server_accept(server[i]);
}

SERVER_TEST(connections_wait_until_they_are_accepted)
{
    open_servers();
    struct client *c = client_sending(GET("/now?a"));
    test_server_turn_for(50);
    assert_int_equal(c->in.len, 0);
    accept_all();
    TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
    close_servers();
    close(passed);
}

SERVER_TEST(connections_that_come_together_are_shared)
{
    enum { COUNT = 120 };
    struct client *c[COUNT];
    open_servers();
    for (int i = 0; i < COUNT; i++)
        c[i] = client_open();
    accept_all();
    TURN_UNTIL(http_balancer_total(balancer) == COUNT);
    for (int i = 0; i < SERVERS; i++)
        assert_int_equal(http_balancer_count(balancer, i), COUNT / SERVERS);
    for (int i = 0; i < COUNT; i++)
        client_send(c[i], GET("/now?a"));
    for (int i = 0; i < COUNT; i++)
        TURN_UNTIL(client_count(c[i], "\r\n\r\na") == 1);
    close_servers();
    close(passed);
}

/* Each of them is served: where it was accepted, or where it was handed over to. */
SERVER_TEST(a_server_that_accepts_nothing_has_its_share)
{
    enum { COUNT = 60 };
    struct client *c[COUNT];
    open_servers();
    for (int i = 0; i < COUNT; i++)
        c[i] = client_sending(GET("/client"));
    http_server_accept(server[0]);
    for (int i = 0; i < COUNT; i++)
        TURN_UNTIL(client_count(c[i], "\r\n\r\n127.0.0.1") == 1);
    assert_int_equal(metrics[0].connections_accepted_total, COUNT);
    for (int i = 0; i < SERVERS; i++) {
        assert_int_equal(http_balancer_count(balancer, i), COUNT / SERVERS);
        assert_int_equal(metrics[i].connections_open, COUNT / SERVERS);
    }
    close_servers();
    close(passed);
}

/* A server has finished; another one, which still accepts, has too many. */
SERVER_TEST(a_finished_server_serves_what_it_is_handed)
{
    open_servers();
    http_server_accept(server[0]);
    http_server_announce_close(server[1]);
    http_server_stop_listening(server[1]);
    http_server_finish(server[1], test_server_on_finished, &t);
    assert_int_equal(t.finished, 1);
    struct client *first = client_open();
    TURN_UNTIL(http_balancer_count(balancer, 0) == 1);
    struct client *c = client_open();
    TURN_UNTIL(http_balancer_count(balancer, 1) == 1);
    client_send(c, GET("/now?a"));
    client_await_end(c, "a");
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
    assert_int_equal(c->error, 0);
    client_close(c);
    TURN_UNTIL(t.finished == 2);
    assert_int_equal(http_balancer_total(balancer), 1);
    client_close(first);
    close_servers();
    close(passed);
}

SERVER_TEST(what_is_queued_at_the_end_is_left_to_the_next_server)
{
    enum { COUNT = 20 };
    struct client *c[COUNT];
    struct http_server *next = NULL;
    open_servers();
    accept_all();
    for (int i = 0; i < COUNT; i++)
        c[i] = client_sending(GET("/now?a")); /* connected by the kernel; the loop has not turned yet */
    for (int i = 0; i < SERVERS; i++)
        http_server_stop_listening(server[i]);
    accept_all(); /* too late: they accept nothing any more */
    test_server_turn_for(50);
    close_servers();
    t.options.metrics = &t.metrics;
    t.options.balancer = t.balancer;
    t.options.number = 0;
    assert_int_equal(http_server_new(&t.loop, &t.options, &next), 0);
    assert_int_equal(http_server_share(next, passed), 0);
    http_server_accept(next);
    for (int i = 0; i < COUNT; i++) {
        TURN_UNTIL(client_count(c[i], "\r\n\r\na") == 1);
        assert_int_equal(c[i]->error, 0);
    }
    assert_int_equal(t.metrics.connections_accepted_total, COUNT);
    http_server_close(next, test_server_on_closed, &t);
    TURN_UNTIL(t.closed == 1);
    t.closed = 0;
    close(passed);
}

SERVER_TEST(a_socket_that_is_not_of_tcp_is_not_shared)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    t.options.metrics = &metrics[0];
    assert_int_equal(http_server_new(&t.loop, &t.options, &server[0]), 0);
    assert_int_equal(http_server_share(server[0], fd), -EOPNOTSUPP);
    http_server_close(server[0], test_server_on_closed, &t);
    TURN_UNTIL(t.closed == 1);
    t.closed = 0;
    close(fd);
}
