/*
 * Validity: whether cached entries may be served, and whether Redis' replies may be cached.
 *
 * Plain state, at the bottom of the cache: no callback, no loop. Events of the connection set it
 * (invalidation.c), in stream order. The hit path, the fetches and the key reader only read it. Times are by
 * the boot clock.
 *
 * Invariant, while connected:
 *   - `pong_ms` is the time at which the last answered PING was sent. Whatever Redis had pushed before then
 *     has been applied.
 *   - While `flush_pending` is set everything was invalidated, and nothing is dropped yet. Nothing is served
 *     or stored until a check of the catalogue has passed.
 */
#ifndef CACHE_VALIDITY_H
#define CACHE_VALIDITY_H

#include "cache/lifetime.h"
#include "redis/resp.h"

/*
 * The lease: how long entries are served after the last answered PING was sent, in milliseconds. A process
 * that was stopped must read the invalidations that it missed before it serves from the cache.
 */
enum { VALIDITY_LEASE_MS = 3000 };

/*
 *   - FRESH: connected, tracking, and the stream is known to be whole within the lease
 *   - TTL: connected without tracking, and the operator has set a TTL
 *   - STALE: the connection was lost, but not for longer than the limit
 *   - NONE: entries must not be served
 *
 * In each case an entry is served only while it is alive.
 */
enum freshness { FRESHNESS_NONE, FRESHNESS_STALE, FRESHNESS_TTL, FRESHNESS_FRESH };

/* The settings of the operator, in milliseconds. */
struct validity_limits {
    bool enabled;            /* there is a cache; without one nothing is ever cached */
    uint64_t ttl_ms;         /* how long data that was read without tracking may be served; 0: not at all */
    uint64_t stale_limit_ms; /* how long entries may be served after the connection was lost */
    uint64_t stale_keys_limit_ms; /* how long API keys may be served then */
};

/* Embedded in the cache. Other modules read it by the functions below. */
struct validity {
    struct validity_limits limits;

    bool connected;          /* a connection is in use */
    bool tracking;           /* Redis has agreed to send invalidations on it */
    bool absences_untracked; /* Redis does not announce when an absent key comes to exist */
    bool suspended;          /* invalidations were lost: nothing is cached on this connection */
    bool coherent;           /* entries are kept coherent, or were until the connection was lost */
    bool by_ttl;             /* entries live for the TTL, since Redis does not track */
    bool missing;            /* the last check found no catalogue; set until the next connection */
    uint64_t pong_ms;        /* when the last answered PING was sent */
    /*
     * A request that arrived before this need not wait: whatever Redis had sent 50 ms earlier has been
     * delivered.
     */
    uint64_t drained_until_ms;
    uint64_t present_ms; /* when the last check that found a catalogue began, or when the connection began */
    uint64_t lost_ms;    /* when the connection was lost, or the lease expired before that */

    bool flush_pending;       /* everything was invalidated, which waits for a check */
    uint64_t flushes;         /* invalidations of everything so far */
    uint64_t possible_losses; /* those, and the ones of the API keys, plus 1 */
    uint64_t losses_seen; /* possible losses before the API key set was last found; 0: the last check did not
                             find it */
    int64_t key_count;    /* members of the API key set, by the last check; -1: not known */
};

static inline void validity_init(struct validity *v, const struct validity_limits *limits)
{
    *v = (struct validity){.limits = *limits, .possible_losses = 1, .key_count = -1};
}

/* --- events --- */

/*
 * A new connection. `absences_untracked`: see redis_session_tracks_absences. Data that was read on an older
 * connection must be dropped.
 */
void validity_connected(struct validity *v, uint64_t pong_ms, bool tracking, bool absences_untracked);

/*
 * The connection was lost. `valid_until_ms`: until when the data was known to be valid
 * (redis_session_valid_until_ms); 0: nothing may be served any more. A pending flush stays pending and must
 * be applied, unless the catalogue is missing. In that case the entries from before the loss can be served.
 */
void validity_lost(struct validity *v, uint64_t valid_until_ms);

/* Everything was invalidated. It is pending until validity_flushed. */
void validity_flush(struct validity *v);

