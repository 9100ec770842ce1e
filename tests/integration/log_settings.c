/* The settings of the log: they change while channeld runs, and a share of the requests is a fair one. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/secret.h"

enum { CHANNELS = 2 };

/* A channeld whose settings of the log are in files. */
struct bed {
    struct secret files;
    struct fixture *fixture;
};

static int begin(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);
    assert_non_null(bed);
    secret_init(&bed->files);
    SECRET(&bed->files, {"level", "info\n"}, {"access", "errors\n"});
    bed->fixture = fixture_new(
        CHANNELS, ENV(text_temp("CHANNELD_LOG_LEVEL_FILE=%s", secret_path(&bed->files, "level")),
                      text_temp("CHANNELD_ACCESS_LOG_FILE=%s", secret_path(&bed->files, "access"))));
    *state = bed;
    return 0;
}

static int end(void **state)
{
    struct bed *bed = *state;
    fixture_free(bed->fixture);
    secret_fini(&bed->files);
    free(bed);
    return 0;
}

static struct server *server_of(struct bed *bed)
{
    return &bed->fixture->server;
}

/* Sends a request to each of the two workers: of two connections each has one. */
static void request_of_both(struct bed *bed, const char *id)
{
    AUTOFREE char *headers = text_printf(FIXTURE_AUTH "X-Request-Id: %s\r\n", id);
    AUTOFREE char *request = http_format("GET", "/api/channels/", headers);
    struct http_conn conns[2];
    for (int i = 0; i < 2; i++)
        conns[i] = http_connect(server_of(bed)->port);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(http_send_text(&conns[i], request), 0);
        http_expect(&conns[i], 200);
    }
    for (int i = 0; i < 2; i++)
        http_close(&conns[i]);
}

static void hang_up(struct bed *bed, const char *level, const char *access, const char *logged)
{
    SECRET(&bed->files, {"level", level}, {"access", access});
    process_signal(&server_of(bed)->process, SIGHUP);
    server_await_log(server_of(bed), logged);
}

TEST_CASE_WITH(sighup_changes_the_log_of_all_workers, begin, end)
{
    struct bed *bed = *state;
    request_of_both(bed, "first");
    hang_up(bed, "info", "all", "\"access_log\":\"all\"");
    request_of_both(bed, "second");
    hang_up(bed, "error", "off", "\"access_log\":\"off\"");
    request_of_both(bed, "third");
    hang_up(bed, "debug", "100%", "\"access_log\":\"100%\"");
    request_of_both(bed, "fourth");
    server_expect_log(server_of(bed), "\"fourth\"", 2);
    server_expect_log(server_of(bed), "\"first\"", 0);
    server_expect_log(server_of(bed), "\"second\"", 2);
    server_expect_log(server_of(bed), "\"third\"", 0);
    server_expect_log(server_of(bed), "redis connected", 2); /* by the first connections, with their caches */
    assert_true(server_metric(server_of(bed), "channeld_cache_hits_total") >= 6);
}

TEST_CASE_WITH(files_that_change_need_no_sighup, begin, end)
{
    struct bed *bed = *state;
    SECRET(&bed->files, {"level", "info"}, {"access", "all"});
    server_await_log(server_of(bed), "\"access_log\":\"all\"");
    request_of_both(bed, "mine");
    server_expect_log(server_of(bed), "\"mine\"", 2);
    server_expect_log(server_of(bed), "SIGHUP", 0);
}

TEST_CASE_WITH(wrong_value_is_an_error_and_the_old_one_stays, begin, end)
{
    struct bed *bed = *state;
    hang_up(bed, "info", "all", "\"access_log\":\"all\"");
    hang_up(bed, "debug", "0.001%",
            "CHANNELD_ACCESS_LOG_FILE: off, errors, all or a share from 0.01% to 100%");
    hang_up(bed, "loud", "off", "CHANNELD_LOG_LEVEL_FILE: error|warn|info|debug is expected");
    request_of_both(bed, "mine");
    server_expect_log(server_of(bed), "\"mine\"", 2);
    server_expect_log(server_of(bed), "\"settings reloaded\"", 1);
    hang_up(bed, "warn", "99%", "\"access_log\":\"99%\"");
}

/*
 * A quarter of the requests, of each of 8 connections, whose requests come in turns: within six standard
 * deviations. Errors are logged without exception.
 */
TEST_CASE_WITH(share_is_the_same_for_all_connections, begin, end)
{
    enum { CONNECTIONS = 8, REQUESTS = 1200, MEAN = REQUESTS / 4, ERRORS = 50 };
    struct bed *bed = *state;
    struct http_conn conns[CONNECTIONS];
    char *requests[CONNECTIONS];
    hang_up(bed, "info", "25%", "\"access_log\":\"25%\"");
    for (int i = 0; i < CONNECTIONS; i++) {
        AUTOFREE char *headers = text_printf(FIXTURE_AUTH "X-Request-Id: client-%d\r\n", i);
        requests[i] = http_format("GET", "/api/channels/", headers);
        conns[i] = http_connect(server_of(bed)->port);
    }
    for (int n = 0; n < REQUESTS; n++)
        for (int i = 0; i < CONNECTIONS; i++) {
            assert_int_equal(http_send_text(&conns[i], requests[i]), 0);
            http_expect(&conns[i], 200);
        }
    for (int n = 0; n < ERRORS; n++)
        assert_int_equal(fixture_status(bed->fixture, "channel/by-id/4242/"), 404);
    assert_int_equal(http_get_status(server_of(bed)->port, "/nowhere", "X-Request-Id: last\r\n"), 404);
    server_await_log(server_of(bed), "\"last\"");
    AUTOFREE char *log = server_log(server_of(bed));
    assert_int_equal(text_count(log, "\"route\":\"card_by_id\",\"status\":404"), ERRORS);
    for (int i = 0; i < CONNECTIONS; i++) {
        AUTOFREE char *id = text_printf("\"client-%d\"", i);
        assert_in_range(text_count(log, id), MEAN - 6 * 15, MEAN + 6 * 15);
        http_close(&conns[i]);
        free(requests[i]);
    }
}
