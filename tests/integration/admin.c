/*
 * The admin listener beside many clients, metrics of what waits, and channeld --probe, the health check of
 * containers. Its requests are in tests/integration/requests/admin.http.
 */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/net.h"

enum { OCCUPANTS = 1000 };

FIXTURE(5, NULL)

/* More connections than the admin listener accepts, each of which sends `text`. */
static void occupy(struct fixture *fixture, struct http_conn conns[OCCUPANTS], const char *text)
{
    for (int i = 0; i < OCCUPANTS; i++) {
        assert_int_equal(http_open(&conns[i], fixture->server.admin_port), 0);
        (void)http_send_text(&conns[i], text);
    }
}

static void send_each(struct http_conn conns[OCCUPANTS], const char *text)
{
    for (int i = 0; i < OCCUPANTS; i++)
        (void)http_send_text(&conns[i], text);
}

TEST_CASE(probes_are_answered_beside_idle_and_slow_connections)
{
    /* idle; a head without an end; a response that is not read */
    static const char *const sent[] = {
        "", "GET /livez HTTP/1.1\r\nX: ", "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"};
    struct fixture *fixture = *state;
    struct http_conn *conns = calloc(OCCUPANTS, sizeof *conns);
    assert_non_null(conns);
    assert_true(process_raise_descriptor_limit() > (size_t)OCCUPANTS * 2);
    for (size_t i = 0; i < TEST_COUNT(sent); i++) {
        occupy(fixture, conns, sent[i]);
        for (int round = 0; round < 3; round++) {
            assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
            assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
            assert_true(server_metric(&fixture->server, "process_open_fds") < OCCUPANTS);
            if (i == 1)
                send_each(conns, "x");
        }
        for (int c = 0; c < OCCUPANTS; c++)
            http_close(&conns[c]);
    }
    free(conns);
}

TEST_CASE(each_worker_has_one_named_redis_connection)
{
    struct fixture *fixture = *state;
    AUTOFREE char *clients = redis_text(&fixture->redis, "CLIENT LIST");
    assert_int_equal(text_count(clients, "name=channeld"), 2);
}

/* ---- what the metrics count ---- */

#define AUTH(outcome) "channeld_auth_total{outcome=\"" outcome "\"}"

static int set_up(void **state)
{
    *state = fixture_new(120, ENV("CHANNELD_WORKERS=1"));
    return 0;
}

/* A request that waits for Redis is in flight, until its client has gone or it was answered. The next request
 * takes its place in memory, and must not get its result. */
TEST_CASE_WITH(requests_in_flight_are_those_that_wait, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    struct http_conn leaving;
    AUTO(http_response_free) struct http_response page;
    const char *request = "GET /api/channel/by-id/77/ HTTP/1.1\r\nHost: x\r\n" FIXTURE_AUTH "\r\n";
    redis_pause(&f->redis);
    struct http_conn waiting = http_connect(f->server.port);
    assert_int_equal(http_open(&leaving, f->server.port), 0);
    assert_int_equal(http_send_text(&waiting, request), 0);
    assert_int_equal(http_send_text(&leaving, request), 0);
    server_await_metric(&f->server, "channeld_requests_in_flight", 2);
    http_reset(&leaving);
    server_await_metric_below(&f->server, "channeld_requests_in_flight", 1);
    struct http_conn next = http_connect(f->server.port);
    assert_int_equal(
        http_send_text(&next, "GET /api/channels/?page=7 HTTP/1.1\r\nHost: x\r\n" FIXTURE_AUTH "\r\n"), 0);
    server_await_metric(&f->server, "channeld_requests_in_flight", 2);
    redis_resume(&f->redis);
    http_expect(&waiting, 404);
    assert_int_equal(http_read(&next, false, &page), 0);
    json_assert_at(page.body, "pagination.page", "7");
    http_close(&waiting);
    http_close(&next);
    server_await_metric_below(&f->server, "channeld_requests_in_flight", 0);
    assert_int_equal(server_metric(&f->server, AUTH("valid")), 2);
}

