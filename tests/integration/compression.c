/* Compressed responses: what is sent to whom, tags and conditions of each coding, and that they are as
 * current as plain ones. */

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "support/fixture.h"

enum { CHANNELS = 120 };

static const char GZIP[] = "Accept-Encoding: gzip\r\n";
static const char ZSTD[] = "Accept-Encoding: zstd\r\n";
static const char CODED_BYTES[] = "channeld_cache_coded_bytes";

#define LONG_CARD "channel/by-id/5/"

static const char *const paths[] = {"channels/", "channels/?page=2", LONG_CARD,
                                    "channel/by-link/?link=https://max.ru/five"};

/* A card that is long enough to be compressed. */
static void put_long_card(struct fixture *f)
{
    AUTOFREE char *text = text_fill("some text about the channel ", 1000);
    AUTOFREE char *card = text_printf(
        "{\"max_channel_id\":5,\"title\":\"five\",\"description\":\"%s\",\"link\":\"https://max.ru/five\"}",
        text);
    catalogue_put(&f->redis, card, -5);
}

static struct fixture *new_fixture(const char *setting)
{
    struct fixture *f = fixture_new(CHANNELS, ENV("CHANNELD_WORKERS=1", setting));
    put_long_card(f);
    return f;
}

static void call(struct fixture *f, const char *method, const char *path, const char *headers,
                 struct http_response *response)
{
    AUTOFREE char *target = text_printf("/api/%s", path);
    AUTOFREE char *all = text_printf("%s%s", FIXTURE_AUTH, headers == NULL ? "" : headers);
    http_call(f->server.port, method, target, all, response);
}

static void get(struct fixture *f, const char *path, const char *headers, struct http_response *response)
{
    call(f, "GET", path, headers, response);
}

/* The content, decoded by the libraries; owned. */
static char *decode(const struct http_response *r)
{
    enum { ROOM = 1 << 20 };
    const char *coding = http_header(r, "Content-Encoding");
    char *out = calloc(1, ROOM);
    size_t len = r->body_length;
    assert_non_null(out);
    if (coding == NULL) {
        memcpy(out, r->body, len);
    } else if (strcmp(coding, "gzip") == 0) {
        struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
        assert_int_equal(libdeflate_gzip_decompress(d, r->body, r->body_length, out, ROOM, &len),
                         LIBDEFLATE_SUCCESS);
        libdeflate_free_decompressor(d);
    } else {
        assert_string_equal(coding, "zstd");
        len = ZSTD_decompress(out, ROOM - 1, r->body, r->body_length);
        assert_false(ZSTD_isError(len));
    }
    out[len] = '\0';
    return out;
}

struct wanted {
    struct fixture *fixture;
    const char *path, *headers;
    const char *coding; /* NULL: none */
    const char *text;   /* in the decoded content, or NULL */
};

static bool is_sent(void *arg)
{
    const struct wanted *w = arg;
    AUTO(http_response_free) struct http_response response;
    get(w->fixture, w->path, w->headers, &response);
    assert_int_equal(response.status, 200);
    const char *coding = http_header(&response, "Content-Encoding");
    AUTOFREE char *content = decode(&response);
    bool same = w->coding == NULL ? coding == NULL : coding != NULL && strcmp(coding, w->coding) == 0;
    return same && (w->text == NULL || strstr(content, w->text) != NULL);
}

static void await_coded(struct fixture *f, const char *path, const char *headers, const char *coding,
                        const char *text)
{
    struct wanted w = {f, path, headers, coding, text};
    if (!wait_until(is_sent, &w, WAIT_DEADLINE_MS))
        fail_msg("%s with %s is never sent in %s", path, headers, coding);
}

static void expect_plain(struct fixture *f, const char *path, const char *headers)
{
    struct wanted w = {f, path, headers, NULL, NULL};
    for (int i = 0; i < 10; i++)
        assert_true(is_sent(&w));
}

