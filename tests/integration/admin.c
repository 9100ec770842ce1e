/*
 * The admin listener, on a port of its own: health, version, metrics; and channeld --probe, the health check
 * of containers.
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

TEST_CASE(paths_of_the_admin_listener_need_no_key)
{
    static const char *const paths[] = {"/livez",          "/readyz",  "/startupz",
                                        "/readyz?verbose", "/version", "/metrics"};
    static const char *const absent[] = {"/api/channels/", "/", "/livez/more"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        int status = server_admin_status(&fixture->server, paths[i]);
        if (status != 200)
            fail_msg("%s: %d", paths[i], status);
    }
    for (size_t i = 0; i < TEST_COUNT(absent); i++)
        assert_int_equal(server_admin_status(&fixture->server, absent[i]), 404);
}

TEST_CASE(checks_are_listed_by_verbose_only)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response brief;
    AUTO(http_response_free) struct http_response verbose;
    http_get(fixture->server.admin_port, "/startupz", NULL, &brief);
    http_get(fixture->server.admin_port, "/startupz?verbose", NULL, &verbose);
    assert_string_equal(brief.body, "ok\n");
    assert_string_equal(verbose.body, "[+]workers ok\nok\n");
}

TEST_CASE(other_methods_than_get_are_refused)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    http_call(fixture->server.admin_port, "DELETE", "/livez", NULL, &response);
    assert_int_equal(response.status, 405);
    assert_string_equal(http_header(&response, "Allow"), "GET, HEAD, OPTIONS");
    static const char without_host[] = "GET /livez HTTP/1.1\r\n\r\n";
    http_expect_refusal(fixture->server.admin_port, without_host, sizeof without_host - 1, 400);
}

static void expect_options(struct fixture *fixture, const char *target, int status)
{
    AUTO(http_response_free) struct http_response response;
    http_call(fixture->server.admin_port, "OPTIONS", target, NULL, &response);
    if (response.status != status)
        fail_msg("%s: %d, expected %d", target, response.status, status);
    if (status == 204)
        assert_string_equal(http_header(&response, "Allow"), "GET, HEAD, OPTIONS");
    else
        assert_null(http_header(&response, "Allow"));
}

/* HAProxy checks health by OPTIONS unless it is told another method: of "/", or of the path that it is told.
 */
TEST_CASE(options_have_the_status_of_the_path)
{
    static const char *const paths[] = {
        "*", "/", "/livez", "/readyz", "/readyz?exclude=shutdown", "/startupz", "/version", "/metrics"};
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(1, ENV("CHANNELD_STALE_LIMIT=0s"));
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        expect_options(fixture, paths[i], 204);
    expect_options(fixture, "/nothing", 404);
    redis_stop(&fixture->redis);
    server_await_admin(&fixture->server, "/readyz", 503);
    expect_options(fixture, "/readyz", 503);
    expect_options(fixture, "/livez", 204);
}

/* As health checkers send it. The API needs a host. */
TEST_CASE(an_empty_host_is_accepted)
{
    static const char text[] = "GET /livez HTTP/1.1\r\nHost:\r\n\r\n";
    static const char haproxy[] = "OPTIONS / HTTP/1.0\r\n\r\n";
    struct fixture *fixture = *state;
    AUTO(http_close) struct http_conn get = http_connect(fixture->server.admin_port);
    AUTO(http_close) struct http_conn options = http_connect(fixture->server.admin_port);
    assert_int_equal(http_send_text(&get, text), 0);
    http_expect(&get, 200);
    assert_int_equal(http_send_text(&options, haproxy), 0);
    http_expect(&options, 204);
    http_expect_refusal(fixture->server.port, text, sizeof text - 1, 400);
}

TEST_CASE(head_gets_the_fields_of_get_without_content)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    http_call(fixture->server.admin_port, "HEAD", "/livez", NULL, &response);
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body_length, 0);
    assert_string_not_equal(http_header(&response, "Content-Length"), "0");
}

TEST_CASE(version_is_shown)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    http_get(fixture->server.admin_port, "/version", NULL, &response);
    assert_int_equal(response.status, 200);
    assert_true(response.body_length > 0);
}

