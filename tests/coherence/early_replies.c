/*
 * Acknowledgements that Redis sends before the invalidations. Redis queues the invalidations of an event loop
 * iteration at its end. Redis and Valkey from version 8 on with I/O threads, and any Redis while a script is
 * busy, may send replies earlier. Until the iteration ends, channeld then serves cached responses that a
 * writer knows to be out of date. Other configurations never do. In no case does it last longer than the
 * iteration.
 *
 * How often a server replies early depends on its threads. The number is printed, and no test relies on it.
 */

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fixture.h"

enum {
    WRITERS = 6,
    GATHER_MS = 50, /* an iteration in which the commands of the next one are gathered */
    BOUND_MS = 500, /* from an acknowledgement to a request that shows the change */
    TRIALS = 2,
};

/* Commands that take about a second: too short to end channeld's connection, unless Redis answers BUSY. */
static const char *const SLOW[] = {"DEBUG", "SLEEP", "1"};
static const char *const SCRIPT[] = {"EVAL", "for i = 1, 150000000 do end", "0"};

struct writer {
    struct redisContext *redis;
    int64_t acknowledged; /* when, 0: not yet */
    bool refused;         /* because a script is busy */
    bool shown;           /* channeld has shown the change */
    bool late;            /* it had not, in a request sent BOUND_MS after the acknowledgement */
};

struct trial {
    struct fixture *fixture;
    struct redisContext *gather;
    struct redisContext *slow;
    struct writer writer[WRITERS];
    int number;
};

static const char *const ONE_WORKER[] = {"CHANNELD_WORKERS=1", NULL};

static struct redisContext *connect_to(const struct redis *redis)
{
    struct redisContext *context = redisConnect(redis->host, redis->port);
    assert_non_null(context);
    assert_int_equal(context->err, 0);
    return context;
}

/* Sends what was appended. */
static void flush(struct redisContext *context)
{
    int done = 0;
    while (done == 0)
        assert_int_equal(redisBufferWrite(context, &done), REDIS_OK);
}

static bool is_readable(const struct redisContext *context, int ms)
{
    struct pollfd fd = {.fd = context->fd, .events = POLLIN};
    return poll(&fd, 1, ms) == 1;
}

/* Takes a reply; false for the only error that is accepted: BUSY. */
static bool take_reply(struct redisContext *context)
{
    redisReply *reply = NULL;
    assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
    bool good = reply->type != REDIS_REPLY_ERROR;
    if (!good)
        assert_int_equal(strncmp(reply->str, "BUSY ", 5), 0);
    freeReplyObject(reply);
    return good;
}

static bool shows_change(const struct trial *trial, int channel)
{
    struct http_response response;
    char *path = text_printf("channel/by-id/%d/", channel);
    char *title = text_printf("\"title\":\"%d of %d\"", channel, trial->number);
    fixture_get(trial->fixture, path, &response);
    bool shown = response.status == 200 && strstr(response.body, title) != NULL;
    http_response_free(&response);
    free(title);
    free(path);
    return shown;
}

static bool shows_all(void *arg)
{
    const struct trial *trial = arg;
    bool all = true;
    for (int i = 0; i < WRITERS; i++)
        all = shows_change(trial, i) && all;
    return all;
}

static void change(struct trial *trial, int channel)
{
    struct writer *writer = &trial->writer[channel];
    *writer = (struct writer){.redis = writer->redis};
    char *title = text_printf("%d of %d", channel, trial->number);
    assert_int_equal(redisAppendCommand(writer->redis, "HSET channels:card:%d title %s", channel, title), 0);
    flush(writer->redis);
    free(title);
}

/* Changes and the slow command in one iteration, in any order; no check relies on that. */
static void begin_iteration(struct trial *trial, const char *const *slow)
{
    assert_int_equal(redisAppendCommand(trial->gather, "DEBUG SLEEP 0.%03d", (int)GATHER_MS), REDIS_OK);
    flush(trial->gather);
    for (int i = 0; i < WRITERS; i++) {
        change(trial, i);
        if (i == WRITERS / 2) {
            assert_int_equal(redisAppendCommand(trial->slow, "%s %s %s", slow[0], slow[1], slow[2]),
                             REDIS_OK);
            flush(trial->slow);
        }
    }
}

