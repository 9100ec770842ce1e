/*
 * Invalidation: sets what may be served and cached (validity.h), by the invalidations that Redis pushes
 * (CLIENT TRACKING), by checks that Redis holds a catalogue, and by an audit of cached entries.
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
 * after the last invalidation of its key, so the key is registered. So nothing is cached that
 * was read on an older connection, or whose key was invalidated while the read was in flight.
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
 * something does not exist. Its owner is catalogue.c; the cache passes its end on to here, to the key reader
 * and to the fetches.
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

#include "cache/fetch.h"
#include "cache/key_reader.h"
#include "cache/parts.h"

/* Minimum interval of such checks: checking each of many changes would cost Redis more than the changes. */
enum { INVALIDATION_CHECK_INTERVAL_MS = 100 };

/* Embedded in the cache; private to invalidation.c. */
struct invalidation {
    const struct cache_parts *parts;
    struct validity *validity; /* the parts only read it */
    struct buf index_key, api_keys_key, api_key_info_key;

    uint64_t index_check_ms; /* when an invalidation of the index last had to wait for a check; boot clock */
    uint64_t keys_check_ms;  /* when an invalidation of anything else last had to */

    /* The audit. */
    bool reading;                /* an entry, again */
    struct entry_source audited; /* that entry, or the last */
    /* Heartbeats until a suspected difference is confirmed; 0: none is suspected. */
    unsigned entry_heartbeats, keys_heartbeats;
    size_t cursor; /* the place of entries_walk */
};

/* `validity` is that of the parts. Returns 0 or -ENOMEM; invalidation_fini is due in both cases. */
int invalidation_init(struct invalidation *c, const struct cache_parts *parts, struct validity *validity)
    __attribute__((warn_unused_result));
void invalidation_fini(struct invalidation *c);

/* --- events of the connection --- */

/* A new connection (validity_connected). Drops everything that was read on an older one. */
void invalidation_connected(struct invalidation *c, uint64_t pong_ms, bool tracking, bool absences_untracked);

/* One element of what Redis pushes. */
void invalidation_push(struct invalidation *c, struct span kind, const struct redis_reply *element);

/* The PING that was sent at `pong_ms` was answered: audits an entry, and checks the catalogue. */
void invalidation_heartbeat(struct invalidation *c, uint64_t pong_ms);

/* The connection was lost (validity_lost). */
void invalidation_lost(struct invalidation *c, uint64_t valid_until_ms);

/* A check of the catalogue has ended: if it is present, what is pending is dropped. */
void invalidation_checked(struct invalidation *c, enum catalogue_state state);

#endif
