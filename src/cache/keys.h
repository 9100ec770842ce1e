/*
 * The API keys of a worker: records of what Redis has said of them, and the checks that make these records
 * (docs/design.md, "Keys").
 *
 * Each invalidation of the set of keys, or of the hash of their infos (model/api_key.h), begins an epoch, and
 * a record counts only in the epoch in which it was made; where Redis does not track, for the lifetime of the
 * reply. A key with an older record is `known`: it is checked before others, and unless the cache is fresh
 * its data is read behind the check, in the same write. That a digest is no key is kept for the epoch only.
 *
 * A check reads the membership last, so that a key is refused that is revoked in between together with its
 * expiry. An invalidation between the replies makes the check void. Requests whose keys are no members wait
 * for a probe behind it (stream.h).
 *
 * While a check is in flight, further ones begin only with KEYS_CHECKED requests; where nothing may be
 * cached, also for each known key.
 *
 * Invariant: the `checking` of a request is in `known`, in `unknown`, in a check, or in no list.
 */
#ifndef CACHE_KEYS_H
#define CACHE_KEYS_H

#include "base/digest.h"
#include "base/log.h"
#include "base/table.h"
#include "cache/parts.h"

/*
 *   - KEYS_VALID_MAX, KEYS_ABSENT_MAX: the records of keys, and the digests that are none
 *   - KEYS_ABSENT_WAYS: places of a digest in the table of those
 *   - KEYS_WALKED, KEYS_ABSENT_WALKED: of the records, how many are in the worker's own check
 *   - KEYS_PORTION: members that are requested with one SSCAN; Redis may return more
 *   - KEYS_CHECKED: keys of one check, and requests of one. It takes at most 100 us of Redis
 *   - KEYS_CHECKS: checks for requests that may be in flight
 */
enum {
    KEYS_VALID_MAX = 125000,
    KEYS_ABSENT_MAX = 1024,
    KEYS_ABSENT_WAYS = 4,
    KEYS_WALKED = 24,
    KEYS_ABSENT_WALKED = 8,
    KEYS_PORTION = 24,
    KEYS_CURSOR_MAX = 20,
    KEYS_CHECKED = 64,
    KEYS_CHECKS = 9
};

enum auth_result { AUTH_RESULT_UNKNOWN, AUTH_RESULT_VALID, AUTH_RESULT_INVALID };

/* Embedded in the cache; private to keys.c. */
struct keys {
    const struct cache_parts *parts;

    /* The records. */
    struct table table; /* of keys, by the hashes of their digests */
    struct absent_key { /* digests that are no keys: a hash table of sets */
        uint64_t epoch; /* in which that was found */
        struct digest digest;
    } absent[KEYS_ABSENT_MAX];
    uint64_t seed;
    uint64_t epoch;       /* grows with each change of the set or of the infos, from 1 */
    unsigned differences; /* seconds since Redis has contradicted a current record, and 1; 0: it has not */

    /* Requests that wait for a check, and the checks of requests in flight. */
    struct list known, unknown;
    unsigned in_flight;

    /* The worker's own check. */
    bool is_walking;                  /* it is in flight, or its SSCAN */
    size_t walk, absent_walk;         /* cursors of `table` and `absent` */
    char cursor[KEYS_CURSOR_MAX + 1]; /* of the next SSCAN */
    int64_t next_expiry;              /* the earliest that was found since the beginning of the table */
    struct log_reasons reasons;       /* why the set is not scanned, or what is checked is not kept */
};

/* All is zero before. */
void keys_init(struct keys *k, const struct cache_parts *parts);
void keys_fini(struct keys *k);

/* What is known of the key at that time of the boot clock. *name: its name, even if it has expired. */
enum auth_result keys_look_up(struct keys *k, const struct digest *digest, uint64_t now_ms,
                              struct api_key_name *name);

/* Adds a request, which may leave at any time; there must be a connection. The end is parts.checked. */
void keys_wait(struct keys *k, struct cache_request *request);

/* The set or the infos have changed, or may have: no record counts any more. */
void keys_invalidate(struct keys *k);

/* To be called every second. */
void keys_heartbeat(struct keys *k);

/* Every second: whether Redis had contradicted a record before the last call, without a change since. */
static inline bool keys_are_wrong(struct keys *k)
{
    return k->differences > 0 && k->differences++ > 1;
}

#endif
