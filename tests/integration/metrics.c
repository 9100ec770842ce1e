/* What /metrics tells is what happened: every request once, under its route and status, and what became of
 * its key. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/fixture.h"

#define REQUESTS(route, status) "channeld_requests_total{route=\"" route "\",status=\"" status "\"}"
#define AUTH(outcome)           "channeld_auth_total{outcome=\"" outcome "\"}"

static void expect_exactly(struct fixture *f, const char *name, int value)
{
    double found = server_metric(&f->server, name);
    if (found < value - 0.5 || found > value + 0.5)
        fail_msg("%s is %g, not %d", name, found, value);
}

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
    expect_exactly(f, REQUESTS("list", "200"), ROUNDS);
    expect_exactly(f, REQUESTS("list", "400"), ROUNDS);
    expect_exactly(f, REQUESTS("list", "401"), ROUNDS);
    expect_exactly(f, REQUESTS("card_by_id", "404"), ROUNDS);
    expect_exactly(f, REQUESTS("card_by_id", "400"), ROUNDS);
    expect_exactly(f, REQUESTS("card_by_link", "400"), ROUNDS);
    expect_exactly(f, REQUESTS("card_by_link", "401"), ROUNDS);
    expect_exactly(f, REQUESTS("other", "404"), ROUNDS);
    expect_exactly(f, REQUESTS("other", "501"), ROUNDS);
    expect_exactly(f, "channeld_requests_total", 9 * ROUNDS);
    expect_exactly(f, "channeld_request_duration_seconds_count", 9 * ROUNDS);
    expect_exactly(f, AUTH("valid"), 5 * ROUNDS);
    expect_exactly(f, AUTH("missing"), ROUNDS);
    expect_exactly(f, AUTH("invalid"), ROUNDS);
    expect_exactly(f, AUTH("unavailable"), 0);
    expect_exactly(f, "channeld_requests_in_flight", 0);
}

/* Of what was read: invalid dates and those of the far future do not count. */
TEST_CASE_WITH(newest_update_of_what_was_read_is_shown, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    const char *metric = "channeld_catalogue_updated_timestamp_seconds";
    redis_do(&f->redis, "DEL channels:index");
    redis_do(&f->redis, "HSET channels:card:901 title a updated_at 2020-11-01T00:00:00");
    redis_do(&f->redis, "HSET channels:card:902 title b updated_at 2020-11-03T00:00:00");
    redis_do(&f->redis, "HSET channels:card:903 title c updated_at 2020-11-02T00:00:00");
    redis_do(&f->redis, "HSET channels:card:904 title d updated_at 9999-11-02T00:00:00");
    redis_do(&f->redis, "HSET channels:card:905 title e updated_at 2020-11-31T00:00:00");
    expect_exactly(f, metric, 0);
    assert_int_equal(fixture_status(f, "channel/by-id/901/"), 200);
    expect_exactly(f, metric, 1604188800);
    redis_do(&f->redis, "ZADD channels:index 1 901 2 902 3 903 4 904 5 905");
    assert_int_equal(fixture_status(f, "channels/"), 200);
    expect_exactly(f, metric, 1604361600);
}

/* A request that waits for Redis is in flight; so it is no more when its client has gone or it was answered.
 */
TEST_CASE_WITH(requests_in_flight_are_those_that_wait, set_up, fixture_teardown)
{
    struct fixture *f = *state;
    struct http_conn waiting;
    struct http_conn leaving;
    const char *request = "GET /api/channel/by-id/77/ HTTP/1.1\r\nHost: x\r\n" FIXTURE_AUTH "\r\n";
    redis_pause(&f->redis);
    assert_int_equal(http_open(&waiting, f->server.port), 0);
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

TEST_CASE_WITH(the_process_is_described, set_up, fixture_teardown)
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
    expect_exactly(f, "channeld_build_info", 1);
    expect_exactly(f, "channeld_workers", 2);
    expect_exactly(f, "channeld_worker_redis_connected", 2);
    expect_exactly(f, "channeld_worker_redis_connected{worker=\"1\"}", 1);
    expect_exactly(f, "channeld_ready", 1);
    expect_exactly(f, "channeld_log_lines_dropped_total", 0);
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
