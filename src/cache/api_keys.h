/*
 * The digests of all valid API keys, held whole, so that a flood of wrong keys costs Redis nothing.
 *
 * The set is read (keyring_fetch.c) and dropped when Redis says that it has changed; until it is read again
 * nothing is known. A set above KEYRING_MAX is not held: then each key is asked about, and the store
 * remembers bounded verdicts.
 *
 * Looking a digest up takes a time that depends on the digest, not on the key: who sends a key cannot choose
 * its digest.
 */
#ifndef CACHE_API_KEYS_H
#define CACHE_API_KEYS_H

#include "base/digest.h"

#include <hiredis/hiredis.h>

enum { KEYRING_MAX = 100000 };

enum verdict { VERDICT_UNKNOWN, VERDICT_VALID, VERDICT_REFUSED };

struct keyring {
    bool loaded;
    size_t room;     /* for so many digests more */
    size_t capacity; /* a power of two, at least twice the digests; 0 when nothing is held */
    struct digest *slot;
    bool *taken;
    uint64_t seed; /* of the hash, by chance */
};

void keyring_init(struct keyring *k);
void keyring_fini(struct keyring *k);

/* Forgets everything: every verdict is unknown. */
void keyring_forget(struct keyring *k);

/*
 * Takes over the set in one or more portions: keyring_begin for at most `size` digests, keyring_add for each
 * portion, an array or set reply of hex digests, keyring_seal; before it every verdict is unknown. A digest
 * may come more than once; a member that is none is skipped and counted in *unreadable. They return 0,
 * -EINVAL for another reply, -E2BIG for more than KEYRING_MAX or than `size`, or -ENOMEM; on error everything
 * is forgotten.
 */
int keyring_begin(struct keyring *k, size_t size) __attribute__((warn_unused_result));
int keyring_add(struct keyring *k, const redisReply *members, uint64_t *unreadable)
    __attribute__((warn_unused_result));
void keyring_seal(struct keyring *k);

enum verdict keyring_verdict(const struct keyring *k, const struct digest *key);

#endif
