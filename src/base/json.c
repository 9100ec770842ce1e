/* JSON text; see json.h. Runs of bytes that need no escape are copied whole. */
#include "base/json.h"

#include "base/text.h"

#ifdef __SSE2__
#include <emmintrin.h>
#else
#include <endian.h>
#endif

/* Most served bytes are text. By default the compiler makes calls of these, once per block. */
#define INLINE __attribute__((always_inline)) static inline

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

static void json_write_escape(struct buf *out, unsigned char c)
{
    static const char short_form[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (c == '"' || c == '\\') {
        buf_append(out, (char[]){'\\', (char)c}, 2);
        return;
    }
    if (c < sizeof short_form && short_form[c] != 0) {
        buf_append(out, (char[]){'\\', short_form[c]}, 2);
        return;
    }
    static const char digits[] = "0123456789abcdef";
    buf_append(out, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
}

/* The length of the character beyond ASCII that starts here, or 0. Not inline: it is rarely needed. */
__attribute__((noinline)) static size_t json_character(struct span s)
{
    int step = utf8_step(s);
    return step < 0 ? 0 : (size_t)step;
}

#ifdef __SSE2__

enum { BLOCK = sizeof(__m128i), BLOCK_BITS = (1 << BLOCK) - 1 };

/* Bytes as bits, the first byte's lowest. Those beyond ASCII are negative numbers. */
INLINE unsigned json_above(__m128i block, unsigned char c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpgt_epi8(block, _mm_set1_epi8((char)c)));
}

INLINE unsigned json_equal_to(__m128i block, unsigned char c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8((char)c)));
}

/* The bytes of characters of two and three bytes, without leads whose second byte has other bounds (Unicode,
 * table 3-7). */
INLINE unsigned json_find_characters(__m128i block)
{
    unsigned beyond_ascii = (unsigned)_mm_movemask_epi8(block);
    if (beyond_ascii == 0)
        return 0;
    unsigned continuation = beyond_ascii & ~json_above(block, 0xBF);
    unsigned long_lead = beyond_ascii & json_above(block, 0xDF);
    unsigned two = beyond_ascii & json_above(block, 0xC1) & ~long_lead & continuation >> 1;
    if (long_lead == 0)
        return two | two << 1;
    unsigned other = json_above(block, 0xEF) | json_equal_to(block, 0xE0) | json_equal_to(block, 0xED);
    unsigned three = long_lead & ~other & continuation >> 1 & continuation >> 2;
    return two | two << 1 | three | three << 1 | three << 2;
}

/* The length of plain characters at the start of the block. It tells nothing about the byte behind them, if
 * that is beyond ASCII. */
INLINE size_t json_plain_block(const char *at)
{
    __m128i block = _mm_loadu_si128((const __m128i *)(const void *)at);
    __m128i printable = _mm_cmpgt_epi8(block, _mm_set1_epi8(0x1F));
    __m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
    __m128i solidus = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
    unsigned ascii = (unsigned)_mm_movemask_epi8(_mm_andnot_si128(_mm_or_si128(quote, solidus), printable));
    if (ascii == BLOCK_BITS)
        return BLOCK;
    return (size_t)__builtin_ctz(~(ascii | json_find_characters(block)));
}

#else

enum { BLOCK = sizeof(uint64_t) };

/* The length of plain ASCII at the start of the block. Behind the first other byte a borrow may mark more. */
INLINE size_t json_plain_block(const char *at)
{
    const uint64_t ones = 0x0101010101010101;
    uint64_t block = 0;
    memcpy(&block, at, BLOCK);
    block = le64toh(block);
    uint64_t other =
        block | (block - ones * 0x20) | ((block ^ ones * '"') - ones) | ((block ^ ones * '\\') - ones);
    other &= ones << 7;
    return other == 0 ? BLOCK : (size_t)__builtin_ctzll(other) / 8;
}

#endif

/*
 * Copies a whole block: bytes that are not plain are overwritten later. Returns how many are plain, and
 * whether the next one is not.
 */
INLINE size_t json_copy_block(const char *block, struct span rest, char *out, bool *ended)
{
    memcpy(out, block, BLOCK);
    size_t plain = json_plain_block(block);
    *ended = plain < BLOCK && (unsigned char)block[plain] < 0x80;
    if (plain > 0 || *ended)
        return plain;
    plain = json_character(rest);
    *ended = plain == 0;
    return plain;
}

size_t json_copy_plain(struct span s, char *out)
{
    char last[BLOCK];
    bool ended = false;
    size_t n = 0;
    while (!ended && s.len - n >= BLOCK)
        n += json_copy_block(s.data + n, span_skip(s, n), out + n, &ended);
    /* The last block overlaps what was copied. It is not plain if it begins within a character. */
    if (!ended && s.len >= BLOCK && json_plain_block(s.data + s.len - BLOCK) == BLOCK) {
        memcpy(out + s.len - BLOCK, s.data + s.len - BLOCK, BLOCK);
        return s.len;
    }
    while (!ended && n < s.len) {
        memset(last, ' ', sizeof last);
        (void)span_put(span_skip(s, n), last);
        n += json_copy_block(last, span_skip(s, n), out + n, &ended);
    }
    return n < s.len ? n : s.len;
}

void json_write_text(struct buf *out, struct span text)
{
    while (text.len > 0) {
        if (buf_reserve(out, text.len + JSON_COPY_ROOM) != 0)
            return;
        size_t run = json_copy_plain(text, out->data + out->len);
        out->len += run;
        text = span_skip(text, run);
        if (text.len == 0)
            return;
        unsigned char c = (unsigned char)text.data[0];
        if (c < 0x80) {
            json_write_escape(out, c);
            text = span_skip(text, 1);
            continue;
        }
        buf_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
        text = span_skip(text, (size_t)-utf8_step(text));
    }
}
