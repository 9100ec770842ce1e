/*
 * A Redis that answers with something else than was asked for: one of its commands is replaced by another, of
 * another type. That is an error and no data: 500, never 401 or 404, and never remembered.
 */

#include <stdlib.h>
#include <string.h>

#include "support/ctl.h"
#include "support/fixture.h"

static const char *const CACHED[] = {"CHANNELD_WORKERS=1", NULL};
static const char *const UNCACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_SIZE=0", NULL};

/* Where `victim` is asked for, Redis does what `impostor` does. */
static struct fixture *begin(const char *victim, const char *impostor, const char *const *env)
{
    const char *const args[] = {"--rename-command", victim, "GENUINE", "--rename-command",
                                impostor,           victim, NULL};
    return fixture_new_with(&(struct fixture_spec){.channels = 3, .env = env, .redis_args = args});
}

TEST_CASE(wrong_data_is_an_internal_error)
{
    static const struct {
        const char *victim, *impostor, *path;
    } rows[] = {
        {"GET", "STRLEN", "channel/by-link/?link=https://max.ru/sample_1"}, /* a number for a text */
        {"HMGET", "EXISTS", "channel/by-id/0/"},                            /* a number for a list */
        {"HMGET", "EXISTS", "channels/"},
        {"ZCARD", "TYPE", "channels/"}, /* a text for a number */
        {"ZRANGE", "EXISTS", "channels/"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct fixture *fixture = begin(rows[i].victim, rows[i].impostor, CACHED);
        for (int n = 0; n < 2; n++) {
            int status = fixture_status(fixture, rows[i].path);
            if (status != 500)
                fail_msg("%s by %s: %s is %d", rows[i].victim, rows[i].impostor, rows[i].path, status);
        }
        fixture_free(fixture);
    }
}

TEST_CASE(a_verdict_that_is_none_neither_admits_nor_refuses)
{
    struct fixture *fixture = begin("SISMEMBER", "SMISMEMBER", UNCACHED);
    assert_int_equal(fixture_status(fixture, "channels/"), 500);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", "X-Api-Key: wrong\r\n"), 500);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", NULL), 401);
    fixture_free(fixture);
}

/* The first page of an index whose size is told wrong: what was read counts. */
static void expect_page(size_t channels, const char *size, const char *content, const char *last)
{
    const char *const args[] = {
        "--rename-command", "ZCARD", "GENUINE", "--rename-command", size, "ZCARD", NULL};
    struct fixture *fixture =
        fixture_new_with(&(struct fixture_spec){.channels = channels, .env = CACHED, .redis_args = args});
    struct http_response response;
    redis_do(&fixture->redis, "EXPIRE channels:index 1000");
    fixture_get(fixture, "channels/", &response);
    assert_int_equal(response.status, 200);
    ctl_expect_text(response.body, content);
    ctl_expect_text(http_header(&response, "Link"), last);
    http_response_free(&response);
    fixture_free(fixture);
}

TEST_CASE(a_page_agrees_with_itself)
{
    expect_page(101, "EXISTS", "\"count\":100,\"has_next\":true", "page=2>; rel=\"last\""); /* 1 entry */
    expect_page(3, "TTL", "\"count\":3,\"has_next\":false", "page=1>; rel=\"last\"");       /* 1000 of them */
}

/* Then each key is asked about. */
TEST_CASE(a_set_of_keys_that_is_none_is_not_believed)
{
    static const char *const victims[] = {"SCARD", "SMEMBERS"};
    for (size_t i = 0; i < TEST_COUNT(victims); i++) {
        struct fixture *fixture = begin(victims[i], "TYPE", CACHED);
        for (int n = 0; n < 3; n++) {
            assert_int_equal(fixture_status(fixture, "channels/"), 200);
            assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", "X-Api-Key: wrong\r\n"),
                             401);
        }
        fixture_free(fixture);
    }
}

TEST_CASE(channelctl_fails_and_says_so)
{
    static const struct {
        const char *victim, *impostor, *operation;
    } rows[] = {
        {"SCAN", "EXISTS", "verify"}, {"ZSCAN", "EXISTS", "verify"}, {"SSCAN", "EXISTS", "verify"},
        {"TYPE", "EXISTS", "verify"}, /* a number is no type */
        {"ZCARD", "ECHO", "verify"},  {"PTTL", "ECHO", "verify"},    {"HMGET", "EXISTS", "load"},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const char *const args[] = {"--rename-command", rows[i].victim, "GENUINE", "--rename-command",
                                    rows[i].impostor,   rows[i].victim, NULL};
        struct redis other;
        redis_start(&other, args);
        char *file = text_printf("%s/file", other.dir.path);
        catalogue_write_file(file, 3);
        catalogue_issue_key(&other, "a key");
        catalogue_put_samples(&other, 3);
        const char *const words[] = {rows[i].operation, strcmp(rows[i].operation, "load") == 0 ? file : NULL,
                                     NULL};
        struct ctl_run run = ctl_run_at(&other, words);
        if (run.status != 1 || strstr(run.err, "unexpected reply from Redis") == NULL)
            fail_msg("%s by %s: %d: %s%s", rows[i].victim, rows[i].impostor, run.status, run.out, run.err);
        ctl_run_free(&run);
        free(file);
        redis_stop(&other);
    }
}
