/*
 * Figures that operators rely on: readiness as a metric, the cache's share per worker, idle loops, and the
 * bytes of the access log.
 */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/fixture.h"

static void expect_line(struct server *server, const char *line)
{
    char *metrics = server_metrics(server);
    if (strstr(metrics, line) == NULL)
        fail_msg("not in the metrics: %s", line);
    free(metrics);
}

TEST_CASE(ready_metric_is_0_without_redis_and_1_with_it)
{
    struct server server;
    const struct server_spec spec = {.redis_url = "redis://127.0.0.1:1/0", .wait = SERVER_WAIT_LISTENING};
    server_start(&server, &spec);
    assert_int_equal(server_admin_status(&server, "/readyz"), 503);
    expect_line(&server, "\nchanneld_ready 0\n");
    expect_line(&server, "\nchanneld_worker_redis_connected{worker=\"0\"} 0\n");
    server_stop(&server);
    struct fixture *fixture = fixture_new(1, NULL);
    expect_line(&fixture->server, "\nchanneld_ready 1\n");
    expect_line(&fixture->server, "\nchanneld_worker_redis_connected{worker=\"0\"} 1\n");
    fixture_free(fixture);
}

/* Both workers fill their share, which together is the setting. */
TEST_CASE(cache_size_is_split_among_the_workers)
{
    enum { CHANNELS = 1500, CONNECTIONS = 12, CACHE_BYTES = 512 * 1024 };
    static const char *const env[] = {"CHANNELD_CACHE_SIZE=512KiB", "CHANNELD_WORKERS=2",
                                      "CHANNELD_ACCESS_LOG=off", NULL};
    struct fixture *fixture = fixture_new(CHANNELS, env);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct http_conn conn;
        assert_int_equal(http_open(&conn, fixture->server.port), 0);
        for (size_t n = 0; n < CHANNELS; n++) {
            struct http_response response;
            char *target = text_printf("/api/channel/by-id/%lld/", (long long)catalogue_id(n));
            assert_int_equal(http_exchange(&conn, "GET", target, FIXTURE_AUTH, &response), 0);
            assert_int_equal(response.status, 200);
            http_response_free(&response);
            free(target);
        }
        http_close(&conn);
    }
    assert_true(server_metric(&fixture->server, "channeld_cache_evictions_total") > 0);
    double bytes = server_metric(&fixture->server, "channeld_cache_bytes");
    if (bytes > CACHE_BYTES || bytes < 0.7 * CACHE_BYTES)
        fail_msg("%g bytes are cached, of %d", bytes, CACHE_BYTES);
    fixture_free(fixture);
}

/* Timers, heartbeats and the two scrapes are some dozens of turns. */
TEST_CASE(idle_worker_loops_do_not_spin)
{
    enum { TURNS_MAX = 300 };
    struct fixture *fixture = fixture_new(1, NULL);
    double turns = server_metric(&fixture->server, "channeld_loop_lag_seconds_count");
    double cpu = server_metric(&fixture->server, "process_cpu_seconds_total");
    (void)nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 500000000L}, NULL);
    turns = server_metric(&fixture->server, "channeld_loop_lag_seconds_count") - turns;
    cpu = server_metric(&fixture->server, "process_cpu_seconds_total") - cpu;
    assert_true(turns > 0);
    if (turns > TURNS_MAX || cpu > 0.5)
        fail_msg("%g turns and %g s of processor time while idle", turns, cpu);
    fixture_free(fixture);
}

static void expect_bytes(const char *log, const char *id, size_t bytes)
{
    char *line_start = text_printf("\"%s\"", id);
    const char *at = strstr(log, line_start);
    assert_non_null(at);
    const char *begin = at;
    while (begin > log && begin[-1] != '\n')
        begin--;
    char *line = strndup(begin, strcspn(begin, "\n"));
    char *expected = text_printf("%zu", bytes);
    json_assert_at(line, "bytes", expected);
    free(expected);
    free(line);
    free(line_start);
}

TEST_CASE(access_log_has_the_bytes_of_the_content)
{
    static const char *const env[] = {"CHANNELD_ACCESS_LOG=all", NULL};
    struct fixture *fixture = fixture_new(2, env);
    struct http_response response;
    char *target = text_printf("/api/channel/by-id/%lld/", (long long)catalogue_id(0));
    http_get(fixture->server.port, target, FIXTURE_AUTH "X-Request-Id: full\r\n", &response);
    assert_int_equal(response.status, 200);
    size_t card = strlen(response.body);
    char *conditional = text_printf(FIXTURE_AUTH "X-Request-Id: unchanged\r\nIf-None-Match: %s\r\n",
                                    http_header(&response, "ETag"));
    http_response_free(&response);
    http_get(fixture->server.port, target, conditional, &response);
    assert_int_equal(response.status, 304);
    http_response_free(&response);
    http_call(fixture->server.port, "HEAD", target, FIXTURE_AUTH "X-Request-Id: head\r\n", &response);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_get(fixture->server.port, "/nowhere", "X-Request-Id: missing\r\n", &response);
    assert_int_equal(response.status, 404);
    size_t error = strlen(response.body);
    http_response_free(&response);
    char *log = fixture_stop_server(fixture);
    assert_true(card > 100);
    expect_bytes(log, "full", card);
    expect_bytes(log, "unchanged", 0);
    expect_bytes(log, "head", 0);
    expect_bytes(log, "missing", error);
    free(log);
    free(conditional);
    free(target);
    fixture_free(fixture);
}
