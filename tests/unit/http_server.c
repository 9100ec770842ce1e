/* Serving: answers in order and complete, whatever comes together, late or in pieces, and however slowly it
 * is taken. */
#include "unit/http_world.h"

static struct world w;

static void begin(void)
{
    world_init(&w);
    world_open(&w);
}

TEST(a_request_is_answered_and_the_connection_stays)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, GET("/now?hello"));
    WORLD_UNTIL(&w, client_count(c, "hello") == 1);
    client_expect_bodies(c, "hello");
    assert_int_equal(client_count(c, "HTTP/1.1 200 OK\r\nDate: "), 1);
    assert_int_equal(client_count(c, "Connection:"), 0);
    client_send(c, GET("/now?again"));
    WORLD_UNTIL(&w, client_count(c, "again") == 1);
    client_expect_bodies(c, "hello again");
    assert_false(c->ended);
    assert_int_equal(w.metrics.connections_accepted_total, 1);
    assert_int_equal(w.metrics.connections_open, 1);
    assert_int_equal(w.open, 1);
    world_fini(&w);
}

TEST(late_answers_do_not_overtake_each_other)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, GET("/later?a") GET("/now?b") GET("/later?c") GET("/later?d") GET("/now?e"));
    WORLD_UNTIL(&w, w.later_count == 1);
    world_turn_for(&w, 30);
    assert_int_equal(w.handled, 1); /* the next one begins only after the answer */
    assert_int_equal(c->in.len, 0);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, client_count(c, "b") == 1 && w.later_count == 1);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, w.later_count == 1);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, w.handled == 5 && client_count(c, "\r\n\r\ne") == 1);
    client_expect_bodies(c, "a b c d e");
    world_fini(&w);
}

TEST(answers_of_different_connections_do_not_wait_for_each_other)
{
    begin();
    struct client *a = client_open(&w);
    client_send(a, GET("/later?a"));
    WORLD_UNTIL(&w, w.later_count == 1);
    struct client *b = client_open(&w);
    client_send(b, GET("/later?b") GET("/now?c"));
    WORLD_UNTIL(&w, w.later_count == 2);
    world_answer(&w, 1);
    WORLD_UNTIL(&w, client_count(b, "\r\n\r\nc") == 1);
    client_expect_bodies(b, "b c");
    assert_int_equal(a->in.len, 0);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, client_count(a, "\r\n\r\na") == 1);
    client_expect_bodies(a, "a");
    world_fini(&w);
}

TEST(more_requests_than_one_write_holds_are_all_answered)
{
    enum { COUNT = 5 * HTTP_OUTPUT_MAX + 3 };
    begin();
    struct client *c = client_open(&w);
    struct buf requests = BUF_INIT;
    struct buf bodies = BUF_INIT;
    for (int i = 0; i < COUNT; i++) {
        buf_printf(&requests, "GET /now?%d HTTP/1.1\r\nHost: a\r\n\r\n", i);
        buf_printf(&bodies, i == 0 ? "%d" : " %d", i);
    }
    client_send(c, buf_c_str(&requests));
    WORLD_UNTIL(&w, client_count(c, "HTTP/1.1 200") == COUNT && w.handled == COUNT);
    client_expect_bodies(c, buf_c_str(&bodies));
    buf_fini(&requests);
    buf_fini(&bodies);
    world_fini(&w);
}

TEST(a_request_in_single_bytes_is_one_request)
{
    begin();
    struct client *c = client_open(&w);
    for (const char *at = GET("/now?bytes"); *at != '\0'; at++) {
        client_send(c, (const char[]){*at, '\0'});
        world_turn(&w);
    }
    WORLD_UNTIL(&w, client_count(c, "bytes") == 1);
    client_expect_bodies(c, "bytes");
    world_fini(&w);
}

TEST(head_gets_the_length_and_no_body)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, "HEAD /now?12345 HTTP/1.1\r\nHost: a\r\n\r\n" GET("/now?x"));
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\nx") == 1);
    assert_int_equal(client_count(c, "Content-Length: 5\r\n"), 1);
    assert_int_equal(client_count(c, "12345"), 0);
    world_fini(&w);
}

TEST(after_a_refusal_there_is_one_answer_and_the_end)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, GET("/now?a") "GET / HTTP/1.1\r\n\r\n" GET("/now?b"));
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "a refused");
    assert_int_equal(client_count(c, "HTTP/1.1 400 Bad Request"), 1);
    assert_int_equal(client_count(c, "Connection: close\r\n"), 1);
    assert_int_equal(c->error, 0);
    assert_int_equal(w.handled, 1);
    assert_int_equal(w.refused, 1);
    assert_int_equal(w.metrics.requests_rejected_total, 1);
    world_fini(&w);
}

