/* The lock of channelctl load: a second load waits for a short one to end, and fails if it is a long one. */

#include "support/ctl.h"
#include "support/proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST_GROUP(ctl_setup, ctl_teardown)

enum { ROUNDS = 6, CHANNELS = 3000 };

static const char ONE[] = CTL_LINKED(1, "one");
static const char TWO[] = CTL_LINKED(2, "two");

/* It has renewed its lock by a transaction, which a change of the lock meanwhile would fail, and waits for
 * input. */
static bool load_waits(void *arg)
{
    (void)arg;
    AUTOFREE char *clients = redis_text(&redis, "CLIENT LIST");
    return strstr(clients, " cmd=exec ") != NULL;
}

/* Starts a load that goes on until the FIFO, which is returned, is closed. */
static int start_long_load(struct process *process, const char *flag)
{
    char *path = NULL;
    int fd = ctl_make_fifo(&path);
    const char *args[] = {"load", path, flag, NULL};
    ctl_start(process, args);
    ctl_feed(fd, ONE);
    ctl_await_lock();
    assert_true(wait_until(load_waits, NULL, WAIT_DEADLINE_MS));
    free(path);
    return fd;
}

/* Starts a load that runs beside others. */
static void start_other(struct process *process, const char *name, const char *path)
{
    const char *const args[] = {"load", path, "--replace", NULL};
    ctl_start_named(process, &redis, name, args);
}

TEST_CASE_WITH(lock_refuses_a_second_load, ctl_empty, NULL)
{
    struct process first;
    struct process second;
    int fd = start_long_load(&first, "--replace");
    AUTOFREE char *path = text_printf("%s/two", redis.dir.path);
    assert_true(text_write_file(path, TWO));
    start_other(&second, "second", path);
    struct ctl_run run = ctl_finish(&second);
    ctl_expect_text(run.err, "channelctl: waiting for another load to end (channelctl on ");
    ctl_expect_text(run.err, "channelctl: another load is running (channels:loader: channelctl on ");
    ctl_expect(run, 1, NULL, "channelctl: stopped before anything was loaded\n");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:2"), 0);
    (void)close(fd);
    ctl_expect(ctl_finish(&first), 0, NULL, NULL);
    ctl_expect_index("1");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
    ctl_expect_load(TWO, NULL, 0);
    ctl_expect_sound();
}

/* Two catalogues that assign the same links differently: channel n of file f has the link n + f. */
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
    ctl_expect_sound();
}

TEST_CASE_WITH(lock_separates_concurrent_loads, ctl_empty, NULL)
{
    char *path[] = {write_catalogue(0), write_catalogue(1)};
    struct process load[2];
    for (int round = 0; round < ROUNDS; round++) {
        start_other(&load[0], "left", path[round % 2]);
        start_other(&load[1], "right", path[1 - round % 2]);
        int ended = 0;
        for (int i = 0; i < 2; i++) {
            AUTO(ctl_run_free) struct ctl_run run = ctl_finish(&load[i]);
            if (run.status != 0)
                ctl_expect_text(run.err, "another load is running");
            ended += run.status == 0;
        }
        assert_in_range(ended, 1, 2);
        expect_all_of_one();
    }
    free(path[0]);
    free(path[1]);
}

TEST_CASE_WITH(load_that_lost_its_lock_replaces_nothing, ctl_empty, NULL)
{
    struct process first;
    ctl_expect_load(TWO, NULL, 0);
    int fd = start_long_load(&first, "--replace");
    redis_do(&redis, "SET channels:loader somebody PX 100000");
    (void)close(fd);
    ctl_expect(ctl_finish(&first), 1, NULL, "another load has taken the lock (channels:loader: somebody)");
    ctl_expect_index("2");
    CTL_EXPECT_REPLY("somebody", "GET channels:loader");
    redis_do(&redis, "DEL channels:loader");
}

static bool lock_is_renewed(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "PTTL channels:loader") > 10000;
}

TEST_CASE_WITH(lock_is_renewed_while_input_is_slow, ctl_empty, NULL)
{
    struct process first;
    int fd = start_long_load(&first, NULL);
    redis_do(&redis, "PEXPIRE channels:loader 8000");
    assert_true(wait_until(lock_is_renewed, NULL, WAIT_DEADLINE_MS));
    (void)close(fd);
    ctl_expect(ctl_finish(&first), 0, NULL, NULL);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
}

