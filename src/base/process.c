/* The process and what the system grants it; see process.h. */
#include "base/process.h"

#include "base/file.h"
#include "base/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- standard descriptors, core dumps --- */

int process_open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
        /* NOLINTNEXTLINE(android-cloexec-open): the lowest number, which is fd */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags) < 0)
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

enum { NO_QUOTA = INT_MAX };

/* The processors that one group grants, by its `cpu.max`: "150000 100000" is 2. NO_QUOTA if it has none
 * ("max"). */
static int process_quota_of(const char *path)
{
    long long quota = 0;
    long long period = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NO_QUOTA;
    int n =
        fscanf(file, "%lld%lld", &quota, &period); /* NOLINT(cert-err34-c): the kernel writes such numbers */
    (void)fclose(file);
    return n == 2 && quota > 0 && period > 0 ? (int)MIN((quota - 1) / period + 1, NO_QUOTA) : NO_QUOTA;
}

/* A quota may be that of a group above: systemd's CPUQuota= of a slice. */
int process_cpus_granted(const char *root)
{
    static const char unified[] = "0::"; /* begins the line of version 2; others belong to version 1 */
    static const char quota[] = "/cpu.max";
    char path[PATH_MAX];
    char text[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    ssize_t len = file_read(path, text, sizeof text - 1);
    text[MAX(len, 0)] = '\0';
    const char *group = strstr(text, unified);
    if (group == NULL)
        return NO_QUOTA;
    group += sizeof unified - 1;
    int n = snprintf(path, sizeof path, "%s/sys/fs/cgroup%.*s", root, (int)strcspn(group, "\n"), group);
    if (n > PATH_MAX - (int)sizeof quota)
        return NO_QUOTA;
    int least = NO_QUOTA;
    for (char *end = path + n; end != NULL; end = strrchr(path, '/')) {
        memcpy(end, quota, sizeof quota);
        least = MIN(least, process_quota_of(path));
        *end = '\0';
    }
    return least;
}

int process_cpus_available(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return MAX(MIN(count, process_cpus_granted("")), 1);
}

/* --- metrics --- */

/* The first two fields of /proc/self/statm (proc_pid_statm(5)), in pages; a folder for each thread. */
static void process_write_memory_and_threads(struct buf *out)
{
    unsigned long long total = 0;
    unsigned long long resident = 0;
    unsigned long long page = (unsigned long long)sysconf(_SC_PAGESIZE);
    struct stat tasks;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return;
    int n = fscanf(file, "%llu%llu", &total, &resident); /* NOLINT(cert-err34-c): see process_quota_of */
    (void)fclose(file);
    if (n != 2 || stat("/proc/self/task", &tasks) != 0)
        return;
    metrics_write_one(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
                      total * page);
    metrics_write_one(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
                      resident * page);
    metrics_write_one(out, "process_threads", "gauge", "Threads of the process.", tasks.st_nlink - 2);
}

static void process_write_cpu(struct buf *out)
{
    struct timespec used = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    metrics_write_head(out, "process_cpu_seconds_total", "counter",
                       "User and system processor time in seconds.");
    buf_printf(out, "process_cpu_seconds_total %lld.%06ld\n", (long long)used.tv_sec, used.tv_nsec / 1000);
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
    process_write_memory_and_threads(out);
    process_write_descriptors(out);
}
