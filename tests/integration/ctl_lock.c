/* channelctl load: one at a time. The second one waits for a short load to end, and is refused by a long one.
 */

#include "integration/ctl.h"

#include <signal.h>

enum { ROUNDS = 6, CHANNELS = 3000 };

static const char ONE[] = "{\"max_channel_id\":1,\"link\":\"https://max.ru/one\"}\n";
static const char TWO[] = "{\"max_channel_id\":2,\"link\":\"https://max.ru/two\"}\n";

static struct redis redis;

static int start(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

static int empty(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    return 0;
}

static bool one_is_loaded(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "EXISTS channels:card:1") == 1;
}

/* A load that has begun and goes on until the pipe, which is returned, is closed. */
static int start_long_load(struct process *process, const char *flag)
{
    char *path = NULL;
    int fd = ctl_make_fifo(&redis, &path);
    const char *args[] = {"load", path, flag, NULL};
    ctl_start(process, &redis, args);
    ctl_feed(fd, ONE); /* one line: what was read is written when nothing more comes */
    assert_true(wait_until(one_is_loaded, NULL, WAIT_DEADLINE_MS));
    free(path);
    return fd;
}

/* Its output goes to files of its own, for two that run at once. */
static void start_other(struct process *process, const char *name, const char *path)
{
    char *tool = text_printf("%s", process_require_env("CHANNELCTL_BIN"));
    char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    const char *const argv[] = {tool, "load", path, "--replace", NULL};
    const char *const env[] = {url, NULL};
    struct process_spec spec = {.name = name, .dir = redis.dir.path, .argv = argv, .env = env};
    process_start(process, &spec);
    free(url);
    free(tool);
}

static void a_second_load_is_refused_and_the_first_is_not_disturbed(void **state)
{
    struct process first;
    struct process second;
    (void)state;
    int fd = start_long_load(&first, "--replace");
    char *path = text_printf("%s/two", redis.dir.path);
    assert_true(text_write_file(path, TWO));
    start_other(&second, "second", path);
    struct ctl_run run = ctl_finish(&second);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "channelctl: waiting for another load to end (channelctl on ");
    ctl_expect_text(run.err, "channelctl: another load is running (channels:loader: channelctl on ");
    ctl_expect_text(run.err, "channelctl: stopped before anything was loaded");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:2"), 0);
    ctl_run_free(&run);
    (void)close(fd);
    run = ctl_finish(&first);
    assert_int_equal(run.status, 0);
    ctl_expect_index(&redis, "1");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
    ctl_expect_load(&redis, TWO, NULL, 0);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
    free(path);
}

/* Two catalogues with the same links in other hands: channel n of file f has the link n + f. */
static char *write_catalogue(int f)
{
    char *path = text_printf("%s/catalogue%d", redis.dir.path, f);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int n = 0; n < CHANNELS; n++)
        (void)fprintf(file, "{\"max_channel_id\":%d,\"title\":\"%d\",\"link\":\"https://max.ru/c%d\"}\n", n,
                      f, (n + f) % CHANNELS);
    (void)fclose(file);
    return path;
}

static void expect_all_of_one(void)
{
    static const char script[] =
        "local titles, count = {}, 0 "
        "for _, id in ipairs(redis.call('ZRANGE', 'channels:index', 0, -1)) do "
        "local title = redis.call('HGET', 'channels:card:' .. id, 'title') "
        "if not titles[title] then titles[title] = true; count = count + 1 end end return count";
    assert_int_equal(redis_integer(&redis, "EVAL %s 0", script), 1);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), CHANNELS);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:index.next channels:loader"), 0);
    ctl_expect_sound(&redis);
}

static void loads_that_race_leave_one_catalogue_or_the_other(void **state)
{
    char *path[] = {write_catalogue(0), write_catalogue(1)};
    struct process load[2];
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        start_other(&load[0], "left", path[round % 2]);
        start_other(&load[1], "right", path[1 - round % 2]);
        int ended = 0;
        for (int i = 0; i < 2; i++) {
            struct ctl_run run = ctl_finish(&load[i]);
            if (run.status != 0)
                ctl_expect_text(run.err, "another load is running");
            ended += run.status == 0;
            ctl_run_free(&run);
        }
        assert_in_range(ended, 1, 2);
        expect_all_of_one();
    }
    free(path[0]);
    free(path[1]);
}

static void a_load_that_has_lost_its_lock_replaces_nothing(void **state)
{
    struct process first;
    (void)state;
    ctl_expect_load(&redis, TWO, NULL, 0);
    int fd = start_long_load(&first, "--replace");
    redis_do(&redis, "SET channels:loader somebody PX 100000");
    (void)close(fd);
    struct ctl_run run = ctl_finish(&first);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "another load has taken the lock (channels:loader: somebody)");
    ctl_expect_index(&redis, "2");
    char *holder = redis_text(&redis, "GET channels:loader");
    assert_string_equal(holder, "somebody");
    redis_do(&redis, "DEL channels:loader");
    free(holder);
    ctl_run_free(&run);
}

static bool lock_is_renewed(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "PTTL channels:loader") > 10000;
}

/* Also while it waits for its input. */
static void a_load_renews_its_lock(void **state)
{
    struct process first;
    (void)state;
    int fd = start_long_load(&first, NULL);
    redis_do(&redis, "PEXPIRE channels:loader 8000");
    assert_true(wait_until(lock_is_renewed, NULL, WAIT_DEADLINE_MS));
    redis_do(&redis, "DEL channels:loader"); /* as when it has expired: nobody else has it */
    assert_true(wait_until(lock_is_renewed, NULL, WAIT_DEADLINE_MS));
    (void)close(fd);
    struct ctl_run run = ctl_finish(&first);
    assert_int_equal(run.status, 0);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
    ctl_run_free(&run);
}

/* The operator's way to keep loads away. */
static void a_lock_that_does_not_expire_refuses_at_once(void **state)
{
    (void)state;
    redis_do(&redis, "SET channels:loader maintenance");
    struct ctl_run run = ctl_load(&redis, ONE, NULL);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "another load is running (channels:loader: maintenance)");
    assert_int_equal(text_count(run.err, "waiting"), 0);
    ctl_run_free(&run);
}

static bool somebody_waits(void *arg)
{
    struct process *process = arg;
    char *err = process_stderr(process);
    bool waits = strstr(err, "waiting for another load") != NULL;
    free(err);
    return waits;
}

static void a_load_that_waits_can_be_interrupted(void **state)
{
    struct process process;
    (void)state;
    char *path = text_printf("%s/one", redis.dir.path);
    assert_true(text_write_file(path, ONE));
    redis_do(&redis, "SET channels:loader somebody PX 100000");
    start_other(&process, "waits", path);
    assert_true(wait_until(somebody_waits, &process, WAIT_DEADLINE_MS));
    process_signal(&process, SIGINT);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 130);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1"), 0);
    ctl_run_free(&run);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_second_load_is_refused_and_the_first_is_not_disturbed, empty),
        cmocka_unit_test_setup(loads_that_race_leave_one_catalogue_or_the_other, empty),
        cmocka_unit_test_setup(a_load_that_has_lost_its_lock_replaces_nothing, empty),
        cmocka_unit_test_setup(a_load_renews_its_lock, empty),
        cmocka_unit_test_setup(a_lock_that_does_not_expire_refuses_at_once, empty),
        cmocka_unit_test_setup(a_load_that_waits_can_be_interrupted, empty),
    };
    return cmocka_run_group_tests(tests, start, end);
}
