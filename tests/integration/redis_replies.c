/*
 * Unexpected replies of Redis. One of its commands is replaced by another, of another type: that is an error
 * and no data, so 500, never 401 or 404, and never cached. Replies of any size: tests/simulation/cases.c.
 */

#include <stdlib.h>
#include <string.h>

#include "support/ctl.h"
#include "support/fixture.h"

static const char *const CACHED[] = {"CHANNELD_WORKERS=1", NULL};
static const char *const UNCACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_SIZE=0", NULL};

/* The command `victim` does what `impostor` does. */
static struct fixture *begin(const char *victim, const char *impostor, const char *const *env)
{
    const char *const args[] = {"--rename-command", victim, "GENUINE", "--rename-command",
                                impostor,           victim, NULL};
    return fixture_new_with(&(struct fixture_spec){.channels = 3, .env = env, .redis_args = args});
}

TEST_CASE(wrong_type_of_reply_is_500)
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
        AUTO(fixture_drop) struct fixture *fixture = begin(rows[i].victim, rows[i].impostor, CACHED);
        for (int n = 0; n < 2; n++) {
            int status = fixture_status(fixture, rows[i].path);
            if (status != 500)
                fail_msg("%s by %s: %s is %d", rows[i].victim, rows[i].impostor, rows[i].path, status);
        }
    }
}

TEST_CASE(unexpected_result_for_a_key_is_500)
{
    AUTO(fixture_drop) struct fixture *fixture = begin("SMISMEMBER", "SISMEMBER", UNCACHED);
    fixture_expect(fixture, "channels/", 500);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_WRONG), 500);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", NULL), 401);
}

/* Then each key is checked in Redis. */
TEST_CASE(wrong_type_of_key_set_is_ignored)
{
    static const char *const victims[] = {"SCARD", "SMEMBERS"};
    for (size_t i = 0; i < TEST_COUNT(victims); i++) {
        AUTO(fixture_drop) struct fixture *fixture = begin(victims[i], "TYPE", CACHED);
        for (int n = 0; n < 3; n++) {
            fixture_expect(fixture, "channels/", 200);
            assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_WRONG), 401);
        }
    }
}

TEST_CASE(channelctl_reports_wrong_types_of_replies)
{
    static const struct {
        const char *victim, *impostor, *operation;
    } rows[] = {{"SCAN", "EXISTS", "verify"}, {"ZSCAN", "EXISTS", "verify"}, {"SSCAN", "EXISTS", "verify"},
                {"TYPE", "EXISTS", "verify"}, /* a number is no type */
                {"ZCARD", "ECHO", "verify"},  {"PTTL", "ECHO", "verify"},    {"HMGET", "EXISTS", "load"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        const char *const args[] = {"--rename-command", rows[i].victim, "GENUINE", "--rename-command",
                                    rows[i].impostor,   rows[i].victim, NULL};
        AUTO(redis_stop) struct redis other;
        redis_start(&other, args);
        AUTOFREE char *file = text_printf("%s/file", other.dir.path);
        catalogue_write_file(file, 3);
        catalogue_issue_key(&other, "a key");
        catalogue_put_samples(&other, 3);
        const char *const words[] = {rows[i].operation, strcmp(rows[i].operation, "load") == 0 ? file : NULL,
                                     NULL};
        AUTO(ctl_run_free) struct ctl_run run = ctl_run_at(&other, words);
        if (run.status != 1 || strstr(run.err, "unexpected reply from Redis") == NULL)
            fail_msg("%s by %s: %d: %s%s", rows[i].victim, rows[i].impostor, run.status, run.out, run.err);
    }
}
