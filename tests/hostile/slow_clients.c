/*
 * Hundreds of clients that send or read a byte now and then: each is closed at its deadline, however busy it
 * looks, and the other clients are served.
 */

#include <stdlib.h>
#include <string.h>

#include "hostile/monitor.h"

enum { CLIENTS = 600, READERS = 100, TIMEOUT_MS = 1000, IDLE_MS = 2000, LATE_MS = 1000, LINGER_MS = 2000 };
enum { EARLY_MS = 700, DRIP_MS = 100, LONG_TEXT = 4000000, KERNEL_TEXT = 60000 };

static int start(void **state)
{
    struct fixture *fixture = fixture_new(
        3, ENV("CHANNELD_HEADER_TIMEOUT=1s", "CHANNELD_WRITE_TIMEOUT=1s", "CHANNELD_IDLE_TIMEOUT=2s"));
    AUTOFREE char *text = text_repeat('x', LONG_TEXT);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    text[KERNEL_TEXT] = '\0';
    redis_do(&fixture->redis, "HSET channels:card:901 max_channel_id 901 description %s", text);
    *state = fixture;
    return 0;
}

TEST_GROUP(start, fixture_teardown)

#define POST    "POST /api/channels/ HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

/* What they have sent when they begin to drip. */
static const char *const openings[] = {
    "GET /",                                         /* request line */
    "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nX: ", /* head */
    POST "Content-Length: 60000\r\n\r\n",            /* content */
    CHUNKED "fff\r\n",                               /* a chunk */
    CHUNKED "1;x",                                   /* the extension of a chunk */
    CHUNKED "0\r\nX: ",                              /* trailer */
};

TEST_CASE(dripping_clients_get_408_in_time)
{
    struct fixture *fixture = *state;
    struct http_pool pool;
    struct monitored monitored = monitor_begin(fixture);
    http_pool_open(&pool, fixture->server.port, CLIENTS, 0);
    http_pool_send_each(&pool, openings, TEST_COUNT(openings));
    struct http_pool_end end = http_pool_await_end(&pool, 408, "x", DRIP_MS, TIMEOUT_MS + WAIT_DEADLINE_MS);
    (void)monitor_end(&monitored);
    print_message("%d connections closed between %d and %d ms: %d with 408, %d reset\n", CLIENTS - end.left,
                  (int)end.first_ms, (int)end.last_ms, end.answered, end.reset);
    assert_int_equal(end.left, 0);
    assert_int_equal(end.answered, CLIENTS);
    assert_in_range(end.first_ms, TIMEOUT_MS - EARLY_MS, wait_bound_ms(TIMEOUT_MS + LATE_MS));
    assert_in_range(end.last_ms, 0, wait_bound_ms(TIMEOUT_MS + LATE_MS));
    http_pool_close(&pool);
    footprint_await_descriptors(monitored.pid, monitored.before.descriptors);
}

/* The responses of 4 MB are one object in the server's cache; its kernel holds what it took of them. */
TEST_CASE(responses_that_are_not_read_end_in_time)
{
    struct fixture *fixture = *state;
    struct server *server = &fixture->server;
    AUTO(http_pool_close) struct http_pool pool;
    AUTOFREE char *request = http_format("GET", "/api/channel/by-id/900/", FIXTURE_AUTH);
    double timed_out = server_metric(server, "channeld_connections_timed_out_total");
    struct monitored monitored = monitor_begin(fixture);
    http_pool_open(&pool, server->port, READERS, 4096);
    for (int i = 0; i < 4; i++)
        http_pool_send(&pool, request, strlen(request));
    int64_t began = wait_now_ms();
    server_await_metric(server, "channeld_connections_timed_out_total", timed_out + READERS);
    int took = (int)(wait_now_ms() - began);
    struct footprint after = monitor_end(&monitored);
    print_message("%d connections closed within %d ms, the deadline being %d\n", READERS, took, TIMEOUT_MS);
    assert_in_range(took, TIMEOUT_MS - EARLY_MS, wait_bound_ms(TIMEOUT_MS + LATE_MS));
    footprint_await_descriptors(monitored.pid, monitored.before.descriptors);
    /* Nor does the kernel go on trying to send. */
    assert_in_range(footprint_queues_of(server->port).sent_kib, 0, 100);
    if (footprint_is_meaningful())
        assert_in_range(after.peak_kib, 0, monitored.before.peak_kib + 20L * LONG_TEXT / 1024);
}

struct answered {
    struct server *server;
    int requests;
};

