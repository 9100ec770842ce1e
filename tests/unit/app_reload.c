/*
 * Reloading, with workers that the test plays: which changes of which files are read, what bad values cost
 * (nothing, but a line and a count), and in which order workers move.
 */
#include "app/reload.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "support/certs.h"
#include "support/text.h"
#include "support/wait.h"
#include "unit/check.h"

enum { WORKERS = 3, LOOK_MS = 100 };

static struct tempdir dir;
static uv_loop_t loop;
static struct config config;
static struct reload *reload;
static struct worker {
    struct worker_status status;
} played[WORKERS];
static struct worker *const workers[WORKERS] = {&played[0], &played[1], &played[2]};
static struct redis_config *offered[WORKERS];
static struct redis_config *newest; /* the first, or what was offered last */
static atomic_int access_log;
static int log_fd;

static const char *path_of(const char *name)
{
    return text_temp("%s/%s", dir.path, name);
}

static void write_file(const char *name, const char *text)
{
    assert_true(text_write_file(path_of(name), text));
}

struct worker_status worker_status(const struct worker *w)
{
    return w->status;
}

static void set_newest(struct redis_config *next)
{
    redis_config_unref(newest);
    newest = redis_config_ref(next);
}

void worker_use_redis(struct worker *w, struct redis_config *redis)
{
    size_t i = (size_t)(w - played);
    redis_config_unref(offered[i]);
    offered[i] = redis_config_ref(redis);
    set_newest(redis);
}

/* The worker is connected with the settings of this number. */
static void play(int i, uint64_t number)
{
    played[i].status = (struct worker_status){.redis = WORKER_REDIS_READY, .redis_number = number};
}

