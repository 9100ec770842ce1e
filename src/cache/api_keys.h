/*
 * The API keys of a worker: digests of valid keys, with their names and expiries, as Redis confirmed them.
 *
 * An invalidation says that the set of keys, or the hash of their infos (model/api_key.h), has changed. It
 * does not say which member has. So every invalidation begins an epoch, and a key counts only if it was
 * confirmed in the current one. Digests and names of older epochs stay, but are not used until Redis confirms
 * them again (key_reader.h).
 *
 * Where Redis does not track what is read there are no epochs, and a key counts for the lifetime of the
 * reply.
 *
 * Invariant: a key that is not confirmed is invalid only if the set is whole: every member was read and
 * confirmed in this epoch. Otherwise the key must be checked in Redis.
 *
 * The set is read with SSCAN, which returns every member that was present from its first portion to its last.
 * Each portion registers the set for invalidations, so a read without an invalidation is the whole set. After
 * a change the set is read from the start again, at the same pace: one portion per heartbeat.
 *
 * Memory is bounded. A set above API_KEYS_MAX is never read as a whole; each of its keys is held once it was
 * checked. If there is no room, a key of an older epoch is removed, or else any key.
 *
 * Expiries are compared with the wall clock at each check. A key whose expiry cannot be parsed is refused.
 * The time of a check depends on the digest, which a client cannot choose, and not on the key.
 */
#ifndef CACHE_API_KEYS_H
#define CACHE_API_KEYS_H

#include "base/clock.h"
#include "base/digest.h"
#include "base/list.h"
#include "base/log.h"
#include "base/table.h"
#include "cache/lifetime.h"
#include "cache/metrics.h"
#include "model/api_key.h"
#include "redis/resp.h"

/*
 *   - API_KEYS_MAX: the largest set that is read as a whole
 *   - API_KEYS_HELD_MAX: the keys that are held, including those of older epochs
 *   - API_KEYS_RECENT: the size of the list of the keys used last
 *   - API_KEYS_AUDITED: the keys that one audit reads again: those used last, and the next ones of the table
 *   - API_KEYS_PAUSE_MIN_MS, _MAX_MS: the first and the longest pause after the reading of the set has failed
 */
enum {
    API_KEYS_MAX = 100000,
    API_KEYS_HELD_MAX = 125000,
    API_KEYS_RECENT = 24,
    API_KEYS_AUDITED = API_KEYS_RECENT + 8,
    API_KEYS_PAUSE_MIN_MS = 1000,
    API_KEYS_PAUSE_MAX_MS = 60 * 1000
};

enum { API_KEYS_REPORTED = 1024 };

/* The hints: so many sets of so many keys, and for how long a key is one after it was valid. */
enum { API_KEYS_HINT_SETS = 256, API_KEYS_HINT_WAYS = 4, API_KEYS_HINT_MS = 10 * 1000 };

enum auth_result { AUTH_RESULT_UNKNOWN, AUTH_RESULT_VALID, AUTH_RESULT_INVALID };

enum api_keys_state {
    API_KEYS_UNREAD,  /* to be read from the start */
    API_KEYS_READING, /* portions are being read, without an invalidation since the first */
    API_KEYS_WHOLE,   /* a key that is not confirmed is invalid */
    API_KEYS_REFUSED  /* Redis does not let the keys be checked in a way that may be cached */
};

struct api_key;

/* A key that was valid at some time, by the hash of its digest. */
struct api_key_hint {
    uint64_t hash;
    uint64_t valid_ms; /* by the boot clock; 0: the key was invalid since, or there is none */
};

/* Embedded in the cache; private to api_keys.c. */
struct api_keys {
    struct cache_metrics *metrics;
    struct table table; /* the keys, by the hash of their digests */
    struct list recent; /* the keys used last, the latest at the end */
    size_t recent_count;
    uint32_t second; /* counts heartbeats: a key moves to the end of `recent` once in each */
    uint64_t seed;

    uint64_t epoch; /* grows with each change of the set or of the infos */
    bool differs;   /* Redis has contradicted a key of this epoch */
    size_t audit;   /* cursor of the audit over the table */
    enum api_keys_state state;
    int64_t set_size; /* members that Redis reported, while the set is whole */

    unsigned failures; /* of reading the set, since it was last whole */
    uint64_t retry_ms; /* monotonic; it is not read before */
    unsigned pause_seed;
    struct log_reasons reasons;

