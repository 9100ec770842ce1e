/* Date: the shape of an IMF-fixdate, the present second, and no work within a second. */
#include "http/date.h"

#include <locale.h>

#include "unit/check.h"

TEST(it_tells_the_present_in_the_one_shape_that_is_sent)
{
    struct http_date d = {0};
    time_t before = time(NULL);
    http_date_refresh(&d);
    time_t after = time(NULL);
    assert_int_equal(http_date_span(&d).len, HTTP_DATE_LEN);
    assert_int_equal(strlen(d.text), HTTP_DATE_LEN);
    struct tm tm = {0};
    const char *rest = strptime(d.text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    assert_non_null(rest);
    assert_int_equal(*rest, '\0');
    time_t told = timegm(&tm);
    assert_true(told >= before && told <= after);
    assert_true(d.second == told);
}

TEST(names_stay_english_whatever_the_locale)
{
    (void)setlocale(LC_ALL,
                    "ru_RU.UTF-8"); /* where there is no such locale nothing is proved, and nothing breaks */
    struct http_date d = {0};
    http_date_refresh(&d);
    for (size_t i = 0; i < HTTP_DATE_LEN; i++)
        assert_true((unsigned char)d.text[i] < 0x80);
    (void)setlocale(LC_ALL, "C");
}

TEST(within_a_second_nothing_changes_and_in_the_next_it_does)
{
    struct http_date d = {0};
    http_date_refresh(&d);
    d.text[0] = '?';
    time_t second = d.second;
    http_date_refresh(&d);
    if (d.second == second)
        assert_int_equal(d.text[0], '?');
    d.second = second - 1; /* as if it was made in the second before */
    http_date_refresh(&d);
    assert_true(d.second >= second);
    assert_int_not_equal(d.text[0], '?');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_tells_the_present_in_the_one_shape_that_is_sent),
        cmocka_unit_test(names_stay_english_whatever_the_locale),
        cmocka_unit_test(within_a_second_nothing_changes_and_in_the_next_it_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
