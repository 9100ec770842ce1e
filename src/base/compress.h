/*
 * Compression of a whole body in memory, as a content coding. The levels are for bodies that are compressed
 * once and sent many times (bench/compression).
 */
#ifndef BASE_COMPRESS_H
#define BASE_COMPRESS_H

#include "base/coding.h"

enum { COMPRESS_GZIP_LEVEL = 10, COMPRESS_ZSTD_LEVEL = 5 };

/* Writes `in` in `coding`, which is not identity, to `out`; needs some megabytes meanwhile. Returns the
 * number of bytes, or 0 when they are more than `room`, or out of memory. */
size_t compress_body(enum coding coding, struct span in, char *out, size_t room);

#endif
