/* Counting processors; see cpus.h. In a container the cgroup file system shows the container's own group at
 * its root. */
#include "app/cpus.h"

#include "base/file.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* The number at *text, which moves behind it; 0 when there is none ("max"). */
static long long take_number(const char **text)
{
    char *end = NULL;
    long long n = strtoll(*text, &end, 10);
    *text = end;
    return n;
}

static int rounded_up(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long count = (quota - 1) / period + 1;
    return count > INT_MAX ? INT_MAX : (int)count;
}

int cpus_from_cpu_max(const char *text)
{
    long long quota = take_number(&text);
    long long period = take_number(&text);
    return rounded_up(quota, period);
}

static long long number_in(const char *path)
{
    char line[32];
    const char *text = line;
    return file_first_line(path, line, sizeof line) ? take_number(&text) : 0;
}

static int quota_v1(void)
{
    return rounded_up(number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
                      number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
}

static int quota(void)
{
    char line[64];
    return file_first_line("/sys/fs/cgroup/cpu.max", line, sizeof line) ? cpus_from_cpu_max(line)
                                                                        : quota_v1();
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
