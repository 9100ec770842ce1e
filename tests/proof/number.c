/* Numbers: parse_int64 against a definition of its own in 128 bits, and what format_int64 writes. */
#include "base/text.h"
#include "proof.h"

#include <errno.h>

/* 0, -EINVAL or -ERANGE, as text.h says it. */
static int int64_of(struct span text, __int128 *out)
{
    size_t first = text.len > 0 && text.data[0] == '-' ? 1 : 0;
    __int128 value = 0;
    for (size_t i = first; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return -EINVAL;
        value = value * 10 + (text.data[i] - '0');
    }
    if (text.len == first || (text.data[first] == '0' && text.len > 1))
        return -EINVAL;
    *out = first == 1 ? -value : value;
    return *out >= INT64_MIN && *out <= INT64_MAX ? 0 : -ERANGE;
}

static void check_int64(struct span text)
{
    int64_t before = nondet_int64();
    int64_t value = before;
    __int128 expected = before;
    int err = parse_int64(text, &value);
    assert(err == int64_of(text, &expected));
    assert(value == (err == 0 ? expected : before));
}

void int64(void)
{
    char bytes[6];
    check_int64(ANY_TEXT(bytes));
}

/* The ends of the range, and what is beyond them: INT64_MAX is 9223372036854775807. */
void int64_range(void)
{
    char bytes[21] = "-92233720368547758";
    struct span text = {bytes + 1, 17 + any_up_to(3)};
    bytes[18] = (char)nondet_size();
    bytes[19] = (char)nondet_size();
    bytes[20] = (char)nondet_size();
    if (nondet_bool())
        text = (struct span){bytes, text.len + 1};
    check_int64(text);
}

/* Longer than any number: whether it is none, or one that is too large. */
void int64_long(void)
{
    char bytes[24];
    struct span text = ANY_TEXT(bytes);
    int64_t value = 7;
    bool negative = text.len > 0 && text.data[0] == '-';
    bool digits = text.len > negative;
    for (size_t i = negative; i < text.len; i++)
        digits = digits && text.data[i] >= '0' && text.data[i] <= '9';
    bool canonical = digits && (text.data[negative] != '0' || text.len == 1);
    int err = parse_int64(text, &value);
    assert((err == -EINVAL) == !canonical);
    assert(err == 0 || value == 7);
    assert(!canonical || text.len - negative < 20 || err == -ERANGE);
}

/* What is written is canonical, and read as the same. */
void printed(void)
{
    char digits[INT64_DIGITS_MAX];
    int64_t again = 0;
    int64_t value = (int64_t)(nondet_size() & 0x3FFF);
    if (nondet_bool())
        value = -value;
    assert(parse_int64((struct span){digits, format_int64(value, digits)}, &again) == 0);
    assert(again == value);
}

static bool ends_with(struct span text, struct span end)
{
    return text.len >= end.len && span_equal(span_skip(text, text.len - end.len), end);
}

void duration(void)
{
    char bytes[4];
    struct span text = ANY_TEXT(bytes);
    int64_t ms = -1;
    if (parse_amount(text, &text_durations, &ms) != 0) {
        assert(ms == -1);
        return;
    }
    assert(ms >= 0 && ms <= 999 * INT64_C(3600000));
    assert(ms == 0 || ends_with(text, SPAN("s")) || ends_with(text, SPAN("m")) || ends_with(text, SPAN("h")));
    assert(!span_equal(text, SPAN("12ms")) || ms == 12);
    assert(!span_equal(text, SPAN("345s")) || ms == 345000);
    assert(!span_equal(text, SPAN("67m")) || ms == 67 * 60000);
    assert(!span_equal(text, SPAN("8h")) || ms == 8 * 3600000);
}

void size(void)
{
    char bytes[8];
    struct span text = ANY_TEXT(bytes);
    int64_t value = -1;
    if (parse_amount(text, &text_sizes, &value) != 0) {
        assert(value == -1);
        return;
    }
    assert(value >= 0 && text.data[0] >= '0' && text.data[0] <= '9');
    char last = text.data[text.len - 1];
    assert(last == 'B' || last == 'b' || (last >= '0' && last <= '9'));
}
