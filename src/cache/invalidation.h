/*
 * Invalidation: whether what is cached may be served, and whether what Redis replies may be cached. It
 * follows from the invalidations that Redis pushes (CLIENT TRACKING), from checks that Redis holds a
 * catalogue, and from an audit of cached entries.
 *
 * Pushes. One connection carries both the cache's reads and Redis' invalidations. By key (CLIENT TRACKING ON)
 * Redis registers each key that a read on this connection names, present or not, for one invalidation: it
 * queues that, and unregisters the key, while the command that changes the key is executed. Links are read
 * without being registered (redis_connection_send_untracked): nothing is cached of them. By broadcast
 * (BCAST) it queues the invalidations of all changes of a turn of its loop, after that turn's replies and
 * before it writes either. Both ways, on the stream
 *   - a reply older than a write comes before that write's invalidation: its entry is dropped in time;
 *   - a reply behind an invalidation reflects the write: it may be cached;
 *   - a writer's acknowledgement is sent after the invalidation is queued: a writer that has read it is at
 *     most one network delay ahead.
 *
 * Hence the only rule for a single key: apply replies and pushes strictly in stream order. By key it implies
 * the other half of the argument, that no change is missed: whatever is cached was read on this connection
 * after the last invalidation of its key, so the key is registered. Nothing may be cached that was read
 * otherwise: no entry from an older connection, or of a read that an invalidation overtook in this process.
 *
 * The acknowledgement has an exception, which costs the rest of the turn but not the order on this stream:
 * Redis and Valkey from version 8 on with io-threads write acknowledgements during the turn, and so, where
 * tracking is by broadcast, does any Redis while a script is busy (longer than busy-reply-threshold). If a
 * turn outlasts the lease, the PING is not answered, and entries are served as if the connection was lost.
 *
 * A page is made of several keys read one after the other; if one of them is invalidated in flight, the page
 * is served but not cached. Redis sends no invalidations for writes while the connection is lost, so a new
 * connection begins with an empty cache. An invalidation of everything, of the index or of the API key set
 * may mean that Redis lost its data: it is pending until a check of the catalogue has passed, and the entries
 * concerned are not served until then. The info of the API keys counts as a part of their set: the two change
 * in one transaction.
 *
 * The catalogue. A Redis without one (catalogue.h) is treated like one that is still loading: the connection
 * is not used, and the cache serves stale entries within the limits. The check is made in the handshake, with
 * each heartbeat, before a pending invalidation is applied, and before a result is returned that says
 * something does not exist. Replies come in the order of the commands, so a check under way was sent after
 * every command that has been answered: it serves all results that need one. Checks are numbered for the API
 * key set, which waits for one that was begun after its last reply (key_reader.c).
 *
 * The audit. A proxy that accepts CLIENT TRACKING and drops the invalidations, or a SWAPDB, would leave the
 * cache stale without a limit: PING proves that the stream is alive, not that it is complete. So with each
 * heartbeat one entry is read again, in the random order of the table; a full pass takes as many seconds as
 * there are entries. The size of the API key set, which the check reads anyway, is compared with the set in
 * memory. One difference proves nothing: the invalidation may still be behind the reply on the stream, but it
 * is before the reply to any command that was sent later. So a difference is only suspected, and confirmed
 * when a later PING has been answered and no invalidation has named the key. The next heartbeat may belong to
 * a PING that was already in flight, so the second one confirms.
 */
#ifndef CACHE_INVALIDATION_H
#define CACHE_INVALIDATION_H

#include "cache/api_keys.h"
#include "cache/catalogue.h"
#include "cache/entries.h"
#include "cache/metrics.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/*
 * The lease: for how long entries are served after the last answered PING was sent, in milliseconds. A
 * process that was stopped must read the invalidations it missed before it serves from the cache.
 */
enum { INVALIDATION_LEASE_MS = 3000 };

/* What an invalidation concerns that is pending until a check. */
enum { INVALIDATED_ALL = 1, INVALIDATED_INDEX = 2, INVALIDATED_KEYS = 4 };

/* Minimum interval of such checks: checking each of many changes would cost Redis more than the changes. */
enum { INVALIDATION_CHECK_INTERVAL_MS = 100 };

/*
 * FRESH: connected, tracking, and the stream is known to be whole within the lease. TTL: connected without
 * tracking, and the operator has set a TTL. STALE: the connection was lost, but not for longer than the
 * limit. NONE: entries must not be served. Each way an entry is served only while it is alive.
 */
