/* JSON text; see json.h. Runs of bytes that need no escape are copied whole. */
#include "base/json.h"

#include "base/text.h"

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Most served bytes are text. By default the compiler makes calls of these, once per block. */
#define INLINE __attribute__((always_inline)) static inline

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

static bool json_is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

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

/* The length of the plain character that starts here, or 0. */
static size_t json_plain_step(struct span s)
{
    unsigned char c = (unsigned char)s.data[0];
    if (c < 0x80)
        return json_is_plain(c);
    int step = utf8_step(s);
    return step < 0 ? 0 : (size_t)step;
}

#ifdef __SSE2__

enum { BLOCK = sizeof(__m128i), BLOCK_BITS = (1 << BLOCK) - 1 };

/* One bit per byte of the block, the first byte's lowest. */
static inline unsigned json_equal_to(__m128i block, unsigned char c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8((char)c)));
}

/* The bytes from 0x80 to `c` - 1: those beyond ASCII are negative numbers. */
static inline unsigned json_below(__m128i block, unsigned char c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmplt_epi8(block, _mm_set1_epi8((char)c)));
}

static inline unsigned json_find_plain_ascii(__m128i block)
{
    __m128i printable = _mm_cmpgt_epi8(block, _mm_set1_epi8(0x1F));
    __m128i quote = _mm_cmpeq_epi8(block, _mm_set1_epi8('"'));
    __m128i solidus = _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'));
    return (unsigned)_mm_movemask_epi8(_mm_andnot_si128(_mm_or_si128(quote, solidus), printable));
}

/* Second bytes that no character of three or four bytes with this lead has, and bytes that are no lead. */
INLINE unsigned json_find_wrong_long(__m128i block, unsigned lead_4)
{
    unsigned below_a0 = json_below(block, 0xA0);
    unsigned wrong =
        (json_equal_to(block, 0xE0) << 1 & below_a0) | (json_equal_to(block, 0xED) << 1 & ~below_a0);
    if (lead_4 == 0)
        return wrong;
    unsigned below_90 = json_below(block, 0x90);
    wrong |= (json_equal_to(block, 0xF0) << 1 & below_90) | (json_equal_to(block, 0xF4) << 1 & ~below_90);
    return wrong | (lead_4 & ~json_below(block, 0xF5));
}

/*
 * The number of bytes at the start of the block up to the end of its last complete character, when those
 * beyond ASCII are well-formed UTF-8 (Unicode, table 3-7); otherwise 0. `beyond_ascii` has no bits for bytes
 * that are to be skipped.
 */
INLINE unsigned json_well_formed(__m128i block, unsigned beyond_ascii)
{
    unsigned lead = beyond_ascii & ~json_below(block, 0xC2);
    unsigned continuation = beyond_ascii & json_below(block, 0xC0);
    unsigned lead_3 = beyond_ascii & ~json_below(block, 0xE0);
    unsigned expected = lead << 1;
    unsigned wrong = beyond_ascii ^ (lead | continuation);
    if (lead_3 != 0) {
        unsigned lead_4 = beyond_ascii & ~json_below(block, 0xF0);
        expected |= lead_3 << 2 | lead_4 << 3;
        wrong |= json_find_wrong_long(block, lead_4) & beyond_ascii;
    }
    wrong |= (expected & BLOCK_BITS) ^ continuation;
    if (wrong != 0)
        return 0;
    return expected > BLOCK_BITS ? 31U - (unsigned)__builtin_clz(lead) : (unsigned)BLOCK;
}

/* The length of the plain characters in a block after the first `skip` bytes; 0 tells nothing about the
 * first. */
INLINE size_t json_plain_block(const char *at, unsigned skip)
{
    __m128i block = _mm_loadu_si128((const __m128i *)(const void *)at);
    unsigned special = (json_find_plain_ascii(block) ^ BLOCK_BITS) >> skip << skip;
    if (special == 0)
        return BLOCK - skip;
    unsigned beyond_ascii = (unsigned)_mm_movemask_epi8(block) & special;
    unsigned escapes = special ^ beyond_ascii;
    unsigned end = beyond_ascii == 0 ? (unsigned)BLOCK : json_well_formed(block, beyond_ascii);
    unsigned first_escape = (unsigned)__builtin_ctz(escapes | 1U << BLOCK);
    unsigned plain = first_escape < end ? first_escape : end;
    return plain > skip ? plain - skip : 0;
}

#else

enum { BLOCK = sizeof(uint64_t) };

/*
 * All bytes of the block but the first `skip`, or 0. The highest bit of a byte that is not plain ASCII is set
 * in one of the four terms. A subtraction borrows from the next byte only if this byte is not plain, so the
 * result is the same.
 */
INLINE size_t json_plain_block(const char *at, unsigned skip)
{
    const uint64_t each = 0x0101010101010101U;
    uint64_t word = span_word(at);
    uint64_t control = word - each * 0x20;
    uint64_t quote = (word ^ each * '"') - each;
    uint64_t solidus = (word ^ each * '\\') - each;
    return ((word | control | quote | solidus) & each * 0x80) == 0 ? BLOCK - skip : 0;
}

#endif

/* Not inline: the compiler would compute all of it in the loop below, also for blocks of plain ASCII. */
__attribute__((noinline)) static size_t json_plain_last_block(const char *at, size_t skip)
{
    return json_plain_block(at, (unsigned)skip);
}

/* The length of the plain prefix of `s`, of which `n` bytes are known; the others are in the block, which
 * begins with the byte `first`. */
static size_t json_plain_end(struct span s, size_t n, const char *block, size_t first)
{
    size_t step = 1;
    for (; step > 0 && n < s.len; n += step) {
        step = json_plain_last_block(block, n - first);
        if (step == 0)
            step = json_plain_step(span_skip(s, n));
    }
    return n < s.len ? n : s.len;
}

static size_t json_copy_short(struct span s, char *out)
{
    char block[BLOCK];
    memset(block, ' ', sizeof block);
    (void)span_put(s, block);
    memcpy(out, block, sizeof block);
    return json_plain_end(s, 0, block, 0);
}

/* Blocks are copied whole; bytes that are not plain are overwritten later. The last block ends where the text
 * does. */
size_t json_copy_plain(struct span s, char *out)
{
    if (s.len < BLOCK)
        return json_copy_short(s, out);
    size_t n = 0;
    size_t last = s.len - BLOCK;
    while (n <= last) {
        memcpy(out + n, s.data + n, BLOCK);
        size_t step = json_plain_block(s.data + n, 0);
        if (step == 0)
            step = json_plain_step(span_skip(s, n));
        if (step == 0)
            return n;
        n += step;
    }
    memcpy(out + last, s.data + last, BLOCK);
    return json_plain_end(s, n, s.data + last, last);
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
