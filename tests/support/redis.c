/* A redis-server for a test, and commands to it over hiredis' blocking API. */

#include "support/redis.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/net.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

enum { CONNECT_TIMEOUT_S = 60 }; /* on a busy machine a script of a second takes twenty */

static void redis_add_arg(struct redis *redis, const char *arg)
{
    size_t used = 0;
    while (redis->args[used] != NULL)
        used++;
    if (used >= REDIS_ARGS_MAX || strlen(arg) >= sizeof redis->args_text[0]) {
        fail_msg("too many or too long arguments for redis-server");
        return;
    }
    (void)snprintf(redis->args_text[used], sizeof redis->args_text[used], "%s", arg);
    redis->args[used] = redis->args_text[used];
}

void redis_disconnect(struct redis *redis)
{
    if (redis->connection != NULL)
        redisFree(redis->connection);
    redis->connection = NULL;
}

/* Connects and authenticates; false when the server does not take connections (yet). */
static bool redis_connect(struct redis *redis)
{
    struct timeval timeout = {.tv_sec = CONNECT_TIMEOUT_S};
    if (redis->connection != NULL)
        return true;
    redis->connection = redisConnectWithTimeout(redis->host, redis->port, timeout);
    if (redis->connection == NULL || redis->connection->err != 0) {
        redis_disconnect(redis);
        return false;
    }
    (void)redisSetTimeout(redis->connection, timeout);
    if (redis->password != NULL)
        freeReplyObject(redisCommand(redis->connection, "AUTH %s", redis->password));
    return true;
}

/* Answers PING, and with something else than "still loading". */
static bool redis_is_ready(void *arg)
{
    struct redis *redis = arg;
    bool ready = false;
    if (redis_connect(redis)) {
        redisReply *reply = redisCommand(redis->connection, "PING");
        ready = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (!ready)
            redis_disconnect(redis);
    }
    return ready || !process_is_running(&redis->process);
}

void redis_launch(struct redis *redis)
{
    struct process_spec spec = {.name = "redis", .dir = redis->dir.path, .argv = redis->args};
    process_start(&redis->process, &spec);
}

void redis_await(struct redis *redis)
{
    if (wait_until(redis_is_ready, redis, WAIT_DEADLINE_MS) && process_is_running(&redis->process))
        return;
    AUTOFREE char *output = process_stdout(&redis->process);
    print_error("%s\n", output);
    fail_msg("redis-server does not start on port %d", redis->port);
}

static void redis_add_args(struct redis *redis, const char *const *args, size_t count)
{
    for (size_t i = 0; i < count; i++)
        redis_add_arg(redis, args[i]);
}

/* Its address, and what its command line consists of. */
static void redis_compose(struct redis *redis, const char *program, const char *const *extra)
{
    char port[16];
    memset(redis, 0, sizeof *redis);
    tempdir_init(&redis->dir);
    redis->port = net_reserve_port();
    redis->prefix = "channels:";
    (void)snprintf(redis->host, sizeof redis->host, "%s", "127.0.0.1");
    (void)snprintf(redis->url, sizeof redis->url, "redis://%s:%d/0", redis->host, redis->port);
    (void)snprintf(port, sizeof port, "%d", redis->port);
    const char *const base[] = {
        "redis-server",     "--port", port,           "--bind", redis->host, "--dir", redis->dir.path,
        "--protected-mode", "no",     "--appendonly", "no",     "--save",    ""};
    redis_add_args(redis, base, TEST_COUNT(base));
    if (program != NULL)
        redis->args[0] = program;
    for (size_t i = 0; extra != NULL && extra[i] != NULL; i++) {
        redis_add_arg(redis, extra[i]);
        if (strcmp(extra[i], "--requirepass") == 0 && extra[i + 1] != NULL)
            redis->password = extra[i + 1];
    }
}

void redis_prepare(struct redis *redis, const char *const *extra)
{
    redis_compose(redis, NULL, extra);
}

void redis_start(struct redis *redis, const char *const *extra)
{
    redis_start_program(redis, NULL, extra);
}

void redis_start_program(struct redis *redis, const char *program, const char *const *extra)
{
    redis_compose(redis, program, extra);
    redis_launch(redis);
    redis_await(redis);
}

void redis_stop(struct redis *redis)
{
    redis_kill(redis);
    tempdir_fini(&redis->dir);
}

void redis_kill(struct redis *redis)
{
    redis_disconnect(redis);
    process_kill(&redis->process);
}

void redis_restart(struct redis *redis)
{
    redis_kill(redis);
    redis_launch(redis);
    redis_await(redis);
}

void redis_pause(struct redis *redis)
{
    process_signal(&redis->process, SIGSTOP);
    /* The signal is asynchronous: wait until the kernel reports the stop. */
    (void)waitid(P_PID, (id_t)redis->process.pid, &(siginfo_t){0}, WSTOPPED);
}

void redis_resume(struct redis *redis)
{
    process_signal(&redis->process, SIGCONT);
}

