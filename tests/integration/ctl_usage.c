/* channelctl's command line, exit codes and output; each failure to print is an error. */

#include "support/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static const char *const wrong[][6] = {
    {NULL},
    {"frobnicate", NULL},
    {"--redis-url=", "redis://user:secret@127.0.0.1", "verify", NULL},
    {"verify", "--redis-url=", "redis://user:secret@127.0.0.1", NULL},
    {"show", "--redis-url=", "redis://user:secret@127.0.0.1", NULL},
    {"remove", "--redis-url=", "redis://user:secret@127.0.0.1", NULL},
    {"load", NULL},
    {"load", "a", "b", NULL},
    {"load", "a", "--count", "2", NULL},
    {"load", "a", "--unheard-of", NULL},
    {"load", "a", "--sample", "1", NULL},
    {"load", "--sample", NULL},
    {"load", "--sample", "x", NULL},
    {"sample", "1", "--sample", "1", NULL},
    {"verify", "a", NULL},
    {"verify", "--replace", NULL},
    {"verify", "--seed", "1", NULL},
    {"show", NULL},
    {"show", "1", "2", NULL},
    {"show", "01", NULL},
    {"show", "9223372036854775808", NULL},
    {"show", "https://example.com/one", NULL},
    {"show", "https://max.ru/", NULL},
    {"remove", NULL},
    {"remove", "1", "2", NULL},
    {"remove", "+1", NULL},
    {"remove", "https://max.ru/one", NULL},
    {"remove", "1", "--replace", NULL},
    {"sample", NULL},
    {"sample", "-1", NULL},
    {"sample", "1.5", NULL},
    {"sample", "100000001", NULL},
    {"sample", "1", "--seed", "x", NULL},
    {"sample", "1", "--seed", NULL},
    {"keys", NULL},
    {"keys", "issue", "x", NULL},
    {"keys", "issue", "--count", "0", NULL},
    {"keys", "issue", "--count=x", NULL},
    {"keys", "issue", "--counting", "3", NULL},
    {"keys", "list", "--count", "1", NULL},
    {"keys", "list", "--name", "x", NULL},
    {"keys", "revoke", "x", "--expires", "1d", NULL},
    {"verify", "--name", "x", NULL},
    {"load", "-", "--expires", "1d", NULL},
    {"keys", "issue", "--name", NULL},
    {"keys", "revoke", NULL},
    {"verify", "--wait", "x", NULL},
    {"verify", "--wait", "10", NULL},
    {"verify", "--wait=-1s", NULL},
    {"verify", "--wait=86401s", NULL},
    {"verify", "--redis-url", "http://x", NULL},
    {"verify", "--redis-prefix", "", NULL},
    {"verify", "--redis-prefix", "a b", NULL},
    {"verify", "--channel-host", "A.example", NULL},
    {"verify", "--web-host", "", NULL},
    {"verify", "--redis-ca-file=/nonexistent", "--redis-url=rediss://x", NULL},
};

TEST_CASE(usage_errors_exit_with_2)
{
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        struct ctl_run run = ctl_run(wrong[i]);
        assert_string_equal(run.out, "");
        assert_int_equal(strncmp(run.err, "channelctl: ", 12), 0);
        assert_null(strstr(run.err, "secret"));
        assert_int_equal(text_count(run.err, "--help"), 1);
        ctl_expect(run, 2, NULL, " (see channelctl --help)\n");
    }
}

TEST_CASE(help_and_version_are_printed)
{
    struct ctl_run run = CTL("load", "--help");
    ctl_expect_text(run.out, "usage: channelctl");
    ctl_expect(run, 0, "--redis-prefix TEXT", NULL);
    run = CTL("--version");
    assert_int_equal(strncmp(run.out, "channelctl ", 11), 0);
    ctl_expect(run, 0, NULL, NULL);
}

/* ---- The Redis URL ---- */

TEST_CASE(password_is_used_and_never_printed)
{
    static const char *const args[] = {"--requirepass", "secret", NULL};
    static const char *const list[] = {"keys", "list", NULL};
    AUTO(redis_stop) struct redis locked;
    redis_start(&locked, args);
    (void)snprintf(locked.url, sizeof locked.url, "redis://:secret@127.0.0.1:%d/0", locked.port);
    ctl_expect(ctl_run_at(&locked, list), 0, NULL, NULL);
    (void)snprintf(locked.url, sizeof locked.url, "redis://:not-it@127.0.0.1:%d", locked.port);
    struct ctl_run run = ctl_run_at(&locked, list);
    assert_null(strstr(run.err, "not-it"));
    ctl_expect(run, 1, NULL, "Redis refused: ");
}

