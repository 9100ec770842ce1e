/*
 * Headers of responses: those of all, those of some; conditional requests (If-None-Match), and requests of
 * web pages of other origins (CORS).
 */

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

FIXTURE(5, "CHANNELD_CORS_ORIGINS=https://app.example,http://localhost:3000", NULL)

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
        AUTO(http_response_free) struct http_response response;
        get_answer(*state, i, &response);
        assert_string_equal(http_header(&response, "Content-Type"), "application/json");
        assert_string_equal(http_header(&response, "X-Content-Type-Options"), "nosniff");
        assert_int_equal(strtoul(http_header(&response, "Content-Length"), NULL, 10), response.body_length);
        assert_date(http_header(&response, "Date"));
        for (size_t h = 0; h < response.header_count; h++)
            assert_int_equal(http_header_count(&response, response.headers[h].name), 1);
    }
}

TEST_CASE(every_body_is_an_envelope)
{
    for (size_t i = 0; i < TEST_COUNT(answers); i++) {
        AUTO(http_response_free) struct http_response response;
        get_answer(*state, i, &response);
        if (response.status == 200)
            json_assert_at(response.body, "success", "true");
        else
            json_assert_error(response.body);
    }
}

TEST_CASE(successes_carry_a_strong_etag_and_cache_control)
{
    for (size_t i = 0; i < TEST_COUNT(answers); i++) {
        AUTO(http_response_free) struct http_response response;
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
    }
}

/* No server name, no cookies. */
TEST_CASE(unneeded_headers_are_absent)
{
    static const char *const unwanted[] = {"Server", "X-Powered-By", "Set-Cookie", "Transfer-Encoding"};
    AUTO(http_response_free) struct http_response response;
    fixture_get(*state, "channels/", &response);
    for (size_t i = 0; i < TEST_COUNT(unwanted); i++)
        assert_null(http_header(&response, unwanted[i]));
}

static void assert_request_id(struct fixture *fixture, const char *id, bool echoed)
{
    for (size_t i = 0; i < 7; i++) {
        AUTO(http_response_free) struct http_response response;
        http_get(fixture->server.port, answers[i].target,
                 text_temp("%sX-Request-Id: %s\r\n", answers[i].headers ? answers[i].headers : "", id),
                 &response);
        const char *answer = http_header(&response, "X-Request-Id");
        if (echoed && answer == NULL)
            fail_msg("%s is not echoed with %d", id, response.status);
        else if (echoed)
            assert_string_equal(answer, id);
        else
            assert_true(answer == NULL || strcmp(answer, id) != 0);
    }
}

TEST_CASE(good_request_ids_are_echoed)
{
    AUTOFREE char *longest = text_repeat('r', 128);
    assert_request_id(*state, "a", true);
    assert_request_id(*state, "0123456789-ABC_xyz.9", true);
    assert_request_id(*state, longest, true);
}

TEST_CASE(other_request_ids_are_not_echoed)
{
    AUTOFREE char *too_long = text_repeat('r', 129);
    static const char *const ids[] = {"a b", "a/b", "\"a\"", "<script>", "a;b", "\xC3\xA9", "a:b", "a,b"};
    assert_request_id(*state, too_long, false);
    for (size_t i = 0; i < TEST_COUNT(ids); i++)
        assert_request_id(*state, ids[i], false);
}

TEST_CASE(request_id_is_not_carried_over_to_the_next_request)
{
    struct fixture *fixture = *state;
    struct http_response response;
    struct http_conn conn = http_connect(fixture->server.port);
    assert_int_equal(http_exchange(&conn, "GET", "/nothing", "X-Request-Id: one\r\n", &response), 0);
    assert_string_equal(http_header(&response, "X-Request-Id"), "one");
    http_response_free(&response);
    assert_int_equal(http_exchange(&conn, "GET", "/nothing", NULL, &response), 0);
    assert_string_not_equal(http_header(&response, "X-Request-Id"), "one"); /* an error has one of its own */
    http_response_free(&response);
    http_close(&conn);
}

/* ---- If-None-Match ---- */