TEST_CASE(metrics_are_in_the_text_format)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    char *rest = NULL;
    http_get(fixture->server.admin_port, "/metrics", NULL, &response);
    assert_non_null(http_header(&response, "Content-Type"));
    assert_ptr_equal(strstr(http_header(&response, "Content-Type"), "text/plain"),
                     http_header(&response, "Content-Type"));
    assert_int_equal(response.body[response.body_length - 1], '\n');
    for (char *line = strtok_r(response.body, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *end = NULL;
        if (line[0] == '#')
            continue;
        assert_true(strncmp(line, "channeld_", 9) == 0 || strncmp(line, "process_", 8) == 0);
        const char *value = strrchr(line, ' ');
        assert_non_null(value);
        (void)strtod(value + 1, &end);
        assert_string_equal(end, "");
    }
}

TEST_CASE(requests_are_counted)
{
    struct fixture *fixture = *state;
    double before = server_metric(&fixture->server, "channeld_requests_total");
    for (int i = 0; i < 10; i++)
        assert_int_equal(fixture_status(fixture, i % 2 == 0 ? "channels/" : "channel/by-id/4242/"),
                         i % 2 == 0 ? 200 : 404);
    server_await_metric(&fixture->server, "channeld_requests_total", before + 10);
}

TEST_CASE(answers_close_their_connection)
{
    struct fixture *fixture = *state;
    AUTO(http_response_free) struct http_response response;
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.admin_port);
    assert_int_equal(http_exchange(&conn, "GET", "/livez", NULL, &response), 0);
    assert_int_equal(response.status, 200);
    assert_string_equal(http_header(&response, "Connection"), "close");
    assert_int_equal(http_read_eof(&conn), 0);
}

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
    double connected = server_metric(&fixture->server, "channeld_redis_connected");
    assert_true(connected > 1.5 && connected < 2.5);
}

/* ---- what the metrics count: each request once, by route, status and result of the key check ---- */

#define REQUESTS(route, status) "channeld_requests_total{route=\"" route "\",status=\"" status "\"}"
#define AUTH(outcome)           "channeld_auth_total{outcome=\"" outcome "\"}"

static void send_one_of_each(struct fixture *f)
{
    int port = f->server.port;
    assert_int_equal(fixture_status(f, "channels/"), 200);
    assert_int_equal(fixture_status(f, "channels/?page=0"), 400);
    assert_int_equal(fixture_status(f, "channel/by-id/4242/"), 404);
    assert_int_equal(fixture_status(f, "channel/by-id/x/"), 400);
    assert_int_equal(fixture_status(f, "channel/by-link/"), 400);
    assert_int_equal(fixture_status(f, "nowhere"), 404);
    assert_int_equal(http_get_status(port, "/api/channels/", NULL), 401);
    assert_int_equal(http_get_status(port, "/api/channel/by-link/", "X-Api-Key: wrong\r\n"), 401);
    http_expect_refusal(port, "BREW / HTTP/1.1\r\n\r\n", strlen("BREW / HTTP/1.1\r\n\r\n"), 501);
}

static int set_up(void **state)
{
    *state = fixture_new(120, NULL);
    return 0;
}