/* Connections of earlier scrapes may still be open at one count and closed at the other. */
TEST_CASE_WITH(descriptors_are_counted, set_up, fixture_teardown)
{
    enum { CONNECTIONS = 50, SCRAPES = 5 };
    struct fixture *f = *state;
    struct http_conn conns[CONNECTIONS];
    double before = server_metric(&f->server, "process_open_fds");
    for (int i = 0; i < CONNECTIONS; i++)
        assert_int_equal(http_open(&conns[i], f->server.port), 0);
    server_await_metric(&f->server, "channeld_connections_open", CONNECTIONS);
    double during = server_metric(&f->server, "process_open_fds");
    assert_true(during - before > CONNECTIONS - SCRAPES && during - before < CONNECTIONS + SCRAPES);
    for (int i = 0; i < CONNECTIONS; i++)
        http_close(&conns[i]);
}

/* ---- channeld --probe ---- */

static int set_up_probe(void **state)
{
    *state = fixture_new(1, ENV("CHANNELD_STALE_LIMIT=0s"));
    return 0;
}

/* Probes with --admin-listen HOST:PORT; its stderr is owned by the caller. */
static int probe(struct fixture *fixture, const char *host, int port, char **errors)
{
    struct process process;
    AUTOFREE char *listen = text_printf("--admin-listen=%s:%d", host, port);
    const char *const args[] = {"--probe", listen, "--redis-url=redis://192.0.2.1:1", NULL};
    int status = server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, NULL);
    AUTOFREE char *output = process_stdout(&process);
    assert_string_equal(output, "");
    *errors = process_stderr(&process);
    return status;
}

static void expect_ready(struct fixture *fixture, const char *host)
{
    char *errors = NULL;
    int status = probe(fixture, host, fixture->server.admin_port, &errors);
    if (status != 0 || errors[0] != '\0')
        fail_msg("%s: %d: %s", host, status, errors);
    free(errors);
}

static void expect_failure(struct fixture *fixture, int port, const char *message)
{
    char *errors = NULL;
    int status = probe(fixture, "127.0.0.1", port, &errors);
    if (status != 1 || strstr(errors, message) == NULL)
        fail_msg("no '%s': %d: %s", message, status, errors);
    free(errors);
}

/* The server of the test listens on 127.0.0.1 only, which all of these probe. */
TEST_CASE_WITH(probe_of_a_ready_server_is_exit_code_0, set_up_probe, fixture_teardown)
{
    static const char *const hosts[] = {"127.0.0.1", "0.0.0.0", "[::]", ""};
    for (size_t i = 0; i < TEST_COUNT(hosts); i++)
        expect_ready(*state, hosts[i]);
}

TEST_CASE_WITH(probe_reads_the_environment_as_the_server_does, set_up_probe, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct process process;
    static const char *const args[] = {"--probe", NULL};
    AUTOFREE char *listen = text_printf("CHANNELD_ADMIN_LISTEN=127.0.0.1:%d", fixture->server.admin_port);
    const char *const env[] = {listen, NULL};
    static const char *const bad[] = {"CHANNELD_ADMIN_LISTEN=nonsense", NULL};
    assert_int_equal(server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, env), 0);
    assert_int_equal(server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, bad), 2);
}

/* What the server has read at its start, or last, stays in use. */
TEST_CASE_WITH(probe_does_not_depend_on_files_of_settings, set_up_probe, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct process process;
    static const char *const args[] = {"--probe", NULL};
    AUTOFREE char *listen = text_printf("CHANNELD_ADMIN_LISTEN=127.0.0.1:%d", fixture->server.admin_port);
    AUTOFREE char *fifo = text_printf("%s/fifo", fixture->server.dir.path);
    AUTOFREE char *waits = text_printf("CHANNELD_REDIS_URL_FILE=%s", fifo);
    const char *const missing[] = {listen, "CHANNELD_REDIS_URL_FILE=/nonexistent", NULL};
    const char *const empty[] = {listen, "CHANNELD_LOG_LEVEL_FILE=/dev/null", NULL};
    const char *const unwritten[] = {listen, waits, NULL};
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, missing), 0);
    assert_int_equal(server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, empty), 0);
    assert_int_equal(server_run_tool(&process, &fixture->server.dir, "CHANNELD_BIN", args, unwritten), 0);
}

TEST_CASE_WITH(probe_without_a_listener_is_exit_code_1, set_up_probe, fixture_teardown)
{
    expect_failure(*state, net_reserve_port(), "cannot connect to the admin address: Connection refused");
}

struct fake_server {
    int listener;
    const char *answer; /* NULL: a reset */
};

