/* Output for a terminal: excerpts, lists of problems. */
#include "ctl/terminal.h"

#include <stdlib.h>

#include "unit/check.h"

static void assert_excerpt(const char *text, const char *expected)
{
    char out[EXCERPT_MAX];
    assert_string_equal(excerpt(span_of(text), out), expected);
}

/* What `print` writes to `to`; owned. */
static char *printed(void (*print)(FILE *to, const void *arg), const void *arg)
{
    char *shown = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&shown, &length);
    print(to, arg);
    assert_int_equal(fclose(to), 0);
    return shown;
}

static void print_span(FILE *to, const void *text)
{
    print_text(to, *(const struct span *)text);
}

static void print_in_line(FILE *to, const void *text)
{
    print_line(to, "<%s>", (const char *)text);
}

static void report_it(FILE *to, const void *text)
{
    struct report r;
    report_init(&r, to);
    report_problem(&r, "<%s>", (const char *)text);
}

/* Whatever prints a text, it comes out the same. */
static void assert_printed(const char *text, const char *expected)
{
    void (*const prints[])(FILE * to, const void *arg) = {print_in_line, report_it};
    const struct span span = span_of(text);
    char out[EXCERPT_MAX];
    assert_excerpt(text, expected);
    char *plain = printed(print_span, &span);
    assert_string_equal(plain, expected);
    free(plain);
    for (size_t i = 0; i < TEST_COUNT(prints); i++) {
        char *line = printed(prints[i], text);
        (void)snprintf(out, sizeof out, "<%s>\n", expected);
        assert_string_equal(line, out);
        free(line);
    }
}

TEST_CASE(control_characters_are_escaped)
{
    assert_printed("a\033[2Jb\r\n\t\x7F", "a\\u001b[2Jb\\u000d\\u000a\\u0009\\u007f");
    assert_printed("\xC2\x9B"
                   "2J \xC2\x80 \xC2\x9F \xC2\xA0",
                   "\\u009b2J \\u0080 \\u009f \xC2\xA0");
    assert_printed("\xFF\xC3 \x9B", "?? ?");
    assert_printed("\xD0\x96 \xF0\x9F\x8E\xAC", "\xD0\x96 \xF0\x9F\x8E\xAC");
    assert_excerpt("\\u001b", "\\u001b");
}

static size_t encode(unsigned code, char out[4])
{
    if (code < 0x80)
        out[0] = (char)code;
    else if (code < 0x800)
        (void)snprintf(out, 4, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 0x3F)));
    else
        (void)snprintf(out, 4, "%c%c%c", (int)(0xE0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3F)),
                       (int)(0x80 | (code & 0x3F)));
    return code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
}

/* Exactly these: C0, DEL, C1, and what changes the direction of writing. */
TEST_CASE(every_code_point_of_the_ranges_is_escaped_and_no_other)
{
    for (unsigned code = 0; code < 0xD800; code++) {
        char bytes[4];
        char expected[8];
        struct span text = {bytes, encode(code, bytes)};
        bool escaped = code < 0x20 || (code >= 0x7F && code <= 0x9F) || (code >= 0x202A && code <= 0x202E) ||
                       (code >= 0x2066 && code <= 0x2069);
        if (escaped)
            (void)snprintf(expected, sizeof expected, "\\u%04x", code);
        else
            (void)snprintf(expected, sizeof expected, "%.*s", (int)text.len, text.data);
        char out[EXCERPT_MAX];
        assert_string_equal(excerpt(text, out), expected);
    }
}

TEST_CASE(line_that_is_too_long_is_cut)
{
    SCOPED_BUF(text);
    for (int i = 0; i < 2 * PRINT_LINE_MAX; i++)
        buf_append_char(&text, 'x');
    char *line = printed(print_in_line, buf_c_str(&text));
    assert_in_range(strlen(line), PRINT_LINE_MAX - 8, PRINT_LINE_MAX);
    assert_int_equal(line[strlen(line) - 1], '\n');
    free(line);
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
