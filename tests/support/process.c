/* Child processes. Everything that allocates is done before fork(): a test may have threads. */

#include "support/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

static const char *const process_no_env[] = {NULL};

static bool process_is_inherited(const char *entry)
{
    return strncmp(entry, "CHANNELD_", 9) != 0 && strncmp(entry, "CHANNELCTL_", 11) != 0;
}

static size_t process_count(char *const *entries)
{
    size_t count = 0;
    while (entries[count] != NULL)
        count++;
    return count;
}

/* Adds the entry unless its variable is there already: the first of two must count. */
static void process_add_entry(char **env, char *entry)
{
    size_t used = 0;
    size_t name_length = strcspn(entry, "=") + 1;
    for (; env[used] != NULL; used++) {
        if (strncmp(env[used], entry, name_length) == 0)
            return;
    }
    env[used] = entry;
}

/* Owned by the caller; the entries are borrowed. Of several with one name the first counts. */
static char **process_environment(const char *const *extra)
{
    char *const *added = NULL;
    memcpy(&added, &extra, sizeof added); /* execvpe() takes what it does not change without const */
    char **env = calloc(process_count(added) + process_count(environ) + 1, sizeof *env);
    if (env == NULL)
        abort();
    for (size_t i = 0; added[i] != NULL; i++)
        process_add_entry(env, added[i]);
    for (char **entry = environ; *entry != NULL; entry++) {
        if (process_is_inherited(*entry))
            process_add_entry(env, *entry);
    }
    return env;
}

static void process_redirect(int target, const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    if (fd < 0 || dup2(fd, target) < 0)
        _exit(127);
    if (fd != target)
        (void)close(fd);
}

static void process_exec(const struct process *process, const struct process_spec *spec, char *const *argv,
                         char *const *env, pid_t parent)
{
    sigset_t none;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent && getpid() != 1) /* the first of a PID namespace has none */
        _exit(127);
    process_redirect(STDIN_FILENO, spec->stdin_path != NULL ? spec->stdin_path : "/dev/null", O_RDONLY);
    process_redirect(STDOUT_FILENO, process->out_path, O_WRONLY | O_CREAT | O_APPEND);
    process_redirect(STDERR_FILENO, process->err_path, O_WRONLY | O_CREAT | O_APPEND);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)execvpe(argv[0], argv, env);
    _exit(127);
}

void process_start(struct process *process, const struct process_spec *spec)
{
    char **env = process_environment(spec->env != NULL ? spec->env : process_no_env);
    char *const *argv = NULL;
    pid_t parent = getpid();
    memcpy(&argv, &spec->argv, sizeof argv);
    process->status = 0;
    (void)snprintf(process->out_path, sizeof process->out_path, "%s/%s.out", spec->dir, spec->name);
    (void)snprintf(process->err_path, sizeof process->err_path, "%s/%s.err", spec->dir, spec->name);
    process->pid = fork();
    if (process->pid == 0)
        process_exec(process, spec, argv, env, parent);
    free(env);
    if (process->pid < 0) {
        process->pid = 0;
        fail_msg("cannot fork for %s", spec->argv[0]);
    }
}

static bool process_has_ended(void *arg)
{
    struct process *process = arg;
    int status = 0;
    struct rusage usage;
    if (process->pid == 0)
        return true;
    if (wait4(process->pid, &status, WNOHANG, &usage) != process->pid)
        return false;
    process->pid = 0;
    process->peak = usage.ru_maxrss * 1024;
    process->status = WIFSIGNALED(status) ? PROCESS_KILLED + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

int process_wait(struct process *process, int ms)
{
    return wait_until(process_has_ended, process, ms) ? process->status : -ETIMEDOUT;
}

bool process_is_running(struct process *process)
{
    return !process_has_ended(process);
}

void process_signal(struct process *process, int signal)
{
    if (process->pid == 0 || kill(process->pid, signal) != 0)
        fail_msg("no process to send signal %d to", signal);
}

void process_kill(struct process *process)
{
    if (process->pid == 0)
        return;
    (void)kill(process->pid, SIGKILL);
    (void)process_wait(process, WAIT_DEADLINE_MS);
}

int process_run(struct process *process, const struct process_spec *spec)
{
    process_start(process, spec);
    int status = process_wait(process, WAIT_DEADLINE_MS * 6);
    if (status < 0) {
        process_kill(process);
        fail_msg("%s does not end", spec->argv[0]);
    }
    return status;
}

char *process_stdout(const struct process *process)
{
    return text_read_file(process->out_path);
}

char *process_stderr(const struct process *process)
{
    return text_read_file(process->err_path);
}

const char *process_require_env(const char *name)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0')
        fail_msg("%s is not set: run the tests through ctest", name);
    return value;
}

size_t process_raise_descriptor_limit(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_max;
}