static const char *const targets[] = {
    "/api/channels/",
    "/api/channel/by-id/0/",
    "/api/channel/by-link/?link=https://max.ru/sample_1",
};

/* The tag of the resource as it is now, owned. */
static char *etag_of(struct fixture *fixture, const char *target)
{
    AUTO(http_response_free) struct http_response response;
    http_get(fixture->server.port, target, FIXTURE_AUTH, &response);
    assert_int_equal(response.status, 200);
    char *etag = text_printf("%s", http_header(&response, "ETag"));
    return etag;
}

/* One request with that condition; asserts what belongs to a 304. */
static int status_with(struct fixture *fixture, const char *target, const char *condition)
{
    AUTO(http_response_free) struct http_response response;
    AUTOFREE char *headers = text_printf("%sIf-None-Match: %s\r\n", FIXTURE_AUTH, condition);
    AUTOFREE char *etag = etag_of(fixture, target);
    struct http_conn conn = http_connect(fixture->server.port);
    assert_int_equal(http_exchange(&conn, "GET", target, headers, &response), 0);
    int status = response.status;
    if (status == 304) {
        assert_int_equal(response.body_length, 0);
        assert_string_equal(http_header(&response, "ETag"), etag);
        assert_string_equal(http_header(&response, "Cache-Control"), "private, no-cache");
        assert_non_null(http_header(&response, "Date"));
    }
    /* A body after a 304 would be read as the next answer. */
    http_ask(&conn, "GET", target, FIXTURE_AUTH, 200);
    http_close(&conn);
    return status;
}

static void assert_condition(struct fixture *fixture, const char *format_with_tag, int status)
{
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        const char *place = strchr(format_with_tag, '@');
        size_t before = place != NULL ? (size_t)(place - format_with_tag) : strlen(format_with_tag);
        AUTOFREE char *etag = etag_of(fixture, targets[i]);
        AUTOFREE char *condition = text_printf("%.*s%s%s", (int)before, format_with_tag,
                                               place != NULL ? etag : "", place != NULL ? place + 1 : "");
        int actual = status_with(fixture, targets[i], condition);
        if (actual != status)
            fail_msg("If-None-Match: %s: %d", condition, actual);
    }
}

/* @ stands for the current tag. */
TEST_CASE(matching_tags_are_304)
{
    static const char *const conditions[] = {
        "@",           "W/@",     "*",         "\"other\", @", "@, \"other\"", "\"other\",W/@,\"another\"",
        "W/\"x\" , @", "\"\", @", "\"a,b\", @"};
    for (size_t i = 0; i < TEST_COUNT(conditions); i++)
        assert_condition(*state, conditions[i], 304);
}

TEST_CASE(other_tags_are_200)
{
    static const char *const conditions[] = {"\"other\"", "W/\"other\"", "\"other\", \"another\"",
                                             "\"\"",      "other",       "\"*\""};
    for (size_t i = 0; i < TEST_COUNT(conditions); i++)
        assert_condition(*state, conditions[i], 200);
}

TEST_CASE(every_worker_gives_the_same_tag)
{
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        AUTOFREE char *first = etag_of(*state, targets[i]);
        for (int round = 0; round < 20; round++) {
            AUTOFREE char *etag = etag_of(*state, targets[i]);
            assert_string_equal(etag, first);
        }
    }
}

TEST_CASE(different_content_has_different_tags)
{
    AUTOFREE char *one = etag_of(*state, "/api/channel/by-id/0/");
    AUTOFREE char *two = etag_of(*state, "/api/channel/by-id/-1/");
    assert_string_not_equal(one, two);
}

TEST_CASE(changed_content_has_a_new_tag)
{
    struct fixture *fixture = *state;
    AUTOFREE char *old = etag_of(fixture, "/api/channel/by-id/0/");
    redis_do(&fixture->redis, "HSET channels:card:0 title changed");
    for (int i = 0; i < 8; i++) /* each worker */
        fixture_await_text(fixture, "channel/by-id/0/", "\"changed\"", true);
    assert_int_equal(status_with(fixture, "/api/channel/by-id/0/", old), 200);
}

