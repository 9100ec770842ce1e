/* What cannot be done is a failure, not a silent loss: output that is refused (/dev/full), a Redis that is
 * not there. */

#include "integration/ctl.h"

#include <signal.h>

static struct redis redis;

static int start(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    catalogue_put_samples(&redis, 3);
    catalogue_issue_key(&redis, "some-key");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

static void expect_failure_with(const char *words, const char *redirection, const char *reason)
{
    char *line = text_printf("exec %s %s %s", process_require_env("CHANNELCTL_BIN"), words, redirection);
    char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    const char *const argv[] = {"sh", "-c", line, NULL};
    char *said = text_printf("%s/full.err", redis.dir.path); /* by the one before */
    (void)remove(said);
    const char *const env[] = {url, NULL};
    const struct process_spec spec = {.name = "full", .dir = redis.dir.path, .argv = argv, .env = env};
    struct process process;
    int status = process_run(&process, &spec);
    char *err = process_stderr(&process);
    if (status != 1 || strstr(err, reason) == NULL)
        fail_msg("channelctl %s: %d: %s", words, status, err);
    free(err);
    free(said);
    free(url);
    free(line);
}

static void expect_failure(const char *words)
{
    expect_failure_with(words, ">/dev/full", "No space left on device");
}

/* The descriptor is not taken by the connection to Redis, which would then be read or written in its place.
 */
static void a_closed_descriptor_is_a_failure(void **state)
{
    (void)state;
    expect_failure_with("keys issue", ">&-", "Bad file descriptor");
    expect_failure_with("sample 1", ">&-", "Bad file descriptor");
    expect_failure_with("load --replace -", "<&-", "Bad file descriptor");
    expect_failure_with("load --replace -", "<&- >&-", "Bad file descriptor");
}

static void a_sample_that_is_lost_is_a_failure(void **state)
{
    (void)state;
    expect_failure("sample 1");
    expect_failure("sample 100000");
}

static long long issued_keys(void)
{
    return redis_integer(&redis, "SCARD channels:api_keys");
}

static void a_key_that_nobody_saw_is_revoked(void **state)
{
    (void)state;
    long long before = issued_keys();
    expect_failure("keys issue");
    expect_failure("keys issue --count 5000");
    assert_int_equal(issued_keys(), before);
}

/* Runs a line of the shell in which $CTL is channelctl; returns what it said on stderr, owned. */
static char *run_shell(const char *line, int status)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    char *tool = text_printf("CTL=%s", process_require_env("CHANNELCTL_BIN"));
    char *said = text_printf("%s/shell.err", redis.dir.path); /* by the one before */
    (void)remove(said);
    const char *const env[] = {url, tool, NULL};
    const struct process_spec spec = {.name = "shell", .dir = redis.dir.path, .argv = argv, .env = env};
    struct process process;
    int got = process_run(&process, &spec);
    char *err = process_stderr(&process);
    if (got != status)
        fail_msg("%s: %d: %s", line, got, err);
    free(said);
    free(tool);
    free(url);
    return err;
}

/* The number in "N of COUNT keys were issued and printed". */
static long long printed_keys(const char *err, int count)
{
    char *rest = text_printf(" of %d keys were issued and printed\n", count);
    const char *end = strstr(err, rest);
    const char *start = end;
    while (start != NULL && start > err && start[-1] >= '0' && start[-1] <= '9')
        start--;
    if (start == NULL)
        fail_msg("no '%s' in: %s", rest, err);
    free(rest);
    return start == NULL ? -1 : strtoll(start, NULL, 10);
}

/* The file takes ten keys and a part of the next. */
static void keys_that_were_written_stay_and_the_others_are_revoked(void **state)
{
    enum { KEY_LINE = 47, COUNT = 50 };
    (void)state;
    redis_do(&redis, "DEL channels:api_keys");
    char *path = text_printf("%s/keys", redis.dir.path);
    char *line =
        text_printf("trap '' XFSZ; ulimit -f 1; exec \"$CTL\" keys issue --count %d >%s", COUNT, path);
    char *err = run_shell(line, 1);
    ctl_expect_text(
        err,
        "cannot write to standard output: File too large; the key that could not be printed was revoked");
    char *keys = text_read_file(path);
    long long whole = (long long)text_count(keys, "\n");
    assert_in_range(whole, 1, COUNT - 1);
    assert_int_not_equal(strlen(keys) % KEY_LINE, 0);
    assert_int_equal(printed_keys(err, COUNT), whole);
    assert_int_equal(issued_keys(), whole);
    char *rest = NULL;
    char digest[65];
    for (char *key = strtok_r(keys, "\n", &rest); whole > 0; key = strtok_r(NULL, "\n", &rest), whole--) {
        catalogue_digest(key, digest);
        assert_int_equal(redis_integer(&redis, "SISMEMBER channels:api_keys %s", digest), 1);
    }
    free(keys);
    free(err);
    free(line);
    free(path);
}

