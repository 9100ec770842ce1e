/*
 * The audit: does Redis still hold what is cached?
 *
 * Whatever accepts CLIENT TRACKING and does not pass the invalidations on (a proxy in between, a SWAPDB)
 * would leave the cache wrong for ever: PING proves the stream, not what was put into it. So with each
 * heartbeat one entry is read again, in the order of the table, which is random: after as many seconds as
 * there are entries each was audited. The size of the API key set, which the check of the catalogue reads
 * anyway, is compared with that of the set that is held.
 *
 * A difference alone proves nothing: the change may be younger than the entry, and its invalidation stands
 * behind the reply, though before the reply to any command that was sent after that one. So a difference is
 * suspected first, and confirmed when a heartbeat has been sent and answered since and no invalidation has
 * named the key. The reply to a heartbeat may belong to a PING that was under way already; the second does
 * not.
 *
 * A state machine: it says what to read and is given the reply.
 */
#ifndef CACHE_AUDIT_H
#define CACHE_AUDIT_H

#include "cache/entries.h"
#include "model/keyspace.h"
#include "redis/resp.h"

enum audit_action {
    AUDIT_IDLE,
    AUDIT_READ,  /* the entry that audit_subject names is to be read again, and its reply to be given */
    AUDIT_FAILED /* no invalidation arrived for a change */
};

struct audit_subject {
    enum entry_kind kind;
    int64_t number;   /* of the card, the summary or the page */
    struct span link; /* of the link; borrowed until the next heartbeat */
};

/* Embedded in the cache; private to audit.c. */
struct audit {
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct entries *entries;
    bool under_way;
    enum entry_kind kind; /* of the entry that is, or was last, read again */
    int64_t number;
    struct buf link;
    /* Heartbeats until a suspected difference is confirmed; 0: none is suspected. */
    unsigned entry_heartbeats, keys_heartbeats;
    size_t cursor; /* where in the table it goes on */
};

/* The pointers are borrowed. */
static inline void audit_init(struct audit *a, const struct keyspace *keyspace, struct entries *entries,
                              struct cache_metrics *metrics)
{
    *a = (struct audit){.keyspace = keyspace, .entries = entries, .metrics = metrics};
}

static inline void audit_fini(struct audit *a)
{
    buf_fini(&a->link);
}

/* A heartbeat was answered, and replies may be cached. */
enum audit_action audit_heartbeat(struct audit *a) __attribute__((warn_unused_result));

static inline struct audit_subject audit_subject(const struct audit *a)
{
    return (struct audit_subject){a->kind, a->number, buf_span(&a->link)};
}

/*
 * The reply to the read; NULL: the connection was lost, or the command could not be sent. `reliable`: replies
 * may be cached, and no invalidation is deferred. `text` is scratch.
 */
void audit_reply(struct audit *a, const redisReply *reply, bool reliable, struct buf *text);

/* Redis says how many API keys there are; `held` as api_keys_size. */
void audit_key_count(struct audit *a, int64_t count, int64_t held);

/*
 * An invalidation explains a difference: of a card, which stands for the summary too, a
 * link or the index (ENTRY_PAGE); ENTRY_AUTH stands for the API key set.
 */
void audit_invalidated(struct audit *a, enum entry_kind kind, int64_t number, struct span link);

/* It has told of a change of everything, or the connection is another one. */
static inline void audit_reset(struct audit *a)
{
    a->entry_heartbeats = a->keys_heartbeats = 0;
}

#endif
