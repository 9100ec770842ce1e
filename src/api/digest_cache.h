/*
 * The digests of valid keys seen lately: the same few keys come thousands of times a second, and hashing each
 * again would be a good part of what a request costs.
 *
 * A fixed table without collision lists: a key has one place, and takes it from whoever was there. Keys
 * longer than KEY_MEMO_MAX are not kept. Only what its owner reports as valid gets a place, so that a flood
 * of wrong keys pushes none out; and keys are compared in a time that does not tell how much of a guess was
 * right. It says nothing of whether a key is still valid. Keys are wiped when the memo ends.
 */
#ifndef API_DIGEST_CACHE_H
#define API_DIGEST_CACHE_H

#include "base/digest.h"

enum { KEY_MEMO_SLOTS = 256, KEY_MEMO_MAX = 64 };

struct key_memo_entry {
    unsigned char len; /* 0: free */
    char key[KEY_MEMO_MAX];
    struct digest digest;
};

struct key_memo {
    struct key_memo_entry slot[KEY_MEMO_SLOTS];
    struct key_memo_entry latest; /* what was hashed last, until it is known to be valid */
};

/* The digest of `key`, which is not empty. */
void key_memo_digest(struct key_memo *m, struct span key, struct digest *out);

/* The key with this digest is valid: it is kept, if it was the latest to be hashed. */
void key_memo_keep(struct key_memo *m, const struct digest *digest);

void key_memo_fini(struct key_memo *m);

#endif
