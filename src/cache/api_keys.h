/*
 * The API key set: the digests of all valid API keys in memory, with their names and expiries, so that a
 * flood of wrong keys sends nothing to Redis.
 *
 * Reading it is a state machine: it composes the next command, and the caller passes it the replies in order.
 * A small set is read with one SMEMBERS. A large one is read in portions (SSCAN), so that other commands wait
 * for one portion and not for megabytes, when all workers of all replicas read the set because a key was
 * issued or Redis was restarted. SSCAN returns every member that was present from its first portion to its
 * last, and a change in between sends an invalidation between the replies: a read without an invalidation is
 * the whole set.
 *
 * Names and expiries are in a hash beside the set (model/api_key.h), which may not exist, or lack some of the
 * keys. It is read for the members of the set, after them and in portions. Both keys of Redis are invalidated
 * as one: what was read of either is discarded when the other changes before the end. As the set and the hash
 * are read in different turns of Redis, and committed after a check that was sent after both, an invalidation
 * for any change in between has arrived before: set and hash are of one moment.
 *
 * While the set is not held, each key is checked in Redis, and the results are cached as entries
 * (ENTRY_AUTH), bounded and evicted like all others. A set above API_KEYS_MAX is not read until it changes,
 * nor is one that may not be cached because it, or the infos, do not exist in a cluster (lifetime.h). One
 * that Redis refuses to show is read again after a pause that grows. Either is logged with its reason. A set
 * that is invalidated again and again is not read each time, but after a pause: Redis may evict it from a
 * full tracking table hundreds of times per second. A result for one key is read with two commands, first its
 * info and then its membership: a key that is revoked in between is refused, and one that is added in between
 * is valid, without a name. Nothing is cached then.
 *
 * Expiries are compared with the wall clock at each check. An info whose expiry cannot be read refuses the
 * key.
 *
 * The time of a check depends on the digest, which a client cannot choose, and not on the key.
 */
#ifndef CACHE_API_KEYS_H
#define CACHE_API_KEYS_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/table.h"
#include "cache/entries.h"
#include "cache/metrics.h"
#include "model/api_key.h"
#include "model/keyspace.h"
#include "redis/resp.h"

/*
 * The largest set that is kept; the largest that is read with one command; the keys whose info is read with
 * one command; the pause from one read to the next, and the first and the longest one after failures.
 */
enum {
    API_KEYS_MAX = 100000,
    API_KEYS_AT_ONCE_MAX = 10000,
    API_KEYS_INFO_PORTION = 1000,
    API_KEYS_RETRY_MS = 100,
    API_KEYS_PAUSE_MIN_MS = 1000,
    API_KEYS_PAUSE_MAX_MS = 60 * 1000
};

enum { API_KEYS_CURSOR_MAX = 20, API_KEYS_REPORTED = 64 };

enum auth_result { AUTH_RESULT_UNKNOWN, AUTH_RESULT_VALID, AUTH_RESULT_INVALID };

/* The result of a reply. */
enum api_keys_progress {
    API_KEYS_STOPPED, /* nothing more to send; the set is not known */
    API_KEYS_SEND,    /* the next command is in the buffer */
    API_KEYS_COMPLETE /* the whole set was read: api_keys_commit makes it valid */
};

/* What a reply told about one key, and the epoch of the set at that time. Zeros: nothing that may be cached.
 */
struct api_key_reading {
    int64_t epoch;
    struct lifetime lifetime;
    struct api_key_info info;
};

/* Embedded in the cache; private to api_keys.c. */
struct api_keys {
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct entries *entries;

    struct table table;    /* of the digests below, by their hash */
    struct digest *digest; /* owned; room for `capacity` */
    size_t count, capacity;
    struct api_key_record { /* owned; of each digest, in the same order. NULL: none has any */
        int64_t expires;
        size_t name; /* its place in the names; 0: none */
    } * record;
    size_t recorded;  /* of them */
    struct buf names; /* each with its length in front */
    uint64_t seed;
    int64_t next_expiry; /* the earliest that was to come; API_KEY_NEVER: none */
    int64_t set_size;    /* as Redis reported it, whatever the members are */
    int64_t epoch;       /* grows with each change of the set: single results hold for one epoch */

