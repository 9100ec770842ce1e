/* Link: which relations a page has, and where they lead. */
#include "api/page_links.h"

#include "unit/check.h"

static void expect(int64_t page, int64_t last, const char *text)
{
    struct buf out = BUF_INIT;
    page_links_write(&out, SPAN("/api/"), page, last);
    assert_buf(&out, text);
    buf_fini(&out);
}

#define AT(page, relation) "</api/channels/?page=" page ">; rel=\"" relation "\""

TEST(the_only_page_is_first_and_last)
{
    expect(1, 1, AT("1", "first") ", " AT("1", "last"));
}

TEST(the_first_has_a_next_the_last_a_prev_and_those_between_have_both)
{
    expect(1, 3, AT("1", "first") ", " AT("2", "next") ", " AT("3", "last"));
    expect(2, 3, AT("1", "first") ", " AT("1", "prev") ", " AT("3", "next") ", " AT("3", "last"));
    expect(3, 3, AT("1", "first") ", " AT("2", "prev") ", " AT("3", "last"));
}

TEST(beyond_the_last_page_the_one_before_is_the_last)
{
    expect(4, 3, AT("1", "first") ", " AT("3", "prev") ", " AT("3", "last"));
    expect(5, 3, AT("1", "first") ", " AT("3", "prev") ", " AT("3", "last"));
    expect(INT64_MAX, 1, AT("1", "first") ", " AT("1", "prev") ", " AT("1", "last"));
}

TEST(the_largest_numbers_are_written_in_full)
{
    expect(INT64_MAX, INT64_MAX,
           AT("1", "first") ", " AT("9223372036854775806", "prev") ", " AT("9223372036854775807", "last"));
}

TEST(the_base_path_leads_and_the_text_is_appended)
{
    struct buf out = BUF_INIT;
    buf_append_str(&out, "before ");
    page_links_write(&out, SPAN("/"), 1, 1);
    assert_buf(&out, "before </channels/?page=1>; rel=\"first\", </channels/?page=1>; rel=\"last\"");
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_page_is_first_and_last),
        cmocka_unit_test(the_first_has_a_next_the_last_a_prev_and_those_between_have_both),
        cmocka_unit_test(beyond_the_last_page_the_one_before_is_the_last),
        cmocka_unit_test(the_largest_numbers_are_written_in_full),
        cmocka_unit_test(the_base_path_leads_and_the_text_is_appended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
