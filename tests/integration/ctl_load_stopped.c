/* channelctl load: a signal, a lost Redis and a Redis that refuses end it clearly, without harm and without a
 * hang. */

#include "integration/ctl.h"

#include <signal.h>

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

/* Lines of channels first..first+count-1; owned. */
static char *lines(int first, int count)
{
    char *text = text_printf("%s", "");
    for (int i = first; i < first + count; i++) {
        char *line =
            text_printf("{\"max_channel_id\":%d,\"title\":\"t\",\"link\":\"https://max.ru/c%d\"}\n", i, i);
        text = text_append(text, line);
        free(line);
    }
    return text;
}

static bool something_is_loaded(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "EXISTS channels:card:1") == 1;
}

/* Starts a load from a pipe and feeds it more than a batch; returns the pipe's open end. */
static int start_load(struct process *process, const char *flag)
{
    char *path = NULL;
    char *text = lines(1, 400);
    int fd = ctl_make_fifo(&redis, &path);
    const char *args[] = {"load", path, flag, NULL};
    redis_do(&redis, "FLUSHALL");
    redis_do(&redis, "ZADD channels:index 1 1000");
    redis_do(&redis, "HSET channels:card:1000 max_channel_id 1000");
    ctl_start(process, &redis, args);
    ctl_feed(fd, text);
    assert_true(wait_until(something_is_loaded, NULL, WAIT_DEADLINE_MS));
    free(text);
    free(path);
    return fd;
}

static void interrupted_load_keeps_what_it_has(const char *flag)
{
    struct process process;
    int fd = start_load(&process, flag);
    process_signal(&process, SIGINT);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 130);
    ctl_expect_text(run.err, "stopped after line ");
    const char *loaded = strstr(run.err, "fifo: ");
    assert_non_null(loaded);
    long long count = strtoll(loaded + strlen("fifo: "), NULL, 10);
    assert_in_range(count, 256, 400);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), count + 1);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:index.next"), 0);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
    (void)close(fd);
}

static void interrupted_load_says_how_far_it_came(void **state)
{
    (void)state;
    interrupted_load_keeps_what_it_has(NULL);
}

static void interrupted_replace_replaces_nothing(void **state)
{
    (void)state;
    interrupted_load_keeps_what_it_has("--replace");
}

static void load_exits_accordingly(int signal)
{
    struct process process;
    int fd = start_load(&process, NULL);
    process_signal(&process, signal);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 128 + signal);
    ctl_expect_text(run.err, "stopped after line ");
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
    (void)close(fd);
}

static void terminated_load_exits_accordingly(void **state)
{
    (void)state;
    load_exits_accordingly(SIGTERM);
    load_exits_accordingly(SIGHUP);
}

static void lost_redis_ends_the_load(void **state)
{
    struct process process;
    (void)state;
    int fd = start_load(&process, "--replace");
    redis_kill(&redis);
    char *more = lines(401, 400);
    ctl_feed(fd, more);
    (void)close(fd);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, "the connection to Redis was lost");
    ctl_expect_text(run.err, "channelctl: stopped ");
    assert_string_equal(run.out, "");
    ctl_run_free(&run);
    free(more);
    redis_restart(&redis);
}

static void expect_refusal(const char *reason)
{
    char *text = lines(1, 10);
    struct ctl_run run = ctl_load(&redis, text, NULL);
    assert_int_equal(run.status, 1);
    ctl_expect_text(run.err, reason);
    ctl_expect_text(run.err, "stopped before anything was loaded");
    ctl_run_free(&run);
    free(text);
}

static void error_replies_end_the_load(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    redis_do(&redis, "CONFIG SET maxmemory 1");
    expect_refusal("Redis refused: OOM ");
    redis_do(&redis, "CONFIG SET maxmemory 0");
    redis_do(&redis, "REPLICAOF 127.0.0.1 1");
    expect_refusal("Redis refused: READONLY ");
    redis_do(&redis, "REPLICAOF NO ONE");
    redis_do(&redis, "SET channels:index text");
    expect_refusal("channels:index is not a sorted set: delete it, or load with --replace");
    redis_do(&redis, "FLUSHALL");
}

static void missing_files_and_missing_redis_are_failures(void **state)
{
    const char *no_file[] = {"load", "/nonexistent/file", NULL};
    const char *directory[] = {"load", "/", NULL};
    const char *no_redis[] = {"load", "/dev/null", "--redis-url=redis://127.0.0.1:1", NULL};
    (void)state;
    ctl_expect_status(&redis, no_file, 1);
    ctl_expect_status(&redis, directory, 1);
    ctl_expect_status(&redis, no_redis, 1);
}

static void standard_input_is_read(void **state)
{
    struct process process;
    char *path = text_printf("%s/stdin.ndjson", redis.dir.path);
    char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    const char *const argv[] = {process_require_env("CHANNELCTL_BIN"), "load", "-", NULL};
    const char *const env[] = {url, NULL};
    struct process_spec spec = {
        .name = "stdin", .dir = redis.dir.path, .argv = argv, .env = env, .stdin_path = path};
    (void)state;
    redis_do(&redis, "FLUSHALL");
    assert_true(text_write_file(path, "{\"max_channel_id\":1}\nbad\n"));
    assert_int_equal(process_run(&process, &spec), 1);
    char *errors = process_stderr(&process);
    ctl_expect_text(errors, "-:2: not a JSON object");
    ctl_expect_index(&redis, "1");
    free(errors);
    free(url);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted_load_says_how_far_it_came),
        cmocka_unit_test(interrupted_replace_replaces_nothing),
        cmocka_unit_test(terminated_load_exits_accordingly),
        cmocka_unit_test(lost_redis_ends_the_load),
        cmocka_unit_test(error_replies_end_the_load),
        cmocka_unit_test(missing_files_and_missing_redis_are_failures),
        cmocka_unit_test(standard_input_is_read),
    };
    return cmocka_run_group_tests(tests, start, end);
}
