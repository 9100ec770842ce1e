/*
 * The stream: the state of the connection in use and of what arrives on it, in order. It says whether cached
 * entries may be served, whether replies may be cached, and applies invalidations. Times are by the boot
 * clock. docs/design.md, "Coherence", has the argument, and the rule for a single key that follows from it:
 * replies and pushes are applied strictly in stream order, and what was read before an invalidation of its
 * key is not stored after it.
 *
 * An invalidation of everything, a flush, may mean that Redis lost its data. It is pending until a check of
 * the catalogue has passed (upstream.h). The infos of the API keys count as a part of their set, since both
 * change in one transaction.
 *
 * Invariant, while connected:
 *   - `pong_ms` is the time at which the last answered PING was sent. Whatever Redis had pushed before then
 *     has been applied.
 *   - While `flush_pending` is set everything was invalidated, and nothing is dropped yet. Nothing is served
 *     or stored.
 */
#ifndef CACHE_STREAM_H
#define CACHE_STREAM_H

#include "base/buf.h"
#include "cache/cache.h"
#include "cache/lifetime.h"
#include "redis/resp.h"

struct cache_parts;

/*
 * The lease: how long entries are served after the last answered PING was sent, in milliseconds. A process
 * that was stopped must read the invalidations that it missed before it serves from the cache.
 */
enum { STREAM_LEASE_MS = 3000 };

/*
 *   - FRESH: connected, tracking, and the stream is known to be whole within the lease
 *   - TTL: connected without tracking, and the operator has set a TTL
 *   - STALE: the connection was lost, but not for longer than the limit
 *   - NONE: entries must not be served
 *
 * In each case an entry is served only while it is alive.
 */
enum freshness { FRESHNESS_NONE, FRESHNESS_STALE, FRESHNESS_TTL, FRESHNESS_FRESH };

/* Embedded in the cache. Other modules read it by the functions below. */
struct stream {
    const struct cache_parts *parts;
    struct buf index_key, api_keys_key, api_key_info_key;
    const struct cache_options *options;

    bool connected; /* a connection is in use */
    enum stream_mode {
        STREAM_UNCACHED, /* nothing is cached: so set, not possible, or invalidations were lost */
        STREAM_TTL,      /* entries live for the TTL, since Redis does not track */
        STREAM_TRACKED   /* entries are kept coherent, or were until the connection was lost */
    } mode;
    bool absences_untracked; /* Redis does not announce when an absent key comes to exist */
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

/* Returns 0 or -ENOMEM; call stream_fini in both cases. */
int stream_init(struct stream *s, const struct cache_parts *parts, const struct cache_options *options)
    __attribute__((warn_unused_result));
void stream_fini(struct stream *s);

/* --- events --- */

/* A new connection. `absences_untracked`: see redis_session_tracks_absences. Drops what older ones have read.
 */
void stream_connected(struct stream *s, uint64_t pong_ms, bool tracking, bool absences_untracked);

/*
 * The connection was lost. `valid_until_ms`: until when the data was known to be valid
 * (redis_session_valid_until_ms); 0: nothing may be served any more. A pending flush is applied, unless the
 * catalogue is missing. In that case the entries from before the loss can be served.
 */
void stream_lost(struct stream *s, uint64_t valid_until_ms);

/* A key has changed, or all have (null). */
void stream_invalidate(struct stream *s, const struct redis_reply *key);

/* An invalidation was lost: drops everything, and caches nothing on this connection. */
void stream_suspend(struct stream *s);

/*
 * SCARD of the keys was answered. `found`: the set exists. `count` is -1 if it is not known. The changes
 * whose invalidations have arrived were executed before SCARD, and all others after it.
 */
static inline void stream_counted(struct stream *s, int64_t count, bool found)
{
    s->key_count = count;
    s->possible_losses += !found;
    s->losses_seen = found ? s->possible_losses : 0;
}

/* A check of the catalogue that began at `began_ms` has ended. If it is present, a pending flush is applied.
 */
void stream_checked(struct stream *s, bool present, bool missing, uint64_t began_ms);

/* --- what may be cached --- */

/* True when replies may be cached: invalidations come on this connection. */
static inline bool stream_may_store(const struct stream *s)
{
    return s->connected && s->mode == STREAM_TRACKED && !s->flush_pending;
}

/*
 * The lifetime of a reply that has just arrived on this connection, to a command that was sent at `sent_ms`
 * or later. `reply` may be NULL, for data that is composed of cached entries.
 */
static inline struct lifetime stream_lifetime(const struct stream *s, const struct redis_reply *reply,
                                              uint64_t sent_ms)
{
    if (s->mode == STREAM_TTL)
        return (struct lifetime){sent_ms + s->options->ttl_ms};
    bool untracked =
        !stream_may_store(s) || (s->absences_untracked && reply != NULL && reply_is_absent(reply));
    return untracked ? LIFETIME_NONE : LIFETIME_TRACKED;
}

/*
 * A mark of the time at which a read is sent. It is 0 if no command since the last invalidation has found the
 * API key set. Redis may then have lost its data, and may not track the set.
 */
static inline uint64_t stream_mark(const struct stream *s)
{
    return s->losses_seen == s->possible_losses ? s->possible_losses : 0;
}

/* Redis announces when the API key set is lost: the last check has found it, and not only an index. */
static inline bool stream_announces_keys(const struct stream *s)
{
    return stream_may_store(s) && s->losses_seen != 0;
}

/*
 * Whether it is certain that something does not exist, after a check of the catalogue has passed that began
 * behind the reply of the read with this mark. Redis may have lost its data, and have it again since. That is
 * excluded if commands before the read and in the check have found the API key set, without an invalidation
 * of it in between. Then one read suffices, if `is_one`: nothing else can have changed while it was made. In
 * all other cases two in a row must find the same (`is_same`).
 */
static inline bool stream_is_certain(const struct stream *s, uint64_t mark, bool is_same, bool is_one)
{
    if (!stream_announces_keys(s))
        return is_same;
    return mark != 0 && mark == s->possible_losses && mark == s->losses_seen && (is_same || is_one);
}

/* The size of that set, by the last check; -1 if it is not known or may not be cached (lifetime.h). */
static inline int64_t stream_key_count(const struct stream *s)
{
    return s->absences_untracked && s->key_count == 0 ? -1 : s->key_count;
}

/* --- what may be served --- */

static inline enum freshness stream_freshness(const struct stream *s, uint64_t now_ms)
{
    bool fresh = now_ms <= s->pong_ms + STREAM_LEASE_MS && !s->flush_pending;
    if (s->mode == STREAM_UNCACHED)
        return FRESHNESS_NONE;
    if (s->connected && s->mode == STREAM_TTL)
        return FRESHNESS_TTL;
    if (s->connected)
        return fresh ? FRESHNESS_FRESH : FRESHNESS_NONE;
    return now_ms < s->lost_ms + s->options->stale_limit_ms ? FRESHNESS_STALE : FRESHNESS_NONE;
}

/*
 * While there is no connection: since when coherent entries may have changed. Invalidations may have been on
 * their way since the last answered PING.
 */
static inline uint64_t stream_current_ms(const struct stream *s)
{
    return s->pong_ms < s->lost_ms ? s->pong_ms : s->lost_ms;
}

/* Whether the API keys in memory may be used at this freshness of entries. */
static inline bool stream_may_serve_keys(const struct stream *s, enum freshness freshness, uint64_t now_ms)
{
    if (freshness == FRESHNESS_STALE)
        return now_ms < s->lost_ms + s->options->stale_keys_limit_ms;
    return freshness != FRESHNESS_NONE;
}

#endif
