/* channelctl commands that end early: by a signal, as their file changes, or as Redis is lost. */

#include "support/ctl.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

TEST_GROUP(ctl_setup, ctl_teardown)

/* ---- Loads that end early ---- */

static void interrupt_load(const char *flag, int signal)
{
    struct ctl_held held;
    (void)ctl_empty(NULL);
    redis_do(&redis, "ZADD channels:index 1 1000");
    redis_do(&redis, "HSET channels:card:1000 max_channel_id 1000");
    ctl_start_held(&held, flag);
    process_signal(&held.process, signal);
    ctl_release_held(&held);
    struct ctl_run run = ctl_finish_held(&held);
    const char *stopped = strstr(run.err, "stopped after ");
    assert_non_null(stopped);
    long long count = strtoll(stopped + strlen("stopped after "), NULL, 10);
    ctl_expect_text(run.err, text_temp(" of 1000 channels of %s/held.ndjson: %lld loaded, 0 unchanged\n",
                                       redis.dir.path, count));
    assert_in_range(count, 100, CTL_HELD_CHANNELS - 1);
    assert_int_equal(redis_integer(&redis, "ZCARD channels:index"), count + 1);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:index.next"), 0);
    ctl_expect(run, 128 + signal, NULL, NULL);
    ctl_expect_sound();
}

TEST_CASE(interrupted_load_prints_how_much_is_loaded)
{
    interrupt_load(NULL, SIGINT);
    interrupt_load(NULL, SIGTERM);
    interrupt_load(NULL, SIGHUP);
}

static bool is_read(void *fifo)
{
    int unread = -1;
    return ioctl(*(int *)fifo, FIONREAD, &unread) == 0 && unread == 0;
}

/* Nothing is written before the end of the input is known. */
TEST_CASE_WITH(load_interrupted_while_it_reads_has_written_nothing, ctl_empty, NULL)
{
    struct process process;
    char *fifo = NULL;
    int fd = ctl_make_fifo(&fifo);
    ctl_start(&process, (const char *const[]){"load", fifo, NULL});
    ctl_feed(fd, CTL_CHANNEL(1));
    assert_true(wait_until(is_read, &fd, WAIT_DEADLINE_MS));
    process_signal(&process, SIGTERM);
    ctl_expect(ctl_finish(&process), 128 + SIGTERM, "", NULL);
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
    (void)close(fd);
    free(fifo);
}

/* The lines that were read first are no longer there. */
static void change_file_during_load(const char *flag, const char *text, const char *why)
{
    struct ctl_held held;
    (void)ctl_empty(NULL);
    ctl_expect_load("{\"max_channel_id\":-1}\n", NULL, 0);
    ctl_start_held(&held, flag);
    AUTOFREE char *path = text_printf("%s/held.ndjson", redis.dir.path);
    assert_true(text_write_file(path, text));
    ctl_release_held(&held);
    struct ctl_run run = ctl_finish_held(&held);
    ctl_expect_text(run.err, "/held.ndjson: it was changed while it was read\n");
    ctl_expect(run, 1, NULL, why);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:-1"), 1);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader channels:index.next"), 0);
    if (flag != NULL)
        ctl_expect_index("-1");
    AUTOFREE char *again = ctl_channels(1, CTL_HELD_CHANNELS);
    ctl_expect_load(again, flag, 0);
    ctl_expect_sound();
}

TEST_CASE(load_fails_when_its_file_is_changed_meanwhile)
{
    static const char why[] = "the index was not changed";
    AUTOFREE char *other = ctl_channels(2, CTL_HELD_CHANNELS);
    change_file_during_load(NULL, "", "");
    change_file_during_load("--replace", "", why);
    change_file_during_load("--replace", other, why);
}

static bool is_replaced(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "ZCOUNT channels:index -inf inf") == 2 &&
           redis_integer(&redis, "EXISTS channels:card:3 channels:index.next") == 1;
}

TEST_CASE_WITH(interrupted_removal_says_what_is_left, ctl_empty, NULL)
{
    static const char fill[] =
        "for i = 1, 300000 do redis.call('SET', 'channels:link:https://max.ru/' .. i, i) end";
    static const char second[] = CTL_LINKED(3, "three") CTL_LINKED(2, "two");
    AUTOFREE char *path = text_printf("%s/second.ndjson", redis.dir.path);
    assert_true(text_write_file(path, second));
    ctl_expect_load(CTL_LINKED(1, "one") CTL_LINKED(2, "two"), NULL, 0);
    redis_do(&redis, "EVAL %s 0", fill);
    struct process process;
    ctl_start(&process, (const char *const[]){"load", path, "--replace", NULL});
    assert_true(wait_until(is_replaced, NULL, WAIT_DEADLINE_MS));
    process_signal(&process, SIGTERM);
    ctl_expect(ctl_finish(&process), 128 + SIGTERM, "",
               "the catalogue was replaced, but keys of removed channels may be left");
    assert_true(redis_integer(&redis, "DBSIZE") > 100000);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader channels:index.next"), 0);
    ctl_expect_load(second, "--replace", 0);
    ctl_expect_sound();
}

/* ---- API keys ---- */

/* The number in "N of COUNT keys were issued and printed". */
static long long printed_keys(const char *err, int count)
{
    AUTOFREE char *rest = text_printf(" of %d keys were issued and printed\n", count);
    ctl_expect_text(err, rest);
    const char *start = strstr(err, rest);
    while (start > err && start[-1] >= '0' && start[-1] <= '9')
        start--;
    return strtoll(start, NULL, 10);
}

TEST_CASE_WITH(keys_issue_prints_each_valid_key_when_interrupted, ctl_empty, NULL)
{
    enum { COUNT = 100000 };
    static const char *const args[] = {"keys", "issue", "--count=100000", NULL};
    struct process process;
    ctl_start(&process, args);
    while (redis_integer(&redis, "SCARD channels:api_keys") == 0)
        (void)usleep(1000);
    redis_pause(&redis); /* so that not all are issued before the signal comes */
    process_signal(&process, SIGINT);
    redis_resume(&redis);
    struct ctl_run run = ctl_finish(&process);
    assert_int_equal(text_count(run.out, "\n"), redis_integer(&redis, "SCARD channels:api_keys"));
    assert_int_equal(printed_keys(run.err, COUNT), redis_integer(&redis, "SCARD channels:api_keys"));
    ctl_expect(run, 130, NULL, NULL);
}
