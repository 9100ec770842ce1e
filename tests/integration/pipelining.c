/* Pipelined requests: all answered, in order, and no faster than the client reads. */

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 120, PIPELINED = 50 };

FIXTURE(CHANNELS, NULL)

/* Request i of a mixed sequence, owned. */
static char *mixed_request(size_t i)
{
    char *target = NULL;
    switch (i % 5) {
    case 0:
        target = text_printf("/api/channel/by-id/%" PRId64 "/", catalogue_id(i));
        break;
    case 1:
        target = text_printf("/api/channels/?page=%zu", i);
        break;
    case 2:
        target = text_printf("/api/channel/by-link/?link=https://web.max.ru/sample_%zu", i);
        break;
    case 3:
        target = text_printf("/api/channel/by-id/77777%zu/", i);
        break;
    default:
        target = text_printf("/nothing/%zu", i);
        break;
    }
    char *request = http_format("GET", target, FIXTURE_AUTH);
    free(target);
    return request;
}

static void assert_mixed_answer(size_t i, const struct http_response *response)
{
    char *card = catalogue_card(i);
    char *expected = text_printf("{\"success\":true,\"data\":%s}", card);
    switch (i % 5) {
    case 0:
    case 2:
        assert_int_equal(response->status, 200);
        json_assert_same(response->body, expected);
        break;
    case 1:
        assert_int_equal(response->status, 200);
        assert_int_equal(json_integer_at(response->body, "pagination.page"), i);
        break;
    default:
        assert_int_equal(response->status, 404);
        break;
    }
    free(expected);
    free(card);
}

TEST_CASE(fifty_requests_in_one_write_are_answered_in_order)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    char *requests = text_repeat(' ', 0);
    for (size_t i = 0; i < PIPELINED; i++) {
        char *request = mixed_request(i);
        requests = text_append(requests, request);
        free(request);
    }
    for (int round = 0; round < 3; round++) {
        assert_int_equal(http_open(&conn, fixture->server.port), 0);
        assert_int_equal(http_send_text(&conn, requests), 0);
        for (size_t i = 0; i < PIPELINED; i++) {
            struct http_response response;
            assert_int_equal(http_read(&conn, false, &response), 0);
            assert_mixed_answer(i, &response);
            http_response_free(&response);
        }
        http_close(&conn);
    }
    free(requests);
}

TEST_CASE(pipelined_requests_with_bodies_and_heads_stay_in_step)
{
    static const char requests[] =
        "HEAD /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"
        "GET /api/channel/by-id/1/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n" FIXTURE_AUTH
        "\r\nGET /GET /api/channel/by-id/-1/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"
        "POST /api/channels/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n0\r\n\r\n"
        "GET /api/channel/by-id/0/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n";
    static const int statuses[] = {200, 200, 200, 405, 200};
    static const int64_t ids[] = {0, 1, -1, 0, 0};
    struct fixture *fixture = *state;
    struct http_conn conn;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, requests), 0);
    for (size_t i = 0; i < TEST_COUNT(statuses); i++) {
        struct http_response response;
        assert_int_equal(http_read(&conn, i == 0, &response), 0);
        assert_int_equal(response.status, statuses[i]);
        if (i > 0 && statuses[i] == 200)
            assert_int_equal(json_integer_at(response.body, "data.max_channel_id"), ids[i]);
        http_response_free(&response);
    }
    http_close(&conn);
}

enum { FLOOD = 4000, PADDING = 8000 };

struct flood {
    struct http_conn conn;
    char *request;
    atomic_int sent;
    atomic_int error;
    int seen; /* by the stalled() below */
};

/* Blocks as soon as the server stops reading. */
static void *send_flood(void *arg)
{
    struct flood *flood = arg;
    for (int i = 0; i < FLOOD && atomic_load(&flood->error) == 0; i++) {
        atomic_store(&flood->error, http_send_text(&flood->conn, flood->request));
        atomic_fetch_add(&flood->sent, 1);
    }
    return NULL;
}

static bool has_not_moved(void *arg)
{
    struct flood *flood = arg;
    return atomic_load(&flood->sent) == flood->seen;
}

static bool has_stalled(void *arg)
{
    struct flood *flood = arg;
    flood->seen = atomic_load(&flood->sent);
    return wait_holds(has_not_moved, flood, 300);
}

TEST_CASE(client_that_does_not_read_is_not_read_from)
{
    struct fixture *fixture = *state;
    struct flood flood = {.seen = 0};
    pthread_t thread;
    char *padding = text_repeat('x', PADDING);
    char *headers = text_printf("%sX-Padding: %s\r\n", FIXTURE_AUTH, padding);
    flood.request = http_format("GET", "/api/channels/", headers);
    assert_int_equal(http_open(&flood.conn, fixture->server.port), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_flood, &flood), 0);
    assert_true(wait_until(has_stalled, &flood, WAIT_DEADLINE_MS / 2));
    assert_in_range(flood.seen, 1, FLOOD - 1);
    for (int i = 0; i < FLOOD; i++) {
        http_expect(&flood.conn, 200);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&flood.error), 0);
    http_close(&flood.conn);
    free(flood.request);
    free(headers);
    free(padding);
}
