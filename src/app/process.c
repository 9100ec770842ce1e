/* Figures from /proc/self and getrusage; see process.h. */
#include "app/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void write_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP process_%s %s\n# TYPE process_%s %s\n", name, help, name, type);
}

static void write_whole(struct buf *out, const char *name, const char *help, unsigned long long value)
{
    write_head(out, name, "gauge", help);
    buf_printf(out, "process_%s %llu\n", name, value);
}

/* The first line of a small file, ended with NUL. False when it cannot be read. */
static bool read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    bool read = fgets(line, size, file) != NULL;
    (void)fclose(file);
    return read;
}

/* What the kernel tells in /proc/self/stat that is wanted here (proc_pid_stat(5)). */
struct stat_figures {
    unsigned long threads, virtual_bytes, resident_pages;
    unsigned long long start_ticks; /* after the system's start */
};

/* The second field, the name, may hold anything, but ends with the last parenthesis. */
static bool read_stat(struct stat_figures *s)
{
    char line[1024];
    if (!read_line("/proc/self/stat", line, sizeof line))
        return false;
    const char *rest = strrchr(line, ')');
    return rest != NULL &&
           sscanf(rest + 1,
                  " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %*s %llu %lu %lu",
                  &s->threads, &s->start_ticks, &s->virtual_bytes, &s->resident_pages) == 4;
}

/* When the system started, in seconds since 1970; 0 when it is not told. */
static unsigned long long boot_time(void)
{
    char line[256];
    unsigned long long seconds = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return 0;
    while (seconds == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "btime ", 6) == 0)
            seconds = strtoull(line + 6, NULL, 10);
    (void)fclose(file);
    return seconds;
}

static void write_stat(struct buf *out)
{
    struct stat_figures s;
    if (!read_stat(&s))
        return;
    write_whole(out, "virtual_memory_bytes", "Virtual memory size in bytes.", s.virtual_bytes);
    write_whole(out, "resident_memory_bytes", "Resident memory size in bytes.",
                (unsigned long long)s.resident_pages * (unsigned long long)sysconf(_SC_PAGESIZE));
    write_whole(out, "threads", "Threads of the process.", s.threads);
    unsigned long long ticks = (unsigned long long)sysconf(_SC_CLK_TCK);
    unsigned long long boot = boot_time();
    if (boot == 0)
        return;
    write_head(out, "start_time_seconds", "gauge", "Start of the process since the Unix epoch in seconds.");
    buf_printf(out, "process_start_time_seconds %llu.%02llu\n", boot + s.start_ticks / ticks,
               s.start_ticks % ticks * 100 / ticks);
}

static void write_cpu(struct buf *out)
{
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        return;
    long long us = (long long)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
                   used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    write_head(out, "cpu_seconds_total", "counter", "User and system processor time in seconds.");
    buf_printf(out, "process_cpu_seconds_total %lld.%06lld\n", us / 1000000, us % 1000000);
}

/* The directory that is read is one of them itself, and not counted; nor are its entries for itself and its
 * parent. */
static void write_descriptors(struct buf *out)
{
    enum { NOT_COUNTED = 3 };
    struct rlimit limit;
    unsigned long long entries = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir != NULL) {
        while (readdir(dir) != NULL)
            entries++;
        (void)closedir(dir);
        write_whole(out, "open_fds", "Open file descriptors.", entries - NOT_COUNTED);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        write_whole(out, "max_fds", "Limit of open file descriptors.", limit.rlim_cur);
}

void process_write_metrics(struct buf *out)
{
    write_cpu(out);
    write_stat(out);
    write_descriptors(out);
}
