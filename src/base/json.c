/* JSON text writing; see json.h. Runs of bytes that need nothing done are copied whole. */
#include "base/json.h"

#include "base/utf8.h"

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

/* The length of the longest start of `s` that can be copied as it is. */
static size_t plain_run(struct span s)
{
    size_t n = 0;
    while (n < s.len) {
        unsigned char c = (unsigned char)s.data[n];
        if (is_plain(c)) {
            n++;
            continue;
        }
        if (c < 0x80)
            return n;
        int step = utf8_step(span_skip(s, n));
        if (step < 0)
            return n;
        n += (size_t)step;
    }
    return n;
}

void json_write_escaped(struct buf *out, struct span text)
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
    json_write_escaped(out, text);
    buf_append_char(out, '"');
}
