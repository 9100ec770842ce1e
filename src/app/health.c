/* The checks of health, and what prints them; see health.h. */
#include "app/health.h"

#include "base/clock.h"

#include <stdio.h>
#include <sys/param.h>

/* A loop whose timer has not fired for this long is stuck. */
enum { LIVE_LIMIT_MS = 10 * 1000 };

/* --- Redis --- */

/* Requests are served while each worker has a connection, or lost it within the stale limit. */
enum redis_state { REDIS_UNSEEN /* a worker never had one */, REDIS_READY, REDIS_STALE, REDIS_AWAY };

struct redis_view {
    enum redis_state state;
    int lost;         /* workers without a connection */
    bool missing;     /* a worker found no catalogue */
    bool by_ttl;      /* a worker's Redis does not track */
    uint64_t away_ms; /* since the first connection was lost */
};

static struct redis_view health_view_redis(const struct worker_shared *s)
{
    uint64_t now = clock_boot_ms();
    bool seen = true;
    struct redis_view v = {.lost = 0};
    for (int i = 0; i < s->worker_count; i++) {
        uint64_t lost_ms = worker_status(s->workers[i])->redis_lost_ms;
        const struct cache_metrics *m = &worker_status(s->workers[i])->metrics.cache;
        v.missing = v.missing || metric_get(&m->catalogue_missing) > 0;
        v.by_ttl = v.by_ttl || metric_get(&m->cache_by_ttl) > 0;
        if (lost_ms == WORKER_REDIS_READY)
            continue;
        uint64_t away_ms = lost_ms < now ? now - lost_ms : 0;
        v.lost++;
        seen = seen && lost_ms != WORKER_REDIS_NEVER_READY;
        v.away_ms = MAX(v.away_ms, away_ms);
    }
    if (seen && v.lost == 0)
        v.state = REDIS_READY;
    else if (seen)
        v.state = v.away_ms < s->config->values.cache.stale_limit_ms ? REDIS_STALE : REDIS_AWAY;
    return v;
}

bool health_has_seen_redis(const struct worker_shared *s)
{
    return health_view_redis(s).state != REDIS_UNSEEN;
}

/* --- the checks --- */

/* Appends a line if `why` is given. Returns `passes`. */
static bool health_report(struct buf *why, bool passes, const char *name, const char *finding)
{
    if (why != NULL)
        buf_printf(why, "[%c]%s %s\n", passes ? '+' : '-', name, finding);
    return passes;
}

static bool health_check_one(struct buf *why, bool passes, const char *name, const char *otherwise)
{
    return health_report(why, passes, name, passes ? "ok" : otherwise);
}

static bool health_check_workers(const struct worker_shared *s, struct buf *why)
{
    uint64_t now = clock_now_ms();
    bool live = true;
    for (int i = 0; i < s->worker_count; i++) {
        uint64_t ticked = worker_status(s->workers[i])->ticked_ms;
        live = live && (ticked >= now || now - ticked < LIVE_LIMIT_MS);
    }
    return health_check_one(why, live, "workers", "a worker's loop is stuck");
}

static bool health_check_redis(const struct worker_shared *s, const struct redis_view *v, struct buf *why)
{
    enum { FINDING_MAX = 128 };
    const char *cached = s->config->values.cache.cache_size > 0 ? ", serving from the cache" : "";
    char finding[FINDING_MAX];
    char workers[FINDING_MAX / 2] = "";
    if (v->state == REDIS_READY || v->state == REDIS_UNSEEN)
        return health_check_one(why, v->state == REDIS_READY, "redis", "not connected yet");
    if (v->lost < s->worker_count)
        (void)snprintf(workers, sizeof workers, " by %d of %d workers", v->lost, s->worker_count);
    (void)snprintf(finding, sizeof finding, "lost %llu s ago%s%s", (unsigned long long)v->away_ms / 1000,
                   workers, v->state == REDIS_STALE ? cached : ", longer than the stale limit");
    return health_report(why, v->state == REDIS_STALE, "redis", finding);
}

/* Requests are served until the listeners close. */
bool health_check(const struct worker_shared *s, enum health_kind kind, struct buf *why)
{
    if (kind == HEALTH_LIVE)
        return health_check_workers(s, why);
    const struct redis_view v = health_view_redis(s);
    bool good =
        kind == HEALTH_SERVING || health_check_one(why, s->phase <= PHASE_SERVING, "shutdown", "draining");
    good = health_check_one(why, s->phase <= PHASE_ANNOUNCING, "listeners", "closed") && good;
    bool has_data = health_check_redis(s, &v, why);
    if (v.missing)
        (void)health_report(why, has_data, "catalogue", "missing");
    else
        (void)health_check_one(why, v.state != REDIS_UNSEEN, "catalogue", "not seen yet");
    (void)health_report(why, true, "cache", v.by_ttl ? "by TTL: redis does not track" : "ok");
    return good && has_data;
}

const char *health_describe(const struct worker_shared *s, bool reload_failed)
{
    static const char *const texts[][2] = {
        /* with a catalogue, or without */
        [REDIS_UNSEEN] = {"Not ready: Redis is not connected yet", "Not ready: Redis holds no catalogue"},
        [REDIS_STALE] = {"Ready: Redis is lost, serving from the cache",
                         "Ready: Redis holds no catalogue, serving from the cache"},
        [REDIS_AWAY] = {"Not ready: Redis has been lost for longer than the stale limit",
                        "Not ready: Redis holds no catalogue"},
    };
    const struct redis_view v = health_view_redis(s);
    if (s->phase > PHASE_SERVING)
        return s->phase > PHASE_ANNOUNCING ? "Draining: finishing requests" : "Draining: still serving";
    if (v.state != REDIS_READY)
        return texts[v.state][v.missing];
    return reload_failed ? "Ready: the settings were not reloaded, the old ones are in use" : "Ready";
}
