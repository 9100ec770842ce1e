/* Adding up and writing the metrics; the table is in metrics.h. */
#include "base/metrics.h"

void metrics_accumulate(struct metrics *to, const struct metrics *from)
{
#define ADD(name, type, help) metric_add(&to->name, metric_get(&from->name));
    METRICS(ADD)
#undef ADD
    histogram_accumulate(&to->redis_command_duration, &from->redis_command_duration);
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

void metrics_write(struct buf *out, const struct metrics *m)
{
#define WRITE(name, type, help) metrics_write_one(out, "channeld_" #name, #type, help, metric_get(&m->name));
    METRICS(WRITE)
#undef WRITE
    metrics_write_head(out, "channeld_redis_command_duration_seconds", "histogram",
                       "Time from queueing a command for Redis to its reply.");
    histogram_write(out, "channeld_redis_command_duration_seconds", "", &m->redis_command_duration);
}
