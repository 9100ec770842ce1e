/*
 * The digests of all valid API keys, held whole, so that a flood of wrong keys costs Redis nothing.
 *
 * The set is read (api_keys_fetch.c) and dropped when Redis says that it has changed; until it is read again
 * nothing is known. A set above API_KEYS_MAX is not held: then each key is asked about, and the store
 * remembers bounded verdicts.
 *
 * Looking a digest up takes a time that depends on the digest, not on the key: who sends a key cannot choose
 * its digest.
 */
#ifndef CACHE_API_KEYS_H
#define CACHE_API_KEYS_H

#include "base/digest.h"

#include <hiredis/hiredis.h>

enum { API_KEYS_MAX = 100000 };

enum auth_result { AUTH_RESULT_UNKNOWN, AUTH_RESULT_VALID, AUTH_RESULT_INVALID };

struct api_keys {
    bool loaded;
    size_t room;     /* for so many digests more */
    size_t capacity; /* a power of two, at least twice the digests; 0 when nothing is held */
    struct digest *slot;
    bool *taken;
    uint64_t seed; /* of the hash, by chance */
};

void api_keys_init(struct api_keys *k);
void api_keys_fini(struct api_keys *k);

/* Forgets everything: every verdict is unknown. */
void api_keys_clear(struct api_keys *k);

/*
 * Takes over the set in one or more portions: api_keys_begin for at most `size` digests, api_keys_add for
 * each portion, an array or set reply of hex digests, api_keys_seal; before it every verdict is unknown. A
 * digest may come more than once; a member that is none is skipped and counted in *unreadable. They return 0,
 * -EINVAL for another reply, -E2BIG for more than API_KEYS_MAX or than `size`, or -ENOMEM; on error
 * everything is forgotten.
 */
int api_keys_begin(struct api_keys *k, size_t size) __attribute__((warn_unused_result));
int api_keys_add(struct api_keys *k, const redisReply *members, uint64_t *unreadable)
    __attribute__((warn_unused_result));
void api_keys_seal(struct api_keys *k);

enum auth_result api_keys_check(const struct api_keys *k, const struct digest *key);

#endif
