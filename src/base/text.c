/* Numbers with their units, hexadecimal digits, names, percent-encoding, UTF-8; see text.h. */
#include "base/text.h"

#include <errno.h>

/* --- numbers --- */

struct unit {
    struct span name;
    int64_t factor;
};

/* Nineteen digits fit in uint64_t, but not always in int64_t. */
enum { DIGITS_MAX = 19 };

/* The range is checked after all digits: "99999999999999999999x" is not a number. */
int parse_int64(struct span text, int64_t *out)
{
    bool negative = text.len > 0 && text.data[0] == '-';
    struct span digits = negative ? span_skip(text, 1) : text;
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t value = 0;
    for (size_t i = 0; i < digits.len; i++) {
        unsigned digit = (unsigned)(unsigned char)digits.data[i] - '0';
        if (digit > 9)
            return -EINVAL;
        value = value * 10 + digit;
    }
    if (digits.len == 0 || (digits.data[0] == '0' && (digits.len > 1 || negative)))
        return -EINVAL;
    if (digits.len > DIGITS_MAX || value > limit)
        return -ERANGE;
    *out = (int64_t)(negative ? 0 - value : value);
    return 0;
}

typedef bool same_text(struct span a, struct span b);

static int text_parse_with_unit(struct span text, const struct unit *units, size_t count, same_text *same,
                                int64_t *out)
{
    size_t n = 0;
    while (n < text.len && ascii_is_digit(text.data[n]))
        n++;
    int64_t number = 0;
    int err = parse_int64((struct span){text.data, n}, &number);
    if (err != 0)
        return err;
    struct span name = span_skip(text, n);
    for (size_t i = 0; i < count; i++) {
        if (!same(name, units[i].name))
            continue;
        int64_t value = 0;
        if (__builtin_mul_overflow(number, units[i].factor, &value))
            return -ERANGE;
        *out = value;
        return 0;
    }
    return -EINVAL;
}

int parse_duration_ms(struct span text, int64_t *out)
{
    static const struct unit units[] = {
        {{"ms", 2}, 1}, {{"s", 1}, 1000}, {{"m", 1}, 60000}, {{"h", 1}, 3600000}};
    if (span_equal(text, SPAN("0"))) {
        *out = 0;
        return 0;
    }
    return text_parse_with_unit(text, units, sizeof units / sizeof units[0], span_equal, out);
}

int parse_size(struct span text, int64_t *out)
{
    static const struct unit units[] = {
        {{"", 0}, 1}, {{"b", 1}, 1}, {{"kib", 3}, 1 << 10}, {{"mib", 3}, 1 << 20}, {{"gib", 3}, 1 << 30}};
    return text_parse_with_unit(text, units, sizeof units / sizeof units[0], span_equal_nocase, out);
}

/* --- hexadecimal digits --- */

void hex_write(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

bool hex_valid(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!(ascii_is_digit(c) || (c >= 'a' && c <= 'f')))
            return false;
    }
    return true;
}

/* --- names --- */

bool name_valid(struct span text, size_t max)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!ascii_is_alnum(c) && c != '_' && c != '.' && c != '-')
            return false;
    }
    return text.len >= 1 && text.len <= max;
}

/* --- percent-encoding --- */

static int text_hex_value(char c)
{
    if (ascii_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Removes the first byte of `s`, which is not empty, and returns it decoded. */
static char text_decode_first(struct span *s)
{
    char c = s->data[0];
    if (c == '%' && s->len >= 3) {
        int high = text_hex_value(s->data[1]);
        int low = text_hex_value(s->data[2]);
        if (high >= 0 && low >= 0) {
            *s = span_skip(*s, 3);
            return (char)(high * 16 + low);
        }
    }
    *s = span_skip(*s, 1);
    return c;
}

size_t uri_decode(struct span in, char *out)
{
    size_t n = span_find(in, '%');
    if (n > 0)
        memmove(out, in.data, n);
    if (n == in.len)
        return n;
    in = span_skip(in, n);
    while (in.len > 0)
        out[n++] = text_decode_first(&in);
    return n;
}

size_t uri_find_encoded_slash(struct span s)
{
    size_t at = span_find(s, '%');
    while (at < s.len && (s.len - at < 3 || s.data[at + 1] != '2' || (s.data[at + 2] | 0x20) != 'f'))
        at += 1 + span_find(span_skip(s, at + 1), '%');
    return at;
}

bool uri_escapes_valid(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] != '%')
            continue;
        if (s.len - i < 3 || text_hex_value(s.data[i + 1]) < 0 || text_hex_value(s.data[i + 2]) < 0)
            return false;
    }
    return true;
}

/* Most names are sent without escapes. */
static bool text_decoded_equals(struct span encoded, struct span name)
{
    if (span_equal(encoded, name))
        return true;
    while (encoded.len > 0 && name.len > 0) {
        if (text_decode_first(&encoded) != name.data[0])
            return false;
        name = span_skip(name, 1);
    }
    return encoded.len == 0 && name.len == 0;
}

struct span uri_query_find(struct span query, struct span name)
{
    while (query.len > 0) {
        struct span pair = span_cut(&query, '&');
        size_t equals = span_find(pair, '=');
        if (!text_decoded_equals((struct span){pair.data, equals}, name))
            continue;
        return equals < pair.len ? span_skip(pair, equals + 1) : (struct span){pair.data + equals, 0};
    }
    return SPAN_ABSENT;
}

/* --- UTF-8 --- */

struct lead {
    int length;        /* bytes of the character; 0 when none starts with this byte */
    uint8_t low, high; /* bounds of the second byte */
};

static struct lead text_lead_of(uint8_t b)
{
    if (b < 0x80)
        return (struct lead){1, 0, 0};
    if (b < 0xC2)
        return (struct lead){0, 0, 0};
    if (b < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (b < 0xF0)
        return (struct lead){3, b == 0xE0 ? 0xA0 : 0x80, b == 0xED ? 0x9F : 0xBF};
    if (b < 0xF5)
        return (struct lead){4, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF};
    return (struct lead){0, 0, 0};
}

int utf8_step(struct span s)
{
    const uint8_t *p = (const uint8_t *)s.data;
    struct lead lead = text_lead_of(p[0]);
    if (lead.length <= 1)
        return lead.length == 1 ? 1 : -1;
    if (s.len < 2 || p[1] < lead.low || p[1] > lead.high)
        return -1;
    for (int i = 2; i < lead.length; i++)
        if ((size_t)i >= s.len || (p[i] & 0xC0) != 0x80)
            return -i;
    return lead.length;
}

bool utf8_valid(struct span s)
{
    while (s.len > 0) {
        int step = utf8_step(s);
        if (step < 0)
            return false;
        s = span_skip(s, (size_t)step);
    }
    return true;
}
