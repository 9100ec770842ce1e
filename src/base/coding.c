/* gzip by libdeflate, zstd by Zstandard; see coding.h. */
#include "base/coding.h"

#include <assert.h>
#include <libdeflate.h>
#include <zstd.h>

static size_t coding_compress_gzip(struct span in, char *out, size_t room)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(CODING_GZIP_LEVEL);
    size_t len = c == NULL ? 0 : libdeflate_gzip_compress(c, in.data, in.len, out, room);
    libdeflate_free_compressor(c);
    return len;
}

size_t coding_compress(enum coding coding, struct span in, char *out, size_t room)
{
    assert(coding == CODING_GZIP || coding == CODING_ZSTD);
    if (coding == CODING_GZIP)
        return coding_compress_gzip(in, out, room);
    size_t len = ZSTD_compress(out, room, in.data, in.len, CODING_ZSTD_LEVEL);
    return ZSTD_isError(len) != 0 ? 0 : len;
}