TEST(a_refusal_reaches_a_client_that_is_still_sending)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
    WORLD_UNTIL(&w, w.refused == 1);
    static char content[100001];
    memset(content, 'x', sizeof content - 1);
    client_send(c, content);
    WORLD_UNTIL(&w, c->ended);
    assert_int_equal(c->error, 0); /* no reset: the answer was not lost under it */
    assert_int_equal(client_count(c, "HTTP/1.1 413"), 1);
    world_fini(&w);
}

TEST(close_is_obeyed_and_1_0_closes_unless_it_asks_otherwise)
{
    static const struct {
        const char *request;
        bool ends;
        const char *connection;
    } rows[] = {
        {"GET /now?a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true, "Connection: close\r\n"},
        {"GET /now?a HTTP/1.0\r\n\r\n", true, "Connection: close\r\n"},
        {"GET /now?a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false, "Connection: keep-alive\r\n"},
    };
    begin();
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct client *c = client_open(&w);
        client_send(c, rows[i].request);
        client_send(c, GET("/now?b"));
        WORLD_UNTIL(&w, c->ended || client_count(c, "\r\n\r\nb") == 1);
        client_expect_bodies(c, rows[i].ends ? "a" : "a b");
        assert_int_equal(c->ended, rows[i].ends);
        assert_int_equal(client_count(c, rows[i].connection), 1);
        client_close(c);
    }
    world_fini(&w);
}

TEST(a_client_that_waits_with_its_content_is_invited_once)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, "POST /now?a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    WORLD_UNTIL(&w, client_count(c, "HTTP/1.1 100 Continue\r\n\r\n") == 1);
    assert_int_equal(w.handled, 0);
    client_send(c, "12");
    world_turn_for(&w, 20);
    client_send(c, "34");
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\na") == 1);
    client_expect_bodies(c, "a"); /* the interim answer has no body */
    world_fini(&w);
}

TEST(a_client_that_has_finished_sending_gets_its_late_answer)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, GET("/later?a"));
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    WORLD_UNTIL(&w, w.later_count == 1);
    world_turn_for(&w, 30);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "a");
    assert_int_equal(w.abandoned, 0);
    WORLD_UNTIL(&w, w.metrics.connections_open == 0);
    world_fini(&w);
}

TEST(a_client_that_goes_before_its_answer_costs_nothing_but_the_answer)
{
    begin();
    for (int i = 0; i < 2; i++) {
        struct client *c = client_open(&w);
        client_send(c, GET("/later?a"));
        WORLD_UNTIL(&w, w.later_count == 1);
        if (i == 0)
            client_close(c);
        else
            client_reset(c);
        world_turn_for(&w, 30);
        assert_int_equal(w.abandoned, i); /* a reset is final; an end of input may be half a close */
        if (w.later_count == 1)
            world_answer(&w, 0);
        WORLD_UNTIL(&w, w.metrics.connections_open == 0);
    }
    assert_int_equal(w.later_count, 0);
    world_fini(&w);
}

TEST(what_comes_while_an_answer_is_awaited_is_served_behind_it)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, GET("/later?a") "GET /no");
    WORLD_UNTIL(&w, w.later_count == 1);
    client_send(c, "w?b HTTP/1.1\r\nHost: a\r\n\r\n");
    world_turn_for(&w, 20);
    client_send(c, GET("/later?c"));
    world_turn_for(&w, 20);
    assert_int_equal(w.handled, 1);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, w.later_count == 1);
    client_send(c, GET("/now?d") "GET /no");
    world_turn_for(&w, 20);
    client_send(c, "w?e HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    world_turn_for(&w, 20);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, c->ended);
    client_expect_bodies(c, "a b c d e");
    assert_int_equal(w.abandoned, 0);
    world_fini(&w);
}

TEST(no_more_than_one_read_is_kept_while_an_answer_is_awaited)
{
    begin();
    struct client *c = client_open(&w);
    client_send(c, GET("/later?a"));
    WORLD_UNTIL(&w, w.later_count == 1);
    static char much[4096];
    memset(much, 'x', sizeof much);
    for (ssize_t n = 0; n >= 0;) { /* until the kernel takes no more */
        n = send(c->fd, much, sizeof much, MSG_DONTWAIT | MSG_NOSIGNAL);
        world_turn_for(&w, n < 0 ? 50 : 0);
    }
    assert_int_equal(w.later_count, 1);
    const struct http_connection *conn = LIST_ENTRY(w.server->conns.next, struct http_connection, link);
    assert_in_range(conn->pending_input.len, 1, HTTP_READ_BUFFER);
    client_close(c);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, w.metrics.connections_open == 0);
    world_fini(&w);
}

