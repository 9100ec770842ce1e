/* What the compressor writes is read by the libraries' decoders, byte for byte. */
#include "base/compress.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <zstd.h>

#include "support/text.h"
#include "unit/check.h"

enum { ROOM = 300 * 1024 };

static char out[ROOM];
static char decoded[ROOM];

static size_t decode(enum coding coding, size_t len)
{
    if (coding == CODING_ZSTD)
        return ZSTD_decompress(decoded, sizeof decoded, out, len);
    size_t n = 0;
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    assert_int_equal(libdeflate_gzip_decompress(d, out, len, decoded, sizeof decoded, &n),
                     LIBDEFLATE_SUCCESS);
    libdeflate_free_decompressor(d);
    return n;
}

static void expect_round_trip(struct compressor *c, struct span plain)
{
    for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++) {
        size_t len = compressor_run(c, coding, plain, out, sizeof out);
        assert_in_range(len, 1, sizeof out);
        assert_int_equal(decode(coding, len), plain.len);
        assert_memory_equal(decoded, plain.data, plain.len);
        assert_int_equal(compressor_run(c, coding, plain, out, len - 1), 0);
    }
}

TEST_CASE(coded_bodies_decode_to_the_same_bytes)
{
    struct compressor *c = compressor_new();
    uint64_t seed = 1;
    static char noise[100 * 1024];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)check_random(&seed);
    AUTOFREE char *text = text_fill("{\"success\":true,\"data\":[\"\xD0\xBF\xD1\x80\"]}", (size_t)200 * 1024);
    expect_round_trip(c, span_of(text));
    expect_round_trip(c, (struct span){noise, sizeof noise});
    expect_round_trip(c, SPAN("x"));
    expect_round_trip(c, span_of(text)); /* nothing is left of an earlier body */
    compressor_free(c);
    compressor_free(NULL);
}

TEST_CASE(repetitive_text_becomes_much_shorter)
{
    struct compressor *c = compressor_new();
    AUTOFREE char *text = text_fill("{\"success\":true}", (size_t)64 * 1024);
    for (enum coding coding = CODING_GZIP; coding < CODINGS; coding++)
        assert_in_range(compressor_run(c, coding, span_of(text), out, sizeof out), 1, 1000);
    compressor_free(c);
}
