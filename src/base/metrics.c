/* Adding up and writing the metrics; the table is in metrics.h. */
#include "base/metrics.h"

void metrics_accumulate(struct metrics *to, const struct metrics *from)
{
#define ADD(name, type, help) metric_add(&to->name, metric_get(&from->name));
    METRICS(ADD)
#undef ADD
#define TAKE_LARGER(name, type, help)                    \
    if (metric_get(&from->name) > metric_get(&to->name)) \
        metric_set(&to->name, metric_get(&from->name));
    METRICS_LARGEST(TAKE_LARGER)
#undef TAKE_LARGER
    for (int i = 0; i < METRICS_ROLES; i++)
        metric_add(&to->redis_role[i], metric_get(&from->redis_role[i]));
    histogram_accumulate(&to->redis_command_duration, &from->redis_command_duration);
    histogram_accumulate(&to->loop_lag, &from->loop_lag);
}

void metrics_turn_ends(struct metrics *m)
{
    if (m->turn_began_ns == 0)
        return;
    uint64_t now_ns = clock_now_ns();
    histogram_observe(&m->loop_lag, now_ns > m->turn_began_ns ? now_ns - m->turn_began_ns : 0);
    m->turn_began_ns = 0;
}

void metrics_write_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_write_one(struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
    metrics_write_head(out, name, type, help);
    buf_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

static void write_roles(struct buf *out, const struct metrics *m)
{
    static const char *const names[METRICS_ROLES] = {"unknown", "master", "replica"};
    metrics_write_head(out, "channeld_redis_role", "gauge",
                       "Redis connections that are ready, by what the server says it is.");
    for (int i = 0; i < METRICS_ROLES; i++)
        buf_printf(out, "channeld_redis_role{role=\"%s\"} %llu\n", names[i],
                   (unsigned long long)metric_get(&m->redis_role[i]));
}

void metrics_write(struct buf *out, const struct metrics *m)
{
#define WRITE(name, type, help) metrics_write_one(out, "channeld_" #name, #type, help, metric_get(&m->name));
    METRICS(WRITE)
    METRICS_LARGEST(WRITE)
#undef WRITE
    write_roles(out, m);
    metrics_write_head(out, "channeld_redis_command_duration_seconds", "histogram",
                       "Time from queueing a command for Redis to its reply.");
    histogram_write(out, "channeld_redis_command_duration_seconds", "", &m->redis_command_duration);
    metrics_write_head(out, "channeld_loop_lag_seconds", "histogram",
                       "Time of a turn of a worker's loop: for so long everybody else waits.");
    histogram_write(out, "channeld_loop_lag_seconds", "", &m->loop_lag);
}
