/*
 * channelctl when Redis fails it: the connection is cut after ever more bytes of the replies, Redis is full,
 * or the user lacks a right. It reports the error, the list is the old one or the new one, and the next run
 * repairs it. Loads that are cut off are tested by tests/loader.
 */

#include "support/ctl.h"
#include "support/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Cut connections ---- */

/* Bytes between two cuts; by how much the replies of two runs may differ, as numbers in them grow. */
enum { STEP = 67, SLACK = 16 };

static const char BEFORE[] = CTL_LINKED(2, "old2") CTL_LINKED(1, "old1") CTL_LINKED(9, "c9");

static struct redis proxied; /* the same Redis, through the proxy */
static struct proxy *proxy;

static int start(void **state)
{
    (void)ctl_setup(state);
    proxy = proxy_new(redis.port);
    proxied = (struct redis){.dir = redis.dir};
    (void)snprintf(proxied.url, sizeof proxied.url, "redis://127.0.0.1:%d", proxy_port(proxy));
    return 0;
}

static int end(void **state)
{
    proxy_free(proxy);
    (void)ctl_teardown(state);
    return 0;
}

TEST_GROUP(start, end)

/* The connection was cut, in its handshake or later. */
static bool reports_a_cut(const char *errors)
{
    return strstr(errors, "Connection reset by peer") != NULL ||
           strstr(errors, "Server closed the connection") != NULL;
}

/* The catalogue before each run. */
static void fill(void)
{
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "some-key");
    ctl_expect_load(BEFORE, NULL, 0);
}

struct operation {
    const char *const *args;
    int status;         /* without a fault */
    int again;          /* and of a repetition */
    const char *before; /* the index before it */
    const char *after;  /* and after it */
};

static bool index_is(const char *expected)
{
    AUTOFREE char *index = ctl_index("channels:index");
    return strcmp(index, expected) == 0;
}

/* The size of all replies, in bytes. */
static size_t measure(const struct operation *o)
{
    fill();
    size_t before = proxy_bytes_down(proxy);
    ctl_expect(ctl_run_at(&proxied, o->args), o->status, NULL, NULL);
    assert_true(index_is(o->after));
    return proxy_bytes_down(proxy) - before;
}

static void cut(const struct operation *o, size_t at, enum proxy_fault fault)
{
    fill();
    proxy_inject_after(proxy, at, fault);
    AUTO(ctl_run_free) struct ctl_run run = ctl_run_at(&proxied, o->args);
    bool done = run.status == o->status && index_is(o->after); /* only the release of its lock was cut */
    if (!done && (run.status != 1 || !reports_a_cut(run.err)))
        fail_msg("%s, cut after %zu: %d: %s%s", o->args[0], at, run.status, run.out, run.err);
    assert_true(proxy_has_injected(proxy));
    bool is_after = index_is(o->after);
    if (!index_is(o->before) && !is_after)
        fail_msg("%s, cut after %zu: the index is neither the old nor the new one", o->args[0], at);
    ctl_expect(ctl_run(o->args), is_after ? o->again : o->status, NULL, NULL);
    ctl_expect_index(o->after);
    ctl_expect_sound();
}

static void cut_at_each_step(const struct operation *o)
{
    size_t total = measure(o);
    enum proxy_fault fault = PROXY_RESET;
    for (size_t at = 1; at + SLACK < total; at += STEP) {
        cut(o, at, fault);
        fault = fault == PROXY_RESET ? PROXY_FINISH : PROXY_RESET;
    }
}

TEST_CASE(verify_and_keys_list_report_a_cut_connection)
{
    static const char *const verify[] = {"verify", NULL};
    static const char *const list[] = {"keys", "list", NULL};
    cut_at_each_step(&(struct operation){verify, 0, 0, "2 1 9", "2 1 9"});
    cut_at_each_step(&(struct operation){list, 0, 0, "2 1 9", "2 1 9"});
}

TEST_CASE(remove_is_atomic_when_the_connection_is_cut)
{
    static const char *const args[] = {"remove", "1", NULL};
    cut_at_each_step(&(struct operation){args, 0, 1, "2 1 9", "2 9"});
}

/* A key that was not printed must not be valid. */
TEST_CASE(keys_issue_leaves_no_unprinted_key_after_a_cut_connection)
{
    static const char *const issue[] = {"keys", "issue", NULL};
    fill();
    size_t before = proxy_bytes_down(proxy);
    ctl_expect(ctl_run_at(&proxied, issue), 0, NULL, NULL);
    size_t total = proxy_bytes_down(proxy) - before;
    for (size_t at = 1; at < total;
         at += at + (size_t)2 * SLACK < total ? 5 : 1) { /* each byte of the last reply */
        fill();
        proxy_inject_after(proxy, at, at % 2 == 0 ? PROXY_RESET : PROXY_FINISH);
        struct ctl_run run = ctl_run_at(&proxied, issue);
        assert_true(proxy_has_injected(proxy));
        assert_string_equal(run.out, "");
        ctl_expect(run, 1, NULL, NULL);
        assert_int_equal(redis_integer(&redis, "SCARD channels:api_keys"), 1);
    }
}

