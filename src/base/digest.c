/* SHA-256 by OpenSSL; see digest.h. */
#include "base/digest.h"

#include "base/hex.h"

#include <errno.h>
#include <openssl/sha.h>

int digest_sha256(struct span bytes, struct digest *out)
{
    static const unsigned char nothing[1];
    const unsigned char *data = bytes.len == 0 ? nothing : (const unsigned char *)bytes.data;
    return SHA256(data, bytes.len, out->bytes) == NULL ? -ENOMEM : 0;
}

void digest_hex_prefix(const struct digest *d, char *out, size_t n)
{
    char hex[DIGEST_HEX_LEN];
    digest_hex(d, hex);
    memcpy(out, hex, n);
}

void digest_hex(const struct digest *d, char out[DIGEST_HEX_LEN])
{
    hex_write(d->bytes, sizeof d->bytes, out);
}

bool digest_is_hex(struct span text)
{
    return text.len == DIGEST_HEX_LEN && hex_valid(text);
}

static unsigned char digit_value(char c)
{
    return (unsigned char)(c <= '9' ? c - '0' : c - 'a' + 10);
}

bool digest_from_hex(struct span text, struct digest *out)
{
    if (!digest_is_hex(text))
        return false;
    for (size_t i = 0; i < DIGEST_LEN; i++)
        out->bytes[i] =
            (unsigned char)(digit_value(text.data[2 * i]) << 4 | digit_value(text.data[2 * i + 1]));
    return true;
}
