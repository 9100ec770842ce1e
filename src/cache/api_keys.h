/*
 * The API key set: the digests of all valid API keys, held whole, so that a flood of wrong keys costs Redis
 * nothing.
 *
 * Reading it is a state machine: it says which command to send next and is given the replies, in the order of
 * the commands. A small set is one reply (SMEMBERS). A large one is read in portions (SSCAN), so that what is
 * sent in between waits for one portion and not for megabytes, when all workers of all replicas read the set
 * because a key was issued or Redis has come back. SSCAN returns every member that was there from its first
 * portion to its last, and had the set changed between the two, an invalidation would stand between their
 * replies. So a reading without an invalidation is the whole set.
 *
 * A set above API_KEYS_MAX is not held: then Redis is asked about each key, and the results are cached as
 * entries (ENTRY_AUTH), bounded and evicted like all others.
 *
 * Checking a digest takes a time that depends on the digest, not on the key, and whoever sends a key cannot
 * choose its digest.
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
 * Keys that are held; a set up to the second is read at once, a larger one in portions of so many. A reading
 * that failed, or that was invalidated, is repeated after API_KEYS_RETRY_MS.
 */
enum { API_KEYS_MAX = 100000, API_KEYS_AT_ONCE_MAX = 10000, API_KEYS_RETRY_MS = 100 };

enum { API_KEYS_CURSOR_MAX = 20 };

enum auth_result { AUTH_RESULT_UNKNOWN, AUTH_RESULT_VALID, AUTH_RESULT_INVALID };

/* What came of a reply. */
enum api_keys_progress {
    API_KEYS_STOPPED, /* nothing more to send; the set is not known */
    API_KEYS_SEND,    /* the next command is in the buffer */
    API_KEYS_COMPLETE /* all of it is read: api_keys_commit makes it valid */
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
    bool large;       /* the set cannot be held: results are cached one by one */
    int64_t set_size; /* as Redis reported it, whatever the members are */
    int64_t epoch;    /* grows with each change of the set: single results hold for one epoch */

    enum api_keys_step {
        API_KEYS_IDLE,
        API_KEYS_READ_SIZE,    /* SCARD is under way */
        API_KEYS_READ_MEMBERS, /* SMEMBERS is */
        API_KEYS_READ_PORTION, /* SSCAN is */
        API_KEYS_UNCOMMITTED   /* read to its end, and to be committed */
    } step;
    bool outdated;       /* the set has changed since its first portion was asked for */
    uint64_t started_ms; /* monotonic; when the last reading began, or turned out to be in vain */
    char cursor[API_KEYS_CURSOR_MAX + 1]; /* where SSCAN goes on */
    int portions_left;                    /* that it may take */
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

/* Caches Redis' reply about one key, where the set is not held. `check` is the catalogue check that will
 * confirm an invalid one. */
void api_keys_put_result(struct api_keys *k, const struct digest *key, bool valid, uint64_t check);

/* The set has changed: every result is unknown. */
void api_keys_invalidate(struct api_keys *k);

/*
 * Begins to read the set. True when *command is to be sent and its reply given to api_keys_reply; false when
 * a reading is under way that will do. One that began with SMEMBERS will: had it been answered before the
 * change, its reply would stand before the invalidation.
 */
bool api_keys_read(struct api_keys *k, uint64_t now_ms, struct buf *command)
    __attribute__((warn_unused_result));

/* True when nothing of the set is known or being read, and the last attempt is long enough ago. */
static inline bool api_keys_wants_reading(const struct api_keys *k, uint64_t now_ms)
{
    return !k->committed && !k->large && k->step == API_KEYS_IDLE &&
           now_ms - k->started_ms >= API_KEYS_RETRY_MS;
}

/* The reply to the command that was sent last; NULL: the connection was lost, or it could not be sent. */
enum api_keys_progress api_keys_reply(struct api_keys *k, const redisReply *reply, uint64_t now_ms,
                                      struct buf *command);

/* There is a catalogue: a set that was read to its end is valid from now on. */
void api_keys_commit(struct api_keys *k);

/* How many members Redis said the set has that is held; -1 when none is. */
static inline int64_t api_keys_size(const struct api_keys *k)
{
    return k->committed && !k->large ? k->set_size : -1;
}

#endif
