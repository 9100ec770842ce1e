/*
 * The stream: the connection to Redis in use, and what arrives on it, in order. It says whether cached
 * entries may be served, and whether replies may be cached (docs/design.md, "Coherence"). Times are by the
 * boot clock.
 *
 * Before a connection is accepted, the one in use or the next one (session.h), it is checked:
 *   - the user may read what requests need. This is checked on each next connection, and on the one in use
 *     until it was ready once. A process that has served goes on when a permission is removed.
 *   - there is a catalogue, by a probe. If a later probe finds none, the connection is lost.
 *
 * An invalidation of everything, a flush, is pending until a probe that was sent behind it has found a
 * catalogue. The infos of the API keys count as a part of their set, since both change in one transaction.
 *
 * Invariant:
 *   - While connected, `pong_ms` is the time at which the last answered PING was sent. Whatever Redis had
 *     pushed before then has been applied.
 *   - While `flush_pending` is set everything was invalidated, and nothing is dropped yet. Nothing is served
 *     or stored.
 */
#ifndef CACHE_STREAM_H
#define CACHE_STREAM_H

#include "cache/cache.h"
#include "cache/lifetime.h"
#include "redis/session.h"

struct cache_parts;

/* How long entries are served after the last answered PING was sent: a stopped process must read first. */
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

/* What a probe has found, or one of its replies. */
enum catalogue_state {
    CATALOGUE_LOST,    /* the connection was lost, or that to another node which was asked */
    CATALOGUE_UNKNOWN, /* Redis replied with an error, or the command could not be sent */
    CATALOGUE_MISSING, /* only on a connection that is not in use yet: otherwise it is lost */
    CATALOGUE_PRESENT
};

/* Of one connection: the permissions, and a probe (SCARD of the keys, ZCARD of the index, in one write). */
struct stream_check {
    struct stream *stream;
    struct redis_connection *connection; /* the last one whose handshake was done */
    unsigned permissions;                /* replies about permissions so far */
    unsigned due;                        /* replies to the probe; 0: none is in flight */
    enum catalogue_state keys, index;    /* by these replies; unknown before */
    uint64_t sent_ms, flushes;           /* when it was sent, and stream.flushes then */
};

/* Waits for a probe that was sent behind what has been read. */
struct probe_waiter {
    struct list link;
    void (*done)(struct probe_waiter *waiter, enum catalogue_state state);
};

/* Embedded in the cache. Other modules read it by the functions below. */
struct stream {
    const struct cache_parts *parts;
    const struct cache_options *options;
    struct stream_check current, next; /* of the connection in use, and of the next one */
    struct list waiters;               /* for the probe of `current` */
    bool was_ready;                    /* a connection was in use once */

    bool connected;        /* a connection is in use */
    uint64_t connected_ms; /* monotonic; since when, or when the last one was */
    enum stream_mode {
        STREAM_UNCACHED, /* nothing is cached: so set, not possible, or invalidations were lost */
        STREAM_TTL,      /* entries live for the TTL, since Redis does not track */
        STREAM_TRACKED   /* entries are kept coherent, or were until the connection was lost */
    } mode;
    bool absences_untracked; /* Redis does not announce when an absent key comes to exist */
    bool missing;            /* a probe has found no catalogue; set until the next connection */
    uint64_t pong_ms;        /* when the last answered PING was sent */
    /* A request from before then need not wait: all that Redis had sent 50 ms earlier was delivered. */
    uint64_t drained_until_ms;
    uint64_t present_ms; /* when the last probe that found a catalogue was sent, or the connection began */
    uint64_t lost_ms;    /* when the connection was lost, or the lease expired before that */

    bool flush_pending; /* everything was invalidated, which waits for a probe */
    uint64_t flushes;   /* how often everything was invalidated */
    uint64_t
        keys_found; /* the number of the time for which the API key set is known to exist; 0: it is not */
    uint64_t keys_times; /* the number of the last such time */
};

void stream_init(struct stream *s, const struct cache_parts *parts, const struct cache_options *options);

/* The handshake of a connection of the session is done: it is accepted or rejected when it was checked. */
void stream_check(struct stream *s, struct redis_connection *connection);

/* A new connection is in use. */
void stream_connected(struct stream *s);

/* A heartbeat was answered: sends a probe, unless the last one is in flight. */
void stream_heartbeat(struct stream *s);

/*
 * The connection was lost. `valid_until_ms`: until when the data was known to be valid
 * (redis_session_valid_until_ms); 0: nothing may be served any more. A pending flush is applied, unless the
 * catalogue is missing: then the entries from before the loss can be served.
 */
void stream_lost(struct stream *s, uint64_t valid_until_ms);

/* The connection is about to be closed for the next one. */
void stream_replaced(struct stream *s);

/* Everything was invalidated. Redis may have lost its data, so a probe is sent. */
void stream_flush(struct stream *s);

/* An invalidation was lost: nothing is cached on this connection any more. */
void stream_suspend(struct stream *s);

/*
 * Waits for the probe in flight, or sends one. Replies come in the order of the commands, so it was sent
 * behind every command that has been answered, and serves all who wait. `waiter->done` may be called before
 * this returns.
 */
void stream_wait_for_probe(struct stream *s, struct probe_waiter *waiter);

/* --- what may be cached --- */

/* True when replies may be cached: invalidations come on this connection. */
static inline bool stream_may_store(const struct stream *s)
{
    return s->connected && s->mode == STREAM_TRACKED && !s->flush_pending;
}

/* Of a reply that has just arrived, to a command sent at `sent_ms` or later; NULL: of cached entries. */
static inline struct lifetime stream_lifetime(const struct stream *s, const struct redis_reply *reply,
                                              uint64_t sent_ms)
{
    if (s->mode == STREAM_TTL)
        return (struct lifetime){sent_ms + s->options->settings.ttl_ms};
    bool untracked =
        !stream_may_store(s) || (s->absences_untracked && reply != NULL && reply_is_absent(reply));
    return untracked ? LIFETIME_NONE : LIFETIME_TRACKED;
}

/* Redis announces when the API key set is lost: the last probe has found it, and not only an index. */
static inline bool stream_announces_keys(const struct stream *s)
{
    return stream_may_store(s) && s->keys_found != 0;
}

/*
 * Whether it is certain that something does not exist, after a probe behind the read has found a catalogue.
 * `keys_found` is that of the stream when the read was sent. Redis may have lost its data, and have it again
 * since. That is excluded if the API key set has existed all the time. Then one read suffices, if `is_one`:
 * nothing else can have changed while it was made. In all other cases two in a row must find the same
 * (`is_same`).
 */
static inline bool stream_is_certain(const struct stream *s, uint64_t keys_found, bool is_same, bool is_one)
{
    if (!stream_announces_keys(s))
        return is_same;
    return keys_found == s->keys_found && (is_same || is_one);
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
    return now_ms < s->lost_ms + s->options->settings.stale_limit_ms ? FRESHNESS_STALE : FRESHNESS_NONE;
}

/* Without a connection: since when entries may have changed. Pushes may have been on their way. */
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
