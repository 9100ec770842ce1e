/*
 * The digests of valid keys seen lately: the same few keys come thousands of times a second, and hashing each
 * again would be a good part of what a request costs.
 *
 * A fixed table without collision lists: a key has one place, and takes it from whoever was there. Keys
 * longer than DIGEST_CACHE_KEY_MAX are not kept. Only what its owner reports as valid gets a place, so that a
 * flood of wrong keys pushes none out; and keys are compared in a time that does not tell how much of a guess
 * was right. It says nothing of whether a key is still valid. Keys are wiped when the memo ends.
 */
#ifndef API_DIGEST_CACHE_H
#define API_DIGEST_CACHE_H

#include "base/digest.h"

enum { DIGEST_CACHE_SLOTS = 256, DIGEST_CACHE_KEY_MAX = 64 };

struct digest_cache_entry {
    unsigned char len; /* 0: free */
    char key[DIGEST_CACHE_KEY_MAX];
    struct digest digest;
};

struct digest_cache {
    struct digest_cache_entry slot[DIGEST_CACHE_SLOTS];
    struct digest_cache_entry latest; /* what was hashed last, until it is known to be valid */
};

/* The digest of `key`, which is not empty. */
void digest_cache_get(struct digest_cache *m, struct span key, struct digest *out);

/* The key with this digest is valid: it is kept, if it was the latest to be hashed. */
void digest_cache_put(struct digest_cache *m, const struct digest *digest);

void digest_cache_fini(struct digest_cache *m);

#endif
