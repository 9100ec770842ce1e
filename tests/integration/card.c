/*
 * The card of a channel, by its identifier and by its public link: what channelctl loads from a file is,
 * field by field, what the API returns; and which ways of writing a link lead to a channel.
 */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CHANNELS = 305 };

static int start(void **state)
{
    struct fixture *fixture = fixture_new(0, NULL);
    struct process process;
    AUTOFREE char *path = text_printf("%s/cards.ndjson", fixture->redis.dir.path);
    AUTOFREE char *url = text_printf("CHANNELD_REDIS_URL=%s", fixture->redis.url);
    const char *const args[] = {"load", path, NULL};
    const char *const env[] = {url, NULL};
    *state = fixture;
    catalogue_write_file(path, CHANNELS);
    if (server_run_tool(&process, &fixture->redis.dir, "CHANNELCTL_BIN", args, env) != 0)
        fail_msg("channelctl load: %s", process_stderr(&process));
    catalogue_put(&fixture->redis,
                  "{\"max_channel_id\":777,\"title\":\"t\",\"link\":\"https://max.ru/\xD0\xBF\xD1\x80 %41\"}",
                  1000);
    return 0;
}

TEST_GROUP(start, fixture_teardown)

TEST_CASE(every_card_by_id_and_by_link_is_what_was_loaded)
{
    for (size_t n = 0; n < CHANNELS; n++) {
        AUTOFREE char *stored = text_printf("channel/by-link/?link=https%%3A%%2F%%2Fmax.ru%%2Fsample_%zu", n);
        AUTOFREE char *web = text_printf("channel/by-link/?link=https://web.max.ru/sample_%zu", n);
        AUTOFREE char *card = catalogue_card(n);
        fixture_expect_sample(*state, n);
        fixture_expect_card(*state, stored, card);
        fixture_expect_card(*state, web, card);
    }
}

TEST_CASE(every_summary_is_in_the_list_once)
{
    AUTOFREE char *all = text_repeat(' ', 0);
    for (int page = 1; page <= 4; page++) {
        AUTOFREE char *body = fixture_body(*state, text_temp("channels/?page=%d", page));
        all = text_append(all, body);
    }
    for (size_t n = 0; n < CHANNELS; n++) {
        AUTOFREE char *card = catalogue_card(n);
        AUTOFREE char *summary = catalogue_summary(card);
        AUTOFREE char *id = text_printf("\"max_channel_id\":%lld,", (long long)catalogue_id(n));
        char *found = strstr(all, id);
        assert_int_equal(text_count(all, id), 1);
        json_assert_same(text_temp("%.*s", (int)(strchr(found, '}') + 1 - found) + 1, found - 1), summary);
    }
}

/* ---- by id ---- */

static void expect_ids(struct fixture *fixture, const char *const *ids, size_t count, int status)
{
    for (size_t i = 0; i < count; i++) {
        fixture_expect(fixture, text_temp("channel/by-id/%s/", ids[i]), status);
    }
}

TEST_CASE(ids_are_integers)
{
    static const char *const known[] = {"9223372036854775807", "-9223372036854775808", "-1", "0"};
    static const char *const unknown[] = {"42",
                                          "-42",
                                          "9223372036854775806",
                                          "-9223372036854775807",
                                          "9223372036854775808",
                                          "-9223372036854775809"};
    static const char *const invalid[] = {"abc", "1%20", "1%00", "\xC3\xA9"};
    expect_ids(*state, known, TEST_COUNT(known), 200);
    expect_ids(*state, unknown, TEST_COUNT(unknown), 404);
    expect_ids(*state, invalid, TEST_COUNT(invalid), 400);
}

TEST_CASE(errors_do_not_echo_the_request)
{
    AUTO(http_response_free) struct http_response response;
    fixture_get(*state, "channel/by-id/echo-this-not/", &response);
    assert_int_equal(response.status, 400);
    assert_int_equal(text_count(response.body, "echo-this-not"), 0);
}

/* ---- by link ---- */

/* Percent-encodes the link as one parameter. */
static void expect_link(struct fixture *fixture, const char *link, int status)
{
    AUTOFREE char *encoded = text_percent_encode(link);
    int actual = fixture_status(fixture, text_temp("channel/by-link/?link=%s", encoded));
    if (actual != status)
        fail_msg("%s: %d, expected %d", link, actual, status);
}

static void expect_links(struct fixture *fixture, const char *const *links, size_t count, int status)
{
    for (size_t i = 0; i < count; i++)
        expect_link(fixture, links[i], status);
}

TEST_CASE(links_are_normalised)
{
    static const char *const links[] = {"https://max.ru/sample_5",
                                        "hTTp://WEB.max.ru:80/sample_5//?a=b/#about?c",
                                        "https://max.ru/\xD0\xBF\xD1\x80 %41"};
    expect_links(*state, links, TEST_COUNT(links), 200);
}

