/* Remembered digests; see key_memo.h. */
#include "api/digest_cache.h"

#include "base/secret.h"

#include <stdint.h>

static struct span key_of(const struct key_memo_entry *e)
{
    return (struct span){e->key, e->len};
}

/* Any spread will do: a clash costs one hash. The last bytes of a key are as random as any. */
static struct key_memo_entry *place_of(struct key_memo *m, struct span key)
{
    uint64_t tail = 0;
    size_t n = key.len < sizeof tail ? key.len : sizeof tail;
    memcpy(&tail, key.data + key.len - n, n);
    return &m->slot[(tail * 0x9E3779B97F4A7C15U) >> 56];
}

_Static_assert(KEY_MEMO_SLOTS == 1 << (64 - 56), "the place is the top bits of the product");

void key_memo_digest(struct key_memo *m, struct span key, struct digest *out)
{
    if (key.len > KEY_MEMO_MAX) {
        digest_sha256(key, out);
        return;
    }
    const struct key_memo_entry *kept = place_of(m, key);
    if (secret_equal(key_of(kept), key)) {
        *out = kept->digest;
        return;
    }
    digest_sha256(key, out);
    m->latest.len = (unsigned char)key.len;
    memcpy(m->latest.key, key.data, key.len);
    m->latest.digest = *out;
}

void key_memo_keep(struct key_memo *m, const struct digest *digest)
{
    if (m->latest.len == 0 || memcmp(&m->latest.digest, digest, sizeof *digest) != 0)
        return;
    *place_of(m, key_of(&m->latest)) = m->latest;
    m->latest = (struct key_memo_entry){0};
}

void key_memo_fini(struct key_memo *m)
{
    explicit_bzero(m, sizeof *m);
}
