/* Strict parsers of numbers, durations and sizes; see parse.h. */
#include "base/parse.h"

#include <errno.h>

struct unit {
    struct span name;
    int64_t factor;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

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

static int parse_with_unit(struct span text, const struct unit *units, size_t count, same_text *same,
                           int64_t *out)
{
    size_t n = 0;
    while (n < text.len && is_digit(text.data[n]))
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
    return parse_with_unit(text, units, sizeof units / sizeof units[0], span_equal, out);
}

int parse_size(struct span text, int64_t *out)
{
    static const struct unit units[] = {
        {{"", 0}, 1}, {{"b", 1}, 1}, {{"kib", 3}, 1 << 10}, {{"mib", 3}, 1 << 20}, {{"gib", 3}, 1 << 30}};
    return parse_with_unit(text, units, sizeof units / sizeof units[0], span_equal_nocase, out);
}
