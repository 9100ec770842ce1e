/* Health, from what the workers show of themselves; see health.h. */
#include "app/health.h"

#include "base/clock.h"

#include <sys/param.h>

/* A loop whose timer has not fired for this long is stuck. */
enum { LIVE_LIMIT_MS = 10 * 1000 };

/* Requests are served while each worker has a connection, or lost it within the stale limit. */
enum redis_state { REDIS_UNSEEN /* a worker never had one */, REDIS_READY, REDIS_STALE, REDIS_AWAY };

struct redis_view {
    enum redis_state state;
    bool missing; /* a worker found no catalogue */
    bool by_ttl;  /* a worker's Redis does not track */
};

static struct redis_view health_view_redis(const struct worker_shared *s)
{
    uint64_t now = clock_boot_ms();
    struct redis_view v = {.state = REDIS_READY};
    for (int i = 0; i < s->worker_count; i++) {
        uint64_t lost_ms = worker_status(s->workers[i])->redis_lost_ms;
        const struct cache_metrics *m = &worker_status(s->workers[i])->metrics.cache;
        v.missing = v.missing || metric_get(&m->catalogue_missing) > 0;
        v.by_ttl = v.by_ttl || metric_get(&m->cache_by_ttl) > 0;
        if (lost_ms == WORKER_REDIS_NEVER_READY)
            v.state = REDIS_UNSEEN;
        else if (lost_ms != WORKER_REDIS_READY && v.state != REDIS_UNSEEN)
            v.state = MAX(v.state,
                          now < lost_ms + s->config->values.cache.stale_limit_ms ? REDIS_STALE : REDIS_AWAY);
    }
    return v;
}

bool health_has_seen_redis(const struct worker_shared *s)
{
    return health_view_redis(s).state != REDIS_UNSEEN;
}

bool health_is_live(const struct worker_shared *s)
{
    uint64_t now = clock_now_ms();
    bool live = true;
    for (int i = 0; i < s->worker_count; i++)
        live = live && now < worker_status(s->workers[i])->ticked_ms + LIVE_LIMIT_MS;
    return live;
}

bool health_is_ready(const struct worker_shared *s, enum phase last)
{
    enum redis_state state = health_view_redis(s).state;
    return s->phase <= last && (state == REDIS_READY || state == REDIS_STALE);
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
    if (reload_failed)
        return "Ready: the settings were not reloaded, the old ones are in use";
    return v.by_ttl ? "Ready: Redis does not track, the cache is used for its TTL" : "Ready";
}
