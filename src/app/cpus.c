/* Counting processors; see cpus.h. In a container the cgroup file system shows the container's own group at its root. */
#include "app/cpus.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>

static bool read_line(const char *path, char *out, int size)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool read = fgets(out, size, f) != NULL;
    (void)fclose(f);
    return read;
}

static int rounded_up(long long quota, long long period)
{
    return quota <= 0 || period <= 0 ? 0 : (int)((quota + period - 1) / period);
}

int cpus_from_cpu_max(const char *text)
{
    long long quota = 0;
    long long period = 0;
    return sscanf(text, "%lld %lld", &quota, &period) == 2 ? rounded_up(quota, period) : 0; /* "max ..." reads as none */
}

static int quota_v1(void)
{
    char quota[32];
    char period[32];
    long long q = 0;
    long long p = 0;
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return 0;
    return sscanf(quota, "%lld", &q) == 1 && sscanf(period, "%lld", &p) == 1 ? rounded_up(q, p) : 0;
}

static int quota(void)
{
    char line[64];
    return read_line("/sys/fs/cgroup/cpu.max", line, sizeof line) ? cpus_from_cpu_max(line) : quota_v1();
}

int cpus_available(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int granted = quota();
    if (granted > 0 && granted < count)
        count = granted;
    return count < 1 ? 1 : count;
}