/* A condition never hides an error, nor replaces a key. */
TEST_CASE(errors_are_not_304)
{
    struct fixture *fixture = *state;
    assert_int_equal(http_get_status(fixture->server.port, "/api/channel/by-id/4242/",
                                     FIXTURE_AUTH "If-None-Match: *\r\n"),
                     404);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", "If-None-Match: *\r\n"), 401);
    assert_int_equal(
        http_get_status(fixture->server.port, "/api/channels/?page=0", FIXTURE_AUTH "If-None-Match: *\r\n"),
        400);
}

/* ---- If-Match ---- */

/* The fields with the current tag in place of each @, owned. */
static char *fields_with(const char *fields, const char *etag)
{
    char *text = text_printf("%s", FIXTURE_AUTH);
    for (const char *at = fields; *at != '\0'; at++)
        text = text_append(text, *at == '@' ? etag : text_temp("%c", *at));
    return text_append(text, "\r\n");
}

static void assert_fields(struct fixture *fixture, const char *target, const char *fields, int status)
{
    AUTO(http_response_free) struct http_response response;
    AUTOFREE char *etag = etag_of(fixture, target);
    AUTOFREE char *headers = fields_with(fields, etag);
    http_get(fixture->server.port, target, headers, &response);
    if (response.status != status)
        fail_msg("%s with %s: %d", target, fields, response.status);
    if (status != 412) {
        assert_string_equal(http_header(&response, "ETag"), etag);
        return;
    }
    json_assert_at(response.body, "success", "false");
    json_assert_at(response.body, "error", "\"Precondition failed\"");
    assert_string_equal(http_header(&response, "Cache-Control"), "no-store");
    assert_null(http_header(&response, "ETag"));
}

/* RFC 9110 sections 13.1.1 and 13.2.2: strong comparison, and before If-None-Match. */
TEST_CASE(if_match_is_412_unless_the_tag_is_current)
{
    static const struct {
        const char *fields;
        int status;
    } rows[] = {
        {"If-Match: @", 200},
        {"If-Match: *", 200},
        {"If-Match: \"other\", @", 200},
        {"If-Match: \"other\"\r\nIf-Match: @", 200},
        {"If-Match: \"other\"", 412},
        {"If-Match: W/@", 412},
        {"If-Match: other", 412},
        {"If-Match: \"*\"", 412},
        {"If-Match: @\r\nIf-None-Match: @", 304},
        {"If-Match: *\r\nIf-None-Match: *", 304},
        {"If-Match: @\r\nIf-None-Match: \"other\"", 200},
        {"If-Match: \"other\"\r\nIf-None-Match: @", 412},
        {"If-Match: \"other\"\r\nIf-None-Match: \"other\"", 412},
    };
    for (size_t t = 0; t < TEST_COUNT(targets); t++)
        for (size_t i = 0; i < TEST_COUNT(rows); i++)
            assert_fields(*state, targets[t], rows[i].fields, rows[i].status);
    assert_fields(*state, "/api/openapi.json", "If-Match: \"other\"", 412);
}

/* A precondition is evaluated for what would be a 200 (section 13.2.1). */
TEST_CASE(errors_are_not_412)
{
    static const char fields[] = FIXTURE_AUTH "If-Match: \"other\"\r\n";
    struct fixture *fixture = *state;
    assert_int_equal(http_get_status(fixture->server.port, "/api/channel/by-id/4242/", fields), 404);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/?page=0", fields), 400);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", "If-Match: \"other\"\r\n"), 401);
}

/* ---- CORS: off by default, on for the origins that are listed ---- */

#define PREFLIGHT "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: x-api-key\r\n"

static void get_with_origin(struct fixture *fixture, const char *method, const char *origin, const char *more,
                            struct http_response *response)
{
    AUTOFREE char *headers = text_printf("Origin: %s\r\n%s", origin, more);
    http_call(fixture->server.port, method, "/api/channels/", headers, response);
}

