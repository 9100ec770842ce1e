#ifndef TEST_SUPPORT_CTL_H
#define TEST_SUPPORT_CTL_H

#include "support/catalogue.h"
#include "support/process.h"
#include "support/redis.h"
#include "support/server.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

/*
 * Runs of channelctl against one Redis that all tests of a program share:
 *
 *     TEST_GROUP(ctl_setup, ctl_teardown)
 *
 *     TEST_CASE_WITH(verify_finds_a_missing_card, ctl_empty, NULL)
 *     {
 *         ctl_expect(CTL("verify"), 1, "has no card", NULL);
 *     }
 */

/* The Redis, from ctl_setup to ctl_teardown. */
extern struct redis redis;

/* cmocka's setups and teardown: start it, empty it, stop it. */
int ctl_setup(void **state);
int ctl_empty(void **state);
int ctl_teardown(void **state);

/* What a run printed; the texts are owned. */
struct ctl_run {
    int status;
    char *out;
    char *err;
    long peak; /* bytes of resident memory (see struct process) */
};

void ctl_run_free(struct ctl_run *run);

/* Runs channelctl with NULL-terminated arguments; with another Redis than the shared one. */
struct ctl_run ctl_run(const char *const *args);
struct ctl_run ctl_run_at(struct redis *other, const char *const *args);
#define CTL(...) ctl_run((const char *const[]){__VA_ARGS__, NULL})

/* The two halves of that. */
void ctl_start(struct process *process, const char *const *args);
void ctl_start_at(struct process *process, struct redis *other, const char *const *args);

/* Runs that overlap need names of their own, for the files with their output. */
void ctl_start_named(struct process *process, struct redis *other, const char *name, const char *const *args);
struct ctl_run ctl_finish(struct process *process);

/* Asserts the status, and that the output has these parts (NULL: any output). Frees the run. */
void ctl_expect(struct ctl_run run, int status, const char *out, const char *err);
void ctl_expect_text(const char *text, const char *part);

/* Lines of a file: a channel, and one with the link https://max.ru/<slug>. */
#define CTL_CHANNEL(id)      "{\"max_channel_id\":" #id "}\n"
#define CTL_LINKED(id, slug) "{\"max_channel_id\":" #id ",\"link\":\"https://max.ru/" slug "\"}\n"

/* The lines of `count` channels with ids from `first` on, each with a link; owned. */
char *ctl_channels(int first, int count);

/* Loads a file with this text; `flag` may be NULL. */
struct ctl_run ctl_load(const char *text, const char *flag);
void ctl_expect_load(const char *text, const char *flag, int status);

/* Asserts that `verify` finds no problem. An API key is there for the time of the check. */
void ctl_expect_sound(void);

/*
 * A load of channels from 1 on, of the file "held.ndjson", that has written the first of them and waits for a
 * reply until it is released. ctl_finish_held() is due.
 */
enum { CTL_HELD_CHANNELS = 1000 };

struct ctl_held {
    struct process process;
    struct proxy *proxy;
};

void ctl_start_held(struct ctl_held *h, const char *flag);
void ctl_release_held(struct ctl_held *h);
struct ctl_run ctl_finish_held(struct ctl_held *h);

/* Waits until a load holds the lock. */
void ctl_await_lock(void);

/* A FIFO that is open for writing; its path is owned. */
int ctl_make_fifo(char **path);
void ctl_feed(int fd, const char *text);

/* The whole index in its order, as "1 2 3"; owned. */
char *ctl_index(const char *key);
void ctl_expect_index(const char *expected);

/* Asserts the string that a command replies with. */
void ctl_expect_owned(char *reply, const char *expected);
#define CTL_EXPECT_REPLY(expected, ...) ctl_expect_owned(redis_text(&redis, __VA_ARGS__), expected)

#endif
