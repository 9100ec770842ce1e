/* The content codings of response bodies (RFC 9110 section 8.4.1, zstd: RFC 9659). */
#ifndef BASE_CODING_H
#define BASE_CODING_H

#include "base/span.h"

/* In order of preference, the worst first. */
enum coding { CODING_IDENTITY, CODING_GZIP, CODING_ZSTD, CODINGS };

/* The registered name, constant. All but identity's have CODING_NAME_LEN characters. */
enum { CODING_NAME_LEN = 4 };

static inline struct span coding_name(enum coding coding)
{
    static const struct span names[CODINGS] = {
        [CODING_IDENTITY] = {"identity", 8},
        [CODING_GZIP] = {"gzip", CODING_NAME_LEN},
        [CODING_ZSTD] = {"zstd", CODING_NAME_LEN},
    };
    return names[coding];
}

/* The levels are for bodies that are compressed once and sent many times (bench/compression). */
enum { CODING_GZIP_LEVEL = 10, CODING_ZSTD_LEVEL = 5 };

/* Writes a whole body `in` in `coding`, which is not identity, to `out`; needs some megabytes meanwhile.
 * Returns the number of bytes, or 0 when they are more than `room`, or out of memory. */
size_t coding_compress(enum coding coding, struct span in, char *out, size_t room);

#endif
