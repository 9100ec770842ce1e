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
    {"keys", "issue", "--name", "--expires", "1d", NULL},
    {"keys", "revoke", "x", "--all", NULL},
    {"keys", "revoke", "--all", NULL},
    {"keys", "revoke", "x", "--name", "x", NULL},
    {"keys", "list", "x", NULL},
    {"help", "frobnicate", NULL},
    {"frobnicate", "--help", NULL},
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
    static const char *const flags[] = {"--help", "-h", "help"};
    for (size_t i = 0; i < TEST_COUNT(flags); i++) {
        struct ctl_run run = CTL(flags[i]);
        ctl_expect_text(run.out, "usage: channelctl");
        ctl_expect(run, 0, "--redis-prefix TEXT", NULL);
    }
    struct ctl_run run = CTL("--version");
    assert_int_equal(strncmp(run.out, "channelctl ", 11), 0);
    ctl_expect(run, 0, NULL, NULL);
}

/* A command line, a part of its help, and one that is not in it. */
static const struct {
    const char *args[4];
    const char *part, *other;
} helps[] = {
    {{"load", "--help"},
     "load --sample N [--replace] [--max-removed N|N%] [--expect N] [--dry-run]\n",
     "  show "},
    {{"help", "load"}, "  --replace ", "--count"},
    {{"show", "1", "-h"}, "  show ID|LINK ", "Flags"},
    {{"keys", "issue", "--help"}, "  keys issue [--count N] [--name NAME] [--expires WHEN]\n", "keys list"},
    {{"help", "keys", "list"}, "  keys list [--json] ", "--name"},
    {{"keys", "-h"}, "  keys revoke --name NAME [--all]\n", "  load "},
};

TEST_CASE(each_command_has_its_help)
{
    for (size_t i = 0; i < TEST_COUNT(helps); i++) {
        struct ctl_run run = ctl_run(helps[i].args);
        assert_string_equal(run.err, "");
        assert_null(strstr(run.out, helps[i].other));
        ctl_expect_text(run.out, "usage: channelctl [settings] COMMAND\n");
        ctl_expect(run, 0, helps[i].part, NULL);
    }
}

/* What was meant, or what is expected. */
static const struct {
    const char *args[4];
    const char *err;
} mistakes[] = {
    {{"lod", "x"}, "lod: no such command; did you mean load?"},
    {{"verfiy"}, "verfiy: no such command; did you mean verify?"},
    {{"keys", "lst"}, "keys lst: no such command; did you mean keys list?"},
    {{"key", "list"}, "key list: no such command; did you mean keys list?"},
    {{"issue"}, "issue: no such command; did you mean keys issue?"},
    {{"revoke", "ck_key"}, "channelctl: no such command; did you mean keys revoke?"},
    {{"frobnicate"}, "frobnicate: no such command ("},
    {{"redis://:secret@host", "verify"}, "channelctl: no such command ("},
    {{"remove"}, "expected remove ID ("},
    {{"load", "a", "b"},
     "expected load FILE|- [--replace] [--max-removed N|N%] [--expect N] [--dry-run], or load --sample N "},
    {{"keys", "revoke"}, "expected keys revoke KEY|DIGEST, or keys revoke --name NAME [--all] ("},
    {{"keys", "issue", "--name"}, "--name: needs a value ("},
    {{"load", "--sample", "--replace"}, "--sample: needs a value ("},
    {{"verify", "--wait"}, "--wait: needs a value ("},
    {{"verify", "--count", "1"}, "--count: it belongs to keys issue ("},
    {{"sample", "1", "--name=x"}, "--name: it belongs to keys issue or keys revoke ("},
};

TEST_CASE(mistakes_are_named)
{
    for (size_t i = 0; i < TEST_COUNT(mistakes); i++)
        ctl_expect(ctl_run(mistakes[i].args), 2, "", mistakes[i].err);
}

/* ---- The Redis URL ---- */

/* Values that a tool or an editor makes, which no server would accept. */
TEST_CASE(blanks_in_settings_of_redis_are_named)
{
    static const char *const rows[][2] = {
        {"--redis-url=redis://127.0.0.1 ", "--redis-url: ends with a blank or a line end ("},
        {"--redis-url=redis://127.0.0.1\n", "--redis-url: contains a line end ("},
        {"--redis-url=redis://a,b:6379",
         "--redis-url: several hosts need redis+sentinel:// or redis+cluster:// ("},
        {"--redis-password=secret\n", "--redis-password: contains a line end ("},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++)
        ctl_expect(CTL("verify", rows[i][0]), 2, "", rows[i][1]);
    ctl_expect(
        ctl_shell(text_printf("printf 'secret\\n\\n' >pw; exec \"$CTL\" verify --redis-password-file pw")), 2,
        "", "--redis-password-file: contains a line end (");
}

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

/* Most of the output is left when head ends. keys issue is different: see ctl_keys.c. */
TEST_CASE_WITH(reader_that_ends_early_is_no_error, ctl_empty, NULL)
{
    static const char *const commands[] = {"sample 100000", "keys list", "show 1"};
    catalogue_issue_keys(&redis, 5000);
    redis_do(&redis, "HSET channels:card:1 max_channel_id 1");
    redis_do(&redis, "EVAL %s 0", "redis.call('HSET', 'channels:card:1', 'title', string.rep('x', 1000000))");
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct ctl_run run = ctl_shell(text_printf("{ \"$CTL\" %s 2>said; echo $? >status; } | head -c 1 "
                                                   ">/dev/null; cat said >&2; exit $(cat status)",
                                                   commands[i]));
        if (strstr(run.err, "standard output") != NULL)
            fail_msg("%s: %s", commands[i], run.err);
        ctl_expect(run, 141, NULL, NULL);
    }
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

TEST_CASE_WITH(terminals_without_control_sequences_get_none, ctl_empty, NULL)
{
    static const char *const environments[] = {"TERM=dumb", "NO_COLOR=1"};
    AUTOFREE char *path = text_printf("%s/file.ndjson", redis.dir.path);
    catalogue_write_file(path, 3000);
    assert_true(text_write_file(text_temp("%s/bad.ndjson", redis.dir.path), "bad\n"));
    for (size_t i = 0; i < TEST_COUNT(environments); i++) {
        struct ctl_run run = ctl_shell(text_printf(
            "env %s script -qec '$CTL load file.ndjson; $CTL load bad.ndjson; $CTL verify' /dev/null",
            environments[i]));
        assert_null(strchr(run.out, '\033'));
        ctl_expect(run, 1, "3000 channels: ", NULL);
    }
    struct ctl_run run =
        ctl_shell(text_printf("env NO_COLOR= TERM=xterm script -qec '$CTL load file.ndjson' /dev/null"));
    ctl_expect(run, 0, "\r\033[K", NULL);
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
    ctl_expect(load_on_a_terminal(path), 1, text_temp("\r\033[K%s:1: t\\u001bitle: no such field", path),
               NULL);
}
