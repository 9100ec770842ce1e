/* channelctl's command line, its exit codes, and what the key commands print. */

#include "integration/ctl.h"

static struct redis redis;

static int start(void **state)
{
    static const char *const args[] = {"--requirepass", "secret", NULL};
    (void)state;
    redis_start(&redis, args);
    (void)snprintf(redis.url, sizeof redis.url, "redis://:secret@127.0.0.1:%d/0", redis.port);
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

static void wrong_usage_is_told_apart(void **state)
{
    static const char *const wrong[][6] = {
        {NULL},
        {"frobnicate", NULL},
        {"load", NULL},
        {"load", "a", "b", NULL},
        {"load", "a", "--count", "2", NULL},
        {"load", "a", "--unheard-of", NULL},
        {"load", "a", "--sample", "1", NULL},
        {"load", "a", "--seed", "1", NULL},
        {"load", "--sample", NULL},
        {"load", "--sample", "x", NULL},
        {"load", "--sample=1", "--seed=x", NULL},
        {"sample", "1", "--sample", "1", NULL},
        {"verify", "a", NULL},
        {"verify", "--replace", NULL},
        {"verify", "--seed", "1", NULL},
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
        {"keys", "revoke", NULL},
        {"verify", "--redis-url", "http://x", NULL},
        {"verify", "--redis-prefix", "", NULL},
        {"verify", "--redis-prefix", "a b", NULL},
        {"verify", "--channel-host", "A.example", NULL},
        {"verify", "--web-host", "", NULL},
        {"verify", "--redis-ca-file=/nonexistent", "--redis-url=rediss://x", NULL},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        struct ctl_run run = ctl_run(&redis, wrong[i]);
        if (run.status != 2 || strncmp(run.err, "channelctl: ", 12) != 0 || run.out[0] != '\0')
            fail_msg("case %zu: %d: %s%s", i, run.status, run.out, run.err);
        ctl_run_free(&run);
    }
}

static void help_and_version_are_printed(void **state)
{
    static const char *const help[] = {"load", "--help", NULL};
    static const char *const version[] = {"--version", NULL};
    (void)state;
    struct ctl_run run = ctl_run(&redis, help);
    assert_int_equal(run.status, 0);
    ctl_expect_text(run.out, "usage: channelctl");
    ctl_expect_text(run.out, "--redis-prefix TEXT");
    ctl_run_free(&run);
    run = ctl_run(&redis, version);
    assert_int_equal(run.status, 0);
    assert_int_equal(strncmp(run.out, "channelctl ", 11), 0);
    ctl_run_free(&run);
}

static void password_is_used_and_never_shown(void **state)
{
    char *wrong = text_printf("--redis-url=redis://:not-it@127.0.0.1:%d", redis.port);
    const char *args[] = {"verify", wrong, NULL};
    const char *right[] = {"keys", "list", NULL};
    (void)state;
    ctl_expect_status(&redis, right, 0);
    struct ctl_run run = ctl_run(&redis, args);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "Redis refused: ");
    assert_null(strstr(run.err, "not-it"));
    ctl_run_free(&run);
    free(wrong);
}

static void other_databases_are_selected(void **state)
{
    char *url = text_printf("--redis-url=redis://:secret@127.0.0.1:%d/5", redis.port);
    const char *issue[] = {"keys", "issue", url, NULL};
    const char *list[] = {"keys", "list", NULL};
    (void)state;
    redis_do(&redis, "FLUSHALL");
    ctl_expect_status(&redis, issue, 0);
    struct ctl_run run = ctl_run(&redis, list);
    assert_string_equal(run.out, "");
    redis_do(&redis, "SWAPDB 0 5");
    ctl_run_free(&run);
    run = ctl_run(&redis, list);
    assert_int_equal(strlen(run.out), 65);
    ctl_run_free(&run);
    free(url);
}

static void digests_are_listed_sorted(void **state)
{
    static const char *const issue[] = {"keys", "issue", "--count=30", NULL};
    static const char *const list[] = {"keys", "list", NULL};
    char *rest = NULL;
    const char *last = "";
    (void)state;
    redis_do(&redis, "FLUSHALL");
    ctl_expect_status(&redis, issue, 0);
    struct ctl_run run = ctl_run(&redis, list);
    assert_int_equal(text_count(run.out, "\n"), 30);
    for (char *line = strtok_r(run.out, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        assert_int_equal(strlen(line), 64);
        assert_true(strcmp(last, line) < 0);
        last = line;
    }
    ctl_run_free(&run);
}

static void revoking_says_whether_it_was_there(void **state)
{
    char digest[65];
    const char *by_key[] = {"keys", "revoke", "the key", NULL};
    const char *by_digest[] = {"keys", "revoke", digest, NULL};
    (void)state;
    catalogue_digest("the key", digest);
    catalogue_issue_key(&redis, "the key");
    ctl_expect_status(&redis, by_key, 0);
    struct ctl_run run = ctl_run(&redis, by_key);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "API key not found: it was never issued or is already revoked");
    ctl_run_free(&run);
    ctl_expect_status(&redis, by_digest, 1);
    catalogue_issue_key(&redis, "the key");
    ctl_expect_status(&redis, by_digest, 0);
    assert_int_equal(redis_integer(&redis, "SISMEMBER channels:api_keys %s", digest), 0);
}

static void issued_keys_are_printed_and_their_digests_kept(void **state)
{
    static const char *const issue[] = {"keys", "issue", NULL};
    char digest[65];
    (void)state;
    struct ctl_run run = ctl_run(&redis, issue);
    assert_int_equal(run.status, 0);
    assert_string_equal(run.err, "");
    assert_int_equal(strlen(run.out), 47);
    assert_int_equal(strncmp(run.out, "ck_", 3), 0);
    run.out[46] = '\0';
    catalogue_digest(run.out, digest);
    assert_int_equal(redis_integer(&redis, "SISMEMBER channels:api_keys %s", digest), 1);
    ctl_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_usage_is_told_apart),
        cmocka_unit_test(help_and_version_are_printed),
        cmocka_unit_test(password_is_used_and_never_shown),
        cmocka_unit_test(other_databases_are_selected),
        cmocka_unit_test(digests_are_listed_sorted),
        cmocka_unit_test(revoking_says_whether_it_was_there),
        cmocka_unit_test(issued_keys_are_printed_and_their_digests_kept),
    };
    return cmocka_run_group_tests(tests, start, end);
}
