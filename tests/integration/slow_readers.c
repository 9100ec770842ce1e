/*
 * Clients that do not read large responses: beyond CHANNELD_MAX_UNSENT further large responses are 503, and
 * nothing else is.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { TEXT = 1000000, SMALL = 60000 };

#define UNSENT      "channeld_responses_unsent_bytes"
#define CARD(digit) "/api/channel/by-id/90" #digit "/"

/* Three cards of the same size, larger than what the kernel takes, and a small one. */
static void store_cards(struct fixture *fixture)
{
    AUTOFREE char *text = text_repeat('x', TEXT);
    for (int id = 901; id <= 903; id++)
        redis_do(&fixture->redis, "HSET channels:card:%d max_channel_id %d description %s", id, id, text);
    text[SMALL] = '\0';
    redis_do(&fixture->redis, "HSET channels:card:904 max_channel_id 904 description %s", text);
}

/* The length of the body of one of the first three. */
static long card_length(void)
{
    static long length;
    if (length == 0) {
        AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, ENV("CHANNELD_WORKERS=1"));
        AUTO(http_response_free) struct http_response response;
        store_cards(fixture);
        fixture_get(fixture, "channel/by-id/901/", &response);
        assert_int_equal(response.status, 200);
        length = (long)response.body_length;
    }
    return length;
}

/* A server of one worker, with so many bytes for large responses. */
static struct fixture *start(long unsent_max)
{
    AUTOFREE char *limit = text_printf("CHANNELD_MAX_UNSENT=%ld", unsent_max);
    struct fixture *fixture = fixture_new(
        3, ENV("CHANNELD_WORKERS=1", "CHANNELD_WRITE_TIMEOUT=5m", "CHANNELD_DRAIN_TIMEOUT=1s", limit));
    store_cards(fixture);
    return fixture;
}

/* A client that requests the card and reads nothing. */
static void open_reader(struct http_pool *reader, struct fixture *fixture, const char *target)
{
    AUTOFREE char *request = http_format("GET", target, FIXTURE_AUTH);
    http_pool_open(reader, fixture->server.port, 1, 4096);
    http_pool_send(reader, request, strlen(request));
}

static void await_unsent(struct fixture *fixture, int cards)
{
    double bytes = cards * (double)card_length();
    server_await_metric_below(&fixture->server, UNSENT, bytes);
    server_await_metric(&fixture->server, UNSENT, bytes);
    fixture_expect_metric(fixture, UNSENT, bytes);
}

static void expect_no_room(struct http_conn *conn, const char *target)
{
    AUTO(http_response_free) struct http_response response = {0};
    assert_int_equal(http_exchange(conn, "GET", target, FIXTURE_AUTH, &response), 0);
    assert_int_equal(response.status, 503);
    json_assert_at(response.body, "error", "\"Too many large responses\"");
    assert_string_equal(http_header(&response, "Retry-After"), "1");
    assert_null(http_header(&response, "Connection"));
}

TEST_CASE(large_responses_without_room_are_503_and_all_others_are_sent)
{
    AUTO(fixture_drop) struct fixture *fixture = start(2 * card_length());
    AUTO(http_pool_close) struct http_pool first;
    AUTO(http_pool_close) struct http_pool second;
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    open_reader(&first, fixture, CARD(1));
    open_reader(&second, fixture, CARD(2));
    await_unsent(fixture, 2); /* exactly the limit */
    expect_no_room(&conn, CARD(3));
    http_ask(&conn, "GET", CARD(4), FIXTURE_AUTH, 200);
    http_ask(&conn, "GET", CARD(1), FIXTURE_AUTH, 200); /* which is held already */
    http_ask(&conn, "HEAD", CARD(3), FIXTURE_AUTH, 200);
    http_ask(&conn, "GET", CARD(3), FIXTURE_AUTH "If-None-Match: *\r\n", 304);
    http_ask(&conn, "GET", CARD(3), FIXTURE_WRONG, 401);
    http_pool_close(&first);
    await_unsent(fixture, 1);
    http_ask(&conn, "GET", CARD(3), FIXTURE_AUTH, 200);
    fixture_expect_metric(fixture, "channeld_requests_total{route=\"card_by_id\",status=\"503\"}", 1);
    fixture_expect_metric(fixture, "channeld_requests_in_flight", 0);
}

/* Readers of one response hold one body. */
TEST_CASE(a_body_counts_once)
{
    enum { READERS = 20 };
    AUTO(fixture_drop) struct fixture *fixture = start(card_length());
    AUTO(http_pool_close) struct http_pool readers;
    AUTOFREE char *request = http_format("GET", CARD(1), FIXTURE_AUTH);
    http_pool_open(&readers, fixture->server.port, READERS, 4096);
    http_pool_send(&readers, request, strlen(request));
    server_await_metric(&fixture->server, "channeld_requests_total", READERS);
    await_unsent(fixture, 1);
}