TEST_CASE(cors_is_off_by_default)
{
    struct fixture *fixture = fixture_new(1, NULL);
    struct http_response response;
    get_with_origin(fixture, "GET", "https://app.example", FIXTURE_AUTH, &response);
    assert_int_equal(response.status, 200);
    assert_null(http_header(&response, "Access-Control-Allow-Origin"));
    http_response_free(&response);
    get_with_origin(fixture, "OPTIONS", "https://app.example", PREFLIGHT, &response);
    assert_int_equal(response.status, 405);
    assert_null(http_header(&response, "Access-Control-Allow-Origin"));
    http_response_free(&response);
    fixture_free(fixture);
}

TEST_CASE(named_origins_are_allowed)
{
    static const char *const origins[] = {"https://app.example", "http://localhost:3000"};
    for (size_t i = 0; i < TEST_COUNT(origins); i++) {
        AUTO(http_response_free) struct http_response response;
        get_with_origin(*state, "GET", origins[i], FIXTURE_AUTH, &response);
        assert_int_equal(response.status, 200);
        assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), origins[i]);
        assert_non_null(http_header(&response, "Vary"));
        assert_non_null(strcasestr(http_header(&response, "Vary"), "Origin"));
        assert_null(http_header(&response, "Access-Control-Allow-Credentials"));
    }
}

/* A web page has to be able to read the error. */
TEST_CASE(errors_can_be_read_by_named_origins)
{
    AUTO(http_response_free) struct http_response response;
    get_with_origin(*state, "GET", "https://app.example", "", &response);
    assert_int_equal(response.status, 401);
    assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), "https://app.example");
}

/* Those that end the connection too, if the origin was read before the error. */
TEST_CASE(rejections_can_be_read_by_named_origins)
{
    AUTOFREE char *large = text_repeat('x', 20000);
    AUTOFREE char *long_field = text_printf("X: %s\r\n", large);
    const struct {
        const char *headers;
        int status;
    } rows[] = {{long_field, 431},
                {"Transfer-Encoding: gzip, chunked\r\n", 501},
                {"Content-Length: 99999999\r\n", 413},
                {"Bad : x\r\n", 400}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTO(http_response_free) struct http_response response;
        get_with_origin(*state, "GET", "https://app.example",
                        text_temp("X-Request-Id: mine\r\n%s", rows[i].headers), &response);
        assert_int_equal(response.status, rows[i].status);
        assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), "https://app.example");
        assert_string_equal(http_header(&response, "X-Request-Id"), "mine");
        assert_string_equal(http_header(&response, "Connection"), "close");
    }
}

TEST_CASE(rejections_cannot_be_read_by_other_origins)
{
    AUTOFREE char *large = text_repeat('x', 20000);
    AUTO(http_response_free) struct http_response response;
    get_with_origin(*state, "GET", "https://other.example", text_temp("X: %s\r\n", large), &response);
    assert_int_equal(response.status, 431);
    assert_null(http_header(&response, "Access-Control-Allow-Origin"));
    assert_string_equal(http_header(&response, "Vary"), "Origin");
}

TEST_CASE(preflight_is_answered_without_a_key)
{
    AUTO(http_response_free) struct http_response response;
    get_with_origin(*state, "OPTIONS", "https://app.example", PREFLIGHT, &response);
    assert_int_equal(response.status, 204);
    assert_string_equal(http_header(&response, "Allow"), "GET, HEAD, OPTIONS");
    assert_string_equal(http_header(&response, "Access-Control-Allow-Origin"), "https://app.example");
    assert_non_null(http_header(&response, "Access-Control-Allow-Methods"));
    assert_non_null(strstr(http_header(&response, "Access-Control-Allow-Methods"), "GET"));
    assert_non_null(http_header(&response, "Access-Control-Allow-Headers"));
    static const char *const fields[] = {"x-api-key", "traceparent", "tracestate", "baggage"};
    for (size_t i = 0; i < TEST_COUNT(fields); i++)
        assert_non_null(strcasestr(http_header(&response, "Access-Control-Allow-Headers"), fields[i]));
}

TEST_CASE(preflight_leaves_the_connection_in_step)
{
    struct fixture *fixture = *state;
    AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
    http_ask(&conn, "OPTIONS", "/api/channels/", "Origin: https://app.example\r\n" PREFLIGHT, 204);
    http_ask(&conn, "GET", "/api/channels/", FIXTURE_AUTH, 200);
}
