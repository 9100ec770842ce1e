/* Serving: answers in order and complete, whatever comes together, late or in pieces, and however slowly it
 * is taken. */
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

SERVER_TEST(pipelined_requests_are_answered_in_order)
{
    struct client *c =
        client_sending(GET("/later?a") GET("/now?b") GET("/later?c") GET("/later?d") GET("/now?e"));
    TURN_UNTIL(t.later_count == 1);
    test_server_turn_for(30);
    assert_int_equal(t.handled, 1); /* the next one begins only after the answer */
    assert_int_equal(c->in.len, 0);
    test_server_answer(0);
    TURN_UNTIL(client_count(c, "b") == 1 && t.later_count == 1);
    test_server_answer(0);
    TURN_UNTIL(t.later_count == 1);
    test_server_answer(0);
    TURN_UNTIL(t.handled == 5 && client_count(c, "\r\n\r\ne") == 1);
    client_expect_bodies(c, "a b c d e");
}

SERVER_TEST(connections_are_answered_independently)
{
    struct client *a = client_sending(GET("/later?a"));
    TURN_UNTIL(t.later_count == 1);
    struct client *b = client_sending(GET("/later?b") GET("/now?c"));
    TURN_UNTIL(t.later_count == 2);
    test_server_answer(1);
    client_await_bodies(b, "b c");
    assert_int_equal(a->in.len, 0);
    test_server_answer(0);
    client_await_bodies(a, "a");
}

