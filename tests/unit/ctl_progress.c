/* The line that shows how far a load is. */
#include "ctl/progress.h"

#include <stdlib.h>

#include "base/clock.h"
#include "unit/check.h"

enum { SECOND_NS = 1000000000 };

/* The line of a load that has run for so many seconds, owned; the figures that time makes differ a little. */
static struct buf line(double seconds, int64_t total, int64_t channels, int64_t bytes)
{
    struct progress p = {.total_bytes = total};
    struct buf out = BUF_INIT;
    p.started_ns = clock_now_ns() - (uint64_t)(seconds * SECOND_NS);
    progress_write(&p, &out, channels, bytes);
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

TEST(a_file_is_shown_by_its_bytes)
{
    assert_line(line(10, 1000, 46203, 250), "[######..................]  25%  46,203 channels  4,6",
                "/s  30 s left");
    assert_line(line(100, 1000, 7, 250), "[######..................]  25%  7 channels  0/s",
                "  5 min 0 s left");
    assert_line(line(1, 1000, 999, 1000), "[########################] 100%  999 channels  ", "  0 s left");
}

TEST(a_file_that_grows_is_done_at_most)
{
    assert_line(line(10, 1000, 1000000, 3000), "[########################] 100%  1,000,000 channels  ",
                "/s  0 s left");
}

TEST(of_a_pipe_only_what_came_is_known)
{
    assert_line(line(10, 0, 1000, 12345), "1,000 channels  ", "/s");
}

TEST(before_the_first_byte_no_end_is_in_sight)
{
    assert_line(line(10, 1000, 0, 0), "[........................]   0%  0 channels  0/s", "0/s");
}

TEST(elsewhere_than_on_a_terminal_nothing_is_drawn)
{
    struct progress p;
    progress_start(&p, 1000);
    p.drawn = false;
    progress_show(&p, 10, 100);
    assert_int_equal(p.line.len, 0);
    assert_true(progress_seconds(&p) > 0);
    progress_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_shown_by_its_bytes),
        cmocka_unit_test(a_file_that_grows_is_done_at_most),
        cmocka_unit_test(of_a_pipe_only_what_came_is_known),
        cmocka_unit_test(before_the_first_byte_no_end_is_in_sight),
        cmocka_unit_test(elsewhere_than_on_a_terminal_nothing_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
