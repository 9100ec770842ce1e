/* Dates: only those that exist, in the one spelling of the contract. */
#include "model/channel.h"

#include "unit/check.h"

/* Whether midnight of that day is a date-time. */
static bool date_valid(struct span date)
{
    char text[64];
    assert_true(date.len < sizeof text - sizeof "T00:00:00");
    int n = snprintf(text, sizeof text, "%.*sT00:00:00", (int)date.len, date.len == 0 ? "" : date.data);
    return datetime_valid((struct span){text, (size_t)n});
}

static void assert_validity(bool valid(struct span), bool expected, const char *text)
{
    if (valid(span_of(text)) != expected)
        fail_msg("\"%s\" is judged wrong", text);
}

TEST_CASE(dates_that_exist_are_valid)
{
    EACH_TEXT (text, "2026-11-21", "2026-01-01", "2026-12-31", "0000-01-01", "0001-01-01", "9999-12-31")
        assert_validity(date_valid, true, text);
}

TEST_CASE(each_month_ends_on_its_last_day)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (int month = 1; month <= 12; month++) {
        for (int day = 0; day <= 32; day++) {
            char text[32];
            (void)snprintf(text, sizeof text, "2026-%02d-%02d", month, day);
            assert_int_equal(date_valid(span_of(text)), day >= 1 && day <= days[month - 1]);
        }
    }
}

TEST_CASE(leap_years_follow_the_gregorian_rule)
{
    EACH_TEXT (text, "2024-02-29", "2000-02-29", "2400-02-29", "1600-02-29")
        assert_validity(date_valid, true, text);
    EACH_TEXT (text, "2023-02-29", "2025-02-29", "1900-02-29", "2100-02-29", "2024-02-30")
        assert_validity(date_valid, false, text);
}

TEST_CASE(other_spellings_are_invalid_dates)
{
    EACH_TEXT (text, "", "2026", "2026-11-2", "2026-11-211", "2026-1-21", "26-11-21", "2026/11/21",
               "2026-11/21", "20261121", "21-11-2026", "2026-00-21", "2026-13-21", "2026-11-00", "2026-11-31",
               "-026-11-21", "+026-11-21", "2026-+1-21", "2026- 1-21", "2026-11-2x", "x026-11-21",
               " 2026-11-2", "2026-11-21T", "2026-11-21 ")
        assert_validity(date_valid, false, text);
    assert_false(date_valid((struct span){"2026-11-21", 9}));
}

TEST_CASE(date_times_range_from_midnight_to_the_last_second)
{
    EACH_TEXT (text, "2026-11-21T10:06:06", "2026-11-21T00:00:00", "2026-11-21T23:59:59",
               "2024-02-29T12:00:00")
        assert_validity(datetime_valid, true, text);
}

TEST_CASE(other_spellings_are_invalid_date_times)
{
    EACH_TEXT (text, "", "2026-11-21", "2026-11-21T10:06", "2026-11-21T10:06:6", "2026-11-21T10:06:066",
               "2026-11-21T24:00:00", "2026-11-21T24:00:01", "2026-13-21T10:06:06", "2026-11-21T10:06:06\n",
               "2026-11-21T10:60:00", "2026-11-21T10:06:60", "2026-11-21T-1:06:06", "2026-11-21T10:-6:06",
               "2026-11-21 10:06:06", "2026-11-21t10:06:06", "2026-11-21T10.06.06", "2026-11-21T10:06.06",
               "2026-11-21T100606", "2026-11-21T10:06:06Z", "2026-11-21T10:06:06.000",
               "2026-11-21T10:06:06+03:00", "2026-02-29T10:06:06", "2026-11-31T10:06:06",
               "2026-11-21Tab:cd:ef", "0x26-11-21T10:06:06")
        assert_validity(datetime_valid, false, text);
    assert_false(datetime_valid(SPAN_ABSENT));
}

TEST_CASE(date_times_are_seconds_since_1970_in_utc)
{
    assert_int_equal(datetime_to_unix(SPAN("1970-01-01T00:00:00")), 0);
    assert_int_equal(datetime_to_unix(SPAN("1969-12-31T23:59:59")), -1);
    assert_int_equal(datetime_to_unix(SPAN("2000-03-01T00:00:00")), 951868800);
    assert_int_equal(datetime_to_unix(SPAN("2026-11-21T10:06:06")), 1795255566);
    assert_int_equal(datetime_to_unix(SPAN("9999-12-31T23:59:59")), 253402300799);
}
