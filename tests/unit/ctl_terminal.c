/* Output for a terminal: excerpts, lists of problems. */
#include "ctl/terminal.h"

#include <stdlib.h>

#include "unit/check.h"

static void assert_excerpt(const char *text, const char *expected)
{
    char out[EXCERPT_MAX];
    assert_string_equal(excerpt(span_of(text), out), expected);
}

TEST_CASE(excerpt_replaces_control_characters)
{
    assert_excerpt("a\033[2Jb\r\n\x7F", "a?[2Jb???");
    assert_excerpt("\xC2\x9B"
                   "2J \xC2\x80 \xC2\xA0",
                   "?2J ? \xC2\xA0");
    assert_excerpt("\xFF\xC3 ", "?? ");
    assert_excerpt("\xD0\x96", "\xD0\x96");
}

/* Wherever a character of two bytes is at the end, it is not cut in half. */
TEST_CASE(excerpt_is_cut_between_characters)
{
    for (size_t lead = 0; lead < 8; lead++) {
        SCOPED_BUF(text);
        char out[EXCERPT_MAX];
        for (size_t i = 0; i < lead; i++)
            buf_append_char(&text, 'a');
        for (int i = 0; i < EXCERPT_MAX; i++)
            buf_append_str(&text, "\xD0\x96");
        assert_int_equal(buf_error(&text), 0);
        excerpt(buf_span(&text), out);
        size_t n = strlen(out);
        assert_in_range(n, EXCERPT_MAX - 3, EXCERPT_MAX - 1);
        assert_string_equal(out + n - 5, "\xD0\x96...");
    }
}

TEST_CASE(report_prints_20_problems_and_counts_the_rest)
{
    char *shown = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&shown, &length);
    struct report r = {.to = to, .is_terminal = true};
    for (int i = 1; i <= REPORT_PRINTED_MAX + 2; i++)
        report_problem(&r, "%d", i);
    report_finish(&r);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(r.problems, REPORT_PRINTED_MAX + 2);
    assert_ptr_equal(strstr(shown, "\r\033[K1\n\r\033[K2\n"), shown);
    assert_non_null(strstr(shown, "\r\033[K20\nand 2 more\n"));
    free(shown);
}
