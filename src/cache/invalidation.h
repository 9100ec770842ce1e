/*
 * Invalidation: decides what may be served and cached (validity.h). It uses the invalidations that Redis
 * pushes (CLIENT TRACKING), checks that Redis holds a catalogue, and an audit of cached entries.
 *
 * Pushes. One connection carries both the cache's reads and Redis' invalidations. By key (CLIENT TRACKING ON)
 * Redis registers each key that a read on this connection names, present or not, for one invalidation. While
 * it executes a command that changes the key, it queues the invalidation and unregisters the key. Links are
 * read without being registered (redis_connection_send_untracked), since they are not cached. By broadcast
 * (BCAST) Redis queues the invalidations of all changes of an event loop iteration behind the replies of that
 * iteration, before it writes either. In both modes the stream has these properties:
 *   - A reply that is older than a write precedes that write's invalidation. Its entry is dropped in time.
 *   - A reply behind an invalidation reflects the write. It may be cached.
 *   - The writer's acknowledgement is sent after the invalidation is queued. A writer that has read it is at
 *     most one network delay ahead.
 *
 * Hence the only rule for a single key is to apply replies and pushes strictly in stream order. By key this
 * rule also implies that no change is missed. Whatever is cached was read on this connection after the last
 * invalidation of its key, so the key is registered. So nothing is cached that was read on an older
 * connection, or whose key was invalidated while the read was in flight.
 *
 * The acknowledgement has an exception, which costs the rest of the iteration but not the order on this
 * stream. Redis and Valkey from version 8 on with io-threads write acknowledgements during the iteration.
 * With tracking by broadcast any Redis does so while a script is busy (longer than busy-reply-threshold). If
 * an iteration outlasts the lease, the PING is not answered, and entries are served as if the connection was
 * lost.
 *
 * A page is composed of several keys that are read one after the other. If one of them is invalidated in
 * flight, the page is served but not cached. Redis sends no invalidations for writes while the connection is
 * lost, so a new connection begins with an empty cache. An invalidation of everything, or the first in 100 ms
 * of the index or of the API key set, may mean that Redis lost its data. It is pending until a check of the
 * catalogue has passed, and the entries concerned are not served until then. The infos of the API keys count
 * as a part of their set, since both change in one transaction.
 *
 * The catalogue. A Redis without one (catalogue.h) is treated like a Redis that is still loading. The
 * connection is not used, and the cache serves stale entries within the limits. The check is made in the
 * handshake, with each heartbeat, and before a pending invalidation is applied. It is also made before the
 * result that something does not exist is returned. catalogue.c makes the check, and the cache passes its end
 * on to this module, to the key reader and to the fetches.
 *
 * The audit. Two faults would leave the cache stale without a limit: a proxy that accepts CLIENT TRACKING and
 * drops the invalidations, and a SWAPDB. PING proves that the stream is alive, not that it is complete. So
 * each heartbeat reads one entry again, in the random order of the table. A full pass takes as many seconds
 * as there are entries. The key reader reads some API keys again, and their infos, and digests that were
 * found to be no keys.
 *
 * One difference proves nothing. The invalidation may still be behind the reply on the stream, but it is
 * before the reply to any command that was sent later. So a difference is only suspected. It is confirmed
 * when a later PING has been answered and no invalidation has named the key. The next heartbeat may belong to
 * a PING that was already in flight, so the second one confirms.
 */
#ifndef CACHE_INVALIDATION_H
#define CACHE_INVALIDATION_H

#include "cache/fetch.h"
#include "cache/key_reader.h"
#include "cache/parts.h"

/*
 * The minimum interval of such checks. Checking each of many changes would cost Redis more than the changes.
 */
enum { INVALIDATION_CHECK_INTERVAL_MS = 100 };

/* Embedded in the cache; private to invalidation.c. */
struct invalidation {
    const struct cache_parts *parts;
    struct validity *validity; /* changed here; the parts only read it */
    struct buf index_key, api_keys_key, api_key_info_key;

    uint64_t index_check_ms; /* when an invalidation of the index last had to wait for a check, by the boot
                                clock */
    uint64_t keys_check_ms;  /* when any other invalidation last had to wait */

    /* The audit. */
    bool reading;                /* an entry is being read again */
    struct entry_source audited; /* the entry that is being read, or was read last */
    /* Heartbeats until a suspected difference is confirmed; 0: none is suspected. */
    unsigned entry_heartbeats, keys_heartbeats;
    size_t cursor; /* the cursor of entries_walk */
};

/* `validity` is that of the parts. Returns 0 or -ENOMEM; invalidation_fini is due in both cases. */
int invalidation_init(struct invalidation *c, const struct cache_parts *parts, struct validity *validity)
    __attribute__((warn_unused_result));
void invalidation_fini(struct invalidation *c);

/* --- events of the connection --- */

/* A new connection (validity_connected). Drops everything that was read on an older one. */
void invalidation_connected(struct invalidation *c, uint64_t pong_ms, bool tracking, bool absences_untracked);

/* One element of a push. */
void invalidation_push(struct invalidation *c, struct span kind, const struct redis_reply *element);

/* The PING that was sent at `pong_ms` was answered: audits an entry, and checks the catalogue. */
void invalidation_heartbeat(struct invalidation *c, uint64_t pong_ms);

/* The connection was lost (validity_lost). */
void invalidation_lost(struct invalidation *c, uint64_t valid_until_ms);

/* A check of the catalogue has ended. If the catalogue is present, pending invalidations are applied. */
void invalidation_checked(struct invalidation *c, enum catalogue_state state);

#endif
