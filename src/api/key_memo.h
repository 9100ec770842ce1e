/*
 * The digests of keys seen lately: the same few keys come thousands of times a second, and hashing each again
 * would be a good part of what a request costs.
 *
 * A fixed table without collisions lists: a key has one place, and takes it from whoever was there. Keys
 * longer than KEY_MEMO_MAX are not kept. It says nothing of whether a key is valid. Keys are wiped when the
 * memo ends.
 */
#ifndef API_KEY_MEMO_H
#define API_KEY_MEMO_H

#include "base/digest.h"

enum { KEY_MEMO_SLOTS = 256, KEY_MEMO_MAX = 64 };

struct key_memo {
    struct {
        unsigned char len; /* 0: free */
        char key[KEY_MEMO_MAX];
        struct digest digest;
    } slot[KEY_MEMO_SLOTS];
};

/* The digest of `key`, which is not empty. Returns 0 or -ENOMEM. */
int key_memo_digest(struct key_memo *m, struct span key, struct digest *out)
    __attribute__((warn_unused_result));

void key_memo_fini(struct key_memo *m);

#endif
