#ifndef TEST_SUPPORT_SERVER_H
#define TEST_SUPPORT_SERVER_H

#include <stdbool.h>

#include "support/process.h"
#include "support/tempdir.h"

/*
 * A channeld ($CHANNELD_BIN) on its own ports, with 2 workers and no drain delay unless its environment sets
 * them. When TEST_WRAPPER is set ("valgrind --error-exitcode=99 ..."), channeld runs under that program.
 */

struct server {
    struct tempdir dir;
    struct process process;
    int port;       /* the public listener, on 127.0.0.1 */
    int admin_port; /* the admin listener, on 127.0.0.1 */
};

enum server_wait {
    SERVER_WAIT_READY,     /* until /readyz says 200 */
    SERVER_WAIT_LISTENING, /* until both listeners accept: without a Redis */
    SERVER_WAIT_NOTHING,
};

struct server_spec {
    const char *redis_url;  /* NULL: the settings name it, or its file */
    const char *const *env; /* further settings "CHANNELD_X=y", NULL-terminated, or NULL; they win */
    enum server_wait wait;
};

/* Starts it and waits; fails the test with its output otherwise. */
void server_start(struct server *server, const struct server_spec *spec);

/* SIGTERM, and asserts that it exits with 0. Removes its directory. */
void server_stop(struct server *server);

/* SIGKILL; removes its directory. Harmless when nothing runs: for teardown. */
void server_kill(struct server *server);

/* Asserts that it ends with that status within the deadline; its directory stays. */
void server_expect_exit(struct server *server, int status);

/* The status that the admin listener gives for the path; a negative errno when it does not answer. Any
 * thread. */
int server_admin_status(struct server *server, const char *path);

/* Waits until the admin listener gives that status for the path; fails the test otherwise. */
void server_await_admin(struct server *server, const char *path, int status);

/* All metrics as /metrics gives them, owned; and the value of one in there, as below. */
char *server_metrics(struct server *server);
double server_metric_in(const char *metrics, const char *name);

/* The value of a metric, summed up over its label sets; 0 when it is absent. */
double server_metric(struct server *server, const char *name);

/* Waits until the metric has reached the value; fails the test otherwise. */
void server_await_metric(struct server *server, const char *name, double at_least);

/* The same for a metric that has to fall to the value. */
void server_await_metric_below(struct server *server, const char *name, double at_most);

/* What it logged so far (stdout), owned. Lines are written with a short delay. */
char *server_log(struct server *server);

/* Waits until the log contains the text; fails the test otherwise. */
void server_await_log(struct server *server, const char *text);

/* Waits until the log contains the text that often, and asserts that it is not there more often. */
void server_expect_log(struct server *server, const char *line, size_t count);

/* Whether a connection to Redis was lost for another reason than a Redis that was too slow, as on a busy
 * machine. */
bool server_has_lost_redis(struct server *server);

/* Runs channeld or channelctl ($<variable>) with the arguments and environment to its end; returns its
 * status. */
int server_run_tool(struct process *process, const struct tempdir *dir, const char *variable,
                    const char *const *args, const char *const *env);

#endif
