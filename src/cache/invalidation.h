/*
 * Invalidation: decides what may be served and cached (validity.h), by the invalidations that Redis pushes,
 * checks that Redis holds a catalogue, and an audit of cached entries. docs/design.md, "Coherence", has the
 * argument, and the rule for a single key that follows from it: replies and pushes are applied strictly in
 * stream order, and what was read before an invalidation of its key is not stored after it.
 *
 * An invalidation of everything, a flush, may mean that Redis lost its data. It is pending until a check of
 * the catalogue has passed, and nothing is served until then. The infos of the API keys count as a part of
 * their set, since both change in one transaction.
 *
 * The audit reads a card, or one summary or the list of a page, again with each heartbeat, in the random
 * order of the table. One difference proves nothing: the invalidation may still be behind the reply on the
 * stream. So the next heartbeat reads the same once more. If the entry is still the same then, and differs
 * again, no invalidation came for the first change. Likewise a record of an API key was contradicted at two
 * heartbeats, without a change of the keys in between.
 */
#ifndef CACHE_INVALIDATION_H
#define CACHE_INVALIDATION_H

#include "cache/fetch.h"
#include "cache/key_reader.h"
#include "cache/parts.h"

/* Embedded in the cache; private to invalidation.c. */
struct invalidation {
    const struct cache_parts *parts;
    struct validity *validity; /* changed here; the parts only read it */
    struct buf index_key, api_keys_key, api_key_info_key;

    /* The audit. */
    bool reading;    /* an entry is being read again */
    struct audited { /* what is being read, or was read last */
        enum audited_kind { AUDITED_CARD, AUDITED_SUMMARY, AUDITED_LIST } kind;
        int64_t id;   /* the channel of a card or of a summary */
        int64_t page; /* the number of the page that has the summary or the list */
    } audited;
    struct blob *differed;  /* the body of the entry that differed; one reference; NULL: none did */
    uint64_t keys_differed; /* the epoch of the API keys if a record differed at the last heartbeat, or 0 */
    size_t cursor;          /* the cursor of entries_walk */
    unsigned page_cursor;   /* chooses what is read of a page */
};

/* `validity` is that of the parts. Returns 0 or -ENOMEM; call invalidation_fini in both cases. */
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

/* A check of the catalogue has ended. If the catalogue is present, a pending flush is applied. */
void invalidation_checked(struct invalidation *c, enum catalogue_state state);

#endif