/* ---- A Redis that becomes full ---- */

static void fill_redis_during_load(const char *flag)
{
    struct ctl_held held;
    fill();
    ctl_start_held(&held, flag);
    redis_do(&redis, "CONFIG SET maxmemory 1");
    ctl_release_held(&held);
    struct ctl_run run = ctl_finish_held(&held);
    redis_do(&redis, "CONFIG SET maxmemory 0");
    assert_null(strstr(run.err, "could not release"));
    assert_int_equal(strstr(run.err, "the index was not changed") != NULL, flag != NULL);
    ctl_expect(run, 1, "", "Redis refused: OOM ");
    assert_int_equal(redis_integer(&redis, "EXISTS channels:loader channels:index.next"), 0);
}

/* The next index takes memory that is needed, and the next load would wait for the lock. */
TEST_CASE(load_leaves_neither_lock_nor_next_index_when_redis_becomes_full)
{
    fill_redis_during_load(NULL);
    fill_redis_during_load("--replace");
    ctl_expect_index("2 1 9");
}

/* ---- Missing rights ---- */

/* Each with a command that it needs, behind what it reads or writes first. */
static const struct action {
    const char *args[4];
    const char *command;
} ACTIONS[] = {
    {{"load", "after"}, "zadd"},
    {{"load", "after", "--replace"}, "rename"},
    {{"show", "0"}, "zrank"},
    {{"remove", "0"}, "exec"},
    {{"verify"}, "sscan"},
    {{"keys", "issue"}, "sadd"},
    {{"keys", "list"}, "smembers"},
    {{"keys", "revoke", "ab530a13e45914982b79f9b7e3fba994cfd1f3fb22f71cea1afbf02b460c6d1d"}, "srem"}};

/* Runs channelctl as this Redis user; the word "after" stands for the file of that name. */
static struct ctl_run run_as(const char *user, const char *const *words)
{
    const char *args[5] = {NULL};
    AUTOFREE char *file = text_printf("%s/after", redis.dir.path);
    for (int i = 0; words[i] != NULL; i++)
        args[i] = strcmp(words[i], "after") == 0 ? file : words[i];
    struct redis as_user = {.dir = redis.dir};
    (void)snprintf(as_user.url, sizeof as_user.url, "redis://%s:pw@127.0.0.1:%d/0", user, redis.port);
    struct ctl_run run = ctl_run_at(&as_user, args);
    return run;
}

/* Four channels, of which the file "after" moves one to another link, drops one, leaves one and adds one. */
static void fill_for_rights(void)
{
    AUTOFREE char *before = text_printf("%s", "");
    AUTOFREE char *after = text_printf("%s/after", redis.dir.path);
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "some-key");
    for (size_t n = 0; n < 4; n++) {
        AUTOFREE char *card = catalogue_card(n);
        before = text_append(before, card);
        before = text_append(before, "\n");
    }
    ctl_expect_load(before, NULL, 0);
    AUTOFREE char *kept = catalogue_card(2);
    AUTOFREE char *added = catalogue_card(4);
    assert_true(text_write_file(
        after,
        text_temp(
            "{\"max_channel_id\":%lld,\"title\":\"moved\",\"link\":\"https://max.ru/elsewhere\"}\n%s\n%s\n",
            (long long)catalogue_id(0), kept, added)));
}

static void expect_error(const struct action *o)
{
    redis_do(&redis, "ACL SETUSER loader reset on >pw ~* &* +@all -%s", o->command);
    AUTO(ctl_run_free) struct ctl_run run = run_as("loader", o->args);
    if (run.status == 0 || strstr(run.err, "NOPERM") == NULL)
        fail_msg("%s without %s: %d: %s%s", o->args[0], o->command, run.status, run.out, run.err);
}

static void expect_repair(void)
{
    AUTOFREE char *file = text_printf("%s/after", redis.dir.path);
    redis_do(&redis, "DEL channels:loader"); /* the user may not have been able to release it */
    ctl_expect(CTL("load", file, "--replace"), 0, NULL, NULL);
    ctl_expect_sound();
}

TEST_CASE(missing_right_is_reported_and_does_no_harm)
{
    for (size_t i = 0; i < TEST_COUNT(ACTIONS); i++) {
        fill_for_rights();
        expect_error(&ACTIONS[i]);
        expect_repair();
    }
}
