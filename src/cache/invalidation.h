/*
 * Invalidations: what a push of Redis means, and whether cached entries may be served.
 *
 * One connection carries both the cache's reads and Redis' invalidations. Redis queues the invalidations of a
 * turn of its loop after that turn's replies and before it writes either, so on the stream
 *   - a reply that is older than a write stands before that write's invalidation: what it said is dropped in
 *     time;
 *   - a reply that stands behind an invalidation reflects the write: it may be cached;
 *   - the writer's acknowledgement does not leave before the invalidation is queued: a writer that has read
 * it is at most one network delay ahead of this process. Hence the only rule for what one key says: apply
 * replies and pushes strictly in stream order.
 *
 * The last of these has two exceptions, which cost the rest of the turn but not the order on this stream:
 * Redis and Valkey from version 8 on with io-threads write acknowledgements while the turn goes on, and any
 * Redis does while a script is busy (longer than busy-reply-threshold). A turn that outlasts the lease leaves
 * the PING unanswered or refused: entries are then served as for a Redis that was lost.
 *
 * A page is made of several keys read one after the other; if one of them is invalidated in flight, the page
 * is served but not cached. What is written while the connection is lost is never told, so a new connection
 * begins with an empty cache. An invalidation of everything, of the index or of the API key set may mean that
 * nothing is left at all: entries are neither served nor dropped for it before a check (catalogue.h).
 */
#ifndef CACHE_INVALIDATION_H
#define CACHE_INVALIDATION_H

#include "cache/metrics.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/*
 * An entry is served without asking Redis only for this time after the sending of the last PING that was
 * answered, in milliseconds: a process that was stopped must read what it missed before it serves from
 * memory.
 */
enum { INVALIDATION_LEASE_MS = 3000 };

/* Invalidations that are deferred until a check: of what. */
enum { INVALIDATED_ALL = 1, INVALIDATED_INDEX = 2, INVALIDATED_KEYS = 4 };

/* Frequent changes are not checked every time: that would cost Redis more than the changes do. */
enum { INVALIDATION_CHECK_INTERVAL_MS = 100 };

/* FRESH: connected, tracking, and the stream is known to be whole within the lease. STALE: the connection was
 * lost, but not for longer than the limit. NONE: Redis has to be asked. */
enum freshness { FRESHNESS_NONE, FRESHNESS_STALE, FRESHNESS_FRESH };

/* To whom it is told, in stream order; all are called with `arg`. */
struct invalidation_subscriber {
    void (*card)(void *arg, int64_t id);
    void (*link)(void *arg, struct span link); /* borrowed */
    /* One of INVALIDATED_*: what is in flight may be of before or after the change. */
    void (*received)(void *arg, unsigned what);
    /* A set of INVALIDATED_*: it is to be dropped. */
    void (*drop)(void *arg, unsigned what);
    /* The catalogue is to be checked; then invalidation_apply. */
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
    bool suspended;   /* it did not send one: nothing is cached any more on this connection */
    bool coherent;    /* what is cached was kept true until the connection was lost, or is being kept true */
    uint64_t lost_ms; /* by the boot clock; when it was lost, or the lease had run out before */

    unsigned deferred;       /* told, but not applied before it is known that there is a catalogue */
    uint64_t deferred_ms;    /* by the boot clock; when the first of them was told */
    uint64_t index_check_ms; /* the same; when one of the index, or of the rest, was last deferred */
    uint64_t keys_check_ms;
    uint64_t possible_losses; /* invalidations so far that may have left no API keys */
};

/* The pointers are borrowed, the subscriber is copied. Returns 0 or -ENOMEM; invalidation_fini is due in both
 * cases. Without `enabled` nothing is ever cached. */
int invalidation_init(struct invalidation *i, const struct keyspace *keyspace, struct cache_metrics *metrics,
                      struct loop_lag *loop_lag, bool enabled,
                      const struct invalidation_subscriber *subscriber) __attribute__((warn_unused_result));
void invalidation_fini(struct invalidation *i);

/* One element of what Redis pushes. `checking`: a check of the catalogue is under way. */
void invalidation_push(struct invalidation *i, struct span kind, const redisReply *element, bool checking);

/* There is a catalogue: what was deferred is dropped. */
void invalidation_apply(struct invalidation *i);

/* No invalidation arrived for a change: everything is dropped, and nothing is cached on this connection. */
void invalidation_suspend(struct invalidation *i);

/* A new connection: what an older one brought is dropped. */
void invalidation_connected(struct invalidation *i, bool tracking);

/*
 * The connection was lost. `leased_ms`: when the last PING was sent that was answered; `good_ms`: until when
 * what Redis served was known to be good (redis_connection_good_ms); both by the boot clock. Where the
 * catalogue is missing, entries stay as they were before its invalidation.
 */
void invalidation_lost(struct invalidation *i, uint64_t leased_ms, uint64_t good_ms, bool catalogue_missing);

/* True when replies may be cached: invalidations come on this connection. */
static inline bool invalidation_may_store(const struct invalidation *i)
{
    return i->enabled && i->tracking && !i->suspended && (i->deferred & INVALIDATED_ALL) == 0;
}

/* The same for what the index says. */
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

/* Changes when an invalidation may have left no API keys: a result that lacks something may be of between. */
static inline uint64_t invalidation_possible_losses(const struct invalidation *i)
{
    return i->possible_losses;
}

/* When the connection was lost; for cache_lost_ms. */
static inline uint64_t invalidation_lost_ms(const struct invalidation *i)
{
    return i->lost_ms;
}

/* `now_ms` and `leased_ms` by the boot clock, as above. */
static inline enum freshness invalidation_freshness(const struct invalidation *i, uint64_t now_ms,
                                                    uint64_t leased_ms, uint64_t stale_limit_ms)
{
    bool fresh = now_ms <= leased_ms + INVALIDATION_LEASE_MS && (i->deferred & INVALIDATED_ALL) == 0;
    if (!i->coherent)
        return FRESHNESS_NONE;
    if (i->connected)
        return fresh ? FRESHNESS_FRESH : FRESHNESS_NONE;
    return now_ms < i->lost_ms + stale_limit_ms ? FRESHNESS_STALE : FRESHNESS_NONE;
}

#endif
