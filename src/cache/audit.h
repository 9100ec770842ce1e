/*
 * The audit: compares cached entries with Redis, to detect lost invalidations.
 *
 * A proxy that accepts CLIENT TRACKING and drops the invalidations, or a SWAPDB, would leave the cache stale
 * without a limit: PING proves that the stream is alive, not that it is complete. So with each heartbeat one
 * entry is read again, in the random order of the table; a full pass takes as many seconds as there are
 * entries. The size of the API key set, which the check of the catalogue reads anyway, is compared with the
 * set in memory.
 *
 * One difference proves nothing: the invalidation may still be behind the reply on the stream, but it is
 * before the reply to any command that was sent later. So a difference is only suspected, and confirmed when
 * a later PING has been answered and no invalidation has named the key. The next heartbeat may belong to a
 * PING that was already in flight, so the second one confirms.
 *
 * A state machine: it names the entry to read, and the caller passes it the reply.
 */
#ifndef CACHE_AUDIT_H
#define CACHE_AUDIT_H

#include "cache/entries.h"
#include "model/keyspace.h"
#include "redis/resp.h"

enum audit_action {
    AUDIT_IDLE,
    AUDIT_READ,  /* read the entry of audit_subject, and pass the reply to audit_reply */
    AUDIT_FAILED /* an invalidation was lost */
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
    size_t cursor; /* of entries_walk */
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

/* `count`: the size of the API key set in Redis; `held`: api_keys_size. */
void audit_key_count(struct audit *a, int64_t count, int64_t held);

/*
 * An invalidation arrived, which explains a difference of the entry: ENTRY_CARD is a card and its summary,
 * ENTRY_PAGE the index, ENTRY_AUTH the API key set.
 */
void audit_invalidated(struct audit *a, enum entry_kind kind, int64_t number, struct span link);

/* Everything was invalidated, or the connection is new. */
static inline void audit_reset(struct audit *a)
{
    a->entry_heartbeats = a->keys_heartbeats = 0;
}

#endif