static int set_up(void **state)
{
    (void)state;
    tempdir_init(&dir);
    log_fd = open(path_of("log"), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    assert_true(log_fd >= 0);
    assert_int_equal(log_start(log_fd, LOG_INFO), 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (reload != NULL)
        reload_close(reload);
    reload = NULL;
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    for (int i = 0; i < WORKERS; i++) {
        redis_config_unref(offered[i]);
        offered[i] = NULL;
        played[i] = (struct worker){0};
    }
    redis_config_unref(newest);
    newest = NULL;
    config_fini(&config);
    config = (struct config){0};
    log_stop();
    (void)close(log_fd);
    tempdir_fini(&dir);
    return 0;
}

#define RELOAD_TEST(name) TEST_CASE_WITH(name, set_up, tear_down)

/* Starts with these flags, which end with NULL; all workers are connected. */
static void start(const char *const *flags)
{
    char *argv[16] = {(char[]){"channeld"}};
    int argc = 1;
    struct redis_config *first = NULL;
    SCOPED_BUF(error);
    for (; flags[argc - 1] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)flags[argc - 1]; /* not written to */
    const struct reload_options options = {.config = &config,
                                           .look_ms = LOOK_MS,
                                           .access_log = &access_log,
                                           .workers = workers,
                                           .worker_count = WORKERS};
    if (config_read(&config, argc, argv, &error) != CONFIG_RUN ||
        reload_new(&loop, &options, &reload, &first, &error) != 0)
        fail_msg("%s", buf_message(&error));
    for (int i = 0; i < WORKERS; i++)
        play(i, 1);
    if (first != NULL)
        set_newest(first);
}

#define START(...) start((const char *const[]){__VA_ARGS__, NULL})

static double metric(const char *line)
{
    SCOPED_BUF(text);
    reload_write_metrics(reload, &text);
    const char *found = strstr(buf_message(&text), text_temp("\n%s ", line));
    assert_non_null(found);
    return strtod(found + strlen(line) + 2, NULL);
}

static const char RELOADED[] = "channeld_redis_config_reloads_total{result=\"ok\"}";
static const char FAILED[] = "channeld_redis_config_reloads_total{result=\"error\"}";
static const char PENDING[] = "channeld_redis_config_pending";

/* Runs the loop until the metric has that value. */
static void await(const char *line, double value)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    while (metric(line) != value) { /* NOLINT: whole numbers */
        if (wait_left_ms(deadline) == 0)
            fail_msg("%s is %g", line, metric(line));
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
}

static void await_access_log(int share)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    while (atomic_load(&access_log) != share) {
        if (wait_left_ms(deadline) == 0)
            fail_msg("the access log is %d", atomic_load(&access_log));
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
}

static const struct redis_endpoint *endpoint(void)
{
    return redis_config_endpoint(newest);
}

/* The worker has connected with what it was offered. */
static void connect_worker(int i)
{
    assert_non_null(offered[i]);
    play(i, redis_config_number(offered[i]));
    redis_config_unref(offered[i]);
    offered[i] = NULL;
    reload_worker_changed(reload);
}

static bool is_offered(int i)
{
    return offered[i] != NULL;
}

static void await_offer(int i)
{
    int64_t deadline = wait_deadline(WAIT_DEADLINE_MS);
    while (!is_offered(i)) {
        if (wait_left_ms(deadline) == 0)
            fail_msg("worker %d is not offered the new settings", i);
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
}

static char *read_log(void)
{
    log_stop();
    char *text = text_read_file(path_of("log"));
    assert_int_equal(log_start(log_fd, LOG_INFO), 0);
    return text;
}

static void expect_logged(const char *part, size_t times)
{
    AUTOFREE char *log = read_log();
    if (text_count(log, part) != times)
        fail_msg("\"%s\" is not there %zu times: %s", part, times, log);
}

RELOAD_TEST(workers_move_one_after_the_other)
{
    write_file("password", "one");
    START("--redis-password-file", path_of("password"));
    assert_string_equal(endpoint()->password, "one");
    assert_int_equal(redis_config_number(newest), 1);
    write_file("password", "two");
    await(RELOADED, 1);
    assert_string_equal(endpoint()->password, "two");
    for (int i = 0; i < WORKERS; i++) {
        await_offer(i);
        for (int other = i + 1; other < WORKERS; other++)
            assert_false(is_offered(other));
        assert_int_equal((int)metric(PENDING), WORKERS - i);
        connect_worker(i);
    }
    await(PENDING, 0);
    expect_logged("redis settings reloaded", 1);
    (void)uv_run(&loop, UV_RUN_ONCE);
    expect_logged("all workers use the reloaded redis settings", 1);
    expect_logged("one", 0);
    expect_logged("two", 0);
}

RELOAD_TEST(nothing_is_read_for_a_connection_that_came)
{
    write_file("password", "one");
    START("--redis-password-file", path_of("password"));
    write_file("password", "two");
    reload_worker_changed(reload);
    assert_int_equal((int)metric(RELOADED), 0);
}

static void copy_file(const char *from, const char *to)
{
    AUTOFREE char *text = text_read_file(from);
    write_file(to, text);
}

/* Key and certificate are written one after the other, at any distance. */
RELOAD_TEST(certificate_without_its_key_changes_nothing)
{
    struct certs_pair ca;
    struct certs_pair pair[2];
    certs_make_authority(&dir, "ca", &ca);
    certs_make(&dir, "one", &ca, "DNS:one.example", 1, &pair[0]);
    certs_make(&dir, "two", &ca, "DNS:two.example", 1, &pair[1]);
    copy_file(pair[0].cert, "cert");
    copy_file(pair[0].key, "key");
    START("--redis-url", "rediss://h", "--redis-ca-file", ca.cert, "--redis-cert-file", path_of("cert"),
          "--redis-key-file", path_of("key"));
    copy_file(pair[1].cert, "cert");
    await(FAILED, 1);
    expect_logged("--redis-key-file: cannot use", 1);
    assert_int_equal(redis_config_number(newest), 1);
    copy_file(pair[1].key, "key");
    await(RELOADED, 1);
    assert_int_equal(redis_config_number(newest), 2);
    copy_file(ca.cert, "key");
    await(FAILED, 2);
    assert_int_equal(redis_config_number(newest), 2);
}

/* The authorities are in a pipe, where each of the three reads waits: its password has been read. */
struct rotation {
    char pipe[128], next_pipe[128], authorities[128], password[128];
    char *certificates;
};

static void *rotate_during_each_read(void *arg)
{
    static const char *const passwords[] = {"two", "three", "four"};
    const struct rotation *r = arg;
    for (size_t i = 0; i < TEST_COUNT(passwords); i++) {
        FILE *pipe = fopen(r->pipe, "w");
        if (pipe == NULL || (i < 2 && mkfifo(r->next_pipe, 0600) != 0) ||
            rename(i < 2 ? r->next_pipe : r->authorities, r->pipe) != 0 ||
            !text_write_file(r->password, passwords[i]) || fputs(r->certificates, pipe) < 0)
            abort();
        (void)fclose(pipe);
    }
    return NULL;
}

/* Nothing would tell later that it was not read. */
RELOAD_TEST(change_during_the_last_of_the_reads_is_read_too)
{
    struct rotation r;
    struct certs_pair ca;
    pthread_t thread;
    certs_make_authority(&dir, "ca", &ca);
    (void)snprintf(r.pipe, sizeof r.pipe, "%s/pipe", dir.path);
    (void)snprintf(r.next_pipe, sizeof r.next_pipe, "%s/next", dir.path);
    (void)snprintf(r.password, sizeof r.password, "%s/password", dir.path);
    (void)snprintf(r.authorities, sizeof r.authorities, "%s/authorities", dir.path);
    r.certificates = text_read_file(ca.cert);
    copy_file(ca.cert, "authorities");
    write_file("password", "one");
    assert_int_equal(mkfifo(r.pipe, 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, rotate_during_each_read, &r), 0);
    START("--redis-url", "rediss://h", "--redis-ca-file", r.pipe, "--redis-password-file", r.password);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(endpoint()->password, "three");
    await(RELOADED, 1);
    assert_string_equal(endpoint()->password, "four");
    free(r.certificates);
}

RELOAD_TEST(pipe_in_place_of_a_file_keeps_the_value_that_was_read_last)
{
    write_file("password", "one");
    write_file("access", "off");
    START("--redis-password-file", path_of("password"), "--access-log-file", path_of("access"));
    write_file("password", "two");
    write_file("access", "all");
    reload_now(reload);
    await_access_log(ACCESS_LOG_ALL);
    static const char *const files[] = {"password", "access"};
    for (size_t i = 0; i < TEST_COUNT(files); i++) {
        assert_int_equal(unlink(path_of(files[i])), 0);
        assert_int_equal(mkfifo(path_of(files[i]), 0600), 0);
    }
    reload_now(reload);
    assert_int_equal(atomic_load(&access_log), ACCESS_LOG_ALL);
    assert_int_equal((int)metric(FAILED), 0);
    played[0].status.redis = WORKER_REDIS_LOST;
    reload_worker_changed(reload);
    await_offer(0);
    assert_string_equal(endpoint()->password, "two");
}

RELOAD_TEST(without_files_nothing_is_read)
{
    START("--redis-url", "redis://h");
    reload_now(reload);
    expect_logged("\"SIGHUP received\",\"reloaded\":\"nothing\"", 1);
    played[0].status.redis = WORKER_REDIS_LOST;
    reload_worker_changed(reload);
    assert_int_equal((int)metric(RELOADED), 0);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* no timer */
}

/* No worker gets new settings of Redis for a change of the log, and a password that is wrong delays none. */
RELOAD_TEST(settings_of_the_log_and_of_redis_do_not_wait_for_each_other)
{
    write_file("password", "one");
    write_file("access", "off");
    START("--redis-password-file", path_of("password"), "--access-log-file", path_of("access"));
    write_file("access", "all");
    await_access_log(ACCESS_LOG_ALL);
    assert_int_equal((int)metric(PENDING), 0);
    assert_int_equal((int)metric(RELOADED), 0);
    write_file("password", "");
    await(FAILED, 1);
    write_file("access", "errors");
    await_access_log(ACCESS_LOG_ERRORS);
    write_file("access", "some");
    write_file("password", "two");
    await(RELOADED, 1);
    assert_string_equal(endpoint()->password, "two");
    assert_int_equal(atomic_load(&access_log), ACCESS_LOG_ERRORS);
    reload_now(reload);
    expect_logged("\"SIGHUP received\",\"reloaded\":\"redis-password access-log\"", 1);
}

/* After a good value a bad one is reported, even if it was reported before. */
RELOAD_TEST(bad_setting_of_the_log_is_reported_again_after_a_good_one)
{
    write_file("access", "off");
    START("--access-log-file", path_of("access"));
    for (size_t i = 1; i <= 2; i++) {
        write_file("access", "some");
        for (int look = 0; look < 3; look++)
            (void)uv_run(&loop, UV_RUN_ONCE);
        expect_logged("log settings not reloaded", i);
        write_file("access", i == 1 ? "all" : "off");
        await_access_log(i == 1 ? ACCESS_LOG_ALL : ACCESS_LOG_OFF);
    }
}

RELOAD_TEST(bad_values_at_the_start_are_an_error)
{
    char *argv[] = {(char[]){"channeld"}, (char[]){"--redis-url=rediss://h"},
                    (char[]){"--redis-ca-file=/nonexistent/ca.pem"}};
    const struct reload_options options = {
        .config = &config, .access_log = &access_log, .workers = workers, .worker_count = 1};
    struct redis_config *first = NULL;
    SCOPED_BUF(error);
    assert_int_equal(config_read(&config, TEST_COUNT(argv), argv, &error), CONFIG_RUN);
    assert_int_equal(reload_new(&loop, &options, &reload, &first, &error), -EINVAL);
    assert_non_null(strstr(buf_message(&error), "--redis-ca-file: "));
    assert_null(reload);
}