TEST_CASE_WITH(database_of_the_url_is_selected, ctl_empty, NULL)
{
    AUTOFREE char *url = text_printf("--redis-url=redis://127.0.0.1:%d/5", redis.port);
    ctl_expect(CTL("keys", "issue", url), 0, NULL, NULL);
    struct ctl_run run = CTL("keys", "list");
    assert_string_equal(run.out, "");
    ctl_run_free(&run);
    redis_do(&redis, "SWAPDB 0 5");
    run = CTL("keys", "list");
    assert_int_equal(strcspn(run.out, "\t"), 64);
    assert_int_equal(text_count(run.out, "\n"), 1);
    ctl_run_free(&run);
}

TEST_CASE(commands_fail_without_redis)
{
    static const char *const commands[][4] = {{"verify"},           {"show", "1"},
                                              {"remove", "1"},      {"keys", "list"},
                                              {"keys", "issue"},    {"keys", "revoke", "some-key"},
                                              {"load", "/dev/null"}};
    AUTO(redis_stop) struct redis absent;
    redis_prepare(&absent, NULL);
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct ctl_run run = ctl_run_at(&absent, commands[i]);
        assert_string_equal(run.out, "");
        ctl_expect(run, 1, NULL, "Connection refused");
    }
}

/* ---- Output that cannot be written ---- */

static void expect_failure(const char *words, const char *redirection, const char *reason)
{
    ctl_expect(ctl_shell(text_printf("exec \"$CTL\" %s %s", words, redirection)), 1, NULL, reason);
}

/* The connection to Redis must not get a standard descriptor, which is read and written as well. */
TEST_CASE(closed_descriptors_are_an_error)
{
    expect_failure("keys issue", ">&-", "Bad file descriptor");
    expect_failure("sample 1", ">&-", "Bad file descriptor");
    expect_failure("load --replace -", "<&-", "Bad file descriptor");
    expect_failure("load --replace -", "<&- >&-", "Bad file descriptor");
}

TEST_CASE_WITH(lost_output_is_an_error, ctl_empty, NULL)
{
    static const char *const commands[] = {"sample 1", "sample 100000", "keys list",
                                           "verify",   "show 1",        "load --sample 1",
                                           "remove 1", "--help",        "--version"};
    catalogue_put_samples(&redis, 5);
    catalogue_issue_key(&redis, "some-key");
    for (size_t i = 0; i < TEST_COUNT(commands); i++)
        expect_failure(commands[i], ">/dev/full", "No space left on device");
}

/* ---- A terminal: script(1) runs the command on one ---- */

static struct ctl_run load_on_a_terminal(const char *path)
{
    return ctl_shell(text_printf("script -qec \"$CTL load %s\" /dev/null", path));
}

TEST_CASE_WITH(progress_is_erased_at_the_end, ctl_empty, NULL)
{
    AUTOFREE char *path = text_printf("%s/file.ndjson", redis.dir.path);
    catalogue_write_file(path, 3000);
    struct ctl_run run = load_on_a_terminal(path);
    ctl_expect_text(run.out, "\r\033[K0 channels, ");
    ctl_expect_text(run.out, "%\r\033[K");
    ctl_expect(run, 0, "3000 channels", NULL);
}

TEST_CASE_WITH(verify_and_replace_show_progress, ctl_empty, NULL)
{
    AUTOFREE char *path = text_printf("%s/file.ndjson", redis.dir.path);
    catalogue_write_file(path, 3000);
    ctl_expect(load_on_a_terminal("--replace file.ndjson"), 0, "\r\033[K0 keys\r\033[K", NULL);
    catalogue_issue_key(&redis, "a key");
    struct ctl_run run = ctl_shell(text_printf("script -qec \"$CTL verify\" /dev/null"));
    ctl_expect_text(run.out, "\r\033[K1 key\r\033[K");
    ctl_expect(run, 0, "\r\033[K3000 channels, 1 API key, no problems found", NULL);
}

TEST_CASE(problems_replace_the_progress_line)
{
    AUTOFREE char *path = text_printf("%s/file.ndjson", redis.dir.path);
    assert_true(text_write_file(path, "{\"max_channel_id\":1,\"t\\u001bitle\":\"\"}\n"));
    ctl_expect(load_on_a_terminal(path), 1, text_temp("\r\033[K%s:1: t?itle: no such field", path), NULL);
}