SERVER_TEST(more_requests_than_one_write_answers_are_all_answered)
{
    enum { COUNT = 5 * HTTP_OUTPUT_MAX + 3 };
    struct client *c = client_open();
    SCOPED_BUF(requests);
    SCOPED_BUF(bodies);
    for (int i = 0; i < COUNT; i++) {
        buf_printf(&requests, "GET /now?%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
        buf_printf(&bodies, i == 0 ? "%d" : " %d", i);
    }
    client_send(c, buf_c_str(&requests));
    TURN_UNTIL(client_count(c, "HTTP/1.1 200") == COUNT && t.handled == COUNT);
    client_expect_bodies(c, buf_c_str(&bodies));
}

SERVER_TEST(a_request_in_single_bytes_is_one_request)
{
    struct client *c = client_open();
    for (const char *at = GET("/now?bytes"); *at != '\0'; at++) {
        client_send(c, (const char[]){*at, '\0'});
        test_server_turn();
    }
    client_await_bodies(c, "bytes");
}

SERVER_TEST(head_is_answered_with_the_length_and_no_body)
{
    struct client *c = client_sending("HEAD /now?12345 HTTP/1.1\r\nHost: a\r\n\r\n" GET("/now?x"));
    TURN_UNTIL(client_count(c, "\r\n\r\nx") == 1);
    assert_int_equal(client_count(c, "Content-Length: 5\r\n"), 1);
    assert_int_equal(client_count(c, "12345"), 0);
}

SERVER_TEST(a_rejected_request_is_answered_and_ends_the_connection)
{
    struct client *c = client_sending(GET("/now?a") "GET / HTTP/1.1\r\n\r\n" GET("/now?b"));
    client_await_end(c, "a rejected");
    assert_int_equal(client_count(c, "HTTP/1.1 400 Bad Request"), 1);
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
    assert_int_equal(c->error, 0);
    assert_int_equal(t.handled, 1);
    assert_int_equal(t.rejected, 1);
    assert_int_equal(t.metrics.requests_rejected_total, 1);
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

SERVER_TEST(persistence_follows_version_and_connection)
{
    static const struct {
        const char *request;
        bool ends;
        const char *connection;
    } rows[] = {
        {"GET /now?a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true, "Connection: close\r\n"},
        {"GET /now?a HTTP/1.0\r\n\r\n", true, "Connection: close\r\n"},
        {"GET /now?a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false, "Connection: keep-alive\r\n"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct client *c = client_sending(rows[i].request);
        client_send(c, GET("/now?b"));
        TURN_UNTIL(c->ended || client_count(c, "\r\n\r\nb") == 1);
        client_expect_bodies(c, rows[i].ends ? "a" : "a b");
        assert_int_equal(c->ended, rows[i].ends);
        assert_int_equal(client_count(c, rows[i].connection), 1);
        client_close(c);
    }
}

SERVER_TEST(a_client_that_expects_100_continue_gets_it_once)
{
    struct client *c = client_sending(
        "POST /now?a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    TURN_UNTIL(client_count(c, "HTTP/1.1 100 Continue\r\n\r\n") == 1);
    assert_int_equal(t.handled, 0);
    client_send(c, "12");
    test_server_turn_for(20);
    client_send(c, "34");
    client_await_bodies(c, "a"); /* the interim answer has no body */
}

SERVER_TEST(a_client_that_shuts_its_side_gets_its_response)
{
    struct client *c = client_sending(GET("/later?a"));
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    TURN_UNTIL(t.later_count == 1);
    test_server_turn_for(30);
    test_server_answer(0);
    client_await_end(c, "a");
    assert_int_equal(t.cancelled, 0);
    TURN_UNTIL(t.metrics.connections_open == 0);
}

SERVER_TEST(a_request_is_cancelled_when_its_client_resets)
{
    for (int i = 0; i < 2; i++) {
        struct client *c = client_sending(GET("/later?a"));
        TURN_UNTIL(t.later_count == 1);
        if (i == 0)
            client_close(c);
        else
            client_reset(c);
        test_server_turn_for(30);
        assert_int_equal(t.cancelled, i); /* a reset is final; an end of input may be half a close */
        if (t.later_count == 1)
            test_server_answer(0);
        TURN_UNTIL(t.metrics.connections_open == 0);
    }
    assert_int_equal(t.later_count, 0);
}

SERVER_TEST(input_behind_a_pending_response_is_served_afterwards)
{
    struct client *c = client_sending(GET("/later?a") "GET /no");
    TURN_UNTIL(t.later_count == 1);
    client_send(c, "w?b HTTP/1.1\r\nHost: a\r\n\r\n");
    test_server_turn_for(20);
    client_send(c, GET("/later?c"));
    test_server_turn_for(20);
    assert_int_equal(t.handled, 1);
    test_server_answer(0);
    TURN_UNTIL(t.later_count == 1);
    client_send(c, GET("/now?d") "GET /no");
    test_server_turn_for(20);
    client_send(c, "w?e HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    test_server_turn_for(20);
    test_server_answer(0);
    client_await_end(c, "a b c d e");
    assert_int_equal(t.cancelled, 0);
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

SERVER_TEST(a_slow_reader_gets_every_byte_and_is_not_read_from_meanwhile)
{
    struct client *c = client_open();
    c->reads = false;
    client_send(c, GET("/big"));
    TURN_UNTIL(t.handled == 1);
    client_send(c, GET("/now?after"));
    test_server_turn_for(50);
    assert_int_equal(t.handled, 1);
    c->reads = true;
    TURN_UNTIL(t.handled == 2 && c->in.len > BIG_SIZE && memcmp(c->in.data + c->in.len - 5, "after", 5) == 0);
    const char *body = memmem(c->in.data, c->in.len, "\r\n\r\n", 4);
    assert_non_null(body);
    assert_memory_equal(body + 4, t.big->data, BIG_SIZE);
}

/* The second answer comes while the first is not taken yet, and is the last of its connection. */
SERVER_TEST_WITH(a_last_response_behind_an_unfinished_write_is_complete, t.tight = true)
{
    struct client *c = client_open();
    c->reads = false;
    client_send(c, GET("/mid") "GET /later?last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    TURN_UNTIL(t.later_count == 1);
    test_server_turn_for(50);
    test_server_answer(0);
    test_server_turn_for(50);
    c->reads = true;
    TURN_UNTIL(c->ended);
    assert_int_equal(c->error, 0);
    assert_true(c->in.len > MID_SIZE);
    assert_memory_equal(c->in.data + c->in.len - 4, "last", 4);
}

SERVER_TEST(a_known_entity_tag_is_answered_with_304)
{
    struct client *c = client_sending(GET("/tag?body"));
    TURN_UNTIL(client_count(c, "\r\n\r\nbody") == 1);
    const char *tag = strstr(buf_c_str(&c->in), "ETag: ");
    assert_non_null(tag);
    char request[256];
    (void)snprintf(request, sizeof request,
                   "GET /tag?body HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\", %.*s\r\n\r\n",
                   (int)strcspn(tag + 6, "\r"), tag + 6);
    client_send(c, request);
    client_send(c, GET("/now?next"));
    client_await_bodies(c, "body  next");
    assert_int_equal(client_count(c, "HTTP/1.1 304 Not Modified\r\n"), 1);
    assert_int_equal(client_count(c, "ETag: "), 2);
    client_send(c, "GET /tag?other HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\n\r\n");
    TURN_UNTIL(client_count(c, "\r\n\r\nother") == 1);
    client_send(c, "GET /now?untagged HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n");
    TURN_UNTIL(client_count(c, "\r\n\r\nuntagged") == 1);
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

SERVER_TEST_WITH(a_proxy_header_of_a_trusted_proxy_names_the_client, trust("127.0.0.0/8,10.0.0.0/8"))
{
    struct client *c = client_open();
    client_send_bytes(c, PROXY_HEADER);
    client_send(c, GET("/client") FORWARDED("198.51.100.1") GET("/later?a"));
    TURN_UNTIL(t.later_count == 1);
    test_server_answer(0);
    client_await_bodies(c, "192.0.2.7 192.0.2.7 a"); /* who is not trusted itself */
    client_send_bytes(c, PROXY_HEADER);
    client_await_end(c, "192.0.2.7 192.0.2.7 a rejected"); /* it comes once */
}

SERVER_TEST_WITH(a_proxy_header_may_be_split_anywhere, trust("127.0.0.1"))
{
    SCOPED_BUF(bytes);
    buf_append_span(&bytes, PROXY_HEADER);
    buf_append_str(&bytes, GET("/client"));
    for (size_t at = 1; at < PROXY_HEADER.len + 3; at++) {
        struct client *c = client_open();
        client_send_bytes(c, (struct span){bytes.data, at});
        test_server_turn_for(2);
        client_send_bytes(c, span_skip(buf_span(&bytes), at));
        client_await_bodies(c, "192.0.2.7");
        client_close(c);
    }
    struct client *c = client_open();
    for (size_t at = 0; at < bytes.len; at++) {
        client_send_bytes(c, (struct span){bytes.data + at, 1});
        test_server_turn_for(1);
    }
    client_await_bodies(c, "192.0.2.7");
}

SERVER_TEST_WITH(a_proxy_header_is_optional_and_rejected_when_broken, trust("127.0.0.1"))
{
    struct client *c = client_sending("\r\n\r\n");
    test_server_turn_for(20);
    client_send(c, GET("/client"));
    client_await_bodies(c, "127.0.0.1");
    struct client *d = client_open();
    client_send_bytes(d, SPAN("\r\n\r\n\0\r\nQUIT\n\x21\x11\xFF\xFF"));
    client_await_end(d, "rejected");
    assert_int_equal(client_count(d, "HTTP/1.1 400"), 1);
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
