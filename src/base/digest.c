/* SHA-256 by OpenSSL; see digest.h. The deprecated functions work in place. Their replacement in OpenSSL 3
 * allocates on each call, and crashes when memory runs out. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/digest.h"

#include <openssl/sha.h>

void digest_sha256(struct span bytes, struct digest *out)
{
    SHA256_CTX context;
    (void)SHA256_Init(&context); /* none of these can fail */
    (void)SHA256_Update(&context, bytes.data, bytes.len);
    (void)SHA256_Final(out->bytes, &context);
    explicit_bzero(&context, sizeof context);
}

void digest_hex(const struct digest *d, char out[DIGEST_HEX_LEN])
{
    hex_write(d->bytes, sizeof d->bytes, out);
}

struct span digest_hex_of(struct span bytes, char out[DIGEST_HEX_LEN])
{
    struct digest digest;
    digest_sha256(bytes, &digest);
    digest_hex(&digest, out);
    return (struct span){out, DIGEST_HEX_LEN};
}

bool digest_from_hex(struct span text, struct digest *out)
{
    if (!digest_is_hex(text))
        return false;
    for (size_t i = 0; i < DIGEST_LEN; i++)
        out->bytes[i] = (unsigned char)(hex_digit(text.data[2 * i]) << 4 | hex_digit(text.data[2 * i + 1]));
    return true;
}

bool secret_equal(struct span a, struct span b)
{
    if (a.len != b.len)
        return false;
    uint64_t difference = 0;
    if (a.len < sizeof difference) {
        for (size_t i = 0; i < a.len; i++)
            difference |= (uint64_t)(unsigned char)(a.data[i] ^ b.data[i]);
        return difference == 0;
    }
    size_t last = a.len - sizeof difference; /* the last word overlaps the one before it */
    for (size_t i = 0; i < last; i += sizeof difference)
        difference |= span_word(a.data + i) ^ span_word(b.data + i);
    return (difference | (span_word(a.data + last) ^ span_word(b.data + last))) == 0;
}