static inline void validity_flushed(struct validity *v)
{
    v->flush_pending = false;
}

/* The set of keys, or the hash of their infos, has changed. */
static inline void validity_change_keys(struct validity *v)
{
    v->possible_losses++;
}

/* An invalidation was lost. */
void validity_suspend(struct validity *v);

/* SCARD of the keys was answered. `found`: the set exists. `count` is -1 if it is not known. */
void validity_counted(struct validity *v, int64_t count, bool found);

/* A check of the catalogue that began at `began_ms` has ended. */
void validity_checked(struct validity *v, bool present, bool missing, uint64_t began_ms);

/* --- what may be cached --- */

/* True when replies may be cached: invalidations come on this connection. */
static inline bool validity_may_store(const struct validity *v)
{
    return v->limits.enabled && v->tracking && !v->suspended && !v->flush_pending;
}

/*
 * The lifetime of a reply that has just arrived on this connection, to a command that was sent at `sent_ms`
 * or later. `reply` may be NULL, for data that is composed of cached entries.
 */
static inline struct lifetime validity_lifetime(const struct validity *v, const struct redis_reply *reply,
                                                uint64_t sent_ms)
{
    if (v->by_ttl)
        return (struct lifetime){sent_ms + v->limits.ttl_ms};
    bool untracked =
        !validity_may_store(v) || (v->absences_untracked && reply != NULL && reply_is_absent(reply));
    return untracked ? LIFETIME_NONE : LIFETIME_TRACKED;
}

/*
 * A mark of the time at which a read is sent. It is 0 if no command since the last invalidation has found the
 * API key set. Redis may then have lost its data, and may not track the set.
 *
 * If the read lacks something, that is certain under two conditions. A check has passed that began after its
 * reply, and validity_lost_nothing() is true. Then a command before the read has found the API key set, and
 * so has the check. No invalidation of the set came in between.
 */
static inline uint64_t validity_mark(const struct validity *v)
{
    return v->losses_seen == v->possible_losses ? v->possible_losses : 0;
}

static inline bool validity_lost_nothing(const struct validity *v, uint64_t mark)
{
    return mark != 0 && mark == v->possible_losses && mark == v->losses_seen;
}

/* Counts the invalidations that may have changed API keys or their infos, and those of everything. */
static inline uint64_t validity_key_changes(const struct validity *v)
{
    return v->possible_losses;
}

/* The last check has found the API key set, and not only an index. So a read can be certain. */
static inline bool validity_has_api_keys(const struct validity *v)
{
    return v->losses_seen != 0;
}

/* The size of that set, by the last check; -1 if it is not known or may not be cached (lifetime.h). */
static inline int64_t validity_key_count(const struct validity *v)
{
    return v->absences_untracked && v->key_count == 0 ? -1 : v->key_count;
}

/* --- what may be served --- */

static inline enum freshness validity_freshness(const struct validity *v, uint64_t now_ms)
{
    bool fresh = now_ms <= v->pong_ms + VALIDITY_LEASE_MS && !v->flush_pending;
    if (!v->coherent && !v->by_ttl)
        return FRESHNESS_NONE;
    if (v->connected && v->by_ttl)
        return FRESHNESS_TTL;
    if (v->connected)
        return fresh ? FRESHNESS_FRESH : FRESHNESS_NONE;
    return now_ms < v->lost_ms + v->limits.stale_limit_ms ? FRESHNESS_STALE : FRESHNESS_NONE;
}

/*
 * While there is no connection: since when coherent entries may have changed. Invalidations may have been on
 * their way since the last answered PING.
 */
static inline uint64_t validity_current_ms(const struct validity *v)
{
    return v->pong_ms < v->lost_ms ? v->pong_ms : v->lost_ms;
}

/* Whether the API keys in memory may be used at this freshness of entries. */
static inline bool validity_may_serve_keys(const struct validity *v, enum freshness freshness,
                                           uint64_t now_ms)
{
    if (freshness == FRESHNESS_STALE)
        return now_ms < v->lost_ms + v->limits.stale_keys_limit_ms;
    return freshness != FRESHNESS_NONE;
}

#endif
