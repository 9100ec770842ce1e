/* Spans: absent is not empty, and no function reads what does not belong to it. */
#include "base/span.h"

#include "unit/check.h"

TEST_CASE(absent_is_not_empty)
{
    assert_null(SPAN_ABSENT.data);
    assert_non_null(SPAN("").data);
    assert_int_equal(SPAN("").len, 0);
}

TEST_CASE(equality_is_by_length_and_bytes)
{
    assert_true(span_equal(SPAN("abc"), SPAN("abc")));
    assert_true(span_equal(SPAN("a\0b"), SPAN("a\0b")));
    assert_false(span_equal(SPAN("a\0b"), SPAN("a\0c")));
    assert_false(span_equal(SPAN("abc"), SPAN("ab")));
    assert_false(span_equal(SPAN("abc"), SPAN("ABC")));
    assert_true(span_equal(SPAN_ABSENT, SPAN_ABSENT));
    assert_true(span_equal(SPAN_ABSENT, SPAN("")));
}

TEST_CASE(equality_without_case_is_for_letters_only)
{
    assert_true(span_equal_nocase(SPAN("Host"), SPAN("hOST")));
    assert_false(span_equal_nocase(SPAN("Host"), SPAN("Hosts")));
    assert_false(span_equal_nocase(SPAN("["), SPAN("{"))); /* apart by the bit that makes case in letters */
    assert_true(span_equal_nocase(SPAN_ABSENT, SPAN("")));
}

TEST_CASE(prefix_may_be_whole_or_empty)
{
    assert_true(span_starts_with(SPAN("abc"), SPAN("ab")));
    assert_true(span_starts_with(SPAN("abc"), SPAN("abc")));
    assert_true(span_starts_with(SPAN("abc"), SPAN("")));
    assert_true(span_starts_with(SPAN_ABSENT, SPAN("")));
    assert_false(span_starts_with(SPAN("abc"), SPAN("abcd")));
    assert_false(span_starts_with(SPAN("abc"), SPAN("b")));
}

TEST_CASE(skip_up_to_the_end)
{
    assert_span(span_skip(SPAN("abc"), 0), "abc");
    assert_span(span_skip(SPAN("abc"), 1), "bc");
    assert_span(span_skip(SPAN("abc"), 3), "");
}

TEST_CASE(find_of_a_missing_byte_is_the_length)
{
    assert_int_equal(span_find(SPAN("a:b:"), ':'), 1);
    assert_int_equal(span_find(SPAN("abc"), ':'), 3);
    assert_int_equal(span_find(SPAN(""), ':'), 0);
    assert_int_equal(span_find(SPAN_ABSENT, ':'), 0);
    assert_int_equal(span_find((struct span){"ab:", 2}, ':'), 2);
}

TEST_CASE(cutting_leaves_what_is_behind_the_separator)
{
    struct span s = SPAN("a::b");
    assert_span(span_cut(&s, ':'), "a");
    assert_span(span_cut(&s, ':'), "");
    assert_span(s, "b");
    assert_span(span_cut(&s, ':'), "b");
    assert_null(s.data);
    assert_null(span_cut(&s, ':').data);
    s = SPAN("a:");
    assert_span(span_cut(&s, ':'), "a");
    assert_span(s, "");
}

TEST_CASE(trimming_takes_spaces_and_tabs_from_both_ends)
{
    assert_span(span_trim(SPAN(" \t a b\t ")), "a b");
    assert_span(span_trim(SPAN("a")), "a");
    assert_span(span_trim(SPAN(" \t ")), "");
    assert_span(span_trim(SPAN("")), "");
    assert_span(span_trim(SPAN("\na\r")), "\na\r");
    assert_span(span_trim(SPAN_ABSENT), NULL);
}
