/*
 * SIGTERM: first no longer ready, then no longer listening, then the end. Under load no request fails: the
 * clients do what a load balancer does. They go on over persistent connections until these are closed after a
 * response that says so, connect again during the drain delay, and send nothing new afterwards.
 */

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/load.h"
#include "support/net.h"

enum { DELAY_MS = 3000 };

static struct fixture *begin(const char *delay, const char *timeout)
{
    AUTOFREE char *delay_setting = text_printf("CHANNELD_DRAIN_DELAY=%s", delay);
    AUTOFREE char *timeout_setting = text_printf("CHANNELD_DRAIN_TIMEOUT=%s", timeout);
    const char *env[] = {delay_setting, timeout_setting, "CHANNELD_REQUEST_TIMEOUT=5s", NULL};
    struct fixture *fixture = fixture_new(3, env);
    return fixture;
}

static void terminate(struct fixture *fixture)
{
    process_signal(&fixture->server.process, SIGTERM);
}

static void open_and_ask(struct fixture *fixture, struct http_conn *conn, struct http_response *response)
{
    assert_int_equal(http_open(conn, fixture->server.port), 0);
    assert_int_equal(http_exchange(conn, "GET", "/api/channels/", FIXTURE_AUTH, response), 0);
    assert_int_equal(response->status, 200);
}

TEST_CASE(draining_is_not_ready_but_alive_and_serving)
{
    struct fixture *fixture = begin("3s", "10s");
    struct http_conn kept;
    struct http_conn fresh;
    struct http_response response;
    open_and_ask(fixture, &kept, &response);
    assert_null(http_header(&response, "Connection"));
    http_response_free(&response);
    fixture_expect_metric(fixture, "channeld_ready", 1);
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_await_admin(&fixture->server, "/readyz", 503);
    assert_in_range(wait_now_ms() - began, 0, wait_bound_ms(0));
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    fixture_expect_metric(fixture, "channeld_ready", 0);
    assert_int_equal(http_exchange(&kept, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, &response), 0);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_header(&response, "Connection"), "close");
    assert_int_equal(http_read_eof(&kept), 0);
    http_response_free(&response);
    open_and_ask(fixture, &fresh, &response);
    assert_string_equal(http_header(&response, "Connection"), "close");
    assert_int_equal(http_read_eof(&fresh), 0);
    http_response_free(&response);
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    server_expect_exit(&fixture->server, 0);
    assert_in_range(wait_now_ms() - began, DELAY_MS - 100, wait_bound_ms(DELAY_MS));
    assert_false(net_is_listening(fixture->server.port));
    http_close(&kept);
    http_close(&fresh);
    fixture_free(fixture);
}

static bool is_refused(void *arg)
{
    const struct fixture *fixture = arg;
    return !net_is_listening(fixture->server.port);
}

/* For a load balancer, and for Kubernetes. */
static const char READY[] = "/readyz";
static const char READY_UNTIL_CLOSED[] = "/readyz?exclude=shutdown";

/* While connections are accepted, requests are served, and the admin listener gives the two their answers. */
static void expect_readiness_while_draining(struct fixture *fixture)
{
    int rounds = 0;
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_await_log(&fixture->server, "draining: not ready, still serving");
    for (;; rounds++) {
        int ready = server_admin_status(&fixture->server, READY);
        int ready_until_closed = server_admin_status(&fixture->server, READY_UNTIL_CLOSED);
        int served = fixture_status(fixture, "channels/");
        if (wait_now_ms() - began >= DELAY_MS - 100)
            break;
        assert_int_equal(ready, 503);
        assert_int_equal(ready_until_closed, 200);
        assert_int_equal(served, 200);
    }
    assert_true(rounds > 0);
}

/* A request in flight keeps the process after the listeners have closed. */
TEST_CASE(readiness_without_shutdown_ends_with_the_listeners)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("3s", "60s");
    AUTO(http_response_free) struct http_response response;
    AUTO(http_close) struct http_conn slow = http_connect(fixture->server.port);
    assert_int_equal(server_admin_status(&fixture->server, READY), 200);
    assert_int_equal(server_admin_status(&fixture->server, READY_UNTIL_CLOSED), 200);
    assert_int_equal(http_send_text(&slow, "GET /api/channels/ HTTP/1.1\r\n"), 0);
    expect_readiness_while_draining(fixture);
    server_await_admin(&fixture->server, READY_UNTIL_CLOSED, 503);
    assert_true(wait_until(is_refused, fixture, WAIT_DEADLINE_MS));
    assert_int_equal(server_admin_status(&fixture->server, READY), 503);
    http_get(fixture->server.admin_port, READY, NULL, &response);
    assert_string_equal(response.body, "Draining: finishing requests\n");
    assert_int_equal(http_send_text(&slow, "Host: a\r\n\r\n"), 0);
    http_expect(&slow, 401);
    server_expect_exit(&fixture->server, 0);
}

