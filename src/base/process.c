/*
 * The process and what the system grants it; see process.h.
 *
 * Processors: the smallest quota of the process' own control group (version 2) and all groups above it
 * applies, as systemd's CPUQuota= may be set on a slice. /proc/self/cgroup names the group, below
 * /sys/fs/cgroup. In a container that is usually the container's own group, and the groups above it are not
 * visible.
 */
#include "base/process.h"

#include "base/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- standard descriptors, core dumps --- */

int process_open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        int opened =
            open("/dev/null", flags); /* NOLINT(android-cloexec-open): the lowest number, which is fd */
        if (opened < 0)
            return -errno;
    }
    return 0;
}

void process_set_dumpable(bool dumpable)
{
#ifdef __SANITIZE_ADDRESS__
    (void)dumpable;
#else
    (void)prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0, 0, 0, 0); /* fails only for other values */
#endif
}

/* --- processors --- */

/* Reads the first line of a file, with its newline, cut to `size` - 1 bytes, and adds a NUL. False when it
 * cannot be read. */
static bool process_file_first_line(const char *path, char *out, int size)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool read = fgets(out, size, f) != NULL;
    (void)fclose(f);
    return read;
}

/* The processors that one group grants, by its `cpu.max`: "150000 100000" is 2. NO_QUOTA if it has none
 * ("max"). */
enum { NO_QUOTA = INT_MAX };

static int process_quota_of(const char *directory)
{
    char path[PATH_MAX];
    char line[64];
    char *rest = NULL;
    int n = snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (n >= (int)sizeof path || !process_file_first_line(path, line, sizeof line))
        return NO_QUOTA;
    long long quota = strtoll(line, &rest, 10);
    long long period = strtoll(rest, NULL, 10);
    return quota > 0 && period > 0 ? (int)MIN((quota - 1) / period + 1, NO_QUOTA) : NO_QUOTA;
}

/* The smallest quota of the group at `path` below `mount` and of all groups between them. */
static int process_least_quota(const char *mount, const char *path)
{
    char directory[PATH_MAX];
    size_t top = strlen(mount);
    int n = snprintf(directory, sizeof directory, "%s%s", mount, path);
    int least = NO_QUOTA;
    if (n < 0 || n >= (int)sizeof directory)
        return NO_QUOTA;
    for (char *end = directory + n; end != NULL; end = strrchr(directory + top, '/')) {
        *end = '\0';
        least = MIN(least, process_quota_of(directory));
    }
    return least;
}

int process_cpus_granted(const char *root)
{
    static const char unified[] = "0::"; /* begins the line of version 2; others belong to version 1 */
    char path[PATH_MAX];
    char line[PATH_MAX];
    int least = NO_QUOTA;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NO_QUOTA;
    (void)snprintf(path, sizeof path, "%s/sys/fs/cgroup", root);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, unified, sizeof unified - 1) == 0) {
            line[strcspn(line, "\n")] = '\0';
            least = MIN(least, process_least_quota(path, line + sizeof unified - 1));
        }
    (void)fclose(file);
    return least;
}

int process_cpus_available(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return MAX(MIN(count, process_cpus_granted("")), 1);
}

/* --- metrics --- */

/* Fields 20, 23 and 24 of /proc/self/stat (proc_pid_stat(5)). The second field, the name, may contain
 * anything and ends with the last parenthesis. */
static void process_write_stat(struct buf *out)
{
    char line[1024];
    unsigned long long threads = 0;
    unsigned long long virtual_bytes = 0;
    unsigned long long resident_pages = 0;
    const char *rest =
        process_file_first_line("/proc/self/stat", line, sizeof line) ? strrchr(line, ')') : NULL;
    if (rest == NULL)
        return;
    /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers of this size */
    int fields = sscanf(rest + 1, "%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%llu%*s%*s%llu%llu",
                        &threads, &virtual_bytes, &resident_pages);
    if (fields != 3)
        return;
    metrics_write_one(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
                      virtual_bytes);
    metrics_write_one(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
                      resident_pages * (unsigned long long)sysconf(_SC_PAGESIZE));
    metrics_write_one(out, "process_threads", "gauge", "Threads of the process.", threads);
}

static void process_write_cpu(struct buf *out)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        return;
    long long us = (long long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                   used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    metrics_write_head(out, "process_cpu_seconds_total", "counter",
                       "User and system processor time in seconds.");
    buf_printf(out, "process_cpu_seconds_total %lld.%06lld\n", us / 1000000, us % 1000000);
}

/* Not counted: the descriptor of the directory that is read, and its entries for itself and its parent. */
static void process_write_descriptors(struct buf *out)
{
    enum { NOT_COUNTED = 3 };
    struct rlimit limit;
    unsigned long long entries = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir != NULL) {
        while (readdir(dir) != NULL)
            entries++;
        (void)closedir(dir);
        metrics_write_one(out, "process_open_fds", "gauge", "Open file descriptors.", entries - NOT_COUNTED);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metrics_write_one(out, "process_max_fds", "gauge", "Limit of open file descriptors.", limit.rlim_cur);
}

void process_metrics_write(struct buf *out, int64_t started_s)
{
    metrics_write_one(out, "process_start_time_seconds", "gauge",
                      "Start of the process since the Unix epoch in seconds.", (uint64_t)started_s);
    process_write_cpu(out);
    process_write_stat(out);
    process_write_descriptors(out);
}