/* Before anything is written. */
static void flush_before_load(const char *flag)
{
    struct process load;
    (void)ctl_empty(NULL);
    int fd = start_long_load(&load, flag);
    redis_do(&redis, "FLUSHALL");
    (void)close(fd);
    ctl_expect(ctl_finish(&load), 1, "", "the lock is lost (channels:loader: it was deleted)");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

/* The channels that Redis has forgotten must not be counted as loaded. */
static void flush_during_load(const char *flag)
{
    struct ctl_held held;
    (void)ctl_empty(NULL);
    ctl_start_held(&held, flag);
    redis_do(&redis, "FLUSHALL");
    ctl_release_held(&held);
    struct ctl_run run = ctl_finish_held(&held);
    assert_null(strstr(run.out, "loaded"));
    ctl_expect(run, 1, NULL, "the lock is lost (channels:loader: it was deleted)");
    assert_int_equal(redis_integer(&redis, "DBSIZE"), 0);
}

TEST_CASE(load_fails_after_a_flushall_and_writes_nothing_more)
{
    flush_before_load(NULL);
    flush_before_load("--replace");
    flush_during_load(NULL);
    flush_during_load("--replace");
}

static bool is_waiting(void *arg)
{
    struct process *process = arg;
    AUTOFREE char *err = process_stderr(process);
    return strstr(err, "waiting for another load") != NULL;
}

TEST_CASE_WITH(load_can_be_interrupted_while_it_waits_for_the_lock, ctl_empty, NULL)
{
    struct process process;
    AUTOFREE char *path = text_printf("%s/one", redis.dir.path);
    assert_true(text_write_file(path, ONE));
    redis_do(&redis, "SET channels:loader somebody PX 15000");
    start_other(&process, "waits", path);
    assert_true(wait_until(is_waiting, &process, WAIT_DEADLINE_MS));
    process_signal(&process, SIGINT);
    ctl_expect(ctl_finish(&process), 130, NULL, NULL);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1"), 0);
}

/* The lock is released on another connection, which takes the password from its file again. */
TEST_CASE_WITH(lock_is_released_after_the_password_was_changed, ctl_empty, NULL)
{
    struct process load;
    char *fifo = NULL;
    AUTOFREE char *url = text_printf("redis://loader@127.0.0.1:%d", redis.port);
    AUTOFREE char *password = text_printf("%s/password", redis.dir.path);
    redis_do(&redis, "ACL SETUSER loader on >first ~* +@all");
    assert_true(text_write_file(password, "first\n"));
    int fd = ctl_make_fifo(&fifo);
    const char *args[] = {"--redis-url", url, "--redis-password-file", password, "load", fifo, NULL};
    ctl_start(&load, args);
    ctl_feed(fd, ONE);
    ctl_await_lock();
    redis_do(&redis, "ACL SETUSER loader <first >second");
    assert_true(text_write_file(password, "second\n"));
    redis_do(&redis, "CLIENT KILL USER loader");
    ctl_feed(fd, TWO);
    (void)close(fd);
    struct ctl_run run = ctl_finish(&load);
    assert_null(strstr(run.err, "could not release"));
    ctl_expect(run, 1, NULL, "the connection to Redis was lost");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
    free(fifo);
}

/* A writer without the lock, which changes the card all the time. */
static bool transaction_was_tried(void *arg)
{
    (void)arg;
    redis_do(&redis, "HINCRBY channels:card:1 views_24h 1");
    return redis_calls(&redis, "exec") > 1; /* the first one renews the lock */
}

TEST_CASE_WITH(remove_does_nothing_if_the_channel_changes_meanwhile, ctl_empty, NULL)
{
    enum { LATENCY_MS = 100 }; /* so that a change is certain between the read of the card and EXEC */
    static const char *const args[] = {"remove", "1", NULL};
    struct process process;
    struct proxy *proxy = proxy_new(redis.port);
    struct redis proxied = {.dir = redis.dir};
    (void)snprintf(proxied.url, sizeof proxied.url, "redis://127.0.0.1:%d", proxy_port(proxy));
    ctl_expect_load(ONE, NULL, 0);
    redis_do(&redis, "CONFIG RESETSTAT");
    proxy_set_latency(proxy, LATENCY_MS);
    ctl_start_at(&process, &proxied, args);
    assert_true(wait_until(transaction_was_tried, NULL, WAIT_DEADLINE_MS));
    ctl_expect(ctl_finish(&process), 1, NULL, "changed by another program meanwhile");
    proxy_free(proxy);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/one"), 2);
    CTL_EXPECT_REPLY("0", "ZSCORE channels:index 1");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
}
