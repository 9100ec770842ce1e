/* What channelctl says of problems is fit for a terminal, and has an end. */
#include "ctl/report.h"

#include <stdlib.h>

#include "unit/check.h"

static void assert_excerpt(const char *text, const char *pending)
{
    char out[REPORT_EXCERPT_MAX];
    assert_string_equal(report_excerpt(span_of(text), out), pending);
}

TEST(what_moves_the_cursor_is_not_shown)
{
    assert_excerpt("a\033[2Jb\r\n\x7F", "a?[2Jb???");
    assert_excerpt("\xC2\x9B"
                   "2J \xC2\x80 \xC2\xA0",
                   "?2J ? \xC2\xA0");
    assert_excerpt("\xFF\xC3 ", "?? ");
    assert_excerpt("\xD0\x96", "\xD0\x96");
}

/* At every place that a letter of two bytes can have before the end, the cut lies between letters. */
TEST(what_is_long_is_cut_between_letters)
{
    for (size_t lead = 0; lead < 8; lead++) {
        struct buf text = BUF_INIT;
        char out[REPORT_EXCERPT_MAX];
        for (size_t i = 0; i < lead; i++)
            buf_append_char(&text, 'a');
        for (int i = 0; i < REPORT_EXCERPT_MAX; i++)
            buf_append_str(&text, "\xD0\x96");
        assert_int_equal(buf_error(&text), 0);
        report_excerpt(buf_span(&text), out);
        size_t n = strlen(out);
        assert_in_range(n, REPORT_EXCERPT_MAX - 3, REPORT_EXCERPT_MAX - 1);
        assert_string_equal(out + n - 5, "\xD0\x96...");
        buf_fini(&text);
    }
}

TEST(only_the_first_problems_are_printed_and_the_rest_is_counted)
{
    char *shown = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&shown, &length);
    struct report r = {.to = to, .redrawn = true};
    for (int i = 1; i <= REPORT_PRINTED_MAX + 2; i++)
        report_problem(&r, "%d", i);
    report_finish(&r);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(r.problems, REPORT_PRINTED_MAX + 2);
    assert_ptr_equal(strstr(shown, "\r\033[K1\n\r\033[K2\n"), shown);
    assert_non_null(strstr(shown, "\r\033[K20\nand 2 more\n"));
    free(shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_moves_the_cursor_is_not_shown),
        cmocka_unit_test(what_is_long_is_cut_between_letters),
        cmocka_unit_test(only_the_first_problems_are_printed_and_the_rest_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
