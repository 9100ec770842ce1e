/* Remembered digests; see digest_cache.h. */
#include "api/digest_cache.h"

#include <stdint.h>

static struct span key_of(const struct digest_cache_entry *e)
{
    return (struct span){e->key, e->len};
}

/* Any spread will do: a clash costs one hash. The last bytes of a key are as random as any. */
static struct digest_cache_entry *place_of(struct digest_cache *m, struct span key)
{
    uint64_t tail = 0;
    size_t n = key.len < sizeof tail ? key.len : sizeof tail;
    memcpy(&tail, key.data + key.len - n, n);
    return &m->slot[(tail * 0x9E3779B97F4A7C15U) >> 56];
}

_Static_assert(DIGEST_CACHE_SLOTS == 1 << (64 - 56), "the place is the top bits of the product");

void digest_cache_get(struct digest_cache *m, struct span key, struct digest *out)
{
    if (key.len > DIGEST_CACHE_KEY_MAX) {
        digest_sha256(key, out);
        return;
    }
    const struct digest_cache_entry *kept = place_of(m, key);
    if (secret_equal(key_of(kept), key)) {
        *out = kept->digest;
        return;
    }
    digest_sha256(key, out);
    m->latest.len = (unsigned char)key.len;
    memcpy(m->latest.key, key.data, key.len);
    m->latest.digest = *out;
}

void digest_cache_put(struct digest_cache *m, const struct digest *digest)
{
    if (m->latest.len == 0 || memcmp(&m->latest.digest, digest, sizeof *digest) != 0)
        return;
    *place_of(m, key_of(&m->latest)) = m->latest;
    m->latest = (struct digest_cache_entry){0};
}

void digest_cache_fini(struct digest_cache *m)
{
    explicit_bzero(m, sizeof *m);
}