/* The tag of the path in a coding, owned; "" stands for the plain one. */
static char *etag_of(struct fixture *f, const char *path, const char *headers, const char *coding)
{
    AUTO(http_response_free) struct http_response response;
    if (coding != NULL)
        await_coded(f, path, headers, coding, NULL);
    get(f, path, headers, &response);
    return text_printf("%s", http_header(&response, "ETag"));
}

TEST_CASE(coded_content_decodes_to_the_plain_content)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        AUTOFREE char *plain = fixture_body(f, paths[i]);
        for (int c = 0; c < 2; c++) {
            AUTO(http_response_free) struct http_response response;
            const char *coding = c == 0 ? "gzip" : "zstd";
            await_coded(f, paths[i], c == 0 ? GZIP : ZSTD, coding, NULL);
            get(f, paths[i], c == 0 ? GZIP : ZSTD, &response);
            AUTOFREE char *content = decode(&response);
            assert_string_equal(content, plain);
            assert_true(response.body_length < strlen(plain));
            assert_string_equal(http_header(&response, "Content-Type"), "application/json");
            assert_string_equal(http_header(&response, "Vary"), "Accept-Encoding");
            assert_string_equal(http_header(&response, "Cache-Control"), "private, no-cache");
        }
    }
    assert_true(server_metric(&f->server, CODED_BYTES) > 0);
    assert_true(server_metric(&f->server, "channeld_coded_responses_total{coding=\"gzip\"}") >= 8);
    assert_true(server_metric(&f->server, "channeld_coded_responses_total{coding=\"zstd\"}") >= 8);
}

TEST_CASE(clients_that_accept_no_coding_get_plain_content_that_varies)
{
    static const char *const fields[] = {
        "",
        "Accept-Encoding: br, deflate\r\n",
        "Accept-Encoding: \r\n",
        "Accept-Encoding: identity\r\n",
        "Accept-Encoding: gzip;q=0, zstd;q=0\r\n",
        "Accept-Encoding: gzip;q=2\r\n",
        "Accept-Encoding: gzip;q=0.5, identity;q=1\r\n",
        "Accept-Encoding: gzip\r\nAccept-Encoding: ;\r\n",
    };
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    await_coded(f, "channels/", GZIP, "gzip", NULL);
    for (size_t i = 0; i < TEST_COUNT(fields); i++) {
        AUTO(http_response_free) struct http_response response;
        get(f, "channels/", fields[i], &response);
        assert_int_equal(response.status, 200);
        assert_null(http_header(&response, "Content-Encoding"));
        assert_string_equal(http_header(&response, "Vary"), "Accept-Encoding");
    }
}

TEST_CASE(the_client_chooses_and_zstd_is_sent_among_equals)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    await_coded(f, "channels/", "Accept-Encoding: gzip, deflate, br, zstd\r\n", "zstd", NULL);
    await_coded(f, "channels/", "Accept-Encoding: zstd;q=0.5, gzip\r\n", "gzip", NULL);
    await_coded(f, "channels/", "Accept-Encoding: deflate\r\nAccept-Encoding: zstd\r\n", "zstd", NULL);
    await_coded(f, "channels/", "Accept-Encoding: *\r\n", "zstd", NULL);
}

/* It is sent plain content rather than an error until there is something else. */
TEST_CASE(a_client_that_refuses_identity_is_answered_too)
{
    static const char field[] = "Accept-Encoding: gzip, identity;q=0\r\n";
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    AUTO(http_response_free) struct http_response response;
    get(f, "channels/", field, &response);
    assert_int_equal(response.status, 200);
    await_coded(f, "channels/", field, "gzip", NULL);
    expect_plain(f, "channels/", "Accept-Encoding: identity;q=0\r\n");
}

