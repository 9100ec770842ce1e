/* Remembered digests; see key_memo.h. */
#include "api/key_memo.h"

#include <stdint.h>

/* Any spread will do: a clash costs one hash. The last bytes of a key are as random as any. */
static unsigned place_of(struct span key)
{
    uint64_t tail = 0;
    size_t n = key.len < sizeof tail ? key.len : sizeof tail;
    memcpy(&tail, key.data + key.len - n, n);
    return (unsigned)((tail * 0x9E3779B97F4A7C15U) >> 56);
}

_Static_assert(KEY_MEMO_SLOTS == 1 << (64 - 56), "the place is the top bits of the product");

int key_memo_digest(struct key_memo *m, struct span key, struct digest *out)
{
    if (key.len > KEY_MEMO_MAX)
        return digest_sha256(key, out);
    unsigned at = place_of(key);
    if (m->slot[at].len == key.len && memcmp(m->slot[at].key, key.data, key.len) == 0) {
        *out = m->slot[at].digest;
        return 0;
    }
    int err = digest_sha256(key, out);
    if (err != 0)
        return err;
    m->slot[at].len = (unsigned char)key.len;
    memcpy(m->slot[at].key, key.data, key.len);
    m->slot[at].digest = *out;
    return 0;
}

void key_memo_fini(struct key_memo *m)
{
    explicit_bzero(m, sizeof *m);
}
