/* JSON text; see json.h. Runs of bytes that need no escape are copied whole. */
#include "base/json.h"

#include "base/text.h"

#include <stdint.h>

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

/*
 * True when all eight bytes are plain. The highest bit of a byte that is not is set in one of the four terms.
 * A subtraction borrows from the next byte only if this byte is not plain, so the result is the same.
 */
static bool is_plain_word(const char *at)
{
    const uint64_t each = 0x0101010101010101U;
    uint64_t word = span_word(at);
    uint64_t control = word - each * 0x20;
    uint64_t quote = (word ^ each * '"') - each;
    uint64_t solidus = (word ^ each * '\\') - each;
    return ((word | control | quote | solidus) & each * 0x80) == 0;
}

/* True for four characters of two bytes, U+0400 to U+07FF: all lead bytes from D0 to DF are valid. */
static bool is_cyrillic_word(const char *at)
{
    static const char bits[] = "\xF0\xC0\xF0\xC0\xF0\xC0\xF0\xC0";
    static const char values[] = "\xD0\x80\xD0\x80\xD0\x80\xD0\x80";
    return (span_word(at) & span_word(bits)) == span_word(values);
}

/* The length of the plain character that starts here, or 0. Two-byte characters, such as Cyrillic, are
 * checked here. */
static size_t plain_step(struct span s)
{
    unsigned char c = (unsigned char)s.data[0];
    if (c < 0x80)
        return is_plain(c);
    if (c >= 0xC2 && c < 0xE0)
        return s.len > 1 && ((unsigned char)s.data[1] & 0xC0) == 0x80 ? 2 : 0;
    int step = utf8_step(s);
    return step < 0 ? 0 : (size_t)step;
}

/* The length of the longest prefix of `s` that can be copied as it is. */
static size_t plain_run(struct span s)
{
    size_t n = 0;
    while (n < s.len) {
        bool ascii = (unsigned char)s.data[n] < 0x80;
        bool whole_word = s.len - n >= sizeof(uint64_t);
        if (whole_word && (ascii ? is_plain_word(s.data + n) : is_cyrillic_word(s.data + n))) {
            n += sizeof(uint64_t);
            continue;
        }
        size_t step = plain_step(span_skip(s, n));
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
