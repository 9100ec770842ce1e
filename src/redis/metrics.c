/* Adding up and writing what connections count; see metrics.h. */
#include "redis/metrics.h"

void redis_metrics_accumulate(struct redis_metrics *to, const struct redis_metrics *from)
{
#define ADD(name, type, help) metric_add(&to->name, metric_get(&from->name));
    REDIS_METRICS(ADD)
#undef ADD
#define TAKE_LARGER(name, type, help)                    \
    if (metric_get(&from->name) > metric_get(&to->name)) \
        metric_set(&to->name, metric_get(&from->name));
    REDIS_METRICS_LARGEST(TAKE_LARGER)
#undef TAKE_LARGER
    for (int i = 0; i < REDIS_ROLE_KINDS; i++)
        metric_add(&to->redis_role[i], metric_get(&from->redis_role[i]));
    histogram_accumulate(&to->redis_command_duration, &from->redis_command_duration);
}

void redis_metrics_write(struct buf *out, const struct redis_metrics *m)
{
    static const char *const roles[REDIS_ROLE_KINDS] = {"unknown", "master", "replica"};
#define WRITE(name, type, help) metrics_write_one(out, "channeld_" #name, #type, help, metric_get(&m->name));
    REDIS_METRICS(WRITE)
    REDIS_METRICS_LARGEST(WRITE)
#undef WRITE
    metrics_write_head(out, "channeld_redis_role", "gauge",
                       "Ready Redis connections by what the server says it is.");
    for (int i = 0; i < REDIS_ROLE_KINDS; i++)
        buf_printf(out, "channeld_redis_role{role=\"%s\"} %llu\n", roles[i],
                   (unsigned long long)metric_get(&m->redis_role[i]));
    metrics_write_head(out, "channeld_redis_command_duration_seconds", "histogram",
                       "Time from queueing a command for Redis to its reply.");
    histogram_write(out, "channeld_redis_command_duration_seconds", "", &m->redis_command_duration);
}
