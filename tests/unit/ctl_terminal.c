/* Output for a terminal: excerpts, lists of problems, the progress line. */
#include "ctl/terminal.h"

#include <stdlib.h>

#include "base/clock.h"
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

enum { SECOND_NS = 1000000000 };

#define ERASE "\r\033[K"

/* The line of a load that has run for `seconds`, owned; its time and rate vary a little. */
static struct buf line(double seconds, int64_t total, int64_t channels, int64_t bytes)
{
    struct progress p = {.what = "channel", .total = total, .is_terminal = true};
    struct buf out = BUF_INIT;
    p.started_ns = clock_now_ns() - (uint64_t)(seconds * SECOND_NS);
    progress_show(&p, channels, bytes);
    assert_true(span_starts_with(buf_span(&p.line), SPAN(ERASE)));
    buf_append_span(&out, span_skip(buf_span(&p.line), strlen(ERASE)));
    progress_end(&p);
    assert_int_equal(buf_error(&out), 0);
    return out;
}

static void assert_line(struct buf out, const char *begins, const char *ends)
{
    const char *text = buf_c_str(&out);
    if (strncmp(text, begins, strlen(begins)) != 0 || strlen(text) < strlen(ends) ||
        strcmp(text + strlen(text) - strlen(ends), ends) != 0)
        fail_msg("'%s' instead of '%s...%s'", text, begins, ends);
    buf_fini(&out);
}

TEST_CASE(progress_of_a_file_is_by_bytes)
{
    assert_line(line(10, 1000, 46203, 250), " 25%  46,203 channels  4,6", "/s  30 s left");
    assert_line(line(100, 1000, 1, 250), " 25%  1 channel  0/s", "  5 min 0 s left");
    assert_line(line(1, 1000, 999, 1000), "100%  999 channels  ", "  0 s left");
}

TEST_CASE(progress_of_a_growing_file_stops_at_100_percent)
{
    assert_line(line(10, 1000, 1000000, 3000), "100%  1,000,000 channels  ", "/s  0 s left");
}

TEST_CASE(progress_of_a_pipe_has_no_percentage)
{
    assert_line(line(10, 0, 1000, 12345), "1,000 channels  ", "/s");
}

TEST_CASE(progress_before_the_first_byte_has_no_time_left)
{
    assert_line(line(10, 1000, 0, 0), "  0%  0 channels  0/s", "0/s");
}

TEST_CASE(progress_is_drawn_on_a_terminal_only)
{
    struct progress p;
    progress_start(&p, "channel", 1000);
    p.is_terminal = false;
    progress_show(&p, 10, 100);
    assert_int_equal(p.line.len, 0);
    assert_true(progress_seconds(&p) > 0);
    progress_end(&p);
}
