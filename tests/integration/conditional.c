/* If-None-Match: when the client has it already, 304 and no body. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static const char *const targets[] = {
    "/api/channels/",
    "/api/channel/by-id/0/",
    "/api/channel/by-link/?link=https://max.ru/sample_1",
};

FIXTURE(5, NULL)

/* The tag of the resource as it is now, owned. */
static char *etag_of(struct fixture *fixture, const char *target)
{
    struct http_response response;
    http_get(fixture->server.port, target, FIXTURE_AUTH, &response);
    assert_int_equal(response.status, 200);
    char *etag = text_printf("%s", http_header(&response, "ETag"));
    http_response_free(&response);
    return etag;
}

/* One request with that condition; asserts what belongs to a 304. */
static int status_with(struct fixture *fixture, const char *target, const char *condition)
{
    struct http_conn conn;
    struct http_response response;
    char *headers = text_printf("%sIf-None-Match: %s\r\n", FIXTURE_AUTH, condition);
    char *etag = etag_of(fixture, target);
    assert_int_equal(http_open(&conn, fixture->server.port), 0);
    assert_int_equal(http_exchange(&conn, "GET", target, headers, &response), 0);
    int status = response.status;
    if (status == 304) {
        assert_int_equal(response.body_length, 0);
        assert_string_equal(http_header(&response, "ETag"), etag);
        assert_string_equal(http_header(&response, "Cache-Control"), "private, no-cache");
        assert_non_null(http_header(&response, "Date"));
    }
    http_response_free(&response);
    /* A body after a 304 would be read as the next answer. */
    http_ask(&conn, "GET", target, FIXTURE_AUTH, 200);
    http_close(&conn);
    free(etag);
    free(headers);
    return status;
}

static void assert_condition(struct fixture *fixture, const char *format_with_tag, int status)
{
    for (size_t i = 0; i < TEST_COUNT(targets); i++) {
        const char *place = strchr(format_with_tag, '@');
        size_t before = place != NULL ? (size_t)(place - format_with_tag) : strlen(format_with_tag);
        char *etag = etag_of(fixture, targets[i]);
        char *condition = text_printf("%.*s%s%s", (int)before, format_with_tag, place != NULL ? etag : "",
                                      place != NULL ? place + 1 : "");
        int actual = status_with(fixture, targets[i], condition);
        if (actual != status)
            fail_msg("If-None-Match: %s: %d", condition, actual);
        free(condition);
        free(etag);
    }
}

/* @ stands for the current tag. */
TEST_CASE(matching_tags_are_304)
{
    static const char *const conditions[] = {
        "@",           "W/@",     "*",          "\"other\", @", "@, \"other\"", "\"other\",W/@,\"another\"",
        "W/\"x\" , @", "\"\", @", "\"a,b\", @",
    };
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
        char *first = etag_of(*state, targets[i]);
        for (int round = 0; round < 20; round++) {
            char *etag = etag_of(*state, targets[i]);
            assert_string_equal(etag, first);
            free(etag);
        }
        free(first);
    }
}

TEST_CASE(different_content_has_different_tags)
{
    char *one = etag_of(*state, "/api/channel/by-id/0/");
    char *two = etag_of(*state, "/api/channel/by-id/-1/");
    assert_string_not_equal(one, two);
    free(one);
    free(two);
}

struct change {
    struct fixture *fixture;
    const char *old;
};

static bool has_a_new_tag(void *arg)
{
    struct change *change = arg;
    char *etag = etag_of(change->fixture, "/api/channel/by-id/0/");
    bool changed = strcmp(etag, change->old) != 0;
    free(etag);
    return changed;
}

TEST_CASE(changed_content_has_a_new_tag)
{
    struct fixture *fixture = *state;
    char *old = etag_of(fixture, "/api/channel/by-id/0/");
    struct change change = {.fixture = fixture, .old = old};
    redis_do(&fixture->redis, "HSET channels:card:0 title changed");
    assert_true(wait_until(has_a_new_tag, &change, 500));
    assert_int_equal(status_with(fixture, "/api/channel/by-id/0/", old), 200);
    free(old);
}

/* A condition never hides an error, nor lets anybody in. */
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
