#ifndef TEST_SUPPORT_PROCESS_H
#define TEST_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "support/tempdir.h"

/*
 * Child processes of a test. A child gets SIGKILL when the thread that started it ends, so none outlives its
 * test: start children from the test's own thread.
 */

enum {
    PROCESS_PATH_SIZE = TEMPDIR_PATH_SIZE + 32,
    PROCESS_KILLED = 256, /* an exit status above this means: ended by signal (status - PROCESS_KILLED) */
};

struct process {
    pid_t pid;  /* 0: none was started, or it has been waited for */
    int status; /* 0..255 or PROCESS_KILLED + signal, valid once waited for */
    long peak;  /* its largest resident memory in bytes, or the test's own at its start; valid once waited for
                 */
    char out_path[PROCESS_PATH_SIZE];
    char err_path[PROCESS_PATH_SIZE];
};

struct process_spec {
    const char *name;        /* names the files for stdout and stderr: <dir>/<name>.out, .err */
    const char *dir;         /* where these go, borrowed */
    const char *const *argv; /* program (searched in PATH) and arguments, NULL-terminated */
    const char *const *env;  /* "NAME=value", ahead of the parent's environment, NULL-terminated, or NULL */
    const char *stdin_path;  /* NULL: /dev/null */
};

/*
 * Starts it. Of the parent's environment all but CHANNELD_* and CHANNELCTL_* is handed on. Output is appended
 * to its files, so that a program which is started again keeps its earlier output. Fails the test when
 * fork fails; a program that cannot be executed exits with 127.
 */
void process_start(struct process *process, const struct process_spec *spec);

/* Waits for its end; returns its status (see struct process) or -ETIMEDOUT after `ms` (scaled). */
int process_wait(struct process *process, int ms);

/* True until it has ended. */
bool process_is_running(struct process *process);

/* Sends a signal; fails the test when it does not exist. */
void process_signal(struct process *process, int signal);

/* SIGKILL and wait. Harmless when nothing runs. */
void process_kill(struct process *process);

/* Runs it to its end (at most WAIT_DEADLINE_MS x 6, scaled, or the test fails) and returns its status. */
int process_run(struct process *process, const struct process_spec *spec);

/* What it wrote so far, owned. */
char *process_stdout(const struct process *process);
char *process_stderr(const struct process *process);

/* Raises the limit of descriptors of this process and its children to the hard limit; returns that. */
size_t process_raise_descriptor_limit(void);

/* The value of an environment variable that the build sets for tests; fails the test without it. */
const char *process_require_env(const char *name);

#endif