TEST(a_slow_reader_gets_every_byte_and_is_not_read_from_meanwhile)
{
    begin();
    struct client *c = client_open(&w);
    c->reads = false;
    client_send(c, GET("/big"));
    WORLD_UNTIL(&w, w.handled == 1);
    client_send(c, GET("/now?after"));
    world_turn_for(&w, 50);
    assert_int_equal(w.handled, 1);
    c->reads = true;
    WORLD_UNTIL(&w, w.handled == 2 && c->in.len > BIG_SIZE &&
                        memcmp(c->in.data + c->in.len - 5, "after", 5) == 0);
    const char *body = memmem(c->in.data, c->in.len, "\r\n\r\n", 4);
    assert_non_null(body);
    assert_memory_equal(body + 4, w.big->data, BIG_SIZE);
    world_fini(&w);
}

/* The second answer comes while the first is not taken yet, and is the last of its connection. */
TEST(a_last_answer_behind_one_that_is_not_taken_yet_arrives_complete)
{
    world_init(&w);
    w.tight = true;
    world_open(&w);
    struct client *c = client_open(&w);
    c->reads = false;
    client_send(c, GET("/mid") "GET /later?last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    WORLD_UNTIL(&w, w.later_count == 1);
    world_turn_for(&w, 50);
    world_answer(&w, 0);
    world_turn_for(&w, 50);
    c->reads = true;
    WORLD_UNTIL(&w, c->ended);
    assert_int_equal(c->error, 0);
    assert_true(c->in.len > MID_SIZE);
    assert_memory_equal(c->in.data + c->in.len - 4, "last", 4);
    world_fini(&w);
}

/* One connection more than the server takes: it is told so, and ended in order. */
static void expect_turned_away(void)
{
    struct client *c = client_open(&w);
    WORLD_UNTIL(&w, c->ended);
    assert_int_equal(c->error, 0);
    assert_int_equal(client_count(c, "HTTP/1.1 503 Service Unavailable\r\n"), 1);
}

TEST(connections_over_the_limit_are_told_so_and_make_no_others_wait)
{
    world_init(&w);
    w.options.max_connections = 2;
    world_open(&w);
    struct client *a = client_open(&w);
    struct client *b = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_accepted_total == 2);
    for (int i = 0; i < 3; i++)
        expect_turned_away();
    assert_int_equal(w.metrics.connections_rejected_total, 3);
    client_send(a, GET("/now?a"));
    WORLD_UNTIL(&w, client_count(a, "\r\n\r\na") == 1);
    client_close(b); /* the refused ones still linger: they do not take its place */
    WORLD_UNTIL(&w, w.open == 1);
    assert_int_equal(w.server->refusals, 3);
    struct client *d = client_open(&w);
    client_send(d, GET("/now?d"));
    WORLD_UNTIL(&w, client_count(d, "\r\n\r\nd") == 1);
    world_fini(&w);
}

TEST(of_a_flood_over_the_limit_only_so_many_are_told)
{
    enum { REFUSALS = 64, FLOOD = REFUSALS + 20 };
    world_init(&w);
    w.options.max_connections = 1;
    world_open(&w);
    struct client *first = client_open(&w);
    client_send(first, GET("/now?a"));
    WORLD_UNTIL(&w, client_count(first, "\r\n\r\na") == 1);
    struct client *flood[FLOOD];
    for (int i = 0; i < FLOOD; i++)
        flood[i] = client_open(&w);
    WORLD_UNTIL(&w, w.metrics.connections_rejected_total == FLOOD);
    world_turn_for(&w, 50);
    int told = 0;
    for (int i = 0; i < FLOOD; i++) {
        WORLD_UNTIL(&w, flood[i]->ended);
        told += client_count(flood[i], "HTTP/1.1 503");
    }
    assert_int_equal(told, REFUSALS);
    client_send(first, GET("/now?b"));
    WORLD_UNTIL(&w, client_count(first, "\r\n\r\nb") == 1);
    world_fini(&w);
}

/* The order of fields that would cost most if lists were copied to where they can grow. */
static void write_long_head(struct buf *out, size_t size)
{
    static const char *const fields[] = {"Origin: o", "X-Api-Key: k",   "X-Api-Key: k",
                                         "Expect: e", "Traceparent: t", "X-Request-Id: i"};
    buf_append_str(out, "GET /now HTTP/1.1\r\nHost: a\r\nIf-None-Match: ");
    while (out->len < size - 300)
        buf_append_str(out, "\"\",");
    for (size_t i = 0; i < TEST_COUNT(fields); i++)
        buf_printf(out, "\r\n%s\r\nIf-None-Match: \"\"", fields[i]);
}