static void keys_behind_a_closed_pipe_are_revoked(void **state)
{
    enum { COUNT = 50000 };
    (void)state;
    redis_do(&redis, "DEL channels:api_keys");
    char *line = text_printf(
        "{ \"$CTL\" keys issue --count %d; echo $? >status; } | head -n 3 >/dev/null; exit $(cat status)",
        COUNT);
    char *there = text_printf("cd %s && %s", redis.dir.path, line);
    char *err = run_shell(there, 1);
    ctl_expect_text(err, "cannot write to standard output: Broken pipe; the key ");
    assert_int_equal(issued_keys(), printed_keys(err, COUNT));
    free(err);
    free(there);
    free(line);
}

/* It ends between two keys. */
static void an_interrupted_issue_leaves_no_key_unseen(void **state)
{
    enum { COUNT = 100000 };
    (void)state;
    redis_do(&redis, "DEL channels:api_keys");
    static const char *const args[] = {"keys", "issue", "--count=100000", NULL};
    struct process process;
    ctl_start(&process, &redis, args);
    while (issued_keys() < 100)
        (void)usleep(1000);
    process_signal(&process, SIGINT);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 130);
    assert_int_equal(text_count(run.out, "\n"), issued_keys());
    assert_int_equal(printed_keys(run.err, COUNT), issued_keys());
    ctl_run_free(&run);
}

/* Keys are not guessed at: what else holds their name is named. */
static void a_set_that_is_none_is_named(void **state)
{
    static const char *const commands[][4] = {
        {"keys", "list"}, {"keys", "issue"}, {"keys", "revoke", "some-key"}};
    (void)state;
    redis_do(&redis, "SET channels:api_keys text");
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct ctl_run run = ctl_run(&redis, commands[i]);
        assert_int_equal(run.status, 1);
        ctl_expect_text(run.err, "channels:api_keys is not a set: delete it, then issue all keys again");
        assert_string_equal(run.out, "");
        ctl_run_free(&run);
    }
    redis_do(&redis, "DEL channels:api_keys");
}

/* What somebody has put there as it is may be a key. */
static void members_that_are_no_digests_are_not_printed(void **state)
{
    static const char *const list[] = {"keys", "list", NULL};
    (void)state;
    redis_do(&redis, "SADD channels:api_keys ck_a-key-as-it-is");
    struct ctl_run run = ctl_run(&redis, list);
    assert_int_equal(run.status, 0);
    assert_null(strstr(run.out, "ck_"));
    assert_null(strstr(run.err, "ck_"));
    ctl_expect_text(run.err, "not listed: 1 member of the set that cannot be a digest");
    ctl_run_free(&run);
}

static void a_list_that_is_lost_is_a_failure(void **state)
{
    (void)state;
    catalogue_issue_key(&redis, "some-key");
    expect_failure("keys list");
    expect_failure("verify");
}

static void a_help_that_is_lost_is_a_failure(void **state)
{
    (void)state;
    expect_failure("--help");
    expect_failure("--version");
}

static void without_redis_nothing_is_done_and_that_is_said(void **state)
{
    static const char *const commands[][4] = {{"verify"},
                                              {"keys", "list"},
                                              {"keys", "issue"},
                                              {"keys", "revoke", "some-key"},
                                              {"load", "/dev/null"}};
    (void)state;
    struct redis nobody;
    redis_prepare(&nobody, NULL);
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct ctl_run run = ctl_run(&nobody, commands[i]);
        assert_int_equal(run.status, 1);
        ctl_expect_text(run.err, "Connection refused");
        assert_string_equal(run.out, "");
        ctl_run_free(&run);
    }
    redis_stop(&nobody);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_descriptor_is_a_failure),
        cmocka_unit_test(a_sample_that_is_lost_is_a_failure),
        cmocka_unit_test(a_key_that_nobody_saw_is_revoked),
        cmocka_unit_test(keys_that_were_written_stay_and_the_others_are_revoked),
        cmocka_unit_test(keys_behind_a_closed_pipe_are_revoked),
        cmocka_unit_test(an_interrupted_issue_leaves_no_key_unseen),
        cmocka_unit_test(a_set_that_is_none_is_named),
        cmocka_unit_test(members_that_are_no_digests_are_not_printed),
        cmocka_unit_test(a_list_that_is_lost_is_a_failure),
        cmocka_unit_test(a_help_that_is_lost_is_a_failure),
        cmocka_unit_test(without_redis_nothing_is_done_and_that_is_said),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
