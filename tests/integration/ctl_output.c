/* What cannot be done is a failure, not a silent loss: output that is refused (/dev/full), a Redis that is
 * not there. */

#include "integration/ctl.h"

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

static void a_key_that_nobody_saw_is_a_failure(void **state)
{
    (void)state;
    expect_failure("keys issue");
    expect_failure("keys issue --count 5000");
}

static void a_list_that_is_lost_is_a_failure(void **state)
{
    (void)state;
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
        cmocka_unit_test(a_key_that_nobody_saw_is_a_failure),
        cmocka_unit_test(a_list_that_is_lost_is_a_failure),
        cmocka_unit_test(a_help_that_is_lost_is_a_failure),
        cmocka_unit_test(without_redis_nothing_is_done_and_that_is_said),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
