/* Bodies of requests are read and dropped, up to 64 KiB. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const size_t BODY_LIMIT = 65536;

static int start(void **state)
{
    *state = fixture_new(3, NULL);
    return 0;
}

static char *request_with_length(size_t length)
{
    char *body = text_repeat('b', length);
    char *request =
        text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n" FIXTURE_AUTH "\r\n%s",
                    length, body);
    free(body);
    return request;
}

/* The body comes in chunks of at most that size. */
static char *request_with_chunks(size_t length, size_t chunk)
{
    char *request = text_printf(
        "GET /api/channels/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" FIXTURE_AUTH "\r\n");
    while (length > 0) {
        size_t size = length < chunk ? length : chunk;
        char *data = text_repeat('c', size);
        char *piece = text_printf("%zx\r\n%s\r\n", size, data);
        request = text_append(request, piece);
        length -= size;
        free(piece);
        free(data);
    }
    return text_append(request, "0\r\n\r\n");
}

/* Served, and so is a request after it on the same connection. Frees the request. */
static void assert_served(struct fixture *fixture, char *request)
{
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_send_text(&conn, request), 0);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    assert_int_equal(http_exchange(&conn, "GET", "/api/channel/by-id/0/", FIXTURE_AUTH, &response), 0);
    assert_int_equal(response.status, 200);
    http_response_free(&response);
    http_close(&conn);
    free(request);
}

static void assert_refused(struct fixture *fixture, char *request)
{
    http_expect_refusal(fixture->server.port, request, strlen(request), 413);
    free(request);
}

static void bodies_up_to_the_limit_are_dropped(void **state)
{
    assert_served(*state, request_with_length(0));
    assert_served(*state, request_with_length(1));
    assert_served(*state, request_with_length(BODY_LIMIT));
}

static void longer_bodies_are_refused(void **state)
{
    assert_refused(*state, request_with_length(BODY_LIMIT + 1));
    assert_refused(*state, request_with_length(BODY_LIMIT * 16));
}

static void refusal_does_not_wait_for_the_body(void **state)
{
    assert_refused(
        *state,
        text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", BODY_LIMIT + 1));
    assert_refused(*state, text_printf("GET /api/channels/ HTTP/1.1\r\nHost: a\r\n"
                                       "Content-Length: 9223372036854775807\r\n\r\n"));
}

static void chunked_bodies_up_to_the_limit_are_dropped(void **state)
{
    assert_served(*state, request_with_chunks(0, 1));
    assert_served(*state, request_with_chunks(5, 1));
    assert_served(*state, request_with_chunks(BODY_LIMIT, BODY_LIMIT));
    assert_served(*state, request_with_chunks(BODY_LIMIT, 1000));
}

static void longer_chunked_bodies_are_refused(void **state)
{
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, BODY_LIMIT + 1));
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, 1000));
    assert_refused(*state, request_with_chunks(BODY_LIMIT + 1, BODY_LIMIT));
}

static void endless_chunks_are_refused(void **state)
{
    assert_refused(*state, request_with_chunks(BODY_LIMIT * 8, 4096));
}

/* Whatever the answer would have been: too much is refused before routing. */
static void refusal_comes_before_routing(void **state)
{
    char *request =
        text_printf("POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", BODY_LIMIT + 1);
    assert_refused(*state, request);
}

static void limit_can_be_changed(void **state)
{
    static const char *const env[] = {"CHANNELD_MAX_BODY_SIZE=1KiB", NULL};
    struct fixture *fixture = fixture_new(3, env);
    (void)state;
    assert_served(fixture, request_with_length(1024));
    assert_refused(fixture, request_with_length(1025));
    assert_served(fixture, request_with_chunks(1024, 100));
    assert_refused(fixture, request_with_chunks(1025, 100));
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_up_to_the_limit_are_dropped),
        cmocka_unit_test(longer_bodies_are_refused),
        cmocka_unit_test(refusal_does_not_wait_for_the_body),
        cmocka_unit_test(chunked_bodies_up_to_the_limit_are_dropped),
        cmocka_unit_test(longer_chunked_bodies_are_refused),
        cmocka_unit_test(endless_chunks_are_refused),
        cmocka_unit_test(refusal_comes_before_routing),
        cmocka_unit_test(limit_can_be_changed),
    };
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
