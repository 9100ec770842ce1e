/* What channelctl draws where somebody looks: script(1) runs it on a terminal. */

#include "integration/ctl.h"

static struct redis redis;

static int start(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

/* Loads the file on a terminal; what it showed is owned. */
static char *load_on_a_terminal(const char *path, int *status)
{
    char *load = text_printf("%s load %s", process_require_env("CHANNELCTL_BIN"), path);
    char *url = text_printf("CHANNELD_REDIS_URL=%s", redis.url);
    const char *const argv[] = {"script", "-qec", load, "/dev/null", NULL};
    const char *const env[] = {url, NULL};
    const struct process_spec spec = {.name = "script", .dir = redis.dir.path, .argv = argv, .env = env};
    struct process process;
    *status = process_run(&process, &spec);
    free(load);
    free(url);
    return process_stdout(&process);
}

static void progress_is_one_line_that_is_wiped_in_the_end(void **state)
{
    int status = 0;
    char *path = text_printf("%s/file.ndjson", redis.dir.path);
    (void)state;
    catalogue_write_file(path, 3000);
    char *shown = load_on_a_terminal(path, &status);
    assert_int_equal(status, 0);
    ctl_expect_text(shown, "\r\033[K[#");
    ctl_expect_text(shown, " channels  ");
    ctl_expect_text(shown, "/s  ");
    ctl_expect_text(shown, " s left");
    ctl_expect_text(shown, "3000 channels");
    free(shown);
    free(path);
}

static void problems_do_not_stand_in_the_progress(void **state)
{
    int status = 0;
    char *path = text_printf("%s/file.ndjson", redis.dir.path);
    (void)state;
    assert_true(text_write_file(path, "{\"max_channel_id\":1,\"t\\u001bitle\":\"\"}\n"));
    char *shown = load_on_a_terminal(path, &status);
    assert_int_not_equal(status, 0);
    char *told = text_printf("\r\033[K%s:1: t?itle: no such field", path);
    ctl_expect_text(shown, told);
    free(told);
    free(shown);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_is_one_line_that_is_wiped_in_the_end),
        cmocka_unit_test(problems_do_not_stand_in_the_progress),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
