/* Runs of channelctl against a test's own Redis, for the ctl_* tests. */
#ifndef TEST_INTEGRATION_CTL_H
#define TEST_INTEGRATION_CTL_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/catalogue.h"
#include "support/server.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

enum { CTL_ARGS_MAX = 16 };

/* What a run left behind; its texts are owned. */
struct ctl_run {
    int status;
    char *out;
    char *err;
};

static inline void ctl_run_free(struct ctl_run *run)
{
    free(run->out);
    free(run->err);
}

/* Starts channelctl with NULL-terminated arguments. */
static inline void ctl_start(struct process *process, struct redis *redis, const char *const *args)
{
    const char *argv[CTL_ARGS_MAX] = {process_require_env("CHANNELCTL_BIN")};
    for (size_t i = 0; args[i] != NULL && i + 2 < CTL_ARGS_MAX; i++)
        argv[i + 1] = args[i];
    char *url = text_printf("CHANNELD_REDIS_URL=%s", redis->url);
    const char *const env[] = {url, NULL};
    struct process_spec spec = {.name = "ctl", .dir = redis->dir.path, .argv = argv, .env = env};
    /* cppcheck-suppress ctuuninitvar ; written, not read */
    (void)snprintf(process->out_path, sizeof process->out_path, "%s/ctl.out", redis->dir.path);
    (void)snprintf(process->err_path, sizeof process->err_path, "%s/ctl.err", redis->dir.path);
    (void)remove(process->out_path);
    (void)remove(process->err_path);
    process_start(process, &spec);
    free(url);
}

/* Waits for its end. */
static inline struct ctl_run ctl_finish(struct process *process)
{
    int status = process_wait(process, WAIT_DEADLINE_MS * 6);
    if (status < 0)
        process_kill(process);
    return (struct ctl_run){status, process_stdout(process), process_stderr(process)};
}

static inline struct ctl_run ctl_run(struct redis *redis, const char *const *args)
{
    struct process process;
    ctl_start(&process, redis, args);
    return ctl_finish(&process);
}

/* The status of a run; fails the test with what it said when it is another one. */
static inline void ctl_expect_status(struct redis *redis, const char *const *args, int status)
{
    struct ctl_run run = ctl_run(redis, args);
    if (run.status != status)
        fail_msg("channelctl %s: %d instead of %d: %s%s", args[0], run.status, status, run.out, run.err);
    ctl_run_free(&run);
}

/* Loads a file with this text; `flag` may be NULL. */
static inline struct ctl_run ctl_load(struct redis *redis, const char *text, const char *flag)
{
    char *path = text_printf("%s/file.ndjson", redis->dir.path);
    assert_true(text_write_file(path, text));
    const char *args[] = {"load", path, flag, NULL};
    struct ctl_run run = ctl_run(redis, args);
    free(path);
    return run;
}

static inline void ctl_expect_load(struct redis *redis, const char *text, const char *flag, int status)
{
    struct ctl_run run = ctl_load(redis, text, flag);
    if (run.status != status)
        fail_msg("load: %d instead of %d: %s%s", run.status, status, run.out, run.err);
    ctl_run_free(&run);
}

/* A catalogue without API keys is not sound: for the time of the check there is one. */
static inline void ctl_expect_sound(struct redis *redis)
{
    static const char *const args[] = {"verify", NULL};
    char digest[65];
    catalogue_digest("a key of ctl_expect_sound", digest);
    redis_do(redis, "SADD channels:api_keys %s", digest);
    ctl_expect_status(redis, args, 0);
    redis_do(redis, "SREM channels:api_keys %s", digest);
}

static inline void ctl_expect_text(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in: %s", part, text);
}

/* A pipe in the file system, open for writing; its path is owned. */
static inline int ctl_make_fifo(struct redis *redis, char **path)
{
    *path = text_printf("%s/fifo", redis->dir.path);
    (void)remove(*path);
    assert_int_equal(mkfifo(*path, 0600), 0);
    int fd = open(*path, O_RDWR | O_CLOEXEC); /* both ways, so that it does not wait for a reader */
    assert_true(fd >= 0);
    return fd;
}

static inline void ctl_feed(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* The whole index in its order, as "1 2 3". Owned. */
static inline char *ctl_index(struct redis *redis, const char *key)
{
    static const char script[] = "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), ' ')";
    return redis_text(redis, "EVAL %s 1 %s", script, key);
}

static inline void ctl_expect_index(struct redis *redis, const char *expected)
{
    char *index = ctl_index(redis, "channels:index");
    assert_string_equal(index, expected);
    free(index);
}

#endif