static void *answer_once(void *arg)
{
    const struct fake_server *fake = arg;
    char request[256];
    int fd = accept(fake->listener, NULL, NULL);
    ssize_t asked = fd >= 0 ? recv(fd, request, sizeof request, 0) : -1;
    if (asked > 0 && fake->answer != NULL)
        (void)send(fd, fake->answer, strlen(fake->answer), MSG_NOSIGNAL);
    else if (asked > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    (void)close(fd);
    return NULL;
}

static void expect_failure_of_fake(struct fixture *fixture, const char *answer, const char *message)
{
    pthread_t thread;
    int port = net_reserve_port();
    struct fake_server fake = {net_listen(port), answer};
    assert_true(fake.listener >= 0);
    assert_int_equal(pthread_create(&thread, NULL, answer_once, &fake), 0);
    expect_failure(fixture, port, message);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(fake.listener);
}

TEST_CASE_WITH(probe_of_another_response_is_exit_code_1, set_up_probe, fixture_teardown)
{
    expect_failure_of_fake(*state, "HTTP/1.1 500 No\r\n\r\n", "/readyz answers 500");
    expect_failure_of_fake(*state, "HTTP/1.1 2", "does not speak HTTP");
    expect_failure_of_fake(*state, "HTTP/1.1 20", "does not speak HTTP");
    expect_failure_of_fake(*state, "HTTP/1.1 2000 OK\r\n\r\n", "does not speak HTTP");
    expect_failure_of_fake(*state, "HTTP/1.1 -20 OK\r\n\r\n", "does not speak HTTP");
    expect_failure_of_fake(*state, "HTTP/1.1 200OK\r\n\r\n", "does not speak HTTP");
    expect_failure_of_fake(*state, "HTTP/1.10200 OK\r\n\r\n", "does not speak HTTP");
    expect_failure_of_fake(*state, "HTTP/1.1 50x No\r\n\r\n", "does not speak HTTP");
    expect_failure_of_fake(*state, "SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP");
    expect_failure_of_fake(*state, "", "does not speak HTTP");
    expect_failure_of_fake(*state, NULL, "no answer from the admin address: Connection reset by peer");
}

/* The kernel accepts the connection, and no response comes. */
TEST_CASE_WITH(probe_times_out_after_two_seconds, set_up_probe, fixture_teardown)
{
    int port = net_reserve_port();
    int listener = net_listen(port);
    assert_true(listener >= 0);
    int64_t began = wait_now_ms();
    expect_failure(*state, port, "no answer from the admin address: Connection timed out");
    assert_in_range(wait_now_ms() - began, 1900, wait_bound_ms(2000));
    (void)close(listener);
}

TEST_CASE_WITH(probe_while_draining_is_exit_code_1, set_up_probe, fixture_teardown)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(1, ENV("CHANNELD_DRAIN_DELAY=3s"));
    expect_ready(fixture, "127.0.0.1");
    process_signal(&fixture->server.process, SIGTERM);
    server_await_admin(&fixture->server, "/readyz", 503);
    expect_failure(fixture, fixture->server.admin_port, "not ready: /readyz answers 503");
    server_expect_exit(&fixture->server, 0);
}

TEST_CASE_WITH(probe_without_redis_is_exit_code_1, set_up_probe, fixture_teardown)
{
    struct fixture *fixture = *state;
    redis_stop(&fixture->redis);
    server_await_admin(&fixture->server, "/readyz", 503);
    expect_failure(fixture, fixture->server.admin_port, "not ready: /readyz answers 503");
}

/* Timers, heartbeats and the two scrapes are some dozens of turns. */
TEST_CASE(idle_worker_loops_do_not_spin)
{
    enum { TURNS_MAX = 300 };
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, NULL);
    double turns = server_metric(&fixture->server, "channeld_loop_lag_seconds_count");
    double cpu = server_metric(&fixture->server, "process_cpu_seconds_total");
    (void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000L}, NULL);
    turns = server_metric(&fixture->server, "channeld_loop_lag_seconds_count") - turns;
    cpu = server_metric(&fixture->server, "process_cpu_seconds_total") - cpu;
    assert_true(turns > 0);
    if (turns > TURNS_MAX || cpu > 0.5)
        fail_msg("%g turns and %g s of processor time while idle", turns, cpu);
}
