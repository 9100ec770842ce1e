/* A Redis that keeps its connections and does not answer. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 60, REQUEST_TIMEOUT_MS = 500, RECOVERY_MS = 2000 };

static const char FAILED[] = "channeld_requests_total{route=\"card_by_id\",status=\"500\"}";

FIXTURE(CHANNELS, "CHANNELD_REQUEST_TIMEOUT=500ms", NULL)

static char *path_of(size_t n)
{
    return text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
}

/* Channels that no request asked for before cannot be answered from memory. */
static void expect_500_in_time(struct fixture *fixture, size_t n)
{
    struct http_response response;
    char *path = path_of(n);
    int64_t began = wait_now_ms();
    fixture_get(fixture, path, &response);
    assert_in_range(wait_now_ms() - began, 0, REQUEST_TIMEOUT_MS + wait_slack_ms());
    assert_int_equal(response.status, 500);
    assert_string_equal(http_header(&response, "Retry-After"), "1");
    json_assert_same(response.body, "{\"success\":false,\"error\":\"Internal server error\"}");
    http_response_free(&response);
    free(path);
}

static bool serves_the_first_card(void *arg)
{
    struct http_response response;
    char *path = path_of(0);
    fixture_get(arg, path, &response);
    bool served = response.status == 200;
    http_response_free(&response);
    free(path);
    return served;
}

static void expect_recovery(struct fixture *fixture)
{
    redis_resume(&fixture->redis);
    assert_true(wait_until(serves_the_first_card, fixture, RECOVERY_MS));
}

/* A reply that comes after its request has given up must not become the answer to another. */
static void expect_right_cards(struct fixture *fixture)
{
    for (size_t n = 0; n < CHANNELS; n++) {
        char *path = path_of(n);
        char *card = catalogue_card(n);
        fixture_expect_card(fixture, path, card);
        free(card);
        free(path);
    }
}

TEST_CASE(stalled_redis_is_500_in_time_and_right_again_afterwards)
{
    struct fixture *fixture = *state;
    redis_pause(&fixture->redis);
    for (size_t n = 10; n < 16; n++)
        expect_500_in_time(fixture, n);
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    expect_recovery(fixture);
    expect_right_cards(fixture);
    assert_true(server_metric(&fixture->server, FAILED) >= 6);
}

TEST_CASE(pause_shorter_than_the_timeout_costs_no_request)
{
    struct fixture *fixture = fixture_new(3, NULL);
    struct http_conn conn;
    struct http_response response;
    char *request = http_format("GET", "/api/channel/by-id/0/", FIXTURE_AUTH);
    redis_pause(&fixture->redis);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, request), 0);
    assert_false(http_is_readable(&conn, 200));
    redis_resume(&fixture->redis);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_int_equal(response.status, 200);
    assert_int_equal(json_integer_at(response.body, "data.max_channel_id"), 0);
    http_response_free(&response);
    http_close(&conn);
    free(request);
    fixture_free(fixture);
}

TEST_CASE(clients_that_leave_while_waiting_do_no_harm)
{
    struct fixture *fixture = *state;
    redis_pause(&fixture->redis);
    for (size_t n = 20; n < 50; n++) {
        struct http_conn conn;
        char *target = text_printf("/api/channel/by-id/%lld/", (long long)catalogue_id(n));
        http_start_get(&conn, fixture->server.port, target, FIXTURE_AUTH);
        (void)http_is_readable(&conn, 2);
        http_close(&conn);
        free(target);
    }
    expect_recovery(fixture);
    expect_right_cards(fixture);
}

/* Pipelined requests that time out one after another still come back in order, then the right ones. */
TEST_CASE(pipelined_requests_time_out_in_order)
{
    static const int statuses[] = {500, 404, 500, 405};
    struct fixture *fixture = *state;
    struct http_conn conn;
    redis_pause(&fixture->redis);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(
        http_send_text(&conn, "GET /api/channel/by-id/91919191/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"
                              "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
                              "GET /api/channel/by-id/92929292/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"
                              "POST /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
        0);
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        http_expect(&conn, statuses[i]);
    }
    http_close(&conn);
    expect_recovery(fixture);
    expect_right_cards(fixture);
}