/* Until the API keys have been read, at the start, requests are no hits. */
static bool is_coded_after_two_hits(void *arg)
{
    struct fixture *f = arg;
    if (server_metric(&f->server, "channeld_cache_hits_total") < 2) {
        AUTO(http_response_free) struct http_response response;
        assert_true(server_metric(&f->server, "channeld_cache_coded_total") == 0);
        get(f, "channels/", GZIP, &response);
        assert_null(http_header(&response, "Content-Encoding"));
    }
    return server_metric(&f->server, "channeld_cache_coded_total") == 1;
}

/* Nothing is coded for the first of two hits: it may be the only one. */
TEST_CASE(content_is_coded_when_it_is_asked_for_again)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    assert_true(wait_until(is_coded_after_two_hits, f, WAIT_DEADLINE_MS));
    struct wanted w = {f, "channels/", GZIP, "gzip", NULL};
    for (int i = 0; i < 6; i++)
        assert_true(is_sent(&w));
    assert_true(server_metric(&f->server, "channeld_cache_coded_total") == 1);
}

TEST_CASE(small_content_stays_plain)
{
    AUTO(fixture_drop) struct fixture *f = fixture_new(0, ENV("CHANNELD_WORKERS=1"));
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    catalogue_put(&f->redis, "{\"max_channel_id\":7,\"title\":\"small\"}", 1);
    fixture_await(f, "channel/by-id/7/", 200);
    expect_plain(f, "channel/by-id/7/", GZIP);
}

/* ---- tags and conditions ---- */

struct condition {
    const char *listed; /* P, G and Z stand for the tags; N: another one */
    const char *accepted;
    int status;
    char tag; /* in the 304 */
};

static const char *tag_named(char name, char *const tags[3])
{
    switch (name) {
    case 'P':
        return tags[0];
    case 'G':
        return tags[1];
    case 'Z':
        return tags[2];
    case 'N':
        return "\"another\"";
    default:
        return "*";
    }
}

static void expect_condition(struct fixture *f, const char *path, const struct condition *c,
                             char *const tags[3])
{
    AUTOFREE char *headers = text_printf("%sIf-None-Match: ", c->accepted);
    for (const char *at = c->listed; *at != '\0'; at++) {
        headers = text_append(headers, at == c->listed ? "" : ", ");
        headers = text_append(headers, tag_named(*at, tags));
    }
    headers = text_append(headers, "\r\n");
    for (int head = 0; head < 2; head++) {
        AUTO(http_response_free) struct http_response response;
        call(f, head ? "HEAD" : "GET", path, headers, &response);
        if (response.status != c->status)
            fail_msg("%s with %s: %d", path, headers, response.status);
        assert_string_equal(http_header(&response, "Vary"), "Accept-Encoding");
        if (response.status != 304)
            continue;
        assert_null(http_header(&response, "Content-Encoding"));
        assert_int_equal(response.body_length, 0);
        assert_string_equal(http_header(&response, "ETag"), tag_named(c->tag, tags));
        assert_string_equal(http_header(&response, "Cache-Control"), "private, no-cache");
    }
}

TEST_CASE(each_coding_has_its_tag_and_its_304)
{
    static const struct condition conditions[] = {
        {"P", "", 304, 'P'},
        {"G", "", 200, 0},
        {"Z", "", 200, 0},
        {"*", "", 304, 'P'},
        {"G", "Accept-Encoding: gzip\r\n", 304, 'G'},
        {"NG", "Accept-Encoding: gzip\r\n", 304, 'G'},
        {"P", "Accept-Encoding: gzip\r\n", 304, 'P'},
        {"Z", "Accept-Encoding: gzip\r\n", 200, 0},
        {"N", "Accept-Encoding: gzip\r\n", 200, 0},
        {"*", "Accept-Encoding: gzip\r\n", 304, 'G'},
        {"Z", "Accept-Encoding: zstd\r\n", 304, 'Z'},
        {"PGZ", "Accept-Encoding: zstd\r\n", 304, 'Z'},
        {"G", "Accept-Encoding: zstd\r\n", 200, 0},
        {"G", "Accept-Encoding: gzip, zstd\r\n", 304, 'G'},
        {"Z", "Accept-Encoding: gzip, zstd\r\n", 304, 'Z'},
        {"P", "Accept-Encoding: gzip, identity;q=0\r\n", 200, 0},
        {"G", "Accept-Encoding: gzip;q=broken\r\n", 200, 0},
    };
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    for (size_t p = 0; p < TEST_COUNT(paths); p++) {
        AUTOFREE char *plain = etag_of(f, paths[p], "", NULL);
        AUTOFREE char *gzip = etag_of(f, paths[p], GZIP, "gzip");
        AUTOFREE char *zstd = etag_of(f, paths[p], ZSTD, "zstd");
        char *const tags[] = {plain, gzip, zstd};
        for (int i = 0; i < 3; i++)
            assert_true(tags[i][0] == '"' && strcmp(tags[i], tags[(i + 1) % 3]) != 0);
        for (size_t i = 0; i < TEST_COUNT(conditions); i++)
            expect_condition(f, paths[p], &conditions[i], tags);
    }
}

