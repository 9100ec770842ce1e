/* Runs of channelctl; see ctl.h. */

#include "support/ctl.h"

#include "support/proxy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ARGS_MAX = 16 };

struct redis redis;

int ctl_setup(void **state)
{
    (void)state;
    redis_start(&redis, NULL);
    return 0;
}

int ctl_empty(void **state)
{
    (void)state;
    redis_do(&redis, "FLUSHALL");
    redis_do(&redis, "CONFIG RESETSTAT");
    return 0;
}

int ctl_teardown(void **state)
{
    (void)state;
    redis_stop(&redis);
    return 0;
}

void ctl_run_free(struct ctl_run *run)
{
    free(run->out);
    free(run->err);
}

void ctl_start_named(struct process *process, struct redis *r, const char *name, const char *const *args)
{
    const char *argv[ARGS_MAX] = {process_require_env("CHANNELCTL_BIN")};
    for (size_t i = 0; args[i] != NULL && i + 2 < ARGS_MAX; i++)
        argv[i + 1] = args[i];
    AUTOFREE char *url = text_printf("CHANNELD_REDIS_URL=%s", r->url);
    const char *const env[] = {url, NULL};
    struct process_spec spec = {.name = name, .dir = r->dir.path, .argv = argv, .env = env};
    /* cppcheck-suppress ctuuninitvar ; written, not read */
    (void)snprintf(process->out_path, sizeof process->out_path, "%s/%s.out", r->dir.path, name);
    (void)snprintf(process->err_path, sizeof process->err_path, "%s/%s.err", r->dir.path, name);
    (void)remove(process->out_path);
    (void)remove(process->err_path);
    process_start(process, &spec);
}

void ctl_start_at(struct process *process, struct redis *other, const char *const *args)
{
    ctl_start_named(process, other, "ctl", args);
}

void ctl_start(struct process *process, const char *const *args)
{
    ctl_start_at(process, &redis, args);
}

struct ctl_run ctl_finish(struct process *process)
{
    int status = process_wait(process, WAIT_DEADLINE_MS * 6);
    if (status < 0)
        process_kill(process);
    return (struct ctl_run){status, process_stdout(process), process_stderr(process), process->peak};
}

struct ctl_run ctl_run_at(struct redis *other, const char *const *args)
{
    struct process process;
    ctl_start_at(&process, other, args);
    return ctl_finish(&process);
}

struct ctl_run ctl_run(const char *const *args)
{
    return ctl_run_at(&redis, args);
}

void ctl_expect_text(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no '%s' in: %s", part, text);
}

void ctl_expect(struct ctl_run run, int status, const char *out, const char *err)
{
    if (run.status != status)
        fail_msg("channelctl: %d instead of %d: %s%s", run.status, status, run.out, run.err);
    if (out != NULL)
        ctl_expect_text(run.out, out);
    if (err != NULL)
        ctl_expect_text(run.err, err);
    ctl_run_free(&run);
}

char *ctl_channels(int first, int count)
{
    char *text = text_printf("%s", "");
    for (int i = first; i < first + count; i++) {
        AUTOFREE char *line =
            text_printf("{\"max_channel_id\":%d,\"title\":\"t\",\"link\":\"https://max.ru/c%d\"}\n", i, i);
        text = text_append(text, line);
    }
    return text;
}

struct ctl_run ctl_load(const char *text, const char *flag)
{
    AUTOFREE char *path = text_printf("%s/file.ndjson", redis.dir.path);
    assert_true(text_write_file(path, text));
    struct ctl_run run = CTL("load", path, flag);
    return run;
}

void ctl_expect_load(const char *text, const char *flag, int status)
{
    ctl_expect(ctl_load(text, flag), status, NULL, NULL);
}

void ctl_expect_sound(void)
{
    char digest[65];
    catalogue_digest("a key of ctl_expect_sound", digest);
    redis_do(&redis, "SADD channels:api_keys %s", digest);
    ctl_expect(CTL("verify"), 0, ", no problems found\n", NULL);
    redis_do(&redis, "SREM channels:api_keys %s", digest);
}

/* The second batch of a hundred is written; neither it nor the reads for the third one are replied to. */
enum { HELD_AFTER = 18000 };

static bool is_held(void *arg)
{
    struct ctl_held *h = arg;
    return proxy_has_injected(h->proxy) && redis_integer(&redis, "EXISTS channels:card:100") == 1;
}

void ctl_start_held(struct ctl_held *h, const char *flag)
{
    struct redis proxied = {.dir = redis.dir};
    AUTOFREE char *path = text_printf("%s/held.ndjson", redis.dir.path);
    AUTOFREE char *text = ctl_channels(1, CTL_HELD_CHANNELS);
    assert_true(text_write_file(path, text));
    h->proxy = proxy_new(redis.port);
    (void)snprintf(proxied.url, sizeof proxied.url, "redis://127.0.0.1:%d", proxy_port(h->proxy));
    proxy_inject_after(h->proxy, HELD_AFTER, PROXY_HOLD);
    ctl_start_at(&h->process, &proxied, (const char *const[]){"load", path, flag, NULL});
    assert_true(wait_until(is_held, h, WAIT_DEADLINE_MS));
}

void ctl_release_held(struct ctl_held *h)
{
    proxy_restore(h->proxy);
}

struct ctl_run ctl_finish_held(struct ctl_held *h)
{
    struct ctl_run run = ctl_finish(&h->process);
    proxy_free(h->proxy);
    return run;
}

static bool lock_is_held(void *arg)
{
    (void)arg;
    return redis_integer(&redis, "EXISTS channels:loader") == 1;
}

void ctl_await_lock(void)
{
    assert_true(wait_until(lock_is_held, NULL, WAIT_DEADLINE_MS));
}

int ctl_make_fifo(char **path)
{
    *path = text_printf("%s/fifo", redis.dir.path);
    (void)remove(*path);
    assert_int_equal(mkfifo(*path, 0600), 0);
    int fd = open(*path, O_RDWR | O_CLOEXEC); /* O_WRONLY would wait for a reader */
    assert_true(fd >= 0);
    return fd;
}

void ctl_feed(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

char *ctl_index(const char *key)
{
    static const char script[] = "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), ' ')";
    return redis_text(&redis, "EVAL %s 1 %s", script, key);
}

void ctl_expect_index(const char *expected)
{
    ctl_expect_owned(ctl_index("channels:index"), expected);
}

void ctl_expect_owned(char *reply, const char *expected)
{
    assert_string_equal(reply, expected);
    free(reply);
}
