/* SHA-256 digests (FIPS 180-4) and their lower-case hexadecimal form; comparison of secrets. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include "base/hash.h"
#include "base/text.h"

enum { DIGEST_LEN = 32, DIGEST_HEX_LEN = 64 };

struct digest {
    unsigned char bytes[DIGEST_LEN];
};

/* Allocates nothing, and cannot fail. */
void digest_sha256(struct span bytes, struct digest *out);

void digest_hex(const struct digest *d, char out[DIGEST_HEX_LEN]);

/* Those of the digest of `bytes`, in `out`, or until the end of the block. */
#define DIGEST_HEX(...) digest_hex_of((__VA_ARGS__), (char[DIGEST_HEX_LEN]){""})
struct span digest_hex_of(struct span bytes, char out[DIGEST_HEX_LEN]);

/* For hash tables: the first bytes, which are random, with the seed. */
static inline uint64_t digest_hash(const struct digest *d, uint64_t seed)
{
    return hash_int64((int64_t)span_word((const char *)d->bytes), seed);
}

static inline bool digest_is_hex(struct span text)
{
    return text.len == DIGEST_HEX_LEN && hex_valid(text);
}

/* Parses 64 lower-case hexadecimal digits; false, with *out unchanged, for any other text. */
bool digest_from_hex(struct span text, struct digest *out);

/* span_equal in a time that depends only on the lengths. */
bool secret_equal(struct span a, struct span b);

#endif
