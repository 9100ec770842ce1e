/* Spans: absent is not empty, and no function reads what does not belong to it. */
#include "base/span.h"

#include "unit/check.h"

TEST_CASE(equality_without_case_is_for_letters_only)
{
    assert_true(span_equal_nocase(SPAN("Host"), SPAN("hOST")));
    assert_false(span_equal_nocase(SPAN("Host"), SPAN("Hosts")));
    assert_false(span_equal_nocase(SPAN("["), SPAN("{"))); /* apart by the bit that makes case in letters */
    assert_true(span_equal_nocase(SPAN_ABSENT, SPAN("")));
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