TEST_CASE(other_links_find_nothing)
{
    static const char *const links[] = {
        "https://example.com/sample_5", "https://max.ru:8443/sample_5", "https://max.ru@example.com/sample_5",
        "ftp://max.ru/sample_5",        "https://max.ru/?sample_5",     "x",
        "https://max.ru/SAMPLE_5",      "https://max.ru/sample_5/x",    "https://max.ru/\xD0\xBF\xD1\x80 A",
        "https://web.max.ru/unknown"};
    static const size_t lengths[] = {100, 4000, 15000};
    expect_links(*state, links, TEST_COUNT(links), 404);
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        AUTOFREE char *slug = text_repeat('s', lengths[i]);
        fixture_expect(*state, text_temp("channel/by-link/?link=https://max.ru/%s", slug), 404);
    }
}

/* 256 bytes of UTF-8, sent as they are stored and with all that they may have of percent-encoding: found. One
 * more: not even looked for. */
TEST_CASE(slugs_have_at_most_256_bytes)
{
    struct fixture *fixture = *state;
    AUTOFREE char *slug = text_repeat('s', 256);
    AUTOFREE char *encoded = text_repeat(' ', 0);
    for (int i = 0; i < 128; i++)
        encoded = text_append(encoded, "%D0%BF");
    for (int i = 0; i < 2; i++) {
        AUTOFREE char *decoded = text_repeat(' ', 0);
        for (int k = 0; k < 128; k++)
            decoded = text_append(decoded, i == 0 ? "ss" : "\xD0\xBF");
        catalogue_put(&fixture->redis,
                      text_temp("{\"max_channel_id\":%d,\"link\":\"https://max.ru/%s\"}", 900 + i, decoded),
                      2000 + i);
    }
    fixture_expect(fixture, text_temp("channel/by-link/?link=https://max.ru/%s", slug), 200);
    fixture_expect(fixture, text_temp("channel/by-link/?link=https%%3A%%2F%%2Fweb.max.ru%%2F%s", encoded),
                   200);
    double before = server_metric(&fixture->server, "channeld_redis_commands_total");
    long long reads = redis_calls(&fixture->redis, "get");
    fixture_expect(fixture, text_temp("channel/by-link/?link=https://max.ru/%ss", slug), 404);
    fixture_expect(fixture, text_temp("channel/by-link/?link=https%%3A%%2F%%2Fweb.max.ru%%2F%ss", encoded),
                   404);
    fixture_expect_metric(fixture, "channeld_redis_commands_total", before);
    assert_int_equal(redis_calls(&fixture->redis, "get"), reads);
    redis_do(&fixture->redis, "ZREM channels:index 900 901");
}

TEST_CASE(link_key_without_a_card_is_not_found)
{
    struct fixture *fixture = *state;
    redis_do(&fixture->redis, "SET channels:link:https://max.ru/orphan 555555");
    expect_link(fixture, "https://max.ru/orphan", 404);
}

/* ---- queries of by-link that try to be taken for others ---- */

struct row {
    const char *query; /* as it is sent */
    int status;
};

static void expect_queries(struct fixture *fixture, const struct row *rows, size_t count)
{
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        AUTOFREE char *path = text_printf("channel/by-link/?%s", rows[i].query);
        int status = fixture_status(fixture, path);
        if (status != rows[i].status) {
            print_error("%s: %d, expected %d\n", path, status, rows[i].status);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* What is a link and what is not: tests/unit/model_link.c, and tests/unit/api_params.c. */
TEST_CASE(queries_are_decoded_once_and_nothing_else_is_found)
{
    static const struct row rows[] = {
        {"", 400},
        {"link=", 400},
        {"%6cink=https://max.ru/sample_1", 200},
        {"link=https%3A%2F%2Fmax.ru%2fsample%5f1", 200},
        {"link=https%253A%252F%252Fmax.ru%252Fsample_1", 404},
        {"link=https://max.ru/sample_1%00", 404},
        {"link=https://max.ru/sample%c1%9f1", 404}, /* overlong: an underscore in two bytes */
        {"link=https://max.ru/sample_*", 404},
        {"link=https://max.ru/sample_1%0d%0aDEL%20channels:index%0d%0a", 404},
        {"link=https://max.ru/%0d%0a*1%0d%0a$8%0d%0aFLUSHALL%0d%0a", 404},
        {"link=https://max.ru/../channels:index", 404},
    };
    struct fixture *fixture = *state;
    fixture_expect(fixture, "channel/by-link/", 400);
    expect_queries(fixture, rows, TEST_COUNT(rows));
    assert_int_equal(redis_integer(&fixture->redis, "ZCARD channels:index"), CHANNELS + 1);
}

/* ---- settings ---- */

TEST_CASE(channel_and_web_host_can_be_changed)
{
    struct fixture *fixture =
        fixture_new(1, ENV("CHANNELD_CHANNEL_HOST=t.example", "CHANNELD_WEB_HOST=web.t.example"));
    catalogue_put(&fixture->redis,
                  "{\"max_channel_id\":8,\"title\":\"t\",\"link\":\"https://t.example/slug\"}", 8);
    expect_link(fixture, "https://t.example/slug", 200);
    expect_link(fixture, "http://WEB.T.example/slug", 200);
    expect_link(fixture, "https://max.ru/sample_0", 404);
    fixture_free(fixture);
}
