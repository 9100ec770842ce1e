/* gzip by libdeflate, zstd by Zstandard; see compress.h. */
#include "base/compress.h"

#include "base/allocator.h"

#include <assert.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <zstd.h>

/* Each is created when it is first needed. */
struct compressor {
    struct libdeflate_compressor *gzip;
    ZSTD_CCtx *zstd;
};

struct compressor *compressor_new(void)
{
    return calloc(1, sizeof(struct compressor));
}

void compressor_free(struct compressor *c)
{
    if (c == NULL)
        return;
    libdeflate_free_compressor(c->gzip);
    (void)ZSTD_freeCCtx(c->zstd);
    free(c);
    allocator_trim();
}

static size_t compress_run_gzip(struct compressor *c, struct span in, char *out, size_t room)
{
    if (c->gzip == NULL)
        c->gzip = libdeflate_alloc_compressor(COMPRESS_GZIP_LEVEL);
    return c->gzip == NULL ? 0 : libdeflate_gzip_compress(c->gzip, in.data, in.len, out, room);
}

static size_t compress_run_zstd(struct compressor *c, struct span in, char *out, size_t room)
{
    if (c->zstd == NULL)
        c->zstd = ZSTD_createCCtx();
    if (c->zstd == NULL)
        return 0;
    size_t len = ZSTD_compressCCtx(c->zstd, out, room, in.data, in.len, COMPRESS_ZSTD_LEVEL);
    return ZSTD_isError(len) != 0 ? 0 : len;
}

size_t compressor_run(struct compressor *c, enum coding coding, struct span in, char *out, size_t room)
{
    assert(coding == CODING_GZIP || coding == CODING_ZSTD);
    return coding == CODING_GZIP ? compress_run_gzip(c, in, out, room) : compress_run_zstd(c, in, out, room);
}
