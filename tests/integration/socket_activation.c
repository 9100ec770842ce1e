/*
 * Listening sockets that a service manager has opened (sd_listen_fds(3)), and what they are for: channeld is
 * restarted under load, and no request fails.
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "support/fixture.h"
#include "support/net.h"
#include "support/sockets.h"

static void fill(struct redis *redis)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    catalogue_put_samples(redis, 150);
}

static void start_redis(struct redis *redis)
{
    redis_start(redis, NULL);
    fill(redis);
}

TEST_CASE(passed_sockets_replace_the_settings)
{
    struct redis redis;
    struct server server;
    struct sockets s;
    int other = net_reserve_port();
    start_redis(&redis);
    sockets_open(&s, "api:admin", 2);
    sockets_start_server(
        &server, &s, redis.url,
        ENV(text_temp("CHANNELD_LISTEN=127.0.0.1:%d", other), "CHANNELD_ADMIN_LISTEN=127.0.0.1:1"));
    server_await_admin(&server, "/readyz", 200);
    assert_int_equal(http_get_status(s.port[0], "/api/channels/", FIXTURE_AUTH), 200);
    assert_int_equal(http_get_status(s.port[0], "/livez", NULL), 404);
    assert_false(net_is_listening(other));
    server_await_log(&server, text_temp("\"listen\":\"127.0.0.1:%d\",\"listen_passed\":\"yes\"", s.port[0]));
    server_await_log(
        &server, text_temp("\"admin_listen\":\"127.0.0.1:%d\",\"admin_listen_passed\":\"yes\"", s.port[1]));
    server_stop(&server);
    assert_true(net_is_listening(s.port[0])); /* it was closed, and not shut down */
    sockets_close(&s);
    redis_stop(&redis);
}

/* They wait for Redis, which would be a 500 for the others. */
TEST_CASE(connections_wait_until_redis_is_connected)
{
    struct redis redis;
    struct server server;
    struct sockets s;
    redis_prepare(&redis, NULL);
    sockets_open(&s, "api", 1);
    AUTO(http_close) struct http_conn early = http_connect(s.port[0]); /* before there is a process */
    assert_int_equal(http_send_text(&early, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"),
                     0);
    sockets_start_server(&server, &s, redis.url, ENV("CHANNELD_REQUEST_TIMEOUT=60s"));
    server_await_admin(&server, "/startupz", 200);
    assert_false(http_is_readable(&early, 300));
    redis_restart(&redis);
    fill(&redis);
    http_expect(&early, 200);
    server_stop(&server);
    sockets_close(&s);
    redis_stop(&redis);
}

TEST_CASE(connections_wait_no_longer_than_a_request_would)
{
    struct server server;
    struct sockets s;
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, "redis://127.0.0.1:1", ENV("CHANNELD_REQUEST_TIMEOUT=300ms"));
    assert_int_equal(http_get_status(s.port[0], "/api/channels/", FIXTURE_AUTH), 500);
    server_stop(&server);
    sockets_close(&s);
}

/* Whatever has connected by then is served by the next process. */
TEST_CASE(stopped_before_redis_was_connected_it_leaves_its_connections)
{
    struct redis redis;
    struct server server;
    struct sockets s;
    start_redis(&redis);
    sockets_open(&s, "api", 1);
    sockets_start_server(&server, &s, "redis://127.0.0.1:1",
                         ENV("CHANNELD_REQUEST_TIMEOUT=60s", "CHANNELD_DRAIN_DELAY=60s"));
    server_await_admin(&server, "/startupz", 200);
    AUTO(http_close) struct http_conn conn = http_connect(s.port[0]);
    assert_int_equal(http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"),
                     0);
    assert_false(http_is_readable(&conn, 50));
    server_stop(&server); /* at once: nothing is in flight */
    sockets_start_server(&server, &s, redis.url, NULL);
    http_expect(&conn, 200);
    server_stop(&server);
    sockets_close(&s);
    redis_stop(&redis);
}

TEST_CASE(a_socket_that_cannot_be_used_is_named)
{
    struct server server;
    struct sockets s;
    sockets_open(&s, "web", 1);
    sockets_start_server(&server, &s, "redis://127.0.0.1:1", NULL);
    server_expect_exit(&server, 2);
    AUTOFREE char *errors = process_stderr(&server.process);
    assert_non_null(strstr(errors, "LISTEN_FDS: descriptor 3 (\"web\") has an unknown name"));
    server_kill(&server);
    sockets_close(&s);
}

/* ---- restarts under load ---- */

enum { CLIENTS = 24, RESTARTS = 3, ANSWERED_BETWEEN = CLIENTS * 20 };

struct load {
    int port;
    atomic_bool over;
    atomic_int answered, failed;
    atomic_int last_error; /* a status, or a negative errno */
};

static bool note_failure(struct load *load, int what)
{
    atomic_fetch_add(&load->failed, 1);
    atomic_store(&load->last_error, what);
    return false;
}

/* True when the connection can be used again. */
static bool exchange_once(struct load *load, struct http_conn *conn)
{
    struct http_response response = {.status = 0};
    int error = http_exchange(conn, "GET", "/api/channels/", FIXTURE_AUTH, &response);
    if (error != 0 || response.status != 200) {
        http_response_free(&response);
        return note_failure(load, error != 0 ? error : response.status);
    }
    const char *connection = http_header(&response, "Connection");
    bool closes = connection != NULL && strcasecmp(connection, "close") == 0;
    http_response_free(&response);
    atomic_fetch_add(&load->answered, 1);
    return !closes;
}

/* A client that connects again after "Connection: close", and never stays away. */
static void *run_client(void *arg)
{
    struct load *load = arg;
    while (!atomic_load(&load->over)) {
        struct http_conn conn;
        int error = http_open(&conn, load->port);
        if (error != 0) {
            (void)note_failure(load, error);
            return NULL;
        }
        while (!atomic_load(&load->over) && exchange_once(load, &conn))
            continue;
        http_close(&conn);
    }
    return NULL;
}

struct progress {
    struct load *load;
    int answered;
};

static bool has_progressed(void *arg)
{
    const struct progress *p = arg;
    return atomic_load(&p->load->answered) >= p->answered || atomic_load(&p->load->failed) > 0;
}

static void await_progress(struct load *load)
{
    struct progress p = {load, atomic_load(&load->answered) + ANSWERED_BETWEEN};
    assert_true(wait_until(has_progressed, &p, WAIT_DEADLINE_MS));
}

TEST_CASE(no_request_fails_during_restarts)
{
    static const char *const env[] = {"CHANNELD_DRAIN_DELAY=500ms", NULL};
    struct redis redis;
    struct server server;
    struct sockets s;
    pthread_t threads[CLIENTS];
    start_redis(&redis);
    sockets_open(&s, "api", 1);
    struct load load = {.port = s.port[0]};
    sockets_start_server(&server, &s, redis.url, env);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, &load), 0);
    for (int i = 0; i < RESTARTS; i++) {
        await_progress(&load);
        server_stop(&server);
        sockets_start_server(&server, &s, redis.url, env);
    }
    await_progress(&load);
    atomic_store(&load.over, true);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    print_message("%d answers, %d restarts\n", atomic_load(&load.answered), RESTARTS);
    if (atomic_load(&load.failed) != 0)
        fail_msg("%d requests failed, one with %d", atomic_load(&load.failed), atomic_load(&load.last_error));
    server_stop(&server);
    sockets_close(&s);
    redis_stop(&redis);
}

int main(int argc, char **argv)
{
    return sockets_main(argc, argv);
}
