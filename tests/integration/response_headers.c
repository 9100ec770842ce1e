/* Headers of every answer, and those that only some carry. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/fixture.h"

static const struct {
    const char *target;
    const char *headers;
    int status;
} answers[] = {
    {"/api/channels/", FIXTURE_AUTH, 200},
    {"/api/channel/by-id/0/", FIXTURE_AUTH, 200},
    {"/api/channel/by-link/?link=https://max.ru/sample_1", FIXTURE_AUTH, 200},
    {"/api/channels/?page=x", FIXTURE_AUTH, 400},
    {"/api/channels/", NULL, 401},
    {"/api/channel/by-id/4242/", FIXTURE_AUTH, 404},
    {"/nothing", NULL, 404},
    {"/api/channels/", "Host: again\r\n", 400},
};

FIXTURE(5, NULL)

static void get_answer(struct fixture *fixture, size_t i, struct http_response *response)
{
    http_get(fixture->server.port, answers[i].target, answers[i].headers, response);
    assert_int_equal(response->status, answers[i].status);
}

static void assert_date(const char *date)
{
    struct tm fields;
    assert_non_null(date);
    assert_int_equal(strlen(date), strlen("Sun, 06 Nov 1994 08:49:37 GMT"));
    memset(&fields, 0, sizeof fields);
    char *end = strptime(date, "%a, %d %b %Y %H:%M:%S GMT", &fields);
    assert_non_null(end);
    assert_string_equal(end, "");
    double age = difftime(time(NULL), timegm(&fields));
    assert_true(age > -3 && age < 3);
}

TEST_CASE(every_answer_carries_the_common_headers)
{
    for (size_t i = 0; i < TEST_COUNT(answers); i++) {
        struct http_response response;
        get_answer(*state, i, &response);
        assert_string_equal(http_header(&response, "Content-Type"), "application/json");
        assert_string_equal(http_header(&response, "X-Content-Type-Options"), "nosniff");
        assert_int_equal(strtoul(http_header(&response, "Content-Length"), NULL, 10), response.body_length);
        assert_date(http_header(&response, "Date"));
        for (size_t h = 0; h < response.header_count; h++)
            assert_int_equal(http_header_count(&response, response.headers[h].name), 1);
        http_response_free(&response);
    }
}

TEST_CASE(every_body_is_an_envelope)
{
    for (size_t i = 0; i < TEST_COUNT(answers); i++) {
        struct http_response response;
        get_answer(*state, i, &response);
        if (response.status == 200)
            json_assert_at(response.body, "success", "true");
        else
            json_assert_error(response.body);
        http_response_free(&response);
    }
}

TEST_CASE(successes_carry_a_strong_etag_and_cache_control)
{
    for (size_t i = 0; i < TEST_COUNT(answers); i++) {
        struct http_response response;
        get_answer(*state, i, &response);
        const char *etag = http_header(&response, "ETag");
        if (response.status == 200) {
            assert_non_null(etag);
            assert_int_equal(etag[0], '"');
            assert_true(strlen(etag) > 2 && etag[strlen(etag) - 1] == '"');
            assert_string_equal(http_header(&response, "Cache-Control"), "private, no-cache");
        } else {
            assert_null(etag);
        }
        http_response_free(&response);
    }
}

/* No server name, no cookies: nothing that the design does not name. */
TEST_CASE(answers_do_not_tell_more_than_needed)
{
    static const char *const unwanted[] = {"Server", "X-Powered-By", "Set-Cookie", "Transfer-Encoding"};
    struct http_response response;
    fixture_get(*state, "channels/", &response);
    for (size_t i = 0; i < TEST_COUNT(unwanted); i++)
        assert_null(http_header(&response, unwanted[i]));
    http_response_free(&response);
}

static void assert_request_id(struct fixture *fixture, const char *id, bool echoed)
{
    for (size_t i = 0; i < 7; i++) {
        struct http_response response;
        char *headers =
            text_printf("%sX-Request-Id: %s\r\n", answers[i].headers ? answers[i].headers : "", id);
        http_get(fixture->server.port, answers[i].target, headers, &response);
        const char *answer = http_header(&response, "X-Request-Id");
        if (echoed && answer == NULL)
            fail_msg("%s is not echoed with %d", id, response.status);
        else if (echoed)
            assert_string_equal(answer, id);
        else
            assert_true(answer == NULL || strcmp(answer, id) != 0);
        http_response_free(&response);
        free(headers);
    }
}

TEST_CASE(good_request_ids_are_echoed)
{
    char *longest = text_repeat('r', 128);
    assert_request_id(*state, "a", true);
    assert_request_id(*state, "0123456789-ABC_xyz.9", true);
    assert_request_id(*state, longest, true);
    free(longest);
}

TEST_CASE(other_request_ids_are_not_echoed)
{
    char *too_long = text_repeat('r', 129);
    static const char *const ids[] = {"a b", "a/b", "\"a\"", "<script>", "a;b", "\xC3\xA9", "a:b", "a,b"};
    assert_request_id(*state, too_long, false);
    for (size_t i = 0; i < TEST_COUNT(ids); i++)
        assert_request_id(*state, ids[i], false);
    free(too_long);
}

TEST_CASE(request_id_is_not_carried_over_to_the_next_request)
{
    struct fixture *fixture = *state;
    struct http_conn conn;
    struct http_response response;
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_exchange(&conn, "GET", "/nothing", "X-Request-Id: one\r\n", &response), 0);
    assert_string_equal(http_header(&response, "X-Request-Id"), "one");
    http_response_free(&response);
    assert_int_equal(http_exchange(&conn, "GET", "/nothing", NULL, &response), 0);
    assert_string_not_equal(http_header(&response, "X-Request-Id"), "one"); /* an error has one of its own */
    http_response_free(&response);
    http_close(&conn);
}
