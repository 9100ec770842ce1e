/* JSON text; see json.h. Runs of bytes that need no escape are copied whole. */
#include "base/json.h"

#include "base/text.h"

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static void write_escape(struct buf *out, unsigned char c)
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

/* The length of the plain character that starts here, or 0. */
static size_t plain_step(struct span s)
{
    unsigned char c = (unsigned char)s.data[0];
    if (c < 0x80)
        return is_plain(c);
    int step = utf8_step(s);
    return step < 0 ? 0 : (size_t)step;
}

#ifdef __SSE2__

enum { BLOCK = sizeof(__m128i) };

/* One bit per byte of the block, the first byte's lowest. `greater_than` compares signed numbers. */
static inline unsigned equal_to(__m128i block, unsigned char c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8((char)c)));
}

static inline unsigned greater_than(__m128i block, unsigned char c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpgt_epi8(block, _mm_set1_epi8((char)c)));
}

/* The ASCII characters that need an escape. */
static inline unsigned find_escapes(__m128i block)
{
    __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(0x1F)), block);
    __m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
    __m128i solidus = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, solidus)));
}

/*
 * The length of the complete characters at the start of the block when all of them are well-formed UTF-8
 * (Unicode, table 3-7); otherwise 0.
 */
static inline unsigned well_formed(__m128i block, unsigned beyond_ascii)
{
    unsigned lead = greater_than(block, 0xBF) & beyond_ascii;
    unsigned lead_3 = greater_than(block, 0xDF) & beyond_ascii;
    unsigned lead_4 = lead_3 == 0 ? 0 : greater_than(block, 0xEF) & beyond_ascii;
    unsigned incomplete = (lead & 0x8000) | (lead_3 & 0xC000) | (lead_4 & 0xE000);
    unsigned length = incomplete == 0 ? (unsigned)BLOCK : (unsigned)__builtin_ctz(incomplete);
    unsigned complete = (1U << length) - 1;
    unsigned continuation = beyond_ascii & ~lead & complete;
    unsigned expected = (lead & complete) << 1 | (lead_3 & complete) << 2 | (lead_4 & complete) << 3;
    unsigned wrong = (expected ^ continuation) | (lead & ~greater_than(block, 0xC1));
    if (lead_3 != 0) {
        unsigned from_a0 = greater_than(block, 0x9F);
        wrong |=
            complete & ((equal_to(block, 0xE0) << 1 & ~from_a0) | (equal_to(block, 0xED) << 1 & from_a0));
    }
    if (lead_4 != 0) {
        unsigned from_90 = greater_than(block, 0x8F);
        wrong |=
            complete & ((equal_to(block, 0xF0) << 1 & ~from_90) | (equal_to(block, 0xF4) << 1 & from_90));
        wrong |= lead & greater_than(block, 0xF4);
    }
    return wrong == 0 ? length : 0;
}

/* The length of the plain characters at the start of the block; 0 tells nothing about the first of them. */
static inline size_t plain_block(const char *at)
{
    __m128i block = _mm_loadu_si128((const __m128i *)(const void *)at);
    unsigned beyond_ascii = (unsigned)_mm_movemask_epi8(block);
    unsigned escapes = find_escapes(block);
    if ((escapes | beyond_ascii) == 0)
        return BLOCK;
    unsigned length = beyond_ascii == 0 ? (unsigned)BLOCK : well_formed(block, beyond_ascii);
    unsigned first_escape = escapes != 0 ? (unsigned)__builtin_ctz(escapes) : (unsigned)BLOCK;
    return first_escape < length ? first_escape : length;
}

#else

enum { BLOCK = sizeof(uint64_t) };

/*
 * All bytes of the block, or 0. The highest bit of a byte that is not plain ASCII is set in one of the four
 * terms. A subtraction borrows from the next byte only if this byte is not plain, so the result is the same.
 */
static inline size_t plain_block(const char *at)
{
    const uint64_t each = 0x0101010101010101U;
    uint64_t word = span_word(at);
    uint64_t control = word - each * 0x20;
    uint64_t quote = (word ^ each * '"') - each;
    uint64_t solidus = (word ^ each * '\\') - each;
    return ((word | control | quote | solidus) & each * 0x80) == 0 ? BLOCK : 0;
}

#endif

/* The same for the end of a text, which is shorter than a block. */
static inline size_t plain_rest(struct span rest)
{
    char block[BLOCK];
    memset(block, ' ', sizeof block);
    (void)span_put(rest, block);
    size_t plain = plain_block(block);
    return plain < rest.len ? plain : rest.len;
}

/* The length of the longest prefix of `s` that can be copied as it is. */
static size_t plain_run(struct span s)
{
    size_t n = 0;
    while (n < s.len) {
        struct span rest = span_skip(s, n);
        size_t step = rest.len >= BLOCK ? plain_block(rest.data) : plain_rest(rest);
        if (step == 0)
            step = plain_step(rest);
        if (step == 0)
            return n;
        n += step;
    }
    return n;
}

bool json_is_plain(struct span text)
{
    return plain_run(text) == text.len;
}

/* `text` as the characters of a JSON string, without quotation marks. */
static void write_escaped(struct buf *out, struct span text)
{
    while (text.len > 0) {
        size_t run = plain_run(text);
        buf_append(out, text.data, run);
        text = span_skip(text, run);
        if (text.len == 0)
            return;
        unsigned char c = (unsigned char)text.data[0];
        if (c < 0x80) {
            write_escape(out, c);
            text = span_skip(text, 1);
            continue;
        }
        buf_append(out, REPLACEMENT, sizeof REPLACEMENT - 1);
        text = span_skip(text, (size_t)-utf8_step(text));
    }
}

void json_write_string(struct buf *out, struct span text)
{
    buf_append_char(out, '"');
    write_escaped(out, text);
    buf_append_char(out, '"');
}
