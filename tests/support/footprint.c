/* Figures from /proc/PID; see footprint.h. */

#include "support/footprint.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

/* /proc/PID/<name>, owned; fails the test when there is none. */
static char *footprint_read(pid_t pid, const char *name)
{
    AUTOFREE char *path = text_printf("/proc/%d/%s", (int)pid, name);
    char *text = text_read_file(path);
    if (text[0] == '\0')
        fail_msg("no /proc/%d/%s", (int)pid, name);
    return text;
}

static long footprint_status(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    return line != NULL ? strtol(line + strlen(name), NULL, 10) : 0;
}

/* What follows the n-th field behind `text`, where fields are separated by spaces. */
static const char *footprint_skip(const char *text, int fields)
{
    for (int i = 0; i < fields; i++) {
        text += strspn(text, " ");
        text += strcspn(text, " ");
    }
    return text;
}

/* utime and stime are the 12th and 13th field behind the name, which is in parentheses (proc_pid_stat(5)). */
static int64_t footprint_cpu_ms(const char *stat)
{
    const char *name = strrchr(stat, ')');
    char *rest = NULL;
    assert_non_null(name);
    unsigned long user = strtoul(footprint_skip(name + 1, 11), &rest, 10);
    unsigned long system = strtoul(rest, NULL, 10);
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

static int footprint_descriptors(pid_t pid)
{
    AUTOFREE char *path = text_printf("/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    int count = 0;
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    return count;
}

struct footprint footprint_of(pid_t pid)
{
    AUTOFREE char *status = footprint_read(pid, "status");
    AUTOFREE char *stat = footprint_read(pid, "stat");
    struct footprint footprint = {
        .resident_kib = footprint_status(status, "VmRSS:"),
        .peak_kib = footprint_status(status, "VmHWM:"),
        .descriptors = footprint_descriptors(pid),
        .cpu_ms = footprint_cpu_ms(stat),
    };
    return footprint;
}

void footprint_print(const char *when, const struct footprint *footprint)
{
    print_message("%s: %ld KiB resident (peak %ld), %d descriptors, %d ms of processor time\n", when,
                  footprint->resident_kib, footprint->peak_kib, footprint->descriptors,
                  (int)footprint->cpu_ms);
}

/* The fields are described in proc_net(5). While other connections come and go, a connection can stand in the
 * table several times: the port of the other end tells it from the others. */
struct footprint_queues footprint_queues_of(int port)
{
    struct footprint_queues queues = {0};
    bool seen[UINT16_MAX + 1] = {false};
    char *rest = NULL;
    AUTOFREE char *table = text_read_file("/proc/net/tcp");
    for (char *line = strtok_r(table, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const char *local = strchr(footprint_skip(line, 1) + 1, ':');
        const char *remote = strchr(footprint_skip(line, 2) + 1, ':');
        char *queued = NULL;
        if (local == NULL || remote == NULL || strtol(local + 1, NULL, 16) != port)
            continue;
        bool *is_seen = &seen[strtoul(remote + 1, NULL, 16) % TEST_COUNT(seen)];
        if (*is_seen)
            continue;
        *is_seen = true;
        queues.sent_kib += (long)(strtoul(footprint_skip(line, 4), &queued, 16) / 1024);
        queues.received_kib += (long)(strtoul(queued + 1, NULL, 16) / 1024);
    }
    return queues;
}

struct footprint_expectation {
    pid_t pid;
    int at_most;
};

static bool footprint_is_small(void *arg)
{
    struct footprint_expectation *expected = arg;
    return footprint_descriptors(expected->pid) <= expected->at_most;
}

void footprint_await_descriptors(pid_t pid, int before)
{
    enum { OTHERS = 6 };
    struct footprint_expectation expected = {pid, before + OTHERS};
    if (!wait_until(footprint_is_small, &expected, WAIT_DEADLINE_MS))
        fail_msg("%d descriptors, expected some %d", footprint_descriptors(pid), before);
}

bool footprint_is_meaningful(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return getenv("TEST_WRAPPER") == NULL;
#endif
}