/* What is sent has the tag of its own coding, whichever of them If-Match names. */
TEST_CASE(if_match_may_name_the_tag_of_any_coding_that_is_accepted)
{
    static const struct {
        char tag;
        const char *accepted;
        int status;
        char sent;
    } rows[] = {{'P', "", 200, 'P'}, {'G', "", 412, 0},     {'P', GZIP, 200, 'G'}, {'G', GZIP, 200, 'G'},
                {'Z', GZIP, 412, 0}, {'Z', ZSTD, 200, 'Z'}, {'N', GZIP, 412, 0},   {'*', GZIP, 200, 'G'}};
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    AUTOFREE char *plain = etag_of(f, LONG_CARD, "", NULL);
    AUTOFREE char *gzip = etag_of(f, LONG_CARD, GZIP, "gzip");
    AUTOFREE char *zstd = etag_of(f, LONG_CARD, ZSTD, "zstd");
    char *const tags[] = {plain, gzip, zstd};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        AUTO(http_response_free) struct http_response response;
        get(f, LONG_CARD, text_temp("%sIf-Match: %s\r\n", rows[i].accepted, tag_named(rows[i].tag, tags)),
            &response);
        if (response.status != rows[i].status)
            fail_msg("row %zu: %d", i, response.status);
        if (rows[i].sent != 0)
            assert_string_equal(http_header(&response, "ETag"), tag_named(rows[i].sent, tags));
    }
}

/* A client may come back to another replica, or after the coded body was evicted. */
TEST_CASE(a_coded_tag_is_304_where_nothing_is_coded_yet)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    AUTOFREE char *gzip = etag_of(f, "channels/", GZIP, "gzip");
    AUTO(fixture_drop) struct fixture *other = new_fixture(NULL);
    AUTO(http_response_free) struct http_response response;
    AUTOFREE char *headers = text_printf("%sIf-None-Match: %s\r\n", GZIP, gzip);
    get(other, "channels/", headers, &response);
    assert_int_equal(response.status, 304);
    assert_string_equal(http_header(&response, "ETag"), gzip);
    assert_true(server_metric(&other->server, "channeld_cache_coded_total") == 0);
}

TEST_CASE(head_has_the_fields_of_get)
{
    static const char *const fields[] = {"", GZIP, ZSTD};
    static const char *const names[] = {"Content-Length", "Content-Encoding", "Content-Type", "ETag",
                                        "Vary",           "Cache-Control",    "Link"};
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    await_coded(f, "channels/", GZIP, "gzip", NULL);
    await_coded(f, "channels/", ZSTD, "zstd", NULL);
    for (size_t i = 0; i < TEST_COUNT(fields); i++) {
        AUTO(http_response_free) struct http_response to_get;
        AUTO(http_response_free) struct http_response to_head;
        get(f, "channels/", fields[i], &to_get);
        call(f, "HEAD", "channels/", fields[i], &to_head);
        assert_int_equal(to_head.status, 200);
        assert_int_equal(to_get.header_count, to_head.header_count);
        for (size_t n = 0; n < TEST_COUNT(names); n++) {
            const char *a = http_header(&to_get, names[n]);
            const char *b = http_header(&to_head, names[n]);
            assert_int_equal(a == NULL, b == NULL);
            if (a != NULL)
                assert_string_equal(a, b);
        }
    }
}