/* The reply, owned; fails the test without one and for an error. */
static redisReply *redis_check(struct redis *redis, void *result)
{
    redisReply *reply = result;
    if (reply == NULL) {
        char error[128];
        (void)snprintf(error, sizeof error, "%s", redis->connection->errstr);
        redis_disconnect(redis);
        fail_msg("redis-server does not answer: %s", error);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("redis-server refuses: %s", reply->str);
    }
    return reply;
}

/*
 * Redis may write the acknowledgement of a change before the invalidations of the same turn, but it reads no
 * further command in between. Waits for the reply to one, so that what is asked of a server next comes after
 * the invalidations. Not where that command would be part of a transaction, wait for the end of a pause, or
 * take the place of the one that ASKING is for.
 */
static void redis_await_turn(struct redis *redis, const char *command, const redisReply *reply)
{
    static const char *const without[] = {"ASKING", "CLIENT PAUSE", "MULTI"};
    bool queued = reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "QUEUED") == 0;
    for (size_t i = 0; i < TEST_COUNT(without); i++)
        if (strncmp(command, without[i], strlen(without[i])) == 0)
            return;
    if (!queued)
        freeReplyObject(redisCommand(redis->connection, "PING"));
}

static redisReply *redis_vcommand(struct redis *redis, const char *format, va_list args)
{
    if (!redis_connect(redis))
        fail_msg("redis-server does not take connections");
    return redis_check(redis, redisvCommand(redis->connection, format, args));
}

void redis_do(struct redis *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redis_vcommand(redis, format, args);
    va_end(args);
    redis_await_turn(redis, format, reply);
    freeReplyObject(reply);
}

void redis_do_argv(struct redis *redis, size_t count, const char *const *args, const size_t *lengths)
{
    const char **arguments = NULL;
    memcpy(&arguments, &args, sizeof arguments); /* hiredis wants them non-const and changes nothing */
    if (!redis_connect(redis))
        fail_msg("redis-server does not take connections");
    redisReply *reply =
        redis_check(redis, redisCommandArgv(redis->connection, (int)count, arguments, lengths));
    redis_await_turn(redis, args[0], reply);
    freeReplyObject(reply);
}

long long redis_integer(struct redis *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redis_vcommand(redis, format, args);
    va_end(args);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    long long value = reply->integer;
    freeReplyObject(reply);
    return value;
}

char *redis_text(struct redis *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redis_vcommand(redis, format, args);
    va_end(args);
    char *text = reply->type == REDIS_REPLY_NIL ? NULL : text_printf("%s", reply->str);
    freeReplyObject(reply);
    return text;
}

long long redis_info_number(struct redis *redis, const char *name)
{
    AUTOFREE char *info = redis_text(redis, "INFO");
    AUTOFREE char *line = text_printf("\n%s:", name);
    const char *at = info != NULL ? strstr(info, line) : NULL;
    if (at == NULL)
        fail_msg("INFO has no %s", name);
    return at != NULL ? strtoll(at + strlen(line), NULL, 10) : -1;
}

char *redis_other_program(const char *name)
{
    const char *path = text_temp("%s/%s", process_require_env("CHANNELD_SERVERS"), name);
    if (access(path, X_OK) != 0)
        test_skip(text_temp("no %s: scripts/setup --tools", name));
    return text_printf("%s", path);
}

long long redis_calls(struct redis *redis, const char *command)
{
    AUTOFREE char *stats = redis_text(redis, "INFO commandstats");
    AUTOFREE char *name = text_printf("cmdstat_%s:calls=", command);
    const char *at = stats != NULL ? strstr(stats, name) : NULL;
    return at != NULL ? strtoll(at + strlen(name), NULL, 10) : 0;
}

static char *redis_join(char *text, const redisReply *reply)
{
    bool is_array = reply->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; is_array && i < reply->elements; i++)
        text = redis_join(text, reply->element[i]);
    if (is_array)
        return text;
    text = text_append(text, text[0] != '\0' ? " " : "");
    if (reply->type == REDIS_REPLY_INTEGER)
        return text_append(text, text_temp("%lld", reply->integer));
    return text_append(text, reply->type == REDIS_REPLY_NIL ? "(nil)" : reply->str);
}

char *redis_words(struct redis *redis, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = redis_vcommand(redis, format, args);
    va_end(args);
    char *text = redis_join(text_printf("%s", ""), reply);
    freeReplyObject(reply);
    return text;
}

char *redis_reply(struct redis *redis, size_t count, const char *const *args)
{
    const char **arguments = NULL;
    memcpy(&arguments, &args, sizeof arguments);
    if (!redis_connect(redis))
        fail_msg("redis-server does not take connections");
    redisReply *reply = redisCommandArgv(redis->connection, (int)count, arguments, NULL);
    assert_non_null(reply);
    char *text = redis_join(text_printf("%s", reply->type == REDIS_REPLY_ERROR ? "(error)" : ""), reply);
    freeReplyObject(reply);
    return text;
}