TEST_CASE(request_in_flight_is_finished)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("0s", "10s");
    AUTO(http_close) struct http_conn conn;
    AUTO(http_response_free) struct http_response response;
    redis_pause(&fixture->redis);
    fixture_start_get(fixture, &conn, "channel/by-id/0/");
    server_await_metric(&fixture->server, "channeld_requests_in_flight", 1);
    terminate(fixture);
    assert_false(http_is_readable(&conn, 300));
    redis_resume(&fixture->redis);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_header(&response, "Connection"), "close");
    assert_int_equal(json_integer_at(response.body, "data.max_channel_id"), 0);
    server_expect_exit(&fixture->server, 0);
}

TEST_CASE(second_signal_ends_the_process_at_once)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("60s", "90s");
    int64_t began = wait_now_ms();
    terminate(fixture);
    server_await_admin(&fixture->server, "/readyz", 503);
    terminate(fixture);
    assert_true(process_wait(&fixture->server.process, WAIT_DEADLINE_MS) >= 0);
    assert_in_range(wait_now_ms() - began, 0, wait_bound_ms(0));
}

static void hang_up(struct fixture *fixture)
{
    process_signal(&fixture->server.process, SIGHUP);
}

/* Neither while it serves, nor while it drains, nor until it has ended. */
TEST_CASE(sighup_does_not_end_the_process)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("0s", "60s");
    hang_up(fixture);
    server_await_log(&fixture->server, "SIGHUP received");
    assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
    AUTO(http_close) struct http_conn slow = http_connect(fixture->server.port);
    assert_int_equal(http_send_text(&slow, "GET /api/channels/ HTTP/1.1\r\n"), 0);
    terminate(fixture);
    server_await_admin(&fixture->server, "/readyz", 503);
    hang_up(fixture);
    assert_int_equal(http_send_text(&slow, "Host: a\r\n\r\n"), 0);
    http_expect(&slow, 401);
    while (process_is_running(&fixture->server.process))
        (void)kill(fixture->server.process.pid, SIGHUP);
    server_expect_exit(&fixture->server, 0);
}

TEST_CASE(sigint_drains_too)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("0s", "10s");
    process_signal(&fixture->server.process, SIGINT);
    server_expect_exit(&fixture->server, 0);
}

struct fifo {
    const char *path;
    int fd; /* its reader waits for data until this is closed */
};

static bool has_reader(void *arg)
{
    struct fifo *fifo = arg;
    fifo->fd = open(fifo->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return fifo->fd >= 0;
}

/* As the first process of a container: it reads its settings, and would not end by a signal without a
 * handler. */
TEST_CASE(signal_ends_the_first_process_of_a_container_before_it_has_started)
{
    struct tempdir dir;
    struct process process;
    int before = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (before < 0 || unshare(CLONE_NEWPID) != 0)
        test_skip("no process namespaces: they need root");
    tempdir_init(&dir);
    AUTOFREE char *path = text_printf("%s/url", dir.path);
    AUTOFREE char *variable = text_printf("CHANNELD_REDIS_URL_FILE=%s", path);
    struct fifo fifo = {.path = path};
    const char *const env[] = {variable, NULL};
    const char *const argv[] = {process_require_env("CHANNELD_BIN"), NULL};
    assert_int_equal(mkfifo(path, 0600), 0);
    process_start(&process,
                  &(struct process_spec){.name = "channeld", .dir = dir.path, .argv = argv, .env = env});
    assert_int_equal(setns(before, CLONE_NEWPID), 0);
    (void)close(before);
    assert_true(wait_until(has_reader, &fifo, WAIT_DEADLINE_MS));
    process_signal(&process, SIGTERM);
    assert_int_equal(process_wait(&process, WAIT_DEADLINE_MS), 128 + SIGTERM);
    (void)close(fifo.fd);
    tempdir_fini(&dir);
}

/* ---- under load ---- */

static void run(const char *drain_delay)
{
    enum { CLIENTS = 64 };
    static const char *const targets[] = {"/api/channels/", "/api/channel/by-id/0/",
                                          "/api/channel/by-link/?link=https://max.ru/sample_7"};
    const char *env[] = {text_temp("CHANNELD_DRAIN_DELAY=%s", drain_delay), NULL};
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(150, env);
    struct load load;
    load_start(&load, fixture->server.port, targets, TEST_COUNT(targets), CLIENTS);
    load_await(&load, CLIENTS * 20, 0, WAIT_DEADLINE_MS * 2);
    process_signal(&fixture->server.process, SIGTERM);
    load_await(&load, 0, CLIENTS * 4, WAIT_DEADLINE_MS);
    load_stop(&load);
    server_expect_exit(&fixture->server, 0);
}

TEST_CASE(no_request_fails_during_a_drain)
{
    for (int round = 0; round < 2; round++)
        run("2s");
}
