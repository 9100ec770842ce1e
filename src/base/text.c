/* Numbers with their units, hexadecimal digits, names, percent-encoding, UTF-8; see text.h. */
#include "base/text.h"

#include <errno.h>
#include <time.h>

/* --- numbers --- */

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

const struct units text_counts = {span_equal, {{{"", 0}, 1}}};

const struct units text_sizes = {
    span_equal_nocase,
    {{{"GiB", 3}, 1 << 30}, {{"MiB", 3}, 1 << 20}, {{"KiB", 3}, 1 << 10}, {{"", 0}, 1}, {{"B", 1}, 1}}};

const struct units text_durations = {
    span_equal, {{{"h", 1}, 3600000}, {{"m", 1}, 60000}, {{"s", 1}, 1000}, {{"ms", 2}, 1}}};

int parse_amount(struct span text, const struct units *units, int64_t *out)
{
    size_t n = 0;
    while (n < text.len && ascii_is_digit(text.data[n]))
        n++;
    const struct span name = span_skip(text, n);
    const struct unit *unit = units->unit;
    while (unit->factor != 0 && !units->is_same(name, unit->name))
        unit++;
    int64_t number = 0;
    int64_t value = 0;
    int err = parse_int64((struct span){text.data, n}, &number);
    if (err != 0)
        return err;
    if (unit->factor == 0 && (number != 0 || name.len > 0))
        return -EINVAL;
    if (__builtin_mul_overflow(number, unit->factor, &value))
        return -ERANGE;
    *out = value;
    return 0;
}

struct span unit_of(const struct units *units, int64_t *value)
{
    const struct unit *unit = units->unit;
    if (*value == 0)
        return SPAN("");
    while (*value % unit->factor != 0)
        unit++;
    *value /= unit->factor;
    return unit->name;
}

/* --- times --- */

void utc_write(int64_t seconds, char out[UTC_LEN + 1])
{
    struct tm tm = {0};
    time_t at = (time_t)seconds;
    (void)gmtime_r(&at, &tm);
    (void)strftime(out, UTC_LEN + 1, "%4Y-%m-%dT%H:%M:%S", &tm);
}

/* --- schemes; hosts with ports --- */

const struct web_scheme *web_scheme_of(struct span url)
{
    static const struct web_scheme schemes[] = {{{"https://", 8}, {"443", 3}}, {{"http://", 7}, {"80", 2}}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (url.len >= schemes[i].start.len &&
            strncasecmp(url.data, schemes[i].start.data, schemes[i].start.len) == 0)
            return &schemes[i];
    return NULL;
}

bool authority_split(struct span text, struct authority *out)
{
    size_t begin = text.len > 0 && text.data[0] == '[';
    size_t end = span_find(text, begin > 0 ? ']' : ':');
    size_t colon = end + begin;
    if (colon > text.len || (colon < text.len && text.data[colon] != ':'))
        return false;
    out->host = (struct span){text.data + begin, end - begin};
    out->port = colon < text.len ? span_skip(text, colon + 1) : SPAN_ABSENT;
    out->bracketed = begin > 0;
    return true;
}

/* --- hexadecimal digits --- */

int hex_digit(char c)
{
    if (ascii_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

void hex_write(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

static bool text_is_hex(char c)
{
    return ascii_is_digit(c) || (c >= 'a' && c <= 'f');
}

bool hex_valid(struct span text)
{
    return span_all(text, text_is_hex);
}

/* --- names --- */

static bool text_is_of_name(char c)
{
    return ascii_is_alnum(c) || c == '_' || c == '.' || c == '-';
}

bool name_valid(struct span text, size_t max)
{
    return text.len >= 1 && text.len <= max && span_all(text, text_is_of_name);
}

/* --- percent-encoding --- */

/* Removes the first byte of `s`, which is not empty, and returns it decoded. */
static char text_decode_first(struct span *s)
{
    char c = s->data[0];
    if (c == '%' && s->len >= 3) {
        int high = hex_digit(s->data[1]);
        int low = hex_digit(s->data[2]);
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
    while ((s = span_skip(s, span_find(s, '%'))).len > 0) {
        if (s.len < 3 || hex_digit(s.data[1]) < 0 || hex_digit(s.data[2]) < 0)
            return false;
        s = span_skip(s, 3);
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

/* `c` begins a character of `length` bytes. The second byte has other bounds in some of them. */
int utf8_step(struct span s)
{
    const uint8_t *p = (const uint8_t *)s.data;
    uint8_t c = p[0];
    if (c < 0x80)
        return 1;
    int length = c < 0xC2 || c > 0xF4 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    uint8_t low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    uint8_t high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (length == 0 || s.len < 2 || p[1] < low || p[1] > high)
        return -1;
    for (int i = 2; i < length; i++)
        if ((size_t)i >= s.len || (p[i] & 0xC0) != 0x80)
            return -i;
    return length;
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