TEST_CASE(errors_are_plain_and_do_not_vary)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    for (int i = 0; i < 4; i++) {
        AUTO(http_response_free) struct http_response response;
        get(f, "channel/by-id/4242/", GZIP, &response);
        assert_int_equal(response.status, 404);
        assert_null(http_header(&response, "Content-Encoding"));
        assert_null(http_header(&response, "Vary"));
    }
}

TEST_CASE(vary_is_one_field_with_origin)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture("CHANNELD_CORS_ORIGINS=https://app.example");
    AUTO(http_response_free) struct http_response found;
    AUTO(http_response_free) struct http_response missing;
    get(f, "channels/", "Origin: https://app.example\r\n", &found);
    assert_int_equal(http_header_count(&found, "Vary"), 1);
    assert_string_equal(http_header(&found, "Vary"), "Accept-Encoding, Origin");
    get(f, "channel/by-id/4242/", "", &missing);
    assert_string_equal(http_header(&missing, "Vary"), "Origin");
}

/* ---- coherence ---- */

TEST_CASE(a_change_shows_in_every_coding)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    for (int version = 0; version < 4; version++) {
        char title[32];
        (void)snprintf(title, sizeof title, "version-%d", version);
        redis_do(&f->redis, "HSET channels:card:5 title %s", title);
        for (size_t i = 0; i < TEST_COUNT(paths); i++) {
            const char *text = strstr(paths[i], "page=2") != NULL ? NULL : title;
            await_coded(f, paths[i], GZIP, "gzip", text);
            await_coded(f, paths[i], ZSTD, "zstd", text);
        }
    }
}

TEST_CASE(an_invalidation_drops_coded_bodies_and_their_bytes)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture(NULL);
    await_coded(f, LONG_CARD, GZIP, "gzip", NULL);
    await_coded(f, "channels/", ZSTD, "zstd", NULL);
    assert_true(server_metric(&f->server, CODED_BYTES) > 0);
    redis_do(&f->redis, "HSET channels:card:5 title changed");
    server_await_metric_below(&f->server, CODED_BYTES, 0);
    await_coded(f, LONG_CARD, GZIP, "gzip", "\"changed\"");
    redis_do(&f->redis, "DEL channels:card:5");
    server_await_metric_below(&f->server, CODED_BYTES, 0);
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
            http_ask(&conn, "GET", "/api/channels/", text_temp("%s%s", FIXTURE_AUTH, ZSTD), 200);
        redis_do(&f->redis, "HSET channels:card:5 title title-%d", i);
        fixture_await_text(f, "channels/", title, true);
        for (int n = 0; n < BURST; n++) {
            AUTO(http_response_free) struct http_response response;
            get(f, "channels/", ZSTD, &response);
            AUTOFREE char *content = decode(&response);
            assert_non_null(strstr(content, title));
        }
    }
}

/* ---- bounds and settings ---- */

