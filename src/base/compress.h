/*
 * Compression of a whole body in memory, as a content coding. The levels are for bodies that are compressed
 * once and sent many times (bench/compression).
 */
#ifndef BASE_COMPRESS_H
#define BASE_COMPRESS_H

#include "base/coding.h"

enum { COMPRESS_GZIP_LEVEL = 10, COMPRESS_ZSTD_LEVEL = 5 };

/* The state of both libraries; some megabytes once it was used. For one thread at a time. */
struct compressor;

/* Owned by the caller; NULL when out of memory. */
struct compressor *compressor_new(void);

/* Returns the memory to the system. NULL is allowed. */
void compressor_free(struct compressor *c);

/* Writes `in` in `coding`, which is not identity, to `out`. Returns the number of bytes, or 0 when they are
 * more than `room`, or out of memory. */
size_t compressor_run(struct compressor *c, enum coding coding, struct span in, char *out, size_t room);

#endif
