/* The operator's view: health from the workers' atomics, metrics added up. See server_internal.h and
 * api/ops.h. */
#include "app/server_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "version.h"

/* The admin listener has a small limit of its own, so that it answers whatever the public one goes through.
 * At the limit a new connection replaces the oldest idle one.
 */
enum { ADMIN_REFUSALS_MAX = 16, ADMIN_HEAD_MAX = 16 * 1024, ADMIN_TIMEOUT_MS = 10 * 1000 };

/* A loop that has not turned for so long is stuck. */
enum { LIVE_LIMIT_MS = 10 * 1000 };

static void report(struct buf *why, bool good, const char *name, const char *reason)
{
    if (why != NULL)
        buf_printf(why, good ? "[+]%s ok\n" : "[-]%s %s\n", name, reason);
}

static bool is_live(void *arg, struct buf *why)
{
    const struct server *s = arg;
    uint64_t now = clock_now_ms();
    bool live = true;
    for (int i = 0; i < s->worker_count; i++) {
        uint64_t ticked = worker_status(s->workers[i]).ticked_ms;
        live = live && (ticked >= now || now - ticked < LIVE_LIMIT_MS);
    }
    report(why, live, "workers", "a worker's loop does not turn");
    return live;
}

/* How the workers stand with Redis. */
struct redis_view {
    int lost;         /* workers without a connection */
    bool seen;        /* each of them had one before */
    bool usable;      /* each of them had it within the stale limit */
    bool missing;     /* one of them found no catalogue */
    uint64_t away_ms; /* since the first of them lost it */
};

static struct redis_view look_at_redis(const struct server *s)
{
    uint64_t now = clock_boot_ms();
    struct redis_view v = {.seen = true};
    for (int i = 0; i < s->worker_count; i++) {
        struct worker_status w = worker_status(s->workers[i]);
        v.missing = v.missing || metric_get(&worker_metrics(s->workers[i])->cache.catalogue_missing) > 0;
        if (w.redis_ready)
            continue;
        uint64_t away_ms = w.redis_lost_ms < now ? now - w.redis_lost_ms : 0;
        v.lost++;
        v.seen = v.seen && w.redis_seen;
        v.away_ms = away_ms > v.away_ms ? away_ms : v.away_ms;
    }
    v.usable = v.seen && (v.lost == 0 || v.away_ms < (uint64_t)s->config->values.stale_limit);
    return v;
}

static void report_redis(const struct server *s, const struct redis_view *v, struct buf *why)
{
    const char *memory = s->config->values.cache_size > 0 ? ", serving from memory" : "";
    if (v->lost == 0 || !v->seen) {
        report(why, v->lost == 0, "redis", "not connected yet");
        return;
    }
    buf_printf(why, "[%c]redis lost %llu s ago", v->usable ? '+' : '-',
               (unsigned long long)v->away_ms / 1000);
    if (v->lost < s->worker_count)
        buf_printf(why, " by %d of %d workers", v->lost, s->worker_count);
    buf_printf(why, "%s\n", v->usable ? memory : ", longer than the stale limit");
}

static void report_catalogue(const struct redis_view *v, struct buf *why)
{
    if (v->missing)
        buf_printf(why, "[%c]catalogue missing\n", v->usable ? '+' : '-');
    else
        report(why, v->seen, "catalogue", "not seen yet");
}

static bool is_ready(void *arg, struct buf *why)
{
    const struct server *s = arg;
    bool serving = s->state == SERVER_SERVING;
    const struct redis_view redis = look_at_redis(s);
    report(why, serving, "serving", "draining");
    if (why != NULL) {
        report_redis(s, &redis, why);
        report_catalogue(&redis, why);
    }
    return serving && redis.usable;
}

/* The listeners are bound and the workers run before the admin listener answers at all. */
static bool is_started(void *arg, struct buf *why)
{
    (void)arg;
    report(why, true, "workers", "");
    return true;
}

static void write_workers(const struct server *s, struct buf *out)
{
    metrics_write_one(out, "channeld_workers", "gauge", "Worker threads.", (uint64_t)s->worker_count);
    metrics_write_head(out, "channeld_worker_redis_connected", "gauge",
                       "1 while the worker's Redis connection is ready.");
    for (int i = 0; i < s->worker_count; i++)
        buf_printf(out, "channeld_worker_redis_connected{worker=\"%d\"} %d\n", i,
                   worker_status(s->workers[i]).redis_ready ? 1 : 0);
}

static void write_metrics(void *arg, struct buf *out)
{
    struct server *s = arg;
    struct worker_metrics sum = {0};
    for (int i = 0; i < s->worker_count; i++)
        worker_metrics_accumulate(&sum, worker_metrics(s->workers[i]));
    worker_metrics_write(out, &sum);
    write_workers(s, out);
    metrics_write_one(out, "channeld_ready", "gauge", "1 while /readyz answers 200.",
                      is_ready(s, NULL) ? 1 : 0);
    metrics_write_one(out, "channeld_log_lines_dropped_total", "counter",
                      "Log lines lost: nobody read them in time, or they could not be written.",
                      log_dropped());
    metrics_write_head(out, "channeld_build_info", "gauge", "Always 1; the label tells the version.");
    buf_append_str(out, "channeld_build_info{version=\"" CHANNELD_VERSION "\"} 1\n");
    process_metrics_write(out);
}

struct ops_source admin_source(struct server *s)
{
    return (struct ops_source){.arg = s,
                               .is_live = is_live,
                               .is_ready = is_ready,
                               .is_started = is_started,
                               .write_metrics = write_metrics};
}

int admin_open(struct server *s)
{
    const struct http_server_options options = {
        .handler = ops_handler(s->ops),
        .metrics = &s->admin_metrics,
        .loop_lag = &s->loop_lag,
        .head_max = ADMIN_HEAD_MAX,
        .body_max = 0,
        .head_timeout_ms = ADMIN_TIMEOUT_MS,
        .idle_timeout_ms = ADMIN_TIMEOUT_MS,
        .write_timeout_ms = ADMIN_TIMEOUT_MS,
        .max_connections = s->max_admin_connections,
        .max_rejections = ADMIN_REFUSALS_MAX,
        .open_connections = &s->admin_connections,
        .close_each = true,
        .evict_idle = true,
    };
    int err = http_server_new(&s->loop, &options, &s->admin);
    return err != 0 ? err : http_server_listen(s->admin, &s->config->admin_listen);
}