/* Each is answered in full, whether it was coded by then or not, and the cache stays within its bytes. */
TEST_CASE(a_flood_of_different_channels_is_served)
{
    enum { CARDS = 150, ROUNDS = 4, CACHE = 4 << 20 };
    AUTO(fixture_drop) struct fixture *f = new_fixture("CHANNELD_CACHE_SIZE=4MiB");
    AUTO(http_close) struct http_conn conn = http_connect(f->server.port);
    AUTOFREE char *text = text_fill("some text about the channel ", 6000);
    for (int id = 1000; id < 1000 + CARDS; id++)
        redis_do(&f->redis, "HSET channels:card:%d title t%dt description %s", id, id, text);
    for (int round = 0; round < ROUNDS; round++) {
        for (int id = 1000; id < 1000 + CARDS; id++) {
            AUTO(http_response_free) struct http_response response;
            AUTOFREE char *target = text_printf("/api/channel/by-id/%d/", id);
            AUTOFREE char *title = text_printf("\"t%dt\"", id);
            assert_int_equal(
                http_exchange(&conn, "GET", target, text_temp("%s%s", FIXTURE_AUTH, GZIP), &response), 0);
            assert_int_equal(response.status, 200);
            AUTOFREE char *content = decode(&response);
            assert_non_null(strstr(content, title));
        }
        assert_true(server_metric(&f->server, "channeld_cache_bytes") <= CACHE * 1.1);
    }
    server_await_metric(&f->server, "channeld_cache_coded_total", 1);
}

TEST_CASE(the_process_ends_while_bodies_are_coded)
{
    struct fixture *f = new_fixture(NULL);
    for (size_t i = 0; i < TEST_COUNT(paths); i++) {
        for (int n = 0; n < 3; n++) {
            AUTO(http_response_free) struct http_response response;
            get(f, paths[i], GZIP, &response);
        }
    }
    fixture_free(f); /* asserts the exit code */
}

TEST_CASE(compression_can_be_turned_off)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture("CHANNELD_COMPRESSION=off");
    AUTO(http_response_free) struct http_response response;
    expect_plain(f, "channels/", GZIP);
    expect_plain(f, "openapi.json", GZIP);
    get(f, "channels/", GZIP, &response);
    assert_null(http_header(&response, "Vary"));
    assert_true(server_metric(&f->server, CODED_BYTES) == 0);
}

TEST_CASE(without_a_cache_what_redis_holds_is_plain)
{
    AUTO(fixture_drop) struct fixture *f = new_fixture("CHANNELD_CACHE_SIZE=0");
    expect_plain(f, "channels/", GZIP);
}

/* ---- the description of the API ---- */

static void expect_document(struct fixture *f, const char *accepted, const char *coding, const char *plain)
{
    AUTO(http_response_free) struct http_response first;
    AUTO(http_response_free) struct http_response again;
    get(f, "openapi.json", accepted, &first);
    assert_int_equal(first.status, 200);
    assert_string_equal(http_header(&first, "Content-Encoding"), coding);
    assert_string_equal(http_header(&first, "Vary"), "Accept-Encoding");
    assert_true(first.body_length < strlen(plain) / 4);
    char *content = decode(&first);
    assert_string_equal(content, plain);
    free(content);
    get(f, "openapi.json", text_temp("%sIf-None-Match: %s\r\n", accepted, http_header(&first, "ETag")),
        &again);
    assert_int_equal(again.status, 304);
    assert_string_equal(http_header(&again, "ETag"), http_header(&first, "ETag"));
}

TEST_CASE(document_is_coded_from_the_first_request_on)
{
    static const char *const settings[] = {NULL, "CHANNELD_CACHE_SIZE=0"};
    for (size_t i = 0; i < TEST_COUNT(settings); i++) {
        AUTO(fixture_drop) struct fixture *f = new_fixture(settings[i]);
        AUTOFREE char *plain = fixture_body(f, "openapi.json");
        AUTOFREE char *plain_tag = etag_of(f, "openapi.json", "", NULL);
        AUTOFREE char *gzip_tag = etag_of(f, "openapi.json", GZIP, NULL);
        AUTOFREE char *zstd_tag = etag_of(f, "openapi.json", ZSTD, NULL);
        expect_document(f, GZIP, "gzip", plain);
        expect_document(f, ZSTD, "zstd", plain);
        assert_string_not_equal(plain_tag, gzip_tag);
        assert_string_not_equal(plain_tag, zstd_tag);
        assert_string_not_equal(gzip_tag, zstd_tag);
    }
}
