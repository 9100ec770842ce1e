/*
 * What compression costs and saves, by library and level.
 *
 *   compression FILE...
 *
 * Each file is a response body as channeld sends it. For every library and level, one line: the size of all
 * bodies, their size when each is coded by itself, and the processor time per body, mean and longest. The
 * longest is the least of several runs of each body, so that other processes on the machine do not count.
 */
#include "common.h"

#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

enum { RUNS = 15 };

struct body {
    char *data;
    size_t len;
};

struct codec {
    const char *name;
    int level;
    size_t (*code)(void *state, const struct body *in, char *out, size_t room);
    void *state;
};

static size_t code_zlib(void *state, const struct body *in, char *out, size_t room)
{
    z_stream *z = state;
    if (deflateReset(z) != Z_OK)
        die("zlib: reset");
    z->next_in = (Bytef *)in->data;
    z->avail_in = (uInt)in->len;
    z->next_out = (Bytef *)out;
    z->avail_out = (uInt)room;
    if (deflate(z, Z_FINISH) != Z_STREAM_END)
        die("zlib: no end");
    return room - z->avail_out;
}

static size_t code_libdeflate(void *state, const struct body *in, char *out, size_t room)
{
    return libdeflate_gzip_compress(state, in->data, in->len, out, room);
}

static size_t code_zstd(void *state, const struct body *in, char *out, size_t room)
{
    return ZSTD_compress2(state, out, room, in->data, in->len);
}

static void *zlib_new(int level)
{
    enum { GZIP_WINDOW = 15 + 16, MEMORY = 8 };
    z_stream *z = calloc(1, sizeof *z);
    if (z == NULL || deflateInit2(z, level, Z_DEFLATED, GZIP_WINDOW, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
        die("zlib: out of memory");
    return z;
}

static void *libdeflate_new(int level)
{
    void *c = libdeflate_alloc_compressor(level);
    if (c == NULL)
        die("libdeflate: out of memory");
    return c;
}

static void *zstd_new(int level)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    if (c == NULL || ZSTD_isError(ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level)))
        die("zstd: out of memory");
    return c;
}

/* The least time of the runs, in microseconds. */
static double measure(const struct codec *c, const struct body *in, char *out, size_t room, size_t *size)
{
    uint64_t best = UINT64_MAX;
    for (int run = 0; run < RUNS; run++) {
        uint64_t began = cpu_ns();
        *size = c->code(c->state, in, out, room);
        uint64_t taken = cpu_ns() - began;
        best = taken < best ? taken : best;
        if (*size == 0 || *size > room)
            die("%s %d: not coded", c->name, c->level);
    }
    return (double)best / 1000;
}

static void report(const struct codec *c, const struct body *bodies, int count, char *out, size_t room)
{
    size_t plain = 0;
    size_t coded = 0;
    double total = 0;
    double longest = 0;
    for (int i = 0; i < count; i++) {
        size_t size = 0;
        double us = measure(c, &bodies[i], out, room, &size);
        plain += bodies[i].len;
        coded += size;
        total += us;
        longest = us > longest ? us : longest;
    }
    printf("%-10s %5d %10zu %10zu %6.1f%% %10.1f %10.1f\n", c->name, c->level, plain, coded,
           100.0 * (double)coded / (double)plain, total / count, longest);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("usage: compression FILE...");
    int count = argc - 1;
    struct body *bodies = calloc((size_t)count, sizeof *bodies);
    if (bodies == NULL)
        die("out of memory");
    size_t room = 0;
    for (int i = 0; i < count; i++) {
        bodies[i].data = read_file(argv[i + 1], &bodies[i].len);
        room = bodies[i].len > room ? bodies[i].len : room;
    }
    room = 2 * room + 4096;
    char *out = malloc(room);
    if (out == NULL)
        die("out of memory");
    static const struct {
        const char *name;
        int from, to;
        void *(*make)(int level);
        size_t (*code)(void *state, const struct body *in, char *out, size_t room);
    } libraries[] = {
        {"zlib", 1, 9, zlib_new, code_zlib},
        {"libdeflate", 1, 12, libdeflate_new, code_libdeflate},
        {"zstd", 1, 12, zstd_new, code_zstd},
    };
    printf("%-10s %5s %10s %10s %7s %10s %10s\n", "library", "level", "bytes", "coded", "", "us/body",
           "longest us");
    for (size_t l = 0; l < sizeof libraries / sizeof libraries[0]; l++)
        for (int level = libraries[l].from; level <= libraries[l].to; level++)
            report(&(struct codec){libraries[l].name, level, libraries[l].code, libraries[l].make(level)},
                   bodies, count, out, room);
    return 0;
}