TEST(an_unfinished_head_costs_no_more_than_its_bytes)
{
    enum { HEAD_MAX = 16 * 1024, SPARE = HEAD_MAX / 2 };
    struct buf head = BUF_INIT;
    world_init(&w);
    w.options.head_max = HEAD_MAX;
    world_open(&w);
    write_long_head(&head, HEAD_MAX);
    struct client *c = client_open(&w);
    client_send_bytes(c, buf_span(&head));
    struct http_connection *conn = NULL;
    WORLD_UNTIL(&w, w.metrics.connections_open == 1);
    conn = LIST_ENTRY(w.server->conns.next, struct http_connection, link);
    WORLD_UNTIL(&w, conn->exchange != NULL && conn->exchange->parser.now.head_len == head.len);
    assert_true(conn->pending_input.cap + http_parser_kept(&conn->exchange->parser) <= HEAD_MAX + SPARE);
    client_send(c, "\r\n\r\n");
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\n-") == 1);
    assert_null(conn->exchange); /* and nothing of it stays */
    assert_true(w.server->spare == NULL || http_parser_kept(&w.server->spare->parser) <= HEAD_MAX / 4);
    buf_fini(&head);
    world_fini(&w);
}

/* --- who the client is --- */

#define PROXY_HEADER                                                                                        \
    SPAN("\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\xC0\x00\x02\x07\x0A\x00\x00\x01\x30\x39\x1F\x90") /* of        \
                                                                                                  192.0.2.7 \
                                                                                                */
#define FORWARDED(list) "GET /client HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: " list "\r\n\r\n"

static struct ip_networks trusted;

static void begin_behind(const char *proxies)
{
    struct span which;
    assert_null(ip_networks_parse(span_of(proxies), &trusted, &which));
    world_init(&w);
    w.options.trusted_proxies = &trusted;
    world_open(&w);
}

TEST(the_client_is_the_other_end_of_the_connection)
{
    static const char *const proxies[] = {"", "10.0.0.0/8"};
    for (size_t i = 0; i < TEST_COUNT(proxies); i++) {
        begin_behind(proxies[i]);
        struct client *c = client_open(&w);
        client_send(c, FORWARDED("192.0.2.1") GET("/client"));
        WORLD_UNTIL(&w, client_count(c, "127.0.0.1") == 2);
        client_expect_bodies(c, "127.0.0.1 127.0.0.1");
        struct client *d = client_open(&w);
        client_send_bytes(d, PROXY_HEADER); /* of somebody who is not trusted it is no HTTP */
        client_send(d, GET("/client"));
        WORLD_UNTIL(&w, d->ended);
        client_expect_bodies(d, "refused");
        world_fini(&w);
    }
}

TEST(a_trusted_proxy_tells_the_client_of_each_request)
{
    begin_behind("127.0.0.0/8,10.0.0.0/8");
    struct client *c = client_open(&w);
    client_send(c, FORWARDED("198.51.100.1, 192.0.2.1") GET("/client")
                       FORWARDED("192.0.2.2\r\nX-Forwarded-For: 10.0.0.1"));
    WORLD_UNTIL(&w, client_count(c, "192.0.2.2") == 1);
    client_expect_bodies(c, "192.0.2.1 127.0.0.1 192.0.2.2");
    world_fini(&w);
}

TEST(a_trusted_proxy_tells_the_client_of_a_connection)
{
    begin_behind("127.0.0.0/8,10.0.0.0/8");
    struct client *c = client_open(&w);
    client_send_bytes(c, PROXY_HEADER);
    client_send(c, GET("/client") FORWARDED("198.51.100.1") GET("/later?a"));
    WORLD_UNTIL(&w, w.later_count == 1);
    world_answer(&w, 0);
    WORLD_UNTIL(&w, client_count(c, "\r\n\r\na") == 1);
    client_expect_bodies(c, "192.0.2.7 192.0.2.7 a"); /* who is not trusted itself */
    client_send_bytes(c, PROXY_HEADER);
    WORLD_UNTIL(&w, c->ended); /* it comes once */
    client_expect_bodies(c, "192.0.2.7 192.0.2.7 a refused");
    world_fini(&w);
}

