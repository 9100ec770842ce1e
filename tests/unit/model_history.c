/* The follower history: the latest ten days, ascending, whatever order and length the stored text has. */
#include "model/channel.h"

#include <errno.h>

#include "unit/check.h"

static void assert_history(const char *stored, const char *expected)
{
    SCOPED_BUF(out);
    assert_int_equal(history_write(&out, span_of(stored)), 0);
    assert_buf(&out, expected);
}

static void assert_invalid(struct span stored)
{
    SCOPED_BUF(out);
    buf_append_str(&out, "before");
    if (history_write(&out, stored) != -EINVAL)
        fail_msg("accepted: %.*s", (int)stored.len, stored.data);
    assert_buf(&out, "before");
}

/* Appends `"2026-<month>-<day>":<count>` with a comma before it when it is not the first. */
static void add_day(struct buf *out, int month, int day, int count)
{
    if (out->len > 1)
        buf_append_char(out, ',');
    buf_printf(out, "\"2026-%02d-%02d\":%d", month, day, count);
}

TEST_CASE(days_are_written_without_spaces_in_order)
{
    assert_history("{\"2026-11-21\": 5}", "{\"2026-11-21\":5}");
    assert_history("{ \"2026-11-21\" : 3 ,\n\"2026-11-20\" : 2, \"2025-12-31\": 1 }",
                   "{\"2025-12-31\":1,\"2026-11-20\":2,\"2026-11-21\":3}");
}

TEST_CASE(counts_keep_the_full_range)
{
    EACH_PAIR (text, expected,
               {"{\"2026-11-21\":9223372036854775807}", "{\"2026-11-21\":9223372036854775807}"},
               {"{\"2026-11-21\":-9223372036854775808}", "{\"2026-11-21\":-9223372036854775808}"},
               {"{\"2026-11-21\":0,\"2026-11-22\":-1}", "{\"2026-11-21\":0,\"2026-11-22\":-1}"},
               {"{\"2026-11-21\":9007199254740993}", "{\"2026-11-21\":9007199254740993}"})
        assert_history(text, expected);
}

TEST_CASE(counts_beyond_the_range_are_invalid)
{
    assert_invalid(SPAN("{\"2026-11-21\":9223372036854775808}"));
    assert_invalid(SPAN("{\"2026-11-21\":-9223372036854775809}"));
    assert_invalid(SPAN("{\"2026-11-21\":18446744073709551615}"));
    assert_invalid(SPAN("{\"2026-11-21\":18446744073709551616}"));
}

TEST_CASE(oldest_of_eleven_days_is_dropped)
{
    SCOPED_BUF(ten);
    SCOPED_BUF(eleven);
    buf_append_char(&ten, '{');
    buf_append_char(&eleven, '{');
    add_day(&eleven, 10, 31, 99);
    for (int day = 1; day <= HISTORY_DAYS_MAX; day++) {
        add_day(&ten, 11, day, day);
        add_day(&eleven, 11, day, day);
    }
    buf_append_char(&ten, '}');
    buf_append_char(&eleven, '}');
    assert_history(buf_c_str(&ten), buf_c_str(&ten));
    assert_history(buf_c_str(&eleven), buf_c_str(&ten));
}

TEST_CASE(latest_ten_are_found_in_any_order)
{
    enum { DAYS = 30 };
    SCOPED_BUF(expected);
    buf_append_char(&expected, '{');
    for (int day = DAYS - HISTORY_DAYS_MAX + 1; day <= DAYS; day++)
        add_day(&expected, 11, day, day);
    buf_append_char(&expected, '}');
    uint64_t seed = 11;
    for (int round = 0; round < 500; round++) {
        int order[DAYS] = {0};
        SCOPED_BUF(stored);
        buf_append_char(&stored, '{');
        for (int i = 0; i < DAYS; i++) { /* a shuffle, inside out */
            uint32_t j = check_random(&seed) % (uint32_t)(i + 1);
            order[i] = order[j];
            order[j] = i + 1;
        }
        for (int i = 0; i < DAYS; i++)
            add_day(&stored, 11, order[i], order[i]);
        buf_append_char(&stored, '}');
        assert_history(buf_c_str(&stored), buf_c_str(&expected));
    }
}

