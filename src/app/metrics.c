/* Adding up and writing the metrics of workers; see metrics.h. */
#include "app/metrics.h"

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