    size_t sweep;                         /* cursor of the heartbeats over the table */
    int64_t next_expiry;                  /* the earliest that this sweep has found */
    uint64_t reported[API_KEYS_REPORTED]; /* hashes of keys whose malformed info was logged */
    struct api_key_hint hint[API_KEYS_HINT_SETS][API_KEYS_HINT_WAYS];
};

/* `metrics` is borrowed. Returns 0 or -ENOMEM; api_keys_fini is due in both cases. */
int api_keys_init(struct api_keys *k, struct cache_metrics *metrics) __attribute__((warn_unused_result));
void api_keys_fini(struct api_keys *k);

/*
 * Whether the key is valid now, as far as it is known. *name becomes its name, even if it has expired.
 * `now_ms` is by the boot clock.
 */
enum auth_result api_keys_check(struct api_keys *k, const struct digest *digest, uint64_t now_ms,
                                struct api_key_name *name);

/* Whether the key was confirmed in this epoch; in this or an earlier one (held). */
bool api_keys_is_confirmed(const struct api_keys *k, const struct digest *key);
bool api_keys_is_held(const struct api_keys *k, const struct digest *key);

/* Whether a key with this expiry has expired now; without one the clock is not read. */
static inline bool api_keys_is_expired(int64_t expires)
{
    return expires != API_KEY_NEVER && api_key_is_expired(expires, clock_wall_s());
}

/* Parses Redis' reply about the info of one key, which is nil or a text. False for any other reply. */
bool api_keys_read_info(struct api_keys *k, const struct digest *key, const struct redis_reply *reply,
                        struct api_key_info *out) __attribute__((warn_unused_result));

/*
 * Redis has confirmed the key in this epoch, or says that it is no member (deny). If the key was confirmed
 * before in this epoch, and now is no member or has another name or expiry, they differ. Then the
 * invalidation is still to come, or was lost (invalidation.h). The lifetime is not LIFETIME_NONE. Returns 0
 * or -ENOMEM.
 */
int api_keys_confirm(struct api_keys *k, const struct digest *digest, struct lifetime lifetime,
                     const struct api_key_info *info) __attribute__((warn_unused_result));
void api_keys_deny(struct api_keys *k, const struct digest *digest);

static inline bool api_keys_differ(const struct api_keys *k)
{
    return k->differs;
}

/*
 * Whether the key was valid within the last API_KEYS_HINT_MS, and that it was found valid or invalid now.
 * This is a hint: it decides what is read together with the key, and never whether the key is valid.
 */
bool api_keys_was_valid(const struct api_keys *k, const struct digest *key, uint64_t now_ms);
void api_keys_note_validity(struct api_keys *k, const struct digest *key, bool is_valid, uint64_t now_ms);

/* The set or the infos have changed: no key is confirmed any more. */
void api_keys_invalidate(struct api_keys *k);

/* The keys used last, the latest first. Returns how many there are. */
size_t api_keys_recent(const struct api_keys *k, struct digest key[API_KEYS_RECENT]);

/* The confirmed keys that are to be read again now. Returns how many there are. */
size_t api_keys_audited(struct api_keys *k, struct digest key[API_KEYS_AUDITED]);

/* The current epoch. */
static inline uint64_t api_keys_epoch(const struct api_keys *k)
{
    return k->epoch;
}

/* --- the state --- */

static inline enum api_keys_state api_keys_state(const struct api_keys *k)
{
    return k->state;
}

/* The first portion is being read. */
void api_keys_reading(struct api_keys *k);

/* The whole set has arrived, and its keys are confirmed. `size` is the size of the set, or -1. */
void api_keys_commit(struct api_keys *k, int64_t size);

/*
 * The set is not read because it is too large (forgo_reading), or its reading has failed (fail_reading), or
 * not even single keys can be checked (refuse). A set whose reading has failed is read again after a pause,
 * since its replies may be large. A refusal lasts until keys were checked (permit). A change of the set ends
 * both. Each reason is logged once per minute.
 */
void api_keys_forgo_reading(struct api_keys *k, const char *reason);
void api_keys_fail_reading(struct api_keys *k, const char *reason);
void api_keys_refuse(struct api_keys *k, const char *reason);
void api_keys_permit(struct api_keys *k);

/* To be called every second. */
void api_keys_heartbeat(struct api_keys *k);

/* True when the next portion may be read. */
static inline bool api_keys_wants_reading(const struct api_keys *k, uint64_t now_ms)
{
    return k->state <= API_KEYS_READING && now_ms >= k->retry_ms;
}

/* The size that Redis reported for a set that is whole; -1 when none is. */
static inline int64_t api_keys_size(const struct api_keys *k)
{
    return k->state == API_KEYS_WHOLE ? k->set_size : -1;
}

#endif
