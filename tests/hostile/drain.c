/* SIGTERM with malicious clients: the drain ends in time, with exit code 0. */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/net.h"

enum { CLIENTS = 500, LAST_CALL_MS = 1000, FLOODERS = 4 };

static struct fixture *begin(const char *timeout)
{
    AUTOFREE char *setting = text_printf("CHANNELD_DRAIN_TIMEOUT=%s", timeout);
    const char *env[] = {setting, "CHANNELD_HEADER_TIMEOUT=60s", NULL};
    struct fixture *fixture = fixture_new(3, env);
    return fixture;
}

/* Returns how long the process took to exit with 0. */
static int drain(struct fixture *fixture)
{
    int64_t began = wait_now_ms();
    process_signal(&fixture->server.process, SIGTERM);
    server_expect_exit(&fixture->server, 0);
    int took = (int)(wait_now_ms() - began);
    print_message("drained within %d ms\n", took);
    return took;
}

TEST_CASE(silent_connections_end_after_a_second)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("20s");
    AUTO(http_pool_close) struct http_pool pool;
    http_pool_open(&pool, fixture->server.port, CLIENTS, 0);
    server_await_metric(&fixture->server, "channeld_connections_open", CLIENTS);
    assert_in_range(drain(fixture), LAST_CALL_MS - 100, wait_bound_ms(LAST_CALL_MS));
    struct http_pool_end end = http_pool_await_end(&pool, 0, NULL, 0, WAIT_DEADLINE_MS);
    assert_int_equal(end.left, 0);
    assert_int_equal(end.reset, 0);
}

static bool no_longer_listens(void *arg)
{
    struct fixture *fixture = arg;
    return !net_is_listening(fixture->server.port);
}

/* Whether a connection without a request was served after SIGTERM; false if that took longer than it may. */
static bool is_served_while_draining(void *arg)
{
    (void)arg;
    AUTO(fixture_drop) struct fixture *fixture = begin("20s");
    AUTO(http_response_free) struct http_response response = {0};
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    server_await_metric(&fixture->server, "channeld_connections_open", 1);
    int64_t began = wait_now_ms();
    process_signal(&fixture->server.process, SIGTERM);
    assert_true(wait_until(no_longer_listens, fixture, WAIT_DEADLINE_MS));
    bool served = http_exchange(&conn, "GET", "/api/channels/", FIXTURE_AUTH, &response) == 0;
    assert_true(served ? response.status == 200 : wait_now_ms() - began >= LAST_CALL_MS);
    server_expect_exit(&fixture->server, 0);
    return served;
}

TEST_CASE(new_connection_is_served)
{
    assert_true(wait_until(is_served_while_draining, NULL, WAIT_DEADLINE_MS));
}

TEST_CASE(unfinished_heads_are_dropped_at_the_timeout)
{
    static const char half[] = "GET /api/channels/ HTTP/1.1\r\nX: ";
    AUTO(fixture_drop) struct fixture *fixture = begin("2s");
    AUTO(http_pool_close) struct http_pool pool;
    http_pool_open(&pool, fixture->server.port, CLIENTS, 0);
    http_pool_send(&pool, half, strlen(half));
    server_await_metric(&fixture->server, "channeld_connections_open", CLIENTS);
    assert_in_range(drain(fixture), 0, wait_bound_ms(2000));
}

struct flood {
    int port;
    atomic_bool ends;
    atomic_int connected;
};

static void *connect_and_close(void *arg)
{
    struct flood *flood = arg;
    while (!atomic_load(&flood->ends)) {
        AUTO(http_close) struct http_conn conn;
        if (http_open(&conn, flood->port) == 0)
            atomic_fetch_add(&flood->connected, 1);
    }
    return NULL;
}

static bool flood_runs(void *arg)
{
    struct flood *flood = arg;
    return atomic_load(&flood->connected) > 1000;
}

/* The listeners accept what the kernel has queued before they close: that must have an end. */
TEST_CASE(flood_of_new_connections_does_not_delay_it)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("20s");
    struct flood flood = {.port = fixture->server.port};
    pthread_t thread[FLOODERS];
    for (int i = 0; i < FLOODERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, connect_and_close, &flood), 0);
    assert_true(wait_until(flood_runs, &flood, WAIT_DEADLINE_MS));
    int took = drain(fixture);
    atomic_store(&flood.ends, true);
    for (int i = 0; i < FLOODERS; i++)
        (void)pthread_join(thread[i], NULL);
    assert_in_range(took, 0, wait_bound_ms(LAST_CALL_MS));
}