TEST_CASE_WITH(each_request_is_counted_once_by_route_and_status, set_up, fixture_teardown)
{
    enum { ROUNDS = 20 };
    struct fixture *f = *state;
    for (int i = 0; i < ROUNDS; i++)
        send_one_of_each(f);
    fixture_expect_metric(f, REQUESTS("list", "200"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("list", "400"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("list", "401"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("card_by_id", "404"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("card_by_id", "400"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("card_by_link", "400"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("card_by_link", "401"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("other", "404"), ROUNDS);
    fixture_expect_metric(f, REQUESTS("other", "501"), ROUNDS);
    fixture_expect_metric(f, "channeld_requests_total", 9 * ROUNDS);
    fixture_expect_metric(f, "channeld_request_duration_seconds_count", 9 * ROUNDS);
    fixture_expect_metric(f, AUTH("valid"), 5 * ROUNDS);
    fixture_expect_metric(f, AUTH("missing"), ROUNDS);
    fixture_expect_metric(f, AUTH("invalid"), ROUNDS);
    fixture_expect_metric(f, AUTH("unavailable"), 0);
    fixture_expect_metric(f, "channeld_requests_in_flight", 0);
}

/* Of the cards that were read; invalid dates and those of the far future do not count. */
TEST_CASE_WITH(newest_update_that_was_read_is_shown, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    const char *metric = "channeld_catalogue_updated_timestamp_seconds";
    redis_do(&f->redis, "DEL channels:index");
    redis_do(&f->redis, "HSET channels:card:901 title a updated_at 2020-11-01T00:00:00");
    redis_do(&f->redis, "HSET channels:card:902 title b updated_at 2020-11-03T00:00:00");
    redis_do(&f->redis, "HSET channels:card:903 title c updated_at 2020-11-02T00:00:00");
    redis_do(&f->redis, "HSET channels:card:904 title d updated_at 9999-11-02T00:00:00");
    redis_do(&f->redis, "HSET channels:card:905 title e updated_at 2020-11-31T00:00:00");
    fixture_expect_metric(f, metric, 0);
    assert_int_equal(fixture_status(f, "channel/by-id/901/"), 200);
    fixture_expect_metric(f, metric, 1604188800);
    redis_do(&f->redis, "ZADD channels:index 1 901 2 902 3 903 4 904 5 905");
    assert_int_equal(fixture_status(f, "channels/"), 200);
    fixture_expect_metric(f, metric, 1604361600);
}

/* A request that waits for Redis is in flight; so it is no more when its client has gone or it was answered.
 */
TEST_CASE_WITH(requests_in_flight_are_those_that_wait, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    struct http_conn leaving;
    const char *request = "GET /api/channel/by-id/77/ HTTP/1.1\r\nHost: x\r\n" FIXTURE_AUTH "\r\n";
    redis_pause(&f->redis);
    struct http_conn waiting = http_connect(f->server.port);
    assert_int_equal(http_open(&leaving, f->server.port), 0);
    assert_int_equal(http_send_text(&waiting, request), 0);
    assert_int_equal(http_send_text(&leaving, request), 0);
    server_await_metric(&f->server, "channeld_requests_in_flight", 2);
    http_close(&leaving);
    http_expect(&waiting, 500);
    http_close(&waiting);
    server_await_metric_below(&f->server, "channeld_requests_in_flight", 0);
    assert_true(server_metric(&f->server, AUTH("unavailable")) + server_metric(&f->server, AUTH("valid")) >=
                1);
    redis_resume(&f->redis);
}

TEST_CASE_WITH(redis_commands_and_their_times_are_counted, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    double before = server_metric(&f->server, "channeld_redis_command_duration_seconds_count");
    assert_int_equal(fixture_status(f, "channel/by-id/123456/"), 404);
    assert_true(server_metric(&f->server, "channeld_redis_command_duration_seconds_count") > before);
}

TEST_CASE_WITH(turns_of_the_loops_are_observed, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    double before = server_metric(&f->server, "channeld_loop_lag_seconds_count");
    assert_int_equal(fixture_status(f, "channel/by-id/123456/"), 404);
    server_await_metric(&f->server, "channeld_loop_lag_seconds_count", before + 1);
    assert_true(server_metric(&f->server, "channeld_loop_lag_seconds_bucket{le=\"2.5\"}") > 0);
    assert_true(server_metric(&f->server, "channeld_loop_lag_seconds_sum") > 0);
}

TEST_CASE_WITH(process_metrics, set_up, fixture_teardown)
{
    static const char *const names[] = {"process_cpu_seconds_total",
                                        "process_resident_memory_bytes",
                                        "process_virtual_memory_bytes",
                                        "process_open_fds",
                                        "process_max_fds",
                                        "process_threads",
                                        "process_start_time_seconds"};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_true(server_metric(&f->server, names[i]) > 0);
    double started = server_metric(&f->server, "process_start_time_seconds");
    assert_true(started > 1.7e9 && started < (double)time(NULL) + 2);
    fixture_expect_metric(f, "channeld_build_info", 1);
    fixture_expect_metric(f, "channeld_workers", 2);
    fixture_expect_metric(f, "channeld_worker_redis_connected", 2);
    fixture_expect_metric(f, "channeld_worker_redis_connected{worker=\"1\"}", 1);
    fixture_expect_metric(f, "channeld_worker_connections{worker=\"1\"}", 0);
    fixture_expect_metric(f, "channeld_ready", 1);
    fixture_expect_metric(f, "channeld_log_lines_dropped_total", 0);
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