    enum api_keys_state {
        API_KEYS_UNREAD,       /* and nothing is known against reading it */
        API_KEYS_READ_SIZE,    /* SCARD is under way */
        API_KEYS_READ_MEMBERS, /* SMEMBERS is */
        API_KEYS_READ_PORTION, /* SSCAN is */
        API_KEYS_READ_INFOS,   /* HLEN is, of the infos */
        API_KEYS_READ_INFO,    /* HMGET is */
        API_KEYS_UNCOMMITTED,  /* read to its end, and to be committed */
        API_KEYS_HELD,         /* the digests are the whole set */
        API_KEYS_TOO_LARGE,    /* not to be read until it changes */
        API_KEYS_UNTRACKED,    /* the same: it may not be cached */
        API_KEYS_FAILED        /* to be read again after a pause */
    } state;
    bool changed;                         /* it has changed since its members, or the first of them, came */
    uint64_t started_ms;                  /* monotonic; when the last read began, or was found invalidated */
    char cursor[API_KEYS_CURSOR_MAX + 1]; /* of the next SSCAN */
    int portions_left;                    /* until the read is given up */
    unsigned failures;                    /* of reads, since the set was last held */
    uint64_t pause_ms;                    /* after the last of them */
    unsigned pause_seed;
    struct log_reasons reasons; /* why it was not held */

    /* Malformed infos of this read: their number, one of them, and the sum of their hashes; that of the read
     * which was logged last; and the hashes of those that were read one by one and logged. */
    size_t malformed;
    struct digest malformed_key;
    uint64_t malformed_sum, malformed_logged, reported[API_KEYS_REPORTED];
};

/* The pointers are borrowed. Returns 0 or -ENOMEM; api_keys_fini is due in both cases. */
int api_keys_init(struct api_keys *k, const struct keyspace *keyspace, struct entries *entries,
                  struct cache_metrics *metrics) __attribute__((warn_unused_result));
void api_keys_fini(struct api_keys *k);

/*
 * Whether the key is valid now, as far as it is known; *name becomes its name, also of one that has expired.
 * While the set is not held no key is known to be invalid. `now_ms` is by the boot clock.
 */
enum auth_result api_keys_check(const struct api_keys *k, const struct digest *key, uint64_t now_ms,
                                struct api_key_name *name);

/*
 * Reads Redis' reply about the info of one key: nil, or its text. False for any other. The reply about its
 * membership has to come later.
 */
bool api_keys_read_info(struct api_keys *k, const struct digest *key, struct lifetime lifetime,
                        const redisReply *reply, struct api_key_reading *out)
    __attribute__((warn_unused_result));

/* Now; the clock is read for one with an expiry alone. */
static inline bool api_keys_is_expired(int64_t expires)
{
    return expires != API_KEY_NEVER && api_key_is_expired(expires, clock_wall_s());
}

/*
 * Caches what Redis replied about one key, a member of the set, while that is not held, unless it has changed
 * since `reading`. `lifetime` is that of the reply about its membership.
 */
void api_keys_put_result(struct api_keys *k, const struct digest *key, struct lifetime lifetime,
                         const struct api_key_reading *reading);

/* The set, or the info of its keys, has changed: drops both, and all cached results. */
void api_keys_invalidate(struct api_keys *k);

/*
 * Begins to read the set. True when *command is to be sent and its reply passed to api_keys_reply; false when
 * a read is under way. A pending SMEMBERS returns the changed set: otherwise its reply would have come before
 * the invalidation.
 */
bool api_keys_read(struct api_keys *k, uint64_t now_ms, struct buf *command)
    __attribute__((warn_unused_result));

/* True when the set is to be read, and the last attempt is long enough ago. */
static inline bool api_keys_wants_reading(const struct api_keys *k, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms - k->started_ms;
    return k->state == API_KEYS_FAILED ? passed_ms >= k->pause_ms
                                       : k->state == API_KEYS_UNREAD && passed_ms >= API_KEYS_RETRY_MS;
}

/* The reply to the command that was sent last; NULL: the connection was lost, or it could not be sent. */
enum api_keys_progress api_keys_reply(struct api_keys *k, struct lifetime lifetime, const redisReply *reply,
                                      uint64_t now_ms, struct buf *command);

/*
 * The catalogue was confirmed, by a check that was sent after the last reply: a set that was read completely
 * is valid from now on.
 */
void api_keys_commit(struct api_keys *k);

/* To be called every second: expiries pass. */
void api_keys_heartbeat(struct api_keys *k);

/* The size that Redis reported for the set in memory; -1 when none is valid. */
static inline int64_t api_keys_size(const struct api_keys *k)
{
    return k->state == API_KEYS_HELD ? k->set_size : -1;
}

#endif
