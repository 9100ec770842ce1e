/*
 * channelctl on a line that is cut within Redis' answers, after ever more of their bytes: it says so and
 * fails, the list is the old one or the new one, and the same command does its work when the line is good
 * again.
 */

#include "integration/ctl.h"

#include "support/proxy.h"

/* From one cut to the next; and by how much the answers of two runs may differ, as numbers in them grow. */
enum { STEP = 67, SLACK = 16 };

static const char BEFORE[] = "{\"max_channel_id\":2,\"link\":\"https://max.ru/old2\"}\n"
                             "{\"max_channel_id\":1,\"link\":\"https://max.ru/old1\"}\n"
                             "{\"max_channel_id\":9,\"link\":\"https://max.ru/c9\"}\n";
static const char AFTER[] = "{\"max_channel_id\":1,\"link\":\"https://max.ru/c1\"}\n"
                            "{\"max_channel_id\":3,\"link\":\"https://max.ru/c3\"}\n"
                            "{\"max_channel_id\":2,\"link\":\"https://max.ru/c2\"}\n";

static struct redis redis;
static struct redis beyond; /* the same one, at the other end of the line */
static struct proxy *line;
static char *good;    /* the path of a file with AFTER */
static char *damaged; /* the same and a line that is refused */

static int start(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    line = proxy_new(redis.port);
    beyond = (struct redis){.dir = redis.dir};
    (void)snprintf(beyond.url, sizeof beyond.url, "redis://127.0.0.1:%d", proxy_port(line));
    good = text_printf("%s/good", redis.dir.path);
    damaged = text_printf("%s/damaged", redis.dir.path);
    char *text = text_printf("%sbroken\n", AFTER);
    assert_true(text_write_file(good, AFTER));
    assert_true(text_write_file(damaged, text));
    free(text);
    return 0;
}

static int end(void **state)
{
    (void)state;
    proxy_free(line);
    redis_stop(&redis);
    free(good);
    free(damaged);
    return 0;
}

/* The catalogue as it is before each run. */
static void fill(void)
{
    redis_do(&redis, "FLUSHALL");
    catalogue_issue_key(&redis, "some-key");
    ctl_expect_load(&redis, BEFORE, NULL, 0);
}

struct operation {
    const char *const *args;
    int status;         /* on a good line */
    const char *before; /* the list, while it is not done */
    const char *after;  /* and when it is */
};

static bool is_list(const char *expected)
{
    char *index = ctl_index(&redis, "channels:index");
    bool same = strcmp(index, expected) == 0;
    free(index);
    return same;
}

/* How many bytes of answers it takes. */
static size_t measure(const struct operation *o)
{
    fill();
    size_t before = proxy_bytes_down(line);
    ctl_expect_status(&beyond, o->args, o->status);
    assert_true(is_list(o->after));
    return proxy_bytes_down(line) - before;
}

static void cut(const struct operation *o, size_t at, enum proxy_fault fault)
{
    fill();
    proxy_inject_after(line, at, fault);
    struct ctl_run run = ctl_run(&beyond, o->args);
    bool done = run.status == o->status && is_list(o->after); /* only its lock was left to be given back */
    if (!done && (run.status != 1 || strstr(run.err, "the connection to Redis was lost: ") == NULL))
        fail_msg("%s, cut after %zu: %d: %s%s", o->args[0], at, run.status, run.out, run.err);
    assert_true(proxy_has_injected(line));
    if (!is_list(o->before) && !is_list(o->after))
        fail_msg("%s, cut after %zu: a list of its own", o->args[0], at);
    ctl_expect_status(&redis, o->args, o->status);
    ctl_expect_index(&redis, o->after);
    ctl_expect_sound(&redis);
    ctl_run_free(&run);
}

static void cut_everywhere(const struct operation *o)
{
    size_t total = measure(o);
    enum proxy_fault fault = PROXY_RESET;
    for (size_t at = 1; at + SLACK < total; at += STEP) {
        cut(o, at, fault);
        fault = fault == PROXY_RESET ? PROXY_FINISH : PROXY_RESET;
    }
}

static void a_load_that_is_cut_can_be_repeated(void **state)
{
    const char *const args[] = {"load", good, NULL};
    (void)state;
    cut_everywhere(&(struct operation){args, 0, "2 1 9", "2 1 9 3"});
}

static void a_replacement_that_is_cut_is_done_or_not(void **state)
{
    const char *const args[] = {"load", good, "--replace", NULL};
    (void)state;
    cut_everywhere(&(struct operation){args, 0, "2 1 9", "1 3 2"});
}

static void a_merge_that_is_cut_can_be_repeated(void **state)
{
    const char *const args[] = {"load", damaged, "--replace", NULL};
    (void)state;
    cut_everywhere(&(struct operation){args, 1, "2 1 9", "2 1 9 3"});
}

static void what_only_reads_says_that_it_could_not(void **state)
{
    static const char *const verify[] = {"verify", NULL};
    static const char *const list[] = {"keys", "list", NULL};
    (void)state;
    cut_everywhere(&(struct operation){verify, 0, "2 1 9", "2 1 9"});
    cut_everywhere(&(struct operation){list, 0, "2 1 9", "2 1 9"});
}

/* A key that was not printed is not valid. */
static void a_key_is_issued_on_a_cut_line_or_not(void **state)
{
    static const char *const issue[] = {"keys", "issue", NULL};
    (void)state;
    fill();
    size_t before = proxy_bytes_down(line);
    ctl_expect_status(&beyond, issue, 0);
    size_t total = proxy_bytes_down(line) - before;
    for (size_t at = 1; at < total;
         at += at + (size_t)2 * SLACK < total ? 5 : 1) { /* each byte of the last reply */
        fill();
        proxy_inject_after(line, at, at % 2 == 0 ? PROXY_RESET : PROXY_FINISH);
        struct ctl_run run = ctl_run(&beyond, issue);
        assert_true(proxy_has_injected(line));
        assert_int_equal(run.status, 1);
        assert_string_equal(run.out, "");
        assert_int_equal(redis_integer(&redis, "SCARD channels:api_keys"), 1);
        ctl_run_free(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_that_is_cut_can_be_repeated),
        cmocka_unit_test(a_replacement_that_is_cut_is_done_or_not),
        cmocka_unit_test(a_merge_that_is_cut_can_be_repeated),
        cmocka_unit_test(what_only_reads_says_that_it_could_not),
        cmocka_unit_test(a_key_is_issued_on_a_cut_line_or_not),
    };
    return cmocka_run_group_tests(tests, start, end);
}
