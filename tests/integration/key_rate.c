/*
 * The rate limit of API keys: what is granted to a key whichever worker its requests come to, and as time
 * passes. What the client is told, and what counts: tests/integration/requests/rate.http.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

/* Few enough per second that a test knows how many were granted, and that a client need not wait for long. */
#define RATE "CHANNELD_KEY_RATE=60/m,burst=20"
#define CARD "/api/channel/by-id/0/"

enum { BURST = 20, CONNECTIONS = 48 };

static struct fixture *begin(void)
{
    return fixture_new(3, ENV(RATE, "CHANNELD_WORKERS=4"));
}

/* Sends requests, each over a connection of its own, until one is refused with *response. */
static void exhaust(struct fixture *fixture, struct http_response *response)
{
    for (int i = 0; i < 2000; i++) {
        http_get(fixture->server.port, CARD, FIXTURE_AUTH, response);
        if (response->status == 429)
            return;
        assert_int_equal(response->status, 200);
        http_response_free(response);
    }
    fail_msg("no request is refused");
}

static bool has_passed(void *arg)
{
    return wait_now_ms() >= *(int64_t *)arg;
}

static void let_pass(int64_t seconds)
{
    int64_t until = wait_now_ms() + seconds * 1000;
    assert_true(wait_until(has_passed, &until, WAIT_DEADLINE_MS));
}

TEST_CASE(workers_together_grant_no_more_than_the_policy)
{
    AUTO(fixture_drop) struct fixture *fixture = begin();
    double limited = server_metric(&fixture->server, "channeld_key_rate_limited_total");
    int64_t began = wait_now_ms();
    static struct http_conn conn[CONNECTIONS];
    AUTOFREE char *request = http_format("GET", CARD, FIXTURE_AUTH);
    int granted = 0;
    int refused = 0;
    for (int i = 0; i < CONNECTIONS; i++)
        conn[i] = http_connect(fixture->server.port);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CONNECTIONS; i++)
            assert_int_equal(http_send_text(&conn[i], request), 0);
        for (int i = 0; i < CONNECTIONS; i++) {
            AUTO(http_response_free) struct http_response response;
            assert_int_equal(http_read(&conn[i], false, &response), 0);
            granted += response.status == 200;
            refused += response.status == 429;
        }
    }
    int gained = (int)((wait_now_ms() - began) / 1000) + 1;
    assert_int_equal(granted + refused, 3 * CONNECTIONS);
    assert_true(granted >= BURST);
    assert_true(granted <= BURST + gained);
    assert_true(server_metric(&fixture->server, "channeld_key_rate_limited_total") - limited == refused);
    for (int i = 0; i < CONNECTIONS; i++)
        http_close(&conn[i]);
}

TEST_CASE(client_that_waits_as_told_is_served)
{
    AUTO(fixture_drop) struct fixture *fixture = begin();
    for (int i = 0; i < 2; i++) {
        AUTO(http_response_free) struct http_response response;
        exhaust(fixture, &response);
        let_pass(strtol(http_header(&response, "Retry-After"), NULL, 10));
        assert_int_equal(http_get_status(fixture->server.port, CARD, FIXTURE_AUTH), 200);
    }
}

static bool are_in_flight(void *arg)
{
    return server_metric(arg, "channeld_requests_in_flight") == 2 * BURST;
}

/* Nobody knows the key yet: it has no bucket when its requests come. */
TEST_CASE(requests_that_wait_for_the_check_of_their_key_are_limited_after_it)
{
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(3, ENV("CHANNELD_WORKERS=1", "CHANNELD_KEY_RATE=2/h,burst=20"));
    static struct http_conn conn[2 * BURST];
    int granted = 0;
    int refused = 0;
    AUTOFREE char *request = http_format("GET", CARD, "X-Api-Key: another\r\n");
    catalogue_issue_key(&fixture->redis, "another");
    redis_pause(&fixture->redis);
    for (int i = 0; i < 2 * BURST; i++) {
        conn[i] = http_connect(fixture->server.port);
        assert_int_equal(http_send_text(&conn[i], request), 0);
    }
    assert_true(wait_until(are_in_flight, &fixture->server, WAIT_DEADLINE_MS));
    redis_resume(&fixture->redis);
    for (int i = 0; i < 2 * BURST; i++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&conn[i], false, &response), 0);
        granted += response.status == 200;
        refused += response.status == 429;
        http_close(&conn[i]);
    }
    assert_int_equal(granted, BURST);
    assert_int_equal(refused, BURST);
}
