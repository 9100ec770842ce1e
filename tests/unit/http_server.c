/* Serving, as far as it needs the kernel: sockets, their buffers, the loop; and who the client is. What is
 * answered, when and in which order is in tests/simulation/http. */
#include "unit/fixtures/http_server.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "http/connection.h"

SERVER_TEST(a_request_is_answered_and_the_connection_stays)
{
    struct client *c = client_sending(GET("/now?hello"));
    client_await_bodies(c, "hello");
    assert_int_equal(client_count(c, "HTTP/1.1 200 OK\r\nDate: "), 1);
    assert_int_equal(client_count(c, "Connection:"), 0);
    client_send(c, GET("/now?again"));
    client_await_bodies(c, "hello again");
    assert_false(c->ended);
    assert_int_equal(t.metrics.connections_accepted_total, 1);
    assert_int_equal(t.metrics.connections_open, 1);
    assert_int_equal(http_balancer_total(t.balancer), 1);
}

SERVER_TEST(a_rejection_reaches_a_client_that_is_still_sending)
{
    struct client *c = client_sending("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    TURN_UNTIL(t.rejected == 1);
    static char content[100001];
    memset(content, 'x', sizeof content - 1);
    client_send(c, content);
    TURN_UNTIL(c->ended);
    assert_int_equal(c->error, 0); /* no reset: the answer was not lost under it */
    assert_int_equal(client_count(c, "HTTP/1.1 413"), 1);
}

/* Of so many bytes sent, those that neither the client's kernel nor the server's holds. */
static size_t bytes_kept(const struct client *c, size_t sent)
{
    int unsent = 0;
    int unread = 0;
    assert_int_equal(ioctl(c->fd, SIOCOUTQ, &unsent), 0);
    assert_int_equal(ioctl(client_server_fd(c), SIOCINQ, &unread), 0);
    return sent - (size_t)unsent - (size_t)unread;
}

SERVER_TEST(no_more_than_one_read_is_kept_while_a_response_is_pending)
{
    size_t sent = 0;
    struct client *c = client_sending(GET("/later?a"));
    TURN_UNTIL(t.later_count == 1);
    static char much[4096];
    memset(much, 'x', sizeof much);
    for (ssize_t n = 0; n >= 0;) { /* until the kernel takes no more */
        n = send(c->fd, much, sizeof much, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        test_server_turn_for(n < 0 ? 50 : 0);
    }
    assert_int_equal(t.later_count, 1);
    assert_in_range(bytes_kept(c, sent), 1, HTTP_READ_BUFFER);
    client_close(c);
    test_server_answer(0);
    TURN_UNTIL(t.metrics.connections_open == 0);
}

static int option_of(int fd, int level, int option)
{
    int value = 0;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, option, &value, &len), 0);
    return value;
}

SERVER_TEST(accepted_sockets_have_bounded_buffers_and_no_delay)
{
    struct client *c = client_sending(GET("/now?a"));
    TURN_UNTIL(client_count(c, "\r\n\r\na") == 1);
    const int fds[] = {t.listener, client_server_fd(c)};
    for (size_t i = 0; i < TEST_COUNT(fds); i++) {
        assert_int_equal(option_of(fds[i], SOL_SOCKET, SO_RCVBUF),
                         2 * 128 * 1024); /* the kernel doubles it */
        assert_int_equal(option_of(fds[i], IPPROTO_TCP, TCP_NOTSENT_LOWAT), 64 * 1024);
        assert_int_not_equal(option_of(fds[i], IPPROTO_TCP, TCP_NODELAY), 0);
    }
}

static int iterations;

static void on_iteration(uv_prepare_t *prepare)
{
    (void)prepare;
    iterations++;
}

