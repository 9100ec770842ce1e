/* Megabytes of garbage, and clients that pipeline without end or never read. */

#include <stdlib.h>
#include <string.h>

#include "hostile/monitor.h"

enum { MEGABYTE = 1000000, GREEDY = 100, WRITE_TIMEOUT_MS = 2000, LATE_MS = 1000 };

/* For each client that does not read: in the kernel's buffers, and in the process. */
enum { UNSENT_KIB = 150, UNREAD_KIB = 300, HELD_KIB = 100 };

FIXTURE(300, "CHANNELD_WRITE_TIMEOUT=2s", NULL)

/* One refusal and the end, whatever follows. */
static void assert_refused(struct fixture *fixture, const char *text, int status)
{
    AUTOFREE char *all = text_fill(text, MEGABYTE);
    http_expect_refusal(fixture->server.port, all, strlen(all), status);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

TEST_CASE(megabytes_of_garbage_get_one_refusal)
{
    assert_refused(*state, "garbage ", 501);
    assert_refused(*state, "\x01\x02\xff", 400);
    assert_refused(*state, "GET / HTTP/1.1\r\n", 400);
    assert_refused(*state, "G", 501);
    assert_refused(*state, "GET /////", 400);
}

/* Empty lines before a request are skipped (RFC 9112 section 2.2). */
TEST_CASE(request_behind_megabyte_of_empty_lines_is_answered)
{
    struct fixture *fixture = *state;
    AUTOFREE char *all = text_fill("\r\n", MEGABYTE);
    AUTOFREE char *request = http_format("GET", "/api/channels/", FIXTURE_AUTH);
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    assert_int_equal(http_send_text(&conn, all), 0);
    assert_int_equal(http_send_text(&conn, request), 0);
    http_expect(&conn, 200);
}

TEST_CASE(megabyte_of_fields_is_431)
{
    static const char *const fields[] = {
        "a:\r\n",          "a:b\r\n", "Host: a\r\n", "Cookie: a=b\r\n", "If-None-Match: \"a\"\r\n",
        "X-Api-Key: k\r\n"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(fields); i++) {
        AUTOFREE char *all = text_fill(fields[i], MEGABYTE);
        AUTOFREE char *request = text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\n%s\r\n", all);
        http_expect_refusal(fixture->server.port, request, strlen(request), 431);
    }
}

TEST_CASE(garbage_behind_good_requests_gets_one_refusal)
{
    struct fixture *fixture = *state;
    AUTOFREE char *request = http_format("GET", "/api/channels/", FIXTURE_AUTH);
    AUTOFREE char *garbage = text_fill("\xff garbage", MEGABYTE);
    AUTOFREE char *all = text_printf("%s%s%s", request, request, garbage);
    const int statuses[] = {200, 200, 400};
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    (void)http_send_text(&conn, all);
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        http_expect(&conn, statuses[i]);
    }
    assert_int_equal(http_read_eof(&conn), 0);
}

/* Pipelines requests for pages over many connections, and reads nothing. */
static void run_greedy_clients(struct fixture *fixture, const char *headers)
{
    AUTO(http_pool_close) struct http_pool pool;
    struct server *server = &fixture->server;
    AUTOFREE char *request = http_format("GET", "/api/channels/", headers);
    AUTOFREE char *all = text_fill(request, MEGABYTE);
    double timed_out = server_metric(server, "channeld_connections_timed_out_total");
    struct monitored monitored = monitor_begin(fixture);
    http_pool_open(&pool, server->port, GREEDY, 4096);
    for (int i = footprint_is_meaningful() ? 3 : 1; i > 0; i--)
        http_pool_send(&pool, all, strlen(all));
    struct footprint_queues queues = footprint_queues_of(server->port);
    server_await_metric(server, "channeld_connections_timed_out_total", timed_out + GREEDY);
    int took = (int)(wait_now_ms() - pool.began_ms);
    struct footprint after = monitor_end(&monitored);
    print_message("%d clients: %ld KiB of responses, %ld KiB of requests in the kernel; closed after %d ms\n",
                  GREEDY, queues.sent_kib, queues.received_kib, took);
    assert_in_range(queues.sent_kib, 0, GREEDY * UNSENT_KIB);
    assert_in_range(queues.received_kib, 0, GREEDY * UNREAD_KIB);
    if (footprint_is_meaningful()) { /* sanitizers are busy with the requests until then */
        assert_in_range(took, 0, wait_bound_ms(WRITE_TIMEOUT_MS + LATE_MS));
        assert_in_range(after.peak_kib, 0, monitored.before.resident_kib + GREEDY * (long)HELD_KIB);
    }
    footprint_await_descriptors(monitored.pid, monitored.before.descriptors);
}

TEST_CASE(clients_that_never_read_take_little_memory)
{
    run_greedy_clients(*state, FIXTURE_AUTH);
}

TEST_CASE(clients_without_a_key_that_never_read_take_little_memory)
{
    run_greedy_clients(*state, NULL);
}

/* They read their responses, so there is always more to do for them than for all other clients. */
TEST_CASE(clients_that_pipeline_without_end_leave_time_for_others)
{
    enum { PIPELINERS = 64, ABUSE_MS = 2000 };
    AUTO(http_pool_close) struct http_pool pool;
    struct fixture *fixture = *state;
    AUTOFREE char *request = http_format("GET", "/api/channel/by-id/0/", NULL);
    AUTOFREE char *all = text_fill(request, MEGABYTE);
    struct monitored monitored = monitor_begin(fixture);
    http_pool_open(&pool, fixture->server.port, PIPELINERS, 0);
    http_pool_keep_sending(&pool, http_pool_pump, all, strlen(all), ABUSE_MS);
    (void)monitor_end(&monitored);
}