static bool all_are_answered(void *arg)
{
    const struct answered *a = arg;
    return server_metric(a->server, "channeld_requests_total") >= a->requests &&
           server_metric(a->server, "channeld_requests_in_flight") < 0.5;
}

/*
 * Without a cache each response of 4 MB is an object of its own. All together would be 400 MB. Few are asked
 * for at a time, so that Redis is in time.
 */
TEST_CASE_WITH(responses_that_are_not_read_take_a_bounded_memory, NULL, NULL)
{
    enum {
        UNSENT_KIB = 8 * 1024,
        WORKERS = 2,
        OTHERS = 8 /* being read from Redis, or sent */,
        TOGETHER = 5
    };
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(3, ENV("CHANNELD_WORKERS=2", "CHANNELD_MAX_UNSENT=8MiB",
                                                 "CHANNELD_CACHE_SIZE=0", "CHANNELD_WRITE_TIMEOUT=5m"));
    struct http_pool pool[READERS / TOGETHER];
    AUTOFREE char *text = text_repeat('x', LONG_TEXT);
    AUTOFREE char *request = http_format("GET", "/api/channel/by-id/900/", FIXTURE_AUTH);
    redis_do(&fixture->redis, "HSET channels:card:900 max_channel_id 900 description %s", text);
    struct footprint before = footprint_of(fixture->server.process.pid);
    for (int i = 0; i < READERS / TOGETHER; i++) {
        struct answered answered = {&fixture->server, (i + 1) * TOGETHER};
        http_pool_open(&pool[i], fixture->server.port, TOGETHER, 4096);
        http_pool_send(&pool[i], request, strlen(request));
        assert_true(wait_until(all_are_answered, &answered, WAIT_DEADLINE_MS));
    }
    long kib = footprint_of(fixture->server.process.pid).peak_kib - before.peak_kib;
    print_message("%d clients that do not read: %ld MiB\n", READERS, kib / 1024);
    assert_in_range(server_metric(&fixture->server, "channeld_responses_unsent_bytes"), LONG_TEXT,
                    (uint64_t)WORKERS * UNSENT_KIB * 1024);
    if (footprint_is_meaningful())
        assert_in_range(kib, 0, WORKERS * UNSENT_KIB + OTHERS * (LONG_TEXT / 1024));
    assert_int_equal(fixture_status(fixture, "channel/by-id/0/"), 200);
    for (int i = 0; i < READERS / TOGETHER; i++)
        http_pool_close(&pool[i]);
}

/* Except for what is in the clients' own buffers. */
static bool kernel_has_all(void *arg)
{
    struct fixture *fixture = arg;
    return footprint_queues_of(fixture->server.port).sent_kib > 100L * KERNEL_TEXT / 1024 * 3 / 4;
}

static bool kernel_has_dropped_all(void *arg)
{
    struct fixture *fixture = arg;
    return footprint_queues_of(fixture->server.port).sent_kib < 100;
}

/* The kernel took the whole response, so the server has written it: it must not stay there for long. */
static void assert_kernel_drops_responses(struct fixture *fixture, const char *headers, int deadline_ms)
{
    AUTO(http_pool_close) struct http_pool pool;
    pid_t pid = fixture->server.process.pid;
    struct footprint before = footprint_of(pid);
    AUTOFREE char *request = http_format("GET", "/api/channel/by-id/901/", headers);
    http_pool_open(&pool, fixture->server.port, READERS, 4096);
    http_pool_send(&pool, request, strlen(request));
    assert_true(wait_until(kernel_has_all, fixture, WAIT_DEADLINE_MS));
    assert_true(wait_until(kernel_has_dropped_all, fixture, WAIT_DEADLINE_MS));
    int took = (int)(wait_now_ms() - pool.began_ms);
    print_message("the kernel dropped %d responses within %d ms\n", READERS, took);
    assert_in_range(took, 0, wait_bound_ms(deadline_ms + LATE_MS));
    footprint_await_descriptors(pid, before.descriptors);
}

TEST_CASE(last_responses_that_are_not_read_end_in_time)
{
    assert_kernel_drops_responses(*state, FIXTURE_AUTH "Connection: close\r\n", LINGER_MS + TIMEOUT_MS);
}

TEST_CASE(persistent_connections_whose_response_is_not_read_end_in_time)
{
    assert_kernel_drops_responses(*state, FIXTURE_AUTH, IDLE_MS + LINGER_MS + TIMEOUT_MS);
}
