/*
 * The API keys of a worker: records of digests that Redis found valid, with their names and expiries, and of
 * digests that it found to be none.
 *
 * An invalidation says that the set of keys, or the hash of their infos (model/api_key.h), has changed. It
 * does not say which member has. So every invalidation begins an epoch, and a record counts only if it was
 * made in the current one. A valid key of an older epoch stays: it is checked before keys that are not known
 * and its data may be read together with it (key_reader.h).
 *
 * Where Redis does not track what is read there are no epochs, and a key counts for the lifetime of the
 * reply.
 *
 * Invariant: a key without a current record must be checked in Redis.
 *
 * Memory is bounded. If there is no room for a valid key, one of an older epoch is removed, or else any.
 * Digests that are no keys have a small table of their own, so they displace no valid key.
 *
 * Expiries are compared with the wall clock at each check. A key whose expiry cannot be parsed is refused.
 * The time of a check depends on the digest, which a client cannot choose, and not on the key.
 */
#ifndef CACHE_API_KEYS_H
#define CACHE_API_KEYS_H

#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/table.h"
#include "cache/lifetime.h"
#include "cache/metrics.h"
#include "model/api_key.h"
#include "redis/resp.h"

/*
 *   - API_KEYS_MAX: the largest set that is scanned (key_reader.h)
 *   - API_KEYS_HELD_MAX: the valid keys that are held, including those of older epochs
 *   - API_KEYS_RECENT: the size of the list of the keys used last
 *   - API_KEYS_AUDITED: the keys that one audit reads again: those used last, and the next ones of the table,
 *     and of the digests that are no keys
 */
enum {
    API_KEYS_MAX = 100000,
    API_KEYS_HELD_MAX = 125000,
    API_KEYS_RECENT = 24,
    API_KEYS_AUDITED = API_KEYS_RECENT + 8 + 8
};

/* The digests that are no keys: so many sets of so many. */
enum { API_KEYS_ABSENT_SETS = 256, API_KEYS_ABSENT_WAYS = 4 };

enum auth_result { AUTH_RESULT_UNKNOWN, AUTH_RESULT_VALID, AUTH_RESULT_INVALID };

struct api_key;

/* A digest that is no key. */
struct api_key_absence {
    struct digest digest;
    uint64_t epoch; /* the epoch in which that was found; 0: there is none */
};

/* Embedded in the cache; private to api_keys.c. */
struct api_keys {
    struct cache_metrics *metrics;
    struct table table;                    /* the keys, by the hash of their digests */
    struct digest recent[API_KEYS_RECENT]; /* the keys used last, the latest first */
    size_t recent_count;
    uint32_t second; /* counts heartbeats: a key moves to the front of `recent` once in each */
    uint64_t seed;

    uint64_t epoch;             /* grows with each change of the set or of the infos, from 1 */
    uint64_t scanned_epoch;     /* the last epoch in which all members of the set were checked */
    bool differs;               /* Redis has contradicted a record of this epoch */
    size_t audit, audit_absent; /* cursors of the audit */
    struct log_reasons reasons;

    size_t sweep;        /* cursor of the heartbeats over the table */
    int64_t next_expiry; /* the earliest that this sweep has found */
    struct api_key_absence absence[API_KEYS_ABSENT_SETS * API_KEYS_ABSENT_WAYS];
    unsigned next_way; /* the place that the next absence takes in a full set */
};

/* `metrics` is borrowed. Returns 0 or -ENOMEM; call api_keys_fini in both cases. */
void api_keys_init(struct api_keys *k, struct cache_metrics *metrics);
void api_keys_fini(struct api_keys *k);

/*
 * Whether the key is valid now, as far as it is known. *name becomes its name, even if it has expired.
 * `now_ms` is by the boot clock.
 */
enum auth_result api_keys_check(struct api_keys *k, const struct digest *digest, uint64_t now_ms,
                                struct api_key_name *name);

/* Whether the key was found absent in this epoch; was confirmed in it. */
bool api_keys_is_absent(const struct api_keys *k, const struct digest *key);
bool api_keys_is_confirmed(const struct api_keys *k, const struct digest *key);

/* Whether the key was valid when it was last checked, and has not expired since. A revoked key may be so. */
bool api_keys_was_valid(const struct api_keys *k, const struct digest *key);

/* Whether a key with this expiry has expired now; without one the clock is not read. */
static inline bool api_keys_is_expired(int64_t expires)
{
    return expires != API_KEY_NEVER && api_key_is_expired(expires, clock_wall_s());
}

/*
 * Redis says that the key is valid. With LIFETIME_NONE it is held, and not confirmed. If the key was
 * confirmed before in this epoch with another name or expiry, or was absent, they differ. Then the
 * invalidation is still to come, or was lost (audit.h). Returns 0 or -ENOMEM.
 */
int api_keys_confirm(struct api_keys *k, const struct digest *digest, struct lifetime lifetime,
                     const struct api_key_info *info) __attribute__((warn_unused_result));

/* Redis says that the key is no member. If it was confirmed in this epoch they differ; else it is removed. */
void api_keys_deny(struct api_keys *k, const struct digest *digest);

/* It is certain that the key is no member, and the next change of the set will be announced. */
void api_keys_note_absent(struct api_keys *k, const struct digest *digest);

static inline bool api_keys_differ(const struct api_keys *k)
{
    return k->differs;
}

/* The set or the infos have changed: no record counts any more. */
void api_keys_invalidate(struct api_keys *k);

/* The keys of current records that are to be read again now. Returns how many there are. */
size_t api_keys_audited(struct api_keys *k, struct digest key[API_KEYS_AUDITED]);

/* The current epoch. */
static inline uint64_t api_keys_epoch(const struct api_keys *k)
{
    return k->epoch;
}

/* All members of the set were checked in this epoch. */
void api_keys_note_scanned(struct api_keys *k);

/* The set is not scanned, or what is checked is not kept. Each reason is logged once per minute. */
void api_keys_forgo_scan(struct api_keys *k, const char *reason);

/* To be called every second. */
void api_keys_heartbeat(struct api_keys *k);

#endif
