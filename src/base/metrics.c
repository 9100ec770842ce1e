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
    histogram_accumulate(&to->loop_lag.turns, &from->loop_lag.turns);
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
    METRICS_LARGEST(WRITE)
#undef WRITE
    metrics_write_head(out, "channeld_loop_lag_seconds", "histogram",
                       "Time of a turn of a worker's loop: for so long everybody else waits.");
    histogram_write(out, "channeld_loop_lag_seconds", "", &m->loop_lag.turns);
}
