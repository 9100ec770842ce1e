/*
 * The API key set: the digests of all valid API keys in memory, so that a flood of wrong keys sends nothing
 * to Redis.
 *
 * Reading it is a state machine: it composes the next command, and the caller passes it the replies in order.
 * A small set is read with one SMEMBERS. A large one is read in portions (SSCAN), so that other commands wait
 * for one portion and not for megabytes, when all workers of all replicas read the set because a key was
 * issued or Redis was restarted. SSCAN returns every member that was present from its first portion to its
 * last, and a change in between sends an invalidation between the replies: a read without an invalidation is
 * the whole set.
 *
 * While the set is not held, each key is checked in Redis, and the results are cached as entries
 * (ENTRY_AUTH), bounded and evicted like all others. A set above API_KEYS_MAX is never held. One that is
 * invalidated again and again is not read each time, but after a pause: Redis may evict it from a full
 * tracking table hundreds of times per second.
 *
 * The time of a check depends on the digest, which a client cannot choose, and not on the key.
 */
#ifndef CACHE_API_KEYS_H
#define CACHE_API_KEYS_H

#include "base/buf.h"
#include "base/digest.h"
#include "base/table.h"
#include "cache/entries.h"
#include "cache/metrics.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/*
 * The largest set that is kept; the largest that is read with one command; the pause from one read
 * to the next.
 */
enum { API_KEYS_MAX = 100000, API_KEYS_AT_ONCE_MAX = 10000, API_KEYS_RETRY_MS = 100 };

enum { API_KEYS_CURSOR_MAX = 20 };

enum auth_result { AUTH_RESULT_UNKNOWN, AUTH_RESULT_VALID, AUTH_RESULT_INVALID };

/* The result of a reply. */
enum api_keys_progress {
    API_KEYS_STOPPED, /* nothing more to send; the set is not known */
    API_KEYS_SEND,    /* the next command is in the buffer */
    API_KEYS_COMPLETE /* the whole set was read: api_keys_commit makes it valid */
};

/* Embedded in the cache; private to api_keys.c. */
struct api_keys {
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct entries *entries;

    struct table table;    /* of the digests below, by their hash */
    struct digest *digest; /* owned; room for `capacity` */
    size_t count, capacity;
    uint64_t seed;
    bool committed;   /* the digests are the whole set */
    bool large;       /* the set is too large: results are cached one by one */
    int64_t set_size; /* as Redis reported it, whatever the members are */
    int64_t epoch;    /* grows with each change of the set: single results hold for one epoch */

    enum api_keys_step {
        API_KEYS_IDLE,
        API_KEYS_READ_SIZE,    /* SCARD is under way */
        API_KEYS_READ_MEMBERS, /* SMEMBERS is */
        API_KEYS_READ_PORTION, /* SSCAN is */
        API_KEYS_UNCOMMITTED   /* read to its end, and to be committed */
    } step;
    bool changed;                         /* the set has changed since its first portion was asked for */
    uint64_t started_ms;                  /* monotonic; when the last read began, or was found invalidated */
    char cursor[API_KEYS_CURSOR_MAX + 1]; /* of the next SSCAN */
    int portions_left;                    /* until the read is given up */
};

/* The pointers are borrowed. Returns 0 or -ENOMEM; api_keys_fini is due in both cases. */
int api_keys_init(struct api_keys *k, const struct keyspace *keyspace, struct entries *entries,
                  struct cache_metrics *metrics) __attribute__((warn_unused_result));
void api_keys_fini(struct api_keys *k);

/*
 * Whether the key is valid, as far as it is known. An invalid one of a set that is not held counts only when
 * `confirmed`, the last catalogue check that passed, is not older than its result.
 */
enum auth_result api_keys_check(const struct api_keys *k, const struct digest *key, uint64_t confirmed);

/* Caches Redis' reply about one key, while the set is not held. `check` is the catalogue check that will
 * confirm an invalid one. */
void api_keys_put_result(struct api_keys *k, const struct digest *key, bool valid, uint64_t check);

/* The set has changed: drops it, and all cached results. */
void api_keys_invalidate(struct api_keys *k);

/*
 * Begins to read the set. True when *command is to be sent and its reply passed to api_keys_reply; false when
 * a read is under way. A pending SMEMBERS returns the changed set: otherwise its reply would have come before
 * the invalidation.
 */
bool api_keys_read(struct api_keys *k, uint64_t now_ms, struct buf *command)
    __attribute__((warn_unused_result));

/* True when the set is not held or being read, but may be, and the last attempt is long enough ago. */
static inline bool api_keys_wants_reading(const struct api_keys *k, uint64_t now_ms)
{
    return !k->committed && !k->large && k->step == API_KEYS_IDLE &&
           now_ms - k->started_ms >= API_KEYS_RETRY_MS;
}

/* The reply to the command that was sent last; NULL: the connection was lost, or it could not be sent. */
enum api_keys_progress api_keys_reply(struct api_keys *k, const redisReply *reply, uint64_t now_ms,
                                      struct buf *command);

/* The catalogue was confirmed: a set that was read completely is valid from now on. */
void api_keys_commit(struct api_keys *k);

/* The size that Redis reported for the set in memory; -1 when none is valid. */
static inline int64_t api_keys_size(const struct api_keys *k)
{
    return k->committed && !k->large ? k->set_size : -1;
}

#endif
