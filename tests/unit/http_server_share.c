/* Servers that share one listening socket, as those of all workers, and of the next process, do. */
#include "unit/fixtures/http_server.h"

#include <fcntl.h>
#include <unistd.h>

enum { SERVERS = 2 };

/* The socket, which outlives the servers that share it. */
static int passed;
static struct http_server *server[SERVERS];
static struct http_metrics metrics[SERVERS];

static void open_servers(void)
{
    passed = fcntl(t.listener, F_DUPFD_CLOEXEC, 0);
    assert_true(passed >= 0);
    http_server_stop_listening(t.server); /* it closes its descriptor; the socket stays open */
    t.options.servers = SERVERS;
    for (int i = 0; i < SERVERS; i++) {
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
    TURN_UNTIL(atomic_load(&t.limit.open) == COUNT);
    for (int i = 0; i < SERVERS; i++)
        assert_in_range(metrics[i].connections_accepted_total, COUNT / 3, COUNT - COUNT / 3);
    for (int i = 0; i < COUNT; i++)
        client_send(c[i], GET("/now?a"));
    for (int i = 0; i < COUNT; i++)
        TURN_UNTIL(client_count(c[i], "\r\n\r\na") == 1);
    close_servers();
    close(passed);
}

/* The other does not accept: what it leaves is not left for ever. */
SERVER_TEST(one_server_accepts_what_nobody_else_does)
{
    enum { COUNT = 60 };
    open_servers();
    for (int i = 0; i < COUNT; i++)
        (void)client_open();
    http_server_accept(server[0]);
    TURN_UNTIL(atomic_load(&t.limit.open) == COUNT);
    assert_int_equal(metrics[0].connections_accepted_total, COUNT);
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
    test_server_turn_for(50);
    close_servers();
    t.options.metrics = &t.metrics;
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
