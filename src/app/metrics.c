/* Adding up and writing the metrics of workers and of the process; see metrics.h. */
#include "app/metrics.h"

#include "base/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- workers --- */

/* clang-format off */
#define ROW(layer, name, kind, help) /* NOLINTNEXTLINE(bugprone-macro-parentheses): a member */ \
    {"channeld_" #name, METRIC_##kind, offsetof(struct worker_metrics, layer.name), help},
#define HTTP_ROW(name, kind, help)  ROW(http, name, kind, help)
#define API_ROW(name, kind, help)   ROW(requests, name, kind, help)
#define REDIS_ROW(name, kind, help) ROW(redis, name, kind, help)
#define CACHE_ROW(name, kind, help) ROW(cache, name, kind, help)

/* The metrics without labels. */
static const struct metric TABLE[] = {
    HTTP_METRICS(HTTP_ROW)
    API_METRICS(API_ROW)
    REDIS_METRICS(REDIS_ROW)
    CACHE_METRICS(CACHE_ROW)
};
/* clang-format on */

enum { TABLE_ROWS = sizeof TABLE / sizeof TABLE[0] };

void worker_metrics_accumulate(struct worker_metrics *to, const struct worker_metrics *from)
{
    metrics_accumulate(TABLE, TABLE_ROWS, to, from);
    request_metrics_accumulate(&to->requests, &from->requests);
    for (int i = 0; i < REDIS_ROLE_KINDS; i++)
        metric_add(&to->redis.redis_role[i], metric_get(&from->redis.redis_role[i]));
    histogram_accumulate(&to->loop_lag.turns, &from->loop_lag.turns);
}

static void write_roles(struct buf *out, const struct redis_metrics *m)
{
    static const char *const names[REDIS_ROLE_KINDS] = {"unknown", "master", "replica"};
    metrics_write_head(out, "channeld_redis_role", "gauge", "Ready Redis connections by role of the server.");
    for (int i = 0; i < REDIS_ROLE_KINDS; i++)
        buf_printf(out, "channeld_redis_role{role=\"%s\"} %llu\n", names[i],
                   (unsigned long long)metric_get(&m->redis_role[i]));
}

void worker_metrics_write(struct buf *out, const struct worker_metrics *m)
{
    request_metrics_write(out, &m->requests);
    metrics_write(out, TABLE, TABLE_ROWS, m);
    write_roles(out, &m->redis);
    metrics_write_head(
        out, "channeld_loop_lag_seconds", "histogram",
        "Duration of a turn of a worker's event loop: everything else on the worker waits for it.");
    histogram_write(out, "channeld_loop_lag_seconds", "", &m->loop_lag.turns);
}

/* --- the process --- */

/* Fields of /proc/self/stat, by their numbers in proc_pid_stat(5). */
enum {
    STAT_STATE = 3,
    STAT_THREADS = 20,
    STAT_START_TICKS = 22,
    STAT_VIRTUAL_BYTES,
    STAT_RESIDENT_PAGES,
    STAT_END
};

/* The second field, the name, may contain anything and ends with the last parenthesis. */
static bool read_stat(unsigned long long field[STAT_END])
{
    char line[1024];
    char *rest = file_first_line("/proc/self/stat", line, sizeof line) ? strrchr(line, ')') : NULL;
    if (rest == NULL)
        return false;
    int at = STAT_STATE;
    for (char *word = strtok_r(rest + 1, " ", &rest); word != NULL && at < STAT_END; at++) {
        field[at] = strtoull(word, NULL, 10);
        word = strtok_r(NULL, " ", &rest);
    }
    return at == STAT_END;
}

/* Boot time in seconds since 1970; 0: unknown. */
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
    unsigned long long field[STAT_END];
    if (!read_stat(field))
        return;
    metrics_write_one(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
                      field[STAT_VIRTUAL_BYTES]);
    metrics_write_one(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
                      field[STAT_RESIDENT_PAGES] * (unsigned long long)sysconf(_SC_PAGESIZE));
    metrics_write_one(out, "process_threads", "gauge", "Threads of the process.", field[STAT_THREADS]);
    unsigned long long ticks = (unsigned long long)sysconf(_SC_CLK_TCK);
    unsigned long long boot = boot_time();
    if (boot == 0)
        return;
    metrics_write_head(out, "process_start_time_seconds", "gauge",
                       "Start of the process since the Unix epoch in seconds.");
    buf_printf(out, "process_start_time_seconds %llu.%02llu\n", boot + field[STAT_START_TICKS] / ticks,
               field[STAT_START_TICKS] % ticks * 100 / ticks);
}

static void write_cpu(struct buf *out)
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
        metrics_write_one(out, "process_open_fds", "gauge", "Open file descriptors.", entries - NOT_COUNTED);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metrics_write_one(out, "process_max_fds", "gauge", "Limit of open file descriptors.", limit.rlim_cur);
}

void process_metrics_write(struct buf *out)
{
    write_cpu(out);
    write_stat(out);
    write_descriptors(out);
}