static void poll_writer(struct trial *trial, int channel)
{
    struct writer *writer = &trial->writer[channel];
    if (writer->acknowledged == 0 && !writer->refused && is_readable(writer->redis, 0)) {
        writer->refused = !take_reply(writer->redis);
        writer->acknowledged = writer->refused ? 0 : wait_now_ms();
    }
    if (writer->acknowledged == 0 || writer->shown)
        return;
    int64_t sent = wait_now_ms();
    writer->shown = shows_change(trial, channel);
    writer->late = writer->late || (!writer->shown && sent - writer->acknowledged > BOUND_MS);
}

/* How many changes were acknowledged long before a request that did not show them. */
static int run_iteration(struct trial *trial, const char *const *slow)
{
    int early = 0;
    trial->number++;
    begin_iteration(trial, slow);
    while (!is_readable(trial->slow, 1)) {
        for (int i = 0; i < WRITERS; i++)
            poll_writer(trial, i);
    }
    for (int i = 0; i < WRITERS; i++)
        early += trial->writer[i].late;
    return early;
}

/* After the iteration all changes must be shown. */
static void end_iteration(struct trial *trial)
{
    assert_true(take_reply(trial->slow));
    assert_true(take_reply(trial->gather));
    for (int i = 0; i < WRITERS; i++) {
        struct writer *writer = &trial->writer[i];
        if (writer->acknowledged == 0 && !writer->refused)
            writer->refused = !take_reply(writer->redis);
        if (writer->refused) {
            change(trial, i);
            assert_true(take_reply(writer->redis));
        }
    }
    if (!wait_until(shows_all, trial, WAIT_DEADLINE_MS))
        fail_msg("not all changes are shown after the iteration");
    fixture_expect_metric(trial->fixture, "channeld_cache_audit_failures_total", 0);
}

static void trial_open(struct trial *trial, const char *program, const char *const *args)
{
    const struct fixture_spec spec = {.env = ONE_WORKER, .program = program, .redis_args = args};
    *trial = (struct trial){.fixture = fixture_new_with(&spec)};
    const struct redis *redis = &trial->fixture->redis;
    trial->gather = connect_to(redis);
    trial->slow = connect_to(redis);
    for (int i = 0; i < WRITERS; i++) {
        trial->writer[i].redis = connect_to(redis);
        change(trial, i);
        assert_true(take_reply(trial->writer[i].redis));
    }
    assert_true(wait_until(shows_all, trial, WAIT_DEADLINE_MS));
}

static void trial_close(struct trial *trial)
{
    for (int i = 0; i < WRITERS; i++)
        redisFree(trial->writer[i].redis);
    redisFree(trial->slow);
    redisFree(trial->gather);
    fixture_free(trial->fixture);
}

static void run(const char *program, const char *threads, const char *const *slow, bool may_be_early)
{
    const char *const args[] = {
        "--enable-debug-command", "yes", "--busy-reply-threshold", "20", "--io-threads", threads, NULL};
    struct trial trial;
    int early = 0;
    trial_open(&trial, program, args);
    for (int i = 0; i < TRIALS; i++) {
        early += run_iteration(&trial, slow);
        end_iteration(&trial);
    }
    trial_close(&trial);
    print_message("%d of %d acknowledgements were early\n", early, TRIALS * WRITERS);
    if (!may_be_early)
        assert_int_equal(early, 0);
}

#define EARLY_REPLIES_CASE(test, name, threads, may_be_early) \
    TEST_CASE(test)                                           \
    {                                                         \
        char *path = redis_other_program(name);               \
        run(path, threads, SLOW, may_be_early);               \
        free(path);                                           \
    }

EARLY_REPLIES_CASE(redis_8_without_threads_replies_after_the_iteration, "redis8-server", "1", false)
EARLY_REPLIES_CASE(valkey_without_threads_replies_after_the_iteration, "valkey-server", "1", false)
EARLY_REPLIES_CASE(redis_8_with_threads_shows_all_after_the_iteration, "redis8-server", "4", true)
EARLY_REPLIES_CASE(valkey_with_threads_shows_all_after_the_iteration, "valkey-server", "4", true)

TEST_CASE(system_redis_replies_after_the_iteration)
{
    run("redis-server", "1", SLOW, false);
}

TEST_CASE(all_is_shown_after_a_busy_script)
{
    run("redis-server", "1", SCRIPT, true);
}