TEST_CASE(day_named_twice_counts_with_its_last_value)
{
    assert_history("{\"2026-11-21\":1,\"2026-11-21\":2}", "{\"2026-11-21\":2}");
    assert_history("{\"2026-11-21\":1,\"2026-11-20\":7,\"2026-11-21\":2}",
                   "{\"2026-11-20\":7,\"2026-11-21\":2}");
    SCOPED_BUF(stored);
    SCOPED_BUF(expected);
    buf_append_char(&stored, '{');
    buf_append_char(&expected, '{');
    for (int day = 1; day <= 10; day++) {
        add_day(&stored, 11, day, 0);
        add_day(&expected, 11, day, day);
    }
    for (int day = 10; day >= 1; day--) /* none may push out another */
        add_day(&stored, 11, day, day);
    buf_append_char(&stored, '}');
    buf_append_char(&expected, '}');
    assert_history(buf_c_str(&stored), buf_c_str(&expected));
}

TEST_CASE(other_json_types_are_invalid)
{
    EACH_TEXT (text, "", " ", "null", "[]", "12", "\"2026-11-21\"", "true", "[[\"2026-11-21\",1]]", "{", "}",
               "{]", "not json", "\"{}\"", "{,}", "{} {")
        assert_invalid(span_of(text));
    assert_invalid(SPAN_ABSENT);
}

TEST_CASE(broken_objects_are_invalid)
{
    static const char *const texts[] = {
        "{\"2026-11-21\":1,}",   "{\"2026-11-21\":1} x", "{\"2026-11-21\"}",    "{2026-11-21:1}",
        "{'2026-11-21':1}",      "{\"2026-11-21\":01}",  "{\"2026-11-21\":+1}", "{\"2026-11-21\":0x1}",
        "{\"2026-11-21\":1}{}",  "{\"2026-11-21\":1",    "\xEF\xBB\xBF{}",      "{\"2026-11-21\":1 /* */}",
        "{\"2026-11-2\xFF\":1}", "{\"2026-11-21\":NaN}",
    };
    for (size_t i = 0; i < TEST_COUNT(texts); i++)
        assert_invalid(span_of(texts[i]));
    assert_invalid(SPAN("{\"2026-11-21\":1}\0"));
}

TEST_CASE(values_must_be_integers)
{
    EACH_TEXT (text, "1.0", "1.5", "1e3", "\"1\"", "null", "true", "{}", "[]", "[1]", "{\"2026-11-20\":1}") {
        SCOPED_BUF(stored);
        buf_printf(&stored, "{\"2026-11-20\":7,\"2026-11-21\":%s}", text);
        assert_invalid(buf_span(&stored));
    }
}

TEST_CASE(names_must_be_dates)
{
    EACH_TEXT (text, "", "2026-11-31", "2026-02-29", "2026-11-21T00:00:00", "21.11.2026", "today",
               "2026-11-21 ", "2026-11-2", "2026-11-2\\u0031") {
        SCOPED_BUF(stored);
        buf_printf(&stored, "{\"2026-11-20\":7,\"%s\":1}", text);
        assert_invalid(buf_span(&stored));
    }
}

TEST_CASE(deep_nesting_is_invalid_and_harmless)
{
    enum { DEPTH = 100000 };
    SCOPED_BUF(stored);
    for (int i = 0; i < DEPTH; i++)
        buf_append_str(&stored, "{\"2026-11-21\":");
    assert_invalid(buf_span(&stored));
    buf_append_char(&stored, '1');
    for (int i = 0; i < DEPTH; i++)
        buf_append_char(&stored, '}');
    assert_invalid(buf_span(&stored));
}
