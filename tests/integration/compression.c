/*
 * When content is compressed, and that compressed responses are complete and current while channels change
 * and while there is no room for all. What is sent to whom: tests/integration/requests/compression.http.
 */

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "support/fixture.h"

static const char FIELDS[] = FIXTURE_AUTH "Accept-Encoding: zstd\r\n";

static struct fixture *new_fixture(const char *setting)
{
    return fixture_new(120, ENV("CHANNELD_WORKERS=1", setting));
}

static void get(struct fixture *f, const char *target, struct http_response *response)
{
    http_get(f->server.port, target, FIELDS, response);
    assert_int_equal(response->status, 200);
}

/* Asserts that the content, compressed or not, contains the text. */
static void assert_contains(const struct http_response *r, const char *text)
{
    enum { ROOM = 1 << 20 };
    if (http_header(r, "Content-Encoding") == NULL) {
        assert_non_null(strstr(r->body, text));
        return;
    }
    AUTOFREE char *content = text_repeat('\0', ROOM);
    assert_false(ZSTD_isError(ZSTD_decompress(content, ROOM, r->body, r->body_length)));
    assert_non_null(strstr(content, text));
}

static bool is_coded(void *arg)
{
    struct http_response *response = arg;
    int port = response->status;
    http_get(port, "/api/channels/", FIELDS, response);
    if (http_header(response, "Content-Encoding") != NULL)
        return true;
    http_response_free(response);
    response->status = port;
    return false;
}

/* A client may come back to another replica, or after the coded body was evicted. */
TEST_CASE(a_coded_tag_is_304_where_nothing_is_coded_yet)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    AUTO(fixture_drop) struct fixture *other = new_fixture(NULL);
    AUTO(http_response_free) struct http_response coded = {.status = f->server.port};
    AUTO(http_response_free) struct http_response response;
    assert_true(wait_until(is_coded, &coded, WAIT_DEADLINE_MS));
    const char *tag = http_header(&coded, "ETag");
    http_get(other->server.port, "/api/channels/", text_temp("%sIf-None-Match: %s\r\n", FIELDS, tag),
             &response);
    assert_int_equal(response.status, 304);
    assert_string_equal(http_header(&response, "ETag"), tag);
    assert_true(server_metric(&other->server, "channeld_cache_coded_total") == 0);
}

/* Every change falls into the coding of the page; once it shows in plain content it shows in coded content
 * too. */
TEST_CASE(a_body_that_was_coded_during_a_change_is_never_sent)
{
    enum { CHANGES = 50, BURST = 4 };
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    AUTO(http_close) struct http_conn conn = http_connect(f->server.port);
    for (int i = 0; i < CHANGES; i++) {
        AUTOFREE char *title = text_printf("\"title-%d\"", i);
        for (int n = 0; n < BURST; n++)
            http_ask(&conn, "GET", "/api/channels/", FIELDS, 200);
        redis_do(&f->redis, "HSET channels:card:0 title title-%d", i);
        fixture_await_text(f, "channels/", title, true);
        for (int n = 0; n < BURST; n++) {
            AUTO(http_response_free) struct http_response response;
            get(f, "/api/channels/", &response);
            assert_contains(&response, title);
        }
    }
}

TEST_CASE(the_process_ends_while_bodies_are_coded)
{
    static const char *const targets[] = {"/api/channels/", "/api/channels/?page=2"};
    struct fixture *f = new_fixture(NULL);
    for (size_t i = 0; i < 3 * TEST_COUNT(targets); i++) {
        AUTO(http_response_free) struct http_response response;
        get(f, targets[i / 3], &response);
    }
    fixture_free(f); /* asserts the exit code */
}
