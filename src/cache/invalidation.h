/*
 * Invalidations: the pushes of CLIENT TRACKING, and whether cached entries may be served.
 *
 * One connection carries both the cache's reads and Redis' invalidations. Redis queues the invalidations of a
 * turn of its loop after that turn's replies and before it writes either, so on the stream
 *   - a reply older than a write comes before that write's invalidation: its entry is dropped in time;
 *   - a reply behind an invalidation reflects the write: it may be cached;
 *   - a writer's acknowledgement is sent after the invalidation is queued: a writer that has read it is at
 *     most one network delay ahead.
 *
 * Hence the only rule for a single key: apply replies and pushes strictly in stream order.
 *
 * The acknowledgement has two exceptions, which cost the rest of the turn but not the order on this stream:
 * Redis and Valkey from version 8 on with io-threads write acknowledgements during the turn, and so does any
 * Redis while a script is busy (longer than busy-reply-threshold). If a turn outlasts the lease, the PING is
 * not answered, and entries are served as if the connection was lost.
 *
 * A page is made of several keys read one after the other; if one of them is invalidated in flight, the page
 * is served but not cached. Redis sends no invalidations for writes while the connection is lost, so a new
 * connection begins with an empty cache. An invalidation of everything, of the index or of the API key set
 * may mean that Redis lost its data: it is applied after a check (catalogue.h), and the entries concerned are
 * not served until then.
 */
#ifndef CACHE_INVALIDATION_H
#define CACHE_INVALIDATION_H

#include "cache/metrics.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/*
 * The lease: for how long entries are served after the last answered PING was sent, in milliseconds. A
 * process that was stopped must read the invalidations it missed before it serves from the cache.
 */
enum { INVALIDATION_LEASE_MS = 3000 };

/* What an invalidation concerns that is deferred until a check. */
enum { INVALIDATED_ALL = 1, INVALIDATED_INDEX = 2, INVALIDATED_KEYS = 4 };

/* Minimum interval of such checks: checking each of many changes would cost Redis more than the changes. */
enum { INVALIDATION_CHECK_INTERVAL_MS = 100 };

/* FRESH: connected, tracking, and the stream is known to be whole within the lease. STALE: the connection was
 * lost, but not for longer than the limit. NONE: entries must not be served. */
enum freshness { FRESHNESS_NONE, FRESHNESS_STALE, FRESHNESS_FRESH };

/* Callbacks, in stream order; all are called with `arg`. */
struct invalidation_subscriber {
    void (*card)(void *arg, int64_t id);
    void (*link)(void *arg, struct span link); /* borrowed */
    /* One of INVALIDATED_* has arrived: replies in flight may be older than the change. */
    void (*received)(void *arg, unsigned what);
    /* Drop the entries of this set of INVALIDATED_*. */
    void (*drop)(void *arg, unsigned what);
    /* Check the catalogue; if it is present, call invalidation_apply. */
    void (*check)(void *arg);
    void *arg;
};

/* Embedded in the cache; private to invalidation.c. */
struct invalidation {
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct loop_lag *loop_lag;
    struct invalidation_subscriber subscriber;
    struct buf index_key, api_keys_key;

    bool enabled;     /* there is a cache */
    bool connected;   /* a connection is in use */
    bool tracking;    /* and Redis has agreed to send invalidations on it */
    bool suspended;   /* invalidations were lost: nothing is cached on this connection */
    bool coherent;    /* entries are kept coherent, or were until the connection was lost */
    uint64_t lost_ms; /* by the boot clock; when it was lost, or the lease expired before that */

    unsigned deferred;       /* a set of INVALIDATED_*, not applied until a check has passed */
    uint64_t deferred_ms;    /* by the boot clock; when the first of them arrived */
    uint64_t index_check_ms; /* the same; when one of the index, or of the rest, was last deferred */
    uint64_t keys_check_ms;
    uint64_t possible_losses; /* invalidations so far that may mean a loss of data */
};

/* The pointers are borrowed, the subscriber is copied. Returns 0 or -ENOMEM; invalidation_fini is due in both
 * cases. Without `enabled` nothing is ever cached. */
int invalidation_init(struct invalidation *i, const struct keyspace *keyspace, struct cache_metrics *metrics,
                      struct loop_lag *loop_lag, bool enabled,
                      const struct invalidation_subscriber *subscriber) __attribute__((warn_unused_result));
void invalidation_fini(struct invalidation *i);

/* One element of what Redis pushes. `checking`: a check of the catalogue is under way. */
void invalidation_push(struct invalidation *i, struct span kind, const redisReply *element, bool checking);

/* The catalogue is present: applies the deferred invalidations. */
void invalidation_apply(struct invalidation *i);

/* An invalidation was lost: drops everything, and caches nothing on this connection. */
void invalidation_suspend(struct invalidation *i);

/* A new connection: drops everything that was read on an older one. */
void invalidation_connected(struct invalidation *i, bool tracking);

/*
 * The connection was lost. `last_pong_ms`: when the last answered PING was sent; `valid_until_ms`: until when
 * the data was known to be valid (redis_connection_valid_until_ms); both by the boot clock. If the catalogue
 * is missing, deferred invalidations are discarded: the entries from before it was lost can be served.
 */
void invalidation_lost(struct invalidation *i, uint64_t last_pong_ms, uint64_t valid_until_ms,
                       bool catalogue_missing);

/* True when replies may be cached: invalidations come on this connection. */
static inline bool invalidation_may_store(const struct invalidation *i)
{
    return i->enabled && i->tracking && !i->suspended && (i->deferred & INVALIDATED_ALL) == 0;
}

/* The same for replies about the index. */
static inline bool invalidation_may_store_index(const struct invalidation *i)
{
    return invalidation_may_store(i) && (i->deferred & INVALIDATED_INDEX) == 0;
}

static inline bool invalidation_is_connected(const struct invalidation *i)
{
    return i->connected;
}

/* Those of INVALIDATED_* that are deferred. */
static inline unsigned invalidation_deferred(const struct invalidation *i)
{
    return i->deferred;
}

/* Changes with each invalidation that may mean a loss of data: a negative result from before is not certain.
 */
static inline uint64_t invalidation_possible_losses(const struct invalidation *i)
{
    return i->possible_losses;
}

/* When the connection was lost; for cache_lost_ms. */
static inline uint64_t invalidation_lost_ms(const struct invalidation *i)
{
    return i->lost_ms;
}

/* `now_ms` and `last_pong_ms` by the boot clock, as above. */
static inline enum freshness invalidation_freshness(const struct invalidation *i, uint64_t now_ms,
                                                    uint64_t last_pong_ms, uint64_t stale_limit_ms)
{
    bool fresh = now_ms <= last_pong_ms + INVALIDATION_LEASE_MS && (i->deferred & INVALIDATED_ALL) == 0;
    if (!i->coherent)
        return FRESHNESS_NONE;
    if (i->connected)
        return fresh ? FRESHNESS_FRESH : FRESHNESS_NONE;
    return now_ms < i->lost_ms + stale_limit_ms ? FRESHNESS_STALE : FRESHNESS_NONE;
}

#endif
