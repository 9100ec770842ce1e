/* channelctl keys: a key is shown once, works at once, and stops working at once. */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

static int start(void **state)
{
    *state = fixture_new(1, NULL);
    return 0;
}

static int run(struct fixture *fixture, const char *const *args, char **output)
{
    struct process process;
    char *url = text_printf("CHANNELD_REDIS_URL=%s", fixture->redis.url);
    const char *const env[] = {url, NULL};
    int status = server_run_tool(&process, &fixture->redis.dir, "CHANNELCTL_BIN", args, env);
    *output = process_stdout(&process);
    free(url);
    return status;
}

/* A fresh key without its line end, owned. */
static char *issue(struct fixture *fixture)
{
    static const char *const args[] = {"keys", "issue", NULL};
    char *key = NULL;
    assert_int_equal(run(fixture, args, &key), 0);
    assert_int_equal(text_count(key, "\n"), 1);
    key[strcspn(key, "\n")] = '\0';
    return key;
}

struct expectation {
    struct fixture *fixture;
    const char *key;
    int status;
};

static bool key_gives(void *arg)
{
    struct expectation *expected = arg;
    char *header = text_printf("X-Api-Key: %s\r\n", expected->key);
    int status = http_get_status(expected->fixture->server.port, "/api/channels/", header);
    free(header);
    return status == expected->status;
}

static void assert_key_gives(struct fixture *fixture, const char *key, int status)
{
    struct expectation expected = {.fixture = fixture, .key = key, .status = status};
    assert_true(wait_until(key_gives, &expected, 500));
}

/* The same after Redis was emptied, as channeld may have to connect again. */
static void assert_key_will_give(struct fixture *fixture, const char *key, int status)
{
    struct expectation expected = {.fixture = fixture, .key = key, .status = status};
    assert_true(wait_until(key_gives, &expected, WAIT_DEADLINE_MS));
}

static void revoke(struct fixture *fixture, const char *key_or_digest, int status)
{
    const char *args[] = {"keys", "revoke", key_or_digest, NULL};
    char *output = NULL;
    assert_int_equal(run(fixture, args, &output), status);
    free(output);
}

static void issued_key_works_until_it_is_revoked(void **state)
{
    char *key = issue(*state);
    assert_true(strlen(key) >= 43); /* 256 bits take 43 characters of base 64 */
    assert_key_gives(*state, key, 200);
    revoke(*state, key, 0);
    assert_key_gives(*state, key, 401);
    free(key);
}

static void key_can_be_revoked_by_its_digest(void **state)
{
    char digest[65];
    char *key = issue(*state);
    catalogue_digest(key, digest);
    assert_key_gives(*state, key, 200);
    revoke(*state, digest, 0);
    assert_key_gives(*state, key, 401);
    free(key);
}

static void revoking_what_is_no_key_fails(void **state)
{
    revoke(*state, "never-issued", 1);
}

static void only_digests_are_stored_and_listed(void **state)
{
    static const char *const args[] = {"keys", "list", NULL};
    struct fixture *fixture = *state;
    char digest[65];
    char *list = NULL;
    char *key = issue(fixture);
    catalogue_digest(key, digest);
    assert_int_equal(redis_integer(&fixture->redis, "SISMEMBER channels:api_keys %s", digest), 1);
    assert_int_equal(redis_integer(&fixture->redis, "SISMEMBER channels:api_keys %s", key), 0);
    assert_int_equal(run(fixture, args, &list), 0);
    assert_non_null(strstr(list, digest));
    assert_null(strstr(list, key));
    free(list);
    free(key);
}

static void many_keys_are_issued_at_once_and_all_differ(void **state)
{
    static const char *const args[] = {"keys", "issue", "--count", "20", NULL};
    char *keys = NULL;
    char *rest = NULL;
    assert_int_equal(run(*state, args, &keys), 0);
    assert_int_equal(text_count(keys, "\n"), 20);
    char *all = text_printf("%s", keys);
    for (char *key = strtok_r(keys, "\n", &rest); key != NULL; key = strtok_r(NULL, "\n", &rest)) {
        assert_int_equal(text_count(all, key), 1);
        assert_key_gives(*state, key, 200);
    }
    free(all);
    free(keys);
}

static int run_shell(struct fixture *fixture, const char *line)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    const struct process_spec spec = {.name = "shell", .dir = fixture->redis.dir.path, .argv = argv};
    struct process process;
    return process_run(&process, &spec);
}

/* As docs/operations.md has it: a loader brings the channels back, the list of digests the keys. */
static void keys_are_restored_from_their_list(void **state)
{
    static const char *const list[] = {"keys", "list", NULL};
    static const char *const load[] = {"load", "--sample=10", "--replace", NULL};
    static const char *const verify[] = {"verify", NULL};
    struct fixture *fixture = *state;
    char *output = NULL;
    char *digests = NULL;
    char *key = issue(fixture);
    char *path = text_printf("%s/api_keys", fixture->redis.dir.path);
    char *restore =
        text_printf("xargs redis-cli -p %d SADD channels:api_keys <%s", fixture->redis.port, path);
    assert_int_equal(run(fixture, list, &digests), 0);
    assert_true(text_write_file(path, digests));
    redis_do(&fixture->redis, "FLUSHALL");
    assert_int_equal(run(fixture, verify, &output), 1);
    free(output);
    assert_int_equal(run(fixture, load, &output), 0);
    free(output);
    assert_int_equal(run(fixture, verify, &output), 1);
    assert_non_null(strstr(output, "api_keys: there are no API keys"));
    free(output);
    assert_key_will_give(fixture, key, 401);
    assert_int_equal(run_shell(fixture, restore), 0);
    assert_int_equal(run(fixture, verify, &output), 0);
    assert_key_gives(fixture, key, 200);
    free(output);
    free(restore);
    free(path);
    free(key);
    free(digests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(issued_key_works_until_it_is_revoked),
        cmocka_unit_test(key_can_be_revoked_by_its_digest),
        cmocka_unit_test(revoking_what_is_no_key_fails),
        cmocka_unit_test(only_digests_are_stored_and_listed),
        cmocka_unit_test(many_keys_are_issued_at_once_and_all_differ),
        cmocka_unit_test(keys_are_restored_from_their_list),
    };
    return cmocka_run_group_tests(tests, start, fixture_teardown);
}
