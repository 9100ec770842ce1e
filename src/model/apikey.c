/* Key generation; see apikey.h. */
#include "model/apikey.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

enum { KEY_BYTES = 32 };

static int random_bytes(unsigned char *out, size_t n)
{
    while (n > 0) {
        ssize_t got = getrandom(out, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EIO;
        out += got;
        n -= (size_t)got;
    }
    return 0;
}

static void base64url(const unsigned char *in, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    int held = 0;
    for (size_t i = 0; i < n; i++) {
        bits = bits << 8 | in[i];
        held += 8;
        while (held >= 6) {
            held -= 6;
            *out++ = digits[bits >> held & 63];
        }
    }
    if (held > 0)
        *out = digits[bits << (6 - held) & 63];
}

int apikey_generate(char out[APIKEY_LEN])
{
    unsigned char raw[KEY_BYTES];
    int err = random_bytes(raw, sizeof raw);
    if (err != 0)
        return err;
    memcpy(out, "ck_", 3);
    base64url(raw, sizeof raw, out + 3);
    explicit_bzero(raw, sizeof raw);
    return 0;
}