enum freshness { FRESHNESS_NONE, FRESHNESS_STALE, FRESHNESS_TTL, FRESHNESS_FRESH };

/* All is borrowed while it lives. The functions are called with `arg`, in stream order. */
struct invalidation_options {
    bool enabled;    /* there is a cache; without one nothing is ever cached */
    uint64_t ttl_ms; /* how long what was read without tracking may be served; 0: not at all */
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct loop_lag *loop_lag;
    struct entries *entries;         /* to be audited */
    const struct api_keys *api_keys; /* the size of their set is compared */
    struct buf *text;                /* scratch for bodies */

    /* Send a command, and the one that reads an entry again. Return 0 or a negative errno; `fn` is called
     * from the loop, never from here. */
    int (*send)(void *arg, struct span command, cache_reply_fn fn, void *fn_arg);
    int (*read)(void *arg, const struct entry_source *source, cache_reply_fn fn, void *fn_arg);

    void (*card)(void *arg, int64_t id); /* a card has changed */
    /* One of INVALIDATED_* has arrived: replies in flight may be older than the change. */
    void (*received)(void *arg, unsigned what);
    /* Drop the entries of this set of INVALIDATED_*. */
    void (*drop)(void *arg, unsigned what);
    /* A check of the catalogue has ended; if it is present, pending invalidations have been applied. */
    void (*checked)(void *arg, enum catalogue_state state);
    void *arg;
};

/* Embedded in the cache; private to invalidation.c. */
struct invalidation {
    struct invalidation_options options;
    struct buf index_key, api_keys_key, api_key_info_key;

    bool connected;   /* a connection is in use */
    bool tracking;    /* and Redis has agreed to send invalidations on it */
    bool clustered;   /* it is to a node of a cluster */
    bool suspended;   /* invalidations were lost: nothing is cached on this connection */
    bool coherent;    /* entries are kept coherent, or were until the connection was lost */
    bool by_ttl;      /* entries live for the TTL, as Redis does not track */
    uint64_t lost_ms; /* by the boot clock; when it was lost, or the lease expired before that */

    /* Invalidations that wait for a check. Times are by the boot clock. */
    unsigned pending;        /* a set of INVALIDATED_* */
    uint64_t index_check_ms; /* when one of the index, or of the rest, last had to wait */
    uint64_t keys_check_ms;
    uint64_t possible_losses; /* invalidations so far, plus 1, that may mean a loss of data */
    uint64_t losses_seen; /* those before the API key set was last found; 0: it was not, in the last check */
    int64_t key_count;    /* members of the API key set, by the last check; -1: not known */

    /* The check of the catalogue. */
    struct catalogue catalogue;
    uint64_t checks_begun, check_passed; /* the numbers of the last, and of the last that found a catalogue */
    uint64_t check_began_ms;             /* when the last began */
    uint64_t present_ms;                 /* when the last that found a catalogue began, or the connection */
    bool missing;                        /* the last found none; until the next connection */

    /* The audit. */
    bool reading; /* an entry, again */
    enum entry_kind kind;
    int64_t number;
    /* Heartbeats until a suspected difference is confirmed; 0: none is suspected. */
    unsigned entry_heartbeats, keys_heartbeats;
    size_t cursor; /* of entries_walk */
};

/* `options` is copied. Returns 0 or -ENOMEM; invalidation_fini is due in both cases. */
int invalidation_init(struct invalidation *c, const struct invalidation_options *options)
    __attribute__((warn_unused_result));
void invalidation_fini(struct invalidation *c);

/* --- events of the connection --- */

/* A new connection, `clustered`: to a node of a cluster. Drops everything that was read on an older one. */
void invalidation_connected(struct invalidation *c, bool tracking, bool clustered);

/* One element of what Redis pushes. */
void invalidation_push(struct invalidation *c, struct span kind, const redisReply *element);

/* A PING was answered: audits an entry, and checks the catalogue. */
void invalidation_heartbeat(struct invalidation *c);

/*
 * The connection was lost. `last_pong_ms`: when the last answered PING was sent; `valid_until_ms`: until when
 * the data was known to be valid (redis_connection_valid_until_ms); both by the boot clock. If the catalogue
 * is missing, pending invalidations are discarded: the entries from before it was lost can be served.
 */
void invalidation_lost(struct invalidation *c, uint64_t last_pong_ms, uint64_t valid_until_ms);