TEST(a_proxy_header_may_come_in_any_pieces)
{
    struct buf bytes = BUF_INIT;
    buf_append_span(&bytes, PROXY_HEADER);
    buf_append_str(&bytes, GET("/client"));
    begin_behind("127.0.0.1");
    for (size_t at = 1; at < PROXY_HEADER.len + 3; at++) {
        struct client *c = client_open(&w);
        client_send_bytes(c, (struct span){bytes.data, at});
        world_turn_for(&w, 2);
        client_send_bytes(c, span_skip(buf_span(&bytes), at));
        WORLD_UNTIL(&w, client_count(c, "192.0.2.7") == 1);
        client_expect_bodies(c, "192.0.2.7");
        client_close(c);
    }
    struct client *c = client_open(&w);
    for (size_t at = 0; at < bytes.len; at++) {
        client_send_bytes(c, (struct span){bytes.data + at, 1});
        world_turn_for(&w, 1);
    }
    WORLD_UNTIL(&w, client_count(c, "192.0.2.7") == 1);
    client_expect_bodies(c, "192.0.2.7");
    buf_fini(&bytes);
    world_fini(&w);
}

TEST(a_trusted_proxy_need_not_tell_and_a_broken_header_is_refused)
{
    begin_behind("127.0.0.1");
    struct client *c = client_open(&w);
    client_send(c, "\r\n\r\n");
    world_turn_for(&w, 20);
    client_send(c, GET("/client"));
    WORLD_UNTIL(&w, client_count(c, "127.0.0.1") == 1);
    client_expect_bodies(c, "127.0.0.1");
    struct client *d = client_open(&w);
    client_send_bytes(d, SPAN("\r\n\r\n\0\r\nQUIT\n\x21\x11\xFF\xFF"));
    WORLD_UNTIL(&w, d->ended);
    client_expect_bodies(d, "refused");
    assert_int_equal(client_count(d, "HTTP/1.1 400"), 1);
    world_fini(&w);
}

TEST(half_a_proxy_header_ends_at_the_deadline_of_a_request)
{
    begin_behind("127.0.0.1");
    w.server->deadlines.timeout_ms[DEADLINE_HEAD] = 200;
    struct client *c = client_open(&w);
    client_send_bytes(c, (struct span){PROXY_HEADER.data, 20});
    WORLD_UNTIL(&w, c->ended);
    assert_int_equal(c->in.len, 0);
    assert_int_equal(w.metrics.connections_timed_out_total, 1);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered_and_the_connection_stays),
        cmocka_unit_test(late_answers_do_not_overtake_each_other),
        cmocka_unit_test(answers_of_different_connections_do_not_wait_for_each_other),
        cmocka_unit_test(more_requests_than_one_write_holds_are_all_answered),
        cmocka_unit_test(a_request_in_single_bytes_is_one_request),
        cmocka_unit_test(head_gets_the_length_and_no_body),
        cmocka_unit_test(after_a_refusal_there_is_one_answer_and_the_end),
        cmocka_unit_test(a_refusal_reaches_a_client_that_is_still_sending),
        cmocka_unit_test(close_is_obeyed_and_1_0_closes_unless_it_asks_otherwise),
        cmocka_unit_test(a_client_that_waits_with_its_content_is_invited_once),
        cmocka_unit_test(a_client_that_has_finished_sending_gets_its_late_answer),
        cmocka_unit_test(a_client_that_goes_before_its_answer_costs_nothing_but_the_answer),
        cmocka_unit_test(what_comes_while_an_answer_is_awaited_is_served_behind_it),
        cmocka_unit_test(no_more_than_one_read_is_kept_while_an_answer_is_awaited),
        cmocka_unit_test(a_slow_reader_gets_every_byte_and_is_not_read_from_meanwhile),
        cmocka_unit_test(a_last_answer_behind_one_that_is_not_taken_yet_arrives_complete),
        cmocka_unit_test(connections_over_the_limit_are_told_so_and_make_no_others_wait),
        cmocka_unit_test(of_a_flood_over_the_limit_only_so_many_are_told),
        cmocka_unit_test(an_unfinished_head_costs_no_more_than_its_bytes),
        cmocka_unit_test(the_client_is_the_other_end_of_the_connection),
        cmocka_unit_test(a_trusted_proxy_tells_the_client_of_each_request),
        cmocka_unit_test(a_trusted_proxy_tells_the_client_of_a_connection),
        cmocka_unit_test(a_proxy_header_may_come_in_any_pieces),
        cmocka_unit_test(a_trusted_proxy_need_not_tell_and_a_broken_header_is_refused),
        cmocka_unit_test(half_a_proxy_header_ends_at_the_deadline_of_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
