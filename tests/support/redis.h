#ifndef TEST_SUPPORT_REDIS_H
#define TEST_SUPPORT_REDIS_H

#include <stdbool.h>
#include <stddef.h>

#include "support/process.h"
#include "support/tempdir.h"

/*
 * A redis-server for one test, with its own port and directory, without persistence unless its arguments
 * enable it. Commands use one connection, which is made again after a restart. Every function fails the test
 * when it cannot do its work.
 */

enum { REDIS_ARGS_MAX = 64 };

struct redis {
    struct tempdir dir;
    struct process process;
    char host[16]; /* 127.0.0.1, unless it runs in a network of its own */
    int port;
    char url[64];                       /* redis://<host>:<port>/0 */
    const char *prefix;                 /* of the keys of a catalogue in it: "channels:" at first */
    char args_text[REDIS_ARGS_MAX][64]; /* the command line, for restarts */
    const char *args[REDIS_ARGS_MAX + 1];
    const char *password;            /* from --requirepass, or NULL */
    struct redisContext *connection; /* NULL until the first command */
};

/*
 * Starts one and waits until it answers. `extra` are further arguments ("--requirepass", "secret", ...),
 * NULL-terminated, or NULL; they are copied.
 */
void redis_start(struct redis *redis, const char *const *extra);

/*
 * The same with another server than the system's, such as Valkey's. `program` is borrowed, a path or a name
 * in PATH; NULL: the system's.
 */
void redis_start_program(struct redis *redis, const char *program, const char *const *extra);

/* Reserves port and directory but starts nothing yet: redis_restart() does. */
void redis_prepare(struct redis *redis, const char *const *extra);

/* Ends it and removes its directory. Harmless when done twice. */
void redis_stop(struct redis *redis);

/* Ends the server only (SIGKILL), to be started again by redis_restart(). */
void redis_kill(struct redis *redis);

/* Starts the server again, on the same port and with the same directory and arguments. */
void redis_restart(struct redis *redis);

/* The two steps of that, for a server that has ended: starts it; waits until it has loaded its data. */
void redis_launch(struct redis *redis);
void redis_await(struct redis *redis);

/* Closes the connection; the next command makes a new one. */
void redis_disconnect(struct redis *redis);

/* SIGSTOP and SIGCONT: the server keeps its connections but does not reply. */
void redis_pause(struct redis *redis);
void redis_resume(struct redis *redis);

/*
 * Runs a command (hiredis format: %s, %b with data and size_t, %lld); an error reply fails the test. When it
 * returns, Redis has sent the invalidations of the change, too.
 */
void redis_do(struct redis *redis, const char *format, ...);

/* The same for arguments given as vectors; lengths may be NULL for text. */
void redis_do_argv(struct redis *redis, size_t count, const char *const *args, const size_t *lengths);

/* The same, and returns the integer that it replied. */
long long redis_integer(struct redis *redis, const char *format, ...);

/* A number that INFO has under this name; fails the test without it. */
long long redis_info_number(struct redis *redis, const char *name);

/* The program of another server ("redis8-server") that scripts/setup --tools has installed. Owned; the
 * test is skipped without it. */
char *redis_other_program(const char *name);

/* How often the command ("sscan") has been called since the server started, by INFO commandstats. */
long long redis_calls(struct redis *redis, const char *command);

/* As redis_do, and returns the string that it replied, owned; NULL for nil. */
char *redis_text(struct redis *redis, const char *format, ...);

/* The same, and returns all texts and numbers of a reply made of arrays, joined by spaces, owned. */
char *redis_words(struct redis *redis, const char *format, ...);

/* The same for arguments given as a vector; an error does not fail the test, but is "(error) ..." */
char *redis_reply(struct redis *redis, size_t count, const char *const *args);

#endif
