/* Strict numbers: what is accepted can be written back byte for byte, and each limit has two sides. */
#include "base/text.h"

#include <errno.h>

#include "unit/check.h"

enum { UNTOUCHED = -4711 };

typedef int parser(struct span text, int64_t *out);

struct accepted {
    const char *text;
    int64_t value;
};

static void assert_accepted(parser *parse, const struct accepted *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = UNTOUCHED;
        int err = parse(span_of(cases[i].text), &value);
        if (err != 0 || value != cases[i].value)
            fail_msg("\"%s\": error %d, value %lld", cases[i].text, err, (long long)value);
    }
}

static void assert_refused(parser *parse, int expected, const char *text)
{
    int64_t value = UNTOUCHED;
    int err = parse(span_of(text), &value);
    if (err != expected || value != UNTOUCHED)
        fail_msg("\"%s\": error %d, value %lld", text, err, (long long)value);
}

static int parse_duration_ms(struct span text, int64_t *out)
{
    return parse_amount(text, &text_durations, out);
}

static int parse_size(struct span text, int64_t *out)
{
    return parse_amount(text, &text_sizes, out);
}

TEST_CASE(canonical_integers_are_parsed)
{
    static const struct accepted cases[] = {{"0", 0},
                                            {"1", 1},
                                            {"-1", -1},
                                            {"10", 10},
                                            {"-900", -900},
                                            {"9223372036854775806", INT64_MAX - 1},
                                            {"9223372036854775807", INT64_MAX},
                                            {"-9223372036854775807", INT64_MIN + 1},
                                            {"-9223372036854775808", INT64_MIN}};
    assert_accepted(parse_int64, cases, TEST_COUNT(cases));
}

TEST_CASE(other_spellings_are_invalid)
{
    EACH_TEXT (text, "", "-", "-0", "00", "007", "-007", "+1", "+", " 1", "1 ", "1.0", "1e3", "0x1", "1_000",
               "--1", "1-", "\t1", "1\n", "abc", "\xD9\xA1")
        assert_refused(parse_int64, -EINVAL, text);
}

TEST_CASE(one_beyond_each_end_is_out_of_range)
{
    EACH_TEXT (text, "9223372036854775808", "-9223372036854775809", "9223372036854775810",
               "18446744073709551615", "18446744073709551616", "99999999999999999999",
               "-99999999999999999999", "100000000000000000000000000000000000000")
        assert_refused(parse_int64, -ERANGE, text);
}

TEST_CASE(long_text_with_an_invalid_byte_is_invalid_not_out_of_range)
{
    EACH_TEXT (text, "99999999999999999999x", "x99999999999999999999")
        assert_refused(parse_int64, -EINVAL, text);
}

TEST_CASE(nul_byte_and_empty_text_are_invalid)
{
    int64_t value = UNTOUCHED;
    assert_int_equal(parse_int64(SPAN("1\0"), &value), -EINVAL);
    assert_int_equal(parse_int64(SPAN_ABSENT, &value), -EINVAL);
    assert_int_equal(parse_duration_ms(SPAN_ABSENT, &value), -EINVAL);
    assert_int_equal(parse_size(SPAN_ABSENT, &value), -EINVAL);
    assert_int_equal(value, UNTOUCHED);
}

TEST_CASE(only_the_given_bytes_are_read)
{
    int64_t value = 0;
    assert_int_equal(parse_int64((struct span){"123456", 3}, &value), 0);
    assert_int_equal(value, 123);
    assert_int_equal(parse_duration_ms((struct span){"5ms", 1}, &value), -EINVAL);
    assert_int_equal(parse_duration_ms((struct span){"5ms", 2}, &value), 0);
    assert_int_equal(value, 300000);
}

TEST_CASE(valid_integers_are_written_back_unchanged)
{
    uint64_t seed = 7;
    for (int i = 0; i < 10000; i++) {
        int64_t value = (int64_t)((uint64_t)check_random(&seed) << 32 | check_random(&seed));
        value >>= check_random(&seed) % 64;
        char digits[INT64_DIGITS_MAX];
        size_t n = format_int64(value, digits);
        int64_t again = 0;
        assert_int_equal(parse_int64((struct span){digits, n}, &again), 0);
        assert_int_equal(again, value);
    }
}

TEST_CASE(durations_are_milliseconds)
{
    static const struct accepted cases[] = {{"0", 0},
                                            {"0ms", 0},
                                            {"0s", 0},
                                            {"1ms", 1},
                                            {"500ms", 500},
                                            {"30s", 30000},
                                            {"2m", 120000},
                                            {"1h", 3600000},
                                            {"9223372036854775807ms", INT64_MAX},
                                            {"9223372036854775s", INT64_C(9223372036854775000)},
                                            {"153722867280912m", INT64_C(9223372036854720000)},
                                            {"2562047788015h", INT64_C(9223372036854000000)}};
    assert_accepted(parse_duration_ms, cases, TEST_COUNT(cases));
}

TEST_CASE(durations_need_a_number_and_a_unit)
{
    EACH_TEXT (text, "", "1", "00", "s", "ms", "-1s", "-0s", "+1s", "01s", " 1s", "1 s", "1s ", "1.5s", "1d",
               "1sec", "1S", "1M", "1MS", "1m1s", "1s\n")
        assert_refused(parse_duration_ms, -EINVAL, text);
}

TEST_CASE(durations_have_the_range_of_milliseconds)
{
    EACH_TEXT (text, "9223372036854775808ms", "9223372036854776s", "153722867280913m", "2562047788016h",
               "99999999999999999999s")
        assert_refused(parse_duration_ms, -ERANGE, text);
}

TEST_CASE(sizes_are_bytes_by_powers_of_1024_without_case)
{
    static const struct accepted cases[] = {{"0", 0},
                                            {"16384", 16384},
                                            {"1B", 1},
                                            {"1b", 1},
                                            {"1KiB", 1024},
                                            {"64MiB", 64 << 20},
                                            {"64mib", 64 << 20},
                                            {"64MIB", 64 << 20},
                                            {"2GiB", INT64_C(2) << 30},
                                            {"9223372036854775807", INT64_MAX},
                                            {"9007199254740991KiB", INT64_MAX - 1023},
                                            {"8796093022207MiB", INT64_MAX - ((1 << 20) - 1)},
                                            {"8589934591GiB", INT64_MAX - ((1 << 30) - 1)}};
    assert_accepted(parse_size, cases, TEST_COUNT(cases));
}

TEST_CASE(sizes_with_other_units_are_rejected)
{
    EACH_TEXT (text, "", "MiB", "-1", "+1", "01", "1K", "1M", "1KB", "1MB", "1 MiB", "1MiB ", "1.5MiB", "1Ki",
               "1TiB", "0x10", "1MiBs")
        assert_refused(parse_size, -EINVAL, text);
}

TEST_CASE(sizes_have_the_range_of_bytes)
{
    EACH_TEXT (text, "9223372036854775808", "9007199254740992KiB", "8796093022208MiB", "8589934592GiB")
        assert_refused(parse_size, -ERANGE, text);
}
