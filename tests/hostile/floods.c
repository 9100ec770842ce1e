/* A megabyte of what a server should not have to bear, and clients who ask much and read nothing. */

#include <stdlib.h>
#include <string.h>

#include "hostile/attacks.h"
#include "hostile/witness.h"
#include "support/fixture.h"
#include "support/footprint.h"

enum { GREEDY = 100, WRITE_TIMEOUT_MS = 2000 };

/* In the kernel's buffers, and in the process, for each client that does not read. */
enum { UNSENT_KIB = 150, UNREAD_KIB = 300, HELD_KIB = 100 };

FIXTURE(300, "CHANNELD_WRITE_TIMEOUT=2s", NULL)

/* One refusal and the end, however much else comes. */
static void assert_refused(struct fixture *fixture, const char *text, int status)
{
    char *all = attack_megabyte_of(text);
    http_expect_refusal(fixture->server.port, all, strlen(all), status);
    free(all);
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

/* Empty lines are no request, so they are not refused; they hold up none either (RFC 9112 section 2.2). */
TEST_CASE(request_behind_megabyte_of_empty_lines_is_answered)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    char *all = attack_megabyte_of("\r\n");
    char *request = http_format("GET", "/api/channels/", FIXTURE_AUTH);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, all), 0);
    assert_int_equal(http_send_text(&conn, request), 0);
    http_expect(&conn, 200);
    http_close(&conn);
    free(request);
    free(all);
}

TEST_CASE(megabyte_of_fields_is_431)
{
    static const char *const fields[] = {
        "a:\r\n",          "a:b\r\n", "Host: a\r\n", "Cookie: a=b\r\n", "If-None-Match: \"a\"\r\n",
        "X-Api-Key: k\r\n"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(fields); i++) {
        char *all = attack_megabyte_of(fields[i]);
        char *request = text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\n%s\r\n", all);
        http_expect_refusal(fixture->server.port, request, strlen(request), 431);
        free(request);
        free(all);
    }
}

TEST_CASE(garbage_behind_good_requests_gets_one_refusal)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    char *request = http_format("GET", "/api/channels/", FIXTURE_AUTH);
    char *garbage = attack_megabyte_of("\xff garbage");
    char *all = text_printf("%s%s%s", request, request, garbage);
    const int statuses[] = {200, 200, 400};
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    (void)http_send_text(&conn, all);
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        http_expect(&conn, statuses[i]);
    }
    assert_int_equal(http_read_eof(&conn), 0);
    http_close(&conn);
    free(all);
    free(garbage);
    free(request);
}

/* Pipelines what is answered at length over many connections, and reads nothing. */
static void withstand_greed(struct fixture *fixture, const char *headers)
{
    struct http_pool pool;
    pid_t pid = fixture->server.process.pid;
    char *request = http_format("GET", "/api/channels/", headers);
    char *all = attack_megabyte_of(request);
    struct witness *witness = witness_new(fixture->server.port, fixture->server.process.pid);
    struct witness_view calm = witness_look_long(witness);
    double timed_out = server_metric(&fixture->server, "channeld_connections_timed_out_total");
    struct footprint before = footprint_of(pid);
    http_pool_open(&pool, fixture->server.port, GREEDY, 4096);
    for (int i = footprint_is_meaningful() ? 3 : 1; i > 0; i--)
        http_pool_send(&pool, all, strlen(all));
    struct footprint_queues queues = footprint_queues_of(fixture->server.port);
    struct footprint during = footprint_of(pid);
    server_await_metric(&fixture->server, "channeld_connections_timed_out_total", timed_out + GREEDY);
    int took = (int)(wait_now_ms() - pool.began_ms);
    struct witness_view attacked = witness_look(witness);
    struct footprint after = footprint_of(pid);
    print_message(
        "%d clients: %ld KiB of answers, %ld KiB of requests in the kernel; all ended within %d ms\n", GREEDY,
        queues.sent_kib, queues.received_kib, took);
    footprint_print("before", &before);
    footprint_print("meanwhile", &during);
    footprint_print("after", &after);
    witness_expect_unharmed(&calm, &attacked);
    assert_in_range(queues.sent_kib, 0, GREEDY * UNSENT_KIB);
    assert_in_range(queues.received_kib, 0, GREEDY * UNREAD_KIB);
    if (footprint_is_meaningful()) /* until then sanitizers are busy with what they have been sent */
        assert_in_range(took, 0, WRITE_TIMEOUT_MS + 1000 + 3 * wait_slack_ms());
    if (footprint_is_meaningful())
        assert_in_range(after.peak_kib, 0, before.resident_kib + GREEDY * (long)HELD_KIB);
    witness_free(witness);
    footprint_await_descriptors(pid, before.descriptors);
    http_pool_close(&pool);
    free(all);
    free(request);
}

TEST_CASE(clients_that_pipeline_and_never_read_take_little_memory)
{
    withstand_greed(*state, FIXTURE_AUTH);
}

TEST_CASE(clients_without_a_key_that_never_read_take_little_memory)
{
    withstand_greed(*state, NULL);
}

/* They read what they get, too: all the time there is more to do for them than for everybody else. */
TEST_CASE(clients_that_pipeline_without_end_let_others_have_their_turn)
{
    enum { PIPELINERS = 64, ATTACK_MS = 2000 };
    struct fixture *fixture = *state;
    struct http_pool pool;
    char *request = http_format("GET", "/api/channel/by-id/0/", NULL);
    char *all = attack_megabyte_of(request);
    struct witness *witness = witness_new(fixture->server.port, fixture->server.process.pid);
    struct witness_view calm = witness_look_long(witness);
    http_pool_open(&pool, fixture->server.port, PIPELINERS, 0);
    http_pool_keep_sending(&pool, http_pool_pump, all, strlen(all), ATTACK_MS);
    struct witness_view attacked = witness_look(witness);
    witness_expect_unharmed(&calm, &attacked);
    witness_free(witness);
    http_pool_close(&pool);
    free(all);
    free(request);
}
