/*
 * A user of Redis who lacks a right: whichever command is refused, channelctl says so and fails, and a load
 * that was stopped by it is mended by the next one.
 */

#include "integration/ctl.h"

static const char KEY_DIGEST[] = "ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d";

/* Each with the commands that it cannot do without. */
static const struct operation {
    const char *args[4];
    const char *commands;
} OPERATIONS[] = {
    {{"load", "after"}, "hmget get zscore hset del multi set exec zadd zrevrange pttl pexpire persist"},
    {{"load", "after", "--replace"},
     "hmget get hset del multi set exec zadd unlink watch zcard rename scan zscore pttl pexpire persist"},
    {{"verify"}, "zscan hmget get scan zscore zcard sscan type pttl memory|usage"},
    {{"keys", "issue"}, "sadd"},
    {{"keys", "list"}, "smembers"},
    {{"keys", "revoke", KEY_DIGEST}, "srem"},
};

static struct redis redis;
static char own_url[sizeof redis.url];

static int start(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    (void)snprintf(own_url, sizeof own_url, "%s", redis.url);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

/* Runs channelctl as that user; the word "after" stands for the file of that name. */
static struct ctl_run run_as(const char *user, const char *const *words)
{
    const char *args[5] = {NULL};
    char *file = text_printf("%s/after", redis.dir.path);
    for (int i = 0; words[i] != NULL; i++)
        args[i] = strcmp(words[i], "after") == 0 ? file : words[i];
    if (user != NULL)
        (void)snprintf(redis.url, sizeof redis.url, "redis://%s:pw@127.0.0.1:%d/0", user, redis.port);
    struct ctl_run run = ctl_run(&redis, args);
    (void)snprintf(redis.url, sizeof redis.url, "%s", own_url);
    free(file);
    return run;
}

/* Four channels, of which the file "after" moves one to another link, drops one, leaves one and adds one. */
static void set_the_scene(void)
{
    char *before = text_printf("%s", "");
    char *after = text_printf("%s/after", redis.dir.path);
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "some-key");
    for (size_t n = 0; n < 4; n++) {
        char *card = catalogue_card(n);
        before = text_append(before, card);
        before = text_append(before, "\n");
        free(card);
    }
    ctl_expect_load(&redis, before, NULL, 0);
    char *kept = catalogue_card(2);
    char *added = catalogue_card(4);
    char *text = text_printf(
        "{\"max_channel_id\":%lld,\"title\":\"moved\",\"link\":\"https://max.ru/elsewhere\"}\n%s\n%s\n",
        (long long)catalogue_id(0), kept, added);
    assert_true(text_write_file(after, text));
    free(text);
    free(kept);
    free(added);
    free(before);
    free(after);
}

static void deny(const char *command)
{
    redis_do(&redis, "ACL SETUSER loader reset on >pw ~* &* +@all -%s", command);
}

static void expect_told(const struct operation *o, const char *command)
{
    struct ctl_run run = run_as("loader", o->args);
    if (run.status == 0 || strstr(run.err, "NOPERM") == NULL)
        fail_msg("%s without %s: %d: %s%s", o->args[0], command, run.status, run.out, run.err);
    ctl_run_free(&run);
}

static void expect_mended(void)
{
    static const char *const again[] = {"load", "after", "--replace", NULL};
    redis_do(&redis, "DEL channels:loader"); /* which the user may not have been able to give back */
    struct ctl_run run = run_as(NULL, again);
    assert_int_equal(run.status, 0);
    ctl_run_free(&run);
    ctl_expect_sound(&redis);
}

static void each_right_that_is_missing_is_told_and_does_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(OPERATIONS); i++) {
        char *commands = text_printf("%s", OPERATIONS[i].commands);
        char *rest = NULL;
        for (char *command = strtok_r(commands, " ", &rest); command != NULL;
             command = strtok_r(NULL, " ", &rest)) {
            set_the_scene();
            deny(command);
            expect_told(&OPERATIONS[i], command);
            expect_mended();
        }
        free(commands);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_right_that_is_missing_is_told_and_does_no_harm),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
