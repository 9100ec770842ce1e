/* The lock of channelctl load, its renewal, and signals and changes meanwhile. Loads at the same time:
 * tests/loader. */

#include "support/ctl.h"
#include "support/proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST_GROUP(ctl_setup, ctl_teardown)

static const char ONE[] = CTL_LINKED(1, "one");

/* A load of so many batches over so slow a network that it goes on until it is told to end. */
enum { LATENCY_MS = 200, LONG_CHANNELS = 10000 };

struct long_load {
    struct process process;
    struct proxy *proxy;
};

/* `user`: of the URL, with an at-sign, or empty; `flag` and its value may be NULL. */
static void start_long_load(struct long_load *l, const char *user, const char *flag, const char *value)
{
    AUTOFREE char *path = text_printf("%s/long.ndjson", redis.dir.path);
    AUTOFREE char *text = ctl_channels(1, LONG_CHANNELS);
    struct redis proxied = {.dir = redis.dir};
    assert_true(text_write_file(path, text));
    l->proxy = proxy_new(redis.port);
    proxy_set_latency(l->proxy, LATENCY_MS);
    (void)snprintf(proxied.url, sizeof proxied.url, "redis://%s127.0.0.1:%d", user, proxy_port(l->proxy));
    ctl_start_at(&l->process, &proxied, (const char *const[]){"load", path, flag, value, NULL});
    ctl_await_lock();
}

static struct ctl_run finish_long_load(struct long_load *l)
{
    proxy_set_latency(l->proxy, 0);
    struct ctl_run run = ctl_finish(&l->process);
    proxy_free(l->proxy);
    return run;
}

static bool lock_is_renewed(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "PTTL channels:loader") > 10000;
}

TEST_CASE_WITH(lock_is_renewed_while_redis_is_slow, ctl_empty, NULL)
{
    struct long_load first;
    start_long_load(&first, "", NULL, NULL);
    redis_do(&redis, "PEXPIRE channels:loader 8000");
    assert_true(wait_until(lock_is_renewed, NULL, WAIT_DEADLINE_MS));
    ctl_expect(finish_long_load(&first), 0, NULL, NULL);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
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
    ctl_start(&process, (const char *const[]){"load", path, "--replace", NULL});
    assert_true(wait_until(is_waiting, &process, WAIT_DEADLINE_MS));
    process_signal(&process, SIGINT);
    ctl_expect(ctl_finish(&process), 130, NULL, NULL);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1"), 0);
}

/* The lock is released on another connection, which takes the password from its file again. */
TEST_CASE_WITH(lock_is_released_after_the_password_was_changed, ctl_empty, NULL)
{
    struct long_load load;
    AUTOFREE char *password = text_printf("%s/password", redis.dir.path);
    redis_do(&redis, "ACL SETUSER loader on >first ~* +@all");
    assert_true(text_write_file(password, "first\n"));
    start_long_load(&load, "loader@", "--redis-password-file", password);
    redis_do(&redis, "ACL SETUSER loader <first >second");
    assert_true(text_write_file(password, "second\n"));
    redis_do(&redis, "CLIENT KILL USER loader");
    struct ctl_run run = finish_long_load(&load);
    assert_null(strstr(run.err, "could not release"));
    ctl_expect(run, 1, NULL, "the connection to Redis was lost");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
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
    enum { READ_LATENCY_MS = 100 }; /* so that a change is certain between the read of the card and EXEC */
    static const char *const args[] = {"remove", "1", NULL};
    struct process process;
    struct proxy *proxy = proxy_new(redis.port);
    struct redis proxied = {.dir = redis.dir};
    (void)snprintf(proxied.url, sizeof proxied.url, "redis://127.0.0.1:%d", proxy_port(proxy));
    ctl_expect_load(ONE, NULL, 0);
    redis_do(&redis, "CONFIG RESETSTAT");
    proxy_set_latency(proxy, READ_LATENCY_MS);
    ctl_start_at(&process, &proxied, args);
    assert_true(wait_until(transaction_was_tried, NULL, WAIT_DEADLINE_MS));
    ctl_expect(ctl_finish(&process), 1, NULL, "changed by another program meanwhile");
    proxy_free(proxy);
    assert_int_equal(redis_integer(&redis, "EXISTS channels:card:1 channels:link:https://max.ru/one"), 2);
    CTL_EXPECT_REPLY("0", "ZSCORE channels:index 1");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader"), 0);
}