/* --- the check of the catalogue --- */

/* Begins a check, unless one is under way, which will do; `checked` may be called before this returns. */
void invalidation_check(struct invalidation *c);

static inline bool invalidation_is_checking(const struct invalidation *c)
{
    return catalogue_is_being_checked(&c->catalogue);
}

/* The number of the last check that was begun. */
static inline uint64_t invalidation_begun(const struct invalidation *c)
{
    return c->checks_begun;
}

/* The number of the last check that passed. */
static inline uint64_t invalidation_confirmed(const struct invalidation *c)
{
    return c->check_passed;
}

/* --- what may be cached and served --- */

/* True when replies may be cached: invalidations come on this connection. */
static inline bool invalidation_may_store(const struct invalidation *c)
{
    return c->options.enabled && c->tracking && !c->suspended && (c->pending & INVALIDATED_ALL) == 0;
}

/*
 * The lifetime of a reply that came on this connection just now, to a command that was sent at `sent_ms`
 * (boot clock) or later. In a cluster no absence is tracked: the slot may begin to migrate at any time, and
 * then what does not exist here comes to exist on a node that sends no invalidation. `reply` may be NULL:
 * what is made of entries that are cached.
 */
static inline struct lifetime invalidation_lifetime(const struct invalidation *c, const redisReply *reply,
                                                    uint64_t sent_ms)
{
    if (c->by_ttl)
        return (struct lifetime){sent_ms + c->options.ttl_ms};
    bool untracked = !invalidation_may_store(c) || (c->clustered && reply != NULL && resp_is_absent(reply));
    return untracked ? LIFETIME_NONE : LIFETIME_TRACKED;
}

/* The same for replies about the index. */
static inline struct lifetime invalidation_lifetime_of_index(const struct invalidation *c,
                                                             const redisReply *reply, uint64_t sent_ms)
{
    bool pending = (c->pending & INVALIDATED_INDEX) != 0;
    return pending ? LIFETIME_NONE : invalidation_lifetime(c, reply, sent_ms);
}

static inline bool invalidation_is_connected(const struct invalidation *c)
{
    return c->connected;
}

/* Those of INVALIDATED_* that wait for a check. */
static inline unsigned invalidation_pending(const struct invalidation *c)
{
    return c->pending;
}

/*
 * A mark of the time at which a read is sent. If it lacks something that is certain once a check has passed
 * that began after its reply, and invalidation_lost_nothing(): a command before it has found the API key set,
 * and so has the check, and no invalidation of the set has come in between. The mark is 0 while no such
 * command is behind the last invalidation: Redis may have lost its data, and may not track the set.
 */
static inline uint64_t invalidation_mark(const struct invalidation *c)
{
    bool found = c->losses_seen == c->possible_losses;
    return found || catalogue_is_being_counted(&c->catalogue) ? c->possible_losses : 0;
}

static inline bool invalidation_lost_nothing(const struct invalidation *c, uint64_t mark)
{
    return mark != 0 && mark == c->possible_losses && mark == c->losses_seen;
}

/* The last check has found the API key set, and not only an index: a read can be certain. */
static inline bool invalidation_has_api_keys(const struct invalidation *c)
{
    return c->losses_seen != 0;
}

/* The size of that set, by the last check; -1 when it is not known, or may not be cached (lifetime.h). */
static inline int64_t invalidation_key_count(const struct invalidation *c)
{
    return c->clustered && c->key_count == 0 ? -1 : c->key_count;
}

/* When the connection was lost; for cache_lost_ms. */
static inline uint64_t invalidation_lost_ms(const struct invalidation *c)
{
    return c->lost_ms;
}

/* `now_ms` and `last_pong_ms` by the boot clock, as above. */
static inline enum freshness invalidation_freshness(const struct invalidation *c, uint64_t now_ms,
                                                    uint64_t last_pong_ms, uint64_t stale_limit_ms)
{
    bool fresh = now_ms <= last_pong_ms + INVALIDATION_LEASE_MS && (c->pending & INVALIDATED_ALL) == 0;
    if (!c->coherent && !c->by_ttl)
        return FRESHNESS_NONE;
    if (c->connected && c->by_ttl)
        return FRESHNESS_TTL;
    if (c->connected)
        return fresh ? FRESHNESS_FRESH : FRESHNESS_NONE;
    return now_ms < c->lost_ms + stale_limit_ms ? FRESHNESS_STALE : FRESHNESS_NONE;
}

#endif