static void on_enough(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

/* Counts how often the loop turns in a quarter of a second: a tick is due twice. A busy machine only makes it
 * fewer. */
static void expect_idle_loop(void)
{
    enum { MS = 250, ITERATIONS_MAX = 20 };
    uv_prepare_t prepare;
    uv_timer_t timer;
    iterations = 0;
    test_server_drain();
    assert_int_equal(uv_prepare_init(&t.loop, &prepare), 0);
    assert_int_equal(uv_timer_init(&t.loop, &timer), 0);
    assert_int_equal(uv_prepare_start(&prepare, on_iteration), 0);
    assert_int_equal(uv_timer_start(&timer, on_enough, MS, 0), 0);
    (void)uv_run(&t.loop, UV_RUN_DEFAULT);
    assert_in_range(iterations, 1, ITERATIONS_MAX);
    uv_close((uv_handle_t *)&prepare, NULL);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&t.loop, UV_RUN_NOWAIT);
}

/* The head timeout passes meanwhile: what expires is served in turns too. */
SERVER_TEST_WITH(the_loop_does_not_spin_while_connections_wait, t.tight = true,
                 t.options.head_timeout_ms = 200)
{
    expect_idle_loop();
    struct client *c[5];
    for (int i = 0; i < 5; i++)
        c[i] = client_open();
    client_send(c[0], "GET /half"); /* has expired in the end */
    client_send(c[1], GET("/now?a"));
    client_send(c[2], GET("/later?b") GET("/now?c"));
    c[3]->reads = false;
    client_send(c[3], GET("/big") GET("/now?d"));
    for (int i = 0; i < 100; i++) /* more than one turn */
        client_send(c[4], GET("/now?e"));
    TURN_UNTIL(t.handled == 1 + 1 + 1 + 100);
    assert_int_equal(shutdown(c[2]->fd, SHUT_WR), 0); /* an end that cannot be acted on yet */
    expect_idle_loop();
    test_server_close();
    assert_int_equal(t.cancelled, 1);
}

/* --- who the client is --- */

/* Of the client 192.0.2.7. */
#define PROXY_HEADER \
    SPAN("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\xC0\x00\x02\x07\x0A\x00\x00\x01\x30\x39\x1F\x90")
#define FORWARDED(list) "GET /client HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: " list "\r\n\r\n"

static struct ip_networks trusted;

static void trust(const char *proxies)
{
    struct span which;
    assert_null(ip_networks_parse(span_of(proxies), &trusted, &which));
    t.options.trusted_proxies = &trusted;
}

static void expect_other_end(void)
{
    struct client *c = client_sending(FORWARDED("192.0.2.1") GET("/client"));
    client_await_bodies(c, "127.0.0.1 127.0.0.1");
    struct client *d = client_open();
    client_send_bytes(d, PROXY_HEADER); /* from a peer that is not trusted it is not HTTP */
    client_send(d, GET("/client"));
    client_await_end(d, "rejected");
}

SERVER_TEST_WITH(without_trusted_proxies_the_client_is_the_other_end, trust(""))
{
    expect_other_end();
}

SERVER_TEST_WITH(the_client_is_the_other_end_when_that_is_no_trusted_proxy, trust("10.0.0.0/8"))
{
    expect_other_end();
}

SERVER_TEST_WITH(x_forwarded_for_of_a_trusted_proxy_names_the_client, trust("127.0.0.0/8,10.0.0.0/8"))
{
    struct client *c = client_sending(FORWARDED("198.51.100.1, 192.0.2.1") GET("/client")
                                          FORWARDED("192.0.2.2\r\nX-Forwarded-For: 10.0.0.1"));
    client_await_bodies(c, "192.0.2.1 127.0.0.1 192.0.2.2");
}

SERVER_TEST_WITH(an_incomplete_proxy_header_has_the_head_timeout, trust("127.0.0.1"),
                 t.options.head_timeout_ms = 200)
{
    struct client *c = client_open();
    client_send_bytes(c, (struct span){PROXY_HEADER.data, 20});
    TURN_UNTIL(c->ended);
    assert_int_equal(c->in.len, 0);
    assert_int_equal(t.metrics.connections_timed_out_total, 1);
}
