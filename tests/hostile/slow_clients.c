/*
 * Hundreds of clients that send or read a byte now and then: each is gone within a second of its deadline,
 * however busy it looks, and nobody else notices.
 */

#include <stdlib.h>
#include <string.h>

#include "hostile/witness.h"
#include "support/fixture.h"
#include "support/footprint.h"

enum {
    CLIENTS = 600,
    TIMEOUT_MS = 1000,
    IDLE_MS = 2000,
    LATE_MS = 1000,
    LINGER_MS = 2000,
    DRIP_MS = 100,
    LONG_TEXT = 4000000,
    KERNEL_TEXT = 60000
};

static int start(void **state)
{
    static const char *const env[] = {"CHANNELD_HEADER_TIMEOUT=1s", "CHANNELD_WRITE_TIMEOUT=1s",
                                      "CHANNELD_IDLE_TIMEOUT=2s", NULL};
    struct fixture *fixture = fixture_new(3, env);
    char *text = text_repeat('x', LONG_TEXT);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    text[KERNEL_TEXT] = '\0';
    redis_do(&fixture->redis, "HSET channels:card:901 max_channel_id 901 description %s", text);
    free(text);
    *state = fixture;
    return 0;
}

TEST_GROUP(start, fixture_teardown)

#define POST    "POST /api/channels/ HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

/* Where they are when they begin to drip. */
static const char *const openings[] = {
    "GET /",                                         /* request line */
    "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nX: ", /* head */
    POST "Content-Length: 60000\r\n\r\n",            /* content */
    CHUNKED "fff\r\n",                               /* a chunk */
    CHUNKED "1;x",                                   /* the extension of a chunk */
    CHUNKED "0\r\nX: ",                              /* trailer */
};

static void assert_ended_in_time(const struct http_pool_end *end)
{
    print_message(
        "%d connections ended between %d and %d ms, the deadline being %d: %d with an answer, %d reset\n",
        CLIENTS - end->left, (int)end->first_ms, (int)end->last_ms, TIMEOUT_MS, end->answered, end->reset);
    assert_int_equal(end->left, 0);
    assert_int_equal(end->answered, CLIENTS);
    assert_in_range(end->first_ms, TIMEOUT_MS - wait_slack_ms(), TIMEOUT_MS + LATE_MS + 3 * wait_slack_ms());
    assert_in_range(end->last_ms, 0, TIMEOUT_MS + LATE_MS + 3 * wait_slack_ms());
}

TEST_CASE(clients_that_drip_get_408_in_time)
{
    struct fixture *fixture = *state;
    struct http_pool pool;
    pid_t pid = fixture->server.process.pid;
    struct witness *witness = witness_new(fixture->server.port, fixture->server.process.pid);
    struct witness_view calm = witness_look_long(witness);
    struct footprint before = footprint_of(pid);
    http_pool_open(&pool, fixture->server.port, CLIENTS, 0);
    http_pool_send_each(&pool, openings, TEST_COUNT(openings));
    struct http_pool_end end = http_pool_await_end(&pool, 408, "x", DRIP_MS, TIMEOUT_MS + WAIT_DEADLINE_MS);
    struct witness_view attacked = witness_look(witness);
    struct footprint after = footprint_of(pid);
    footprint_print("before", &before);
    footprint_print("after", &after);
    assert_ended_in_time(&end);
    witness_expect_unharmed(&calm, &attacked);
    witness_free(witness);
    http_pool_close(&pool);
    footprint_await_descriptors(pid, before.descriptors);
}

/* The answers of 4 MB are one and the same in the server's memory; its kernel holds what it took of them. */
TEST_CASE(answers_that_are_not_read_end_in_time)
{
    enum { READERS = 100 };
    struct fixture *fixture = *state;
    struct http_pool pool;
    pid_t pid = fixture->server.process.pid;
    char *request = http_format("GET", "/api/channel/by-id/900/", FIXTURE_AUTH);
    struct witness *witness = witness_new(fixture->server.port, fixture->server.process.pid);
    struct witness_view calm = witness_look_long(witness);
    double timed_out = server_metric(&fixture->server, "channeld_connections_timed_out_total");
    struct footprint before = footprint_of(pid);
    http_pool_open(&pool, fixture->server.port, READERS, 4096);
    for (int i = 0; i < 4; i++)
        http_pool_send(&pool, request, strlen(request));
    int64_t began = wait_now_ms();
    server_await_metric(&fixture->server, "channeld_connections_timed_out_total", timed_out + READERS);
    int took = (int)(wait_now_ms() - began);
    struct witness_view attacked = witness_look(witness);
    struct footprint after = footprint_of(pid);
    print_message("%d connections ended within %d ms, the deadline being %d\n", READERS, took, TIMEOUT_MS);
    footprint_print("before", &before);
    footprint_print("after", &after);
    assert_in_range(took, TIMEOUT_MS - wait_slack_ms(), TIMEOUT_MS + LATE_MS + 3 * wait_slack_ms());
    witness_expect_unharmed(&calm, &attacked);
    footprint_await_descriptors(pid, before.descriptors);
    /* Nor does the kernel go on trying to send. */
    assert_in_range(footprint_queues_of(fixture->server.port).sent_kib, 0, 100);
    if (footprint_is_meaningful())
        assert_in_range(after.peak_kib, 0, before.peak_kib + 20L * LONG_TEXT / 1024);
    witness_free(witness);
    http_pool_close(&pool);
    free(request);
}

/* But for what is in the clients' own buffers. */
static bool kernel_has_all(void *arg)
{
    struct fixture *fixture = arg;
    return footprint_queues_of(fixture->server.port).sent_kib > 100L * KERNEL_TEXT / 1024 * 3 / 4;
}

static bool kernel_has_let_go(void *arg)
{
    struct fixture *fixture = arg;
    return footprint_queues_of(fixture->server.port).sent_kib < 100;
}

/* The kernel has the answer as a whole, and for the server that is all: it must not stay there for long. */
static void assert_kernel_lets_go(struct fixture *fixture, const char *headers, int deadline_ms)
{
    enum { READERS = 100 };
    struct http_pool pool;
    pid_t pid = fixture->server.process.pid;
    struct footprint before = footprint_of(pid);
    char *request = http_format("GET", "/api/channel/by-id/901/", headers);
    http_pool_open(&pool, fixture->server.port, READERS, 4096);
    http_pool_send(&pool, request, strlen(request));
    server_await_metric(&fixture->server, "channeld_connections_open", READERS);
    assert_true(wait_until(kernel_has_all, fixture, WAIT_DEADLINE_MS));
    assert_true(wait_until(kernel_has_let_go, fixture, WAIT_DEADLINE_MS));
    int took = (int)(wait_now_ms() - pool.began_ms);
    print_message("the kernel let go of %d answers within %d ms\n", READERS, took);
    assert_in_range(took, 0, deadline_ms + LATE_MS + 5 * wait_slack_ms());
    footprint_await_descriptors(pid, before.descriptors);
    http_pool_close(&pool);
    free(request);
}

TEST_CASE(last_answers_that_are_not_read_end_in_time)
{
    assert_kernel_lets_go(*state, FIXTURE_AUTH "Connection: close\r\n", LINGER_MS + TIMEOUT_MS);
}

TEST_CASE(kept_connections_whose_answer_is_not_read_end_in_time)
{
    assert_kernel_lets_go(*state, FIXTURE_AUTH, IDLE_MS);
}
