/* JSON strings: whatever bytes come in, a strict parser reads them back, and only what must be is escaped. */
#include "base/json.h"

#include "base/text.h"
#include "unit/check.h"

static void assert_string(struct span text, const char *expected)
{
    SCOPED_BUF(out);
    json_write_string(&out, text);
    assert_buf(&out, expected);
}

/* Appends what is written between the quotation marks. */
static void write_unquoted(struct buf *out, struct span text)
{
    SCOPED_BUF(string);
    json_write_string(&string, text);
    assert_true(string.len >= 2 && string.data[0] == '"' && string.data[string.len - 1] == '"');
    buf_append(out, string.data + 1, string.len - 2);
}

TEST_CASE(plain_text_is_copied)
{
    assert_string(SPAN(""), "\"\"");
    assert_string(SPAN_ABSENT, "\"\"");
    assert_string(SPAN("Hello, reader / 100% 'quoted' <b>&amp;</b> \x7F"),
                  "\"Hello, reader / 100% 'quoted' <b>&amp;</b> \x7F\"");
}

TEST_CASE(quotation_mark_and_reverse_solidus_are_escaped)
{
    assert_string(SPAN("say \"hi\" \\ bye"), "\"say \\\"hi\\\" \\\\ bye\"");
    assert_string(SPAN("\""), "\"\\\"\"");
    assert_string(SPAN("\\"), "\"\\\\\"");
}

TEST_CASE(every_control_character_is_escaped)
{
    static const char *const expected[0x20] = {
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
        "\\b",     "\\t",     "\\n",     "\\u000b", "\\f",     "\\r",     "\\u000e", "\\u000f",
        "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
        "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f"};
    for (int c = 0; c < 0x20; c++) {
        char byte = (char)c;
        SCOPED_BUF(out);
        write_unquoted(&out, (struct span){&byte, 1});
        assert_buf(&out, expected[c]);
    }
}

TEST_CASE(every_other_ascii_character_is_itself)
{
    for (int c = 0x20; c < 0x80; c++) {
        if (c == '"' || c == '\\')
            continue;
        char text[2] = {(char)c, '\0'};
        SCOPED_BUF(out);
        write_unquoted(&out, span_of(text));
        assert_buf(&out, text);
    }
}

TEST_CASE(text_beyond_ascii_stays_utf8)
{
    assert_string(SPAN("Новости"), "\"Новости\"");
    assert_string(SPAN("频道 📣 é"), "\"频道 📣 é\"");
    assert_string(SPAN("\xC2\x80\xE2\x80\xA8\xE2\x80\xA9\xEF\xBB\xBF"), /* U+0080, U+2028, U+2029, U+FEFF */
                  "\"\xC2\x80\xE2\x80\xA8\xE2\x80\xA9\xEF\xBB\xBF\"");
}

TEST_CASE(ill_formed_sequence_becomes_one_replacement_character)
{
#define FFFD "\xEF\xBF\xBD"
    assert_string(SPAN("a\xFF"), "\"a" FFFD "\"");
    assert_string(SPAN("\xFF\xFE"), "\"" FFFD FFFD "\"");
    assert_string(SPAN("\xD0"), "\"" FFFD "\"");
    assert_string(SPAN("\xF0\x9F\x93"), "\"" FFFD "\"");
    assert_string(SPAN("\xF0\x9F\x93\"x"), "\"" FFFD "\\\"x\"");
    assert_string(SPAN("\xC0\xAF"), "\"" FFFD FFFD "\"");
    assert_string(SPAN("\xED\xA0\x80"), "\"" FFFD FFFD FFFD "\"");
    assert_string(SPAN("\xF4\x90\x80\x80"), "\"" FFFD FFFD FFFD FFFD "\"");
    /* The example of the Unicode standard, table 3-8. */
    assert_string(SPAN("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
                  "\"a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d\"");
#undef FFFD
}

static void write_parts(struct buf *out, struct span text, size_t at, size_t len)
{
    write_unquoted(out, (struct span){text.data, at});
    write_unquoted(out, (struct span){text.data + at, len});
    write_unquoted(out, span_skip(text, at + len));
}

/* Runs are looked at several bytes at a time; a byte in their midst is still seen. */
TEST_CASE(bytes_are_escaped_at_every_position_of_a_run)
{
    for (size_t len = 1; len <= 26; len++)
        for (size_t at = 0; at < len; at++)
            for (int byte = 0; byte < 256; byte++) {
                char text[26];
                SCOPED_BUF(whole);
                SCOPED_BUF(parts);
                memset(text, at % 2 == 0 ? 'a' : 0x7F, sizeof text);
                text[at] = (char)byte;
                write_unquoted(&whole, (struct span){text, len});
                write_parts(&parts, (struct span){text, len}, at, 1);
                assert_true(span_equal(buf_span(&whole), buf_span(&parts)));
            }
}

/* What is expected of a text without characters that need an escape: utf8_step looks at one character. */
static void write_character_by_character(struct buf *out, struct span text)
{
    while (text.len > 0) {
        int step = utf8_step(text);
        size_t len = (size_t)(step < 0 ? -step : step);
        if (step < 0)
            buf_append_str(out, "\xEF\xBF\xBD");
        else
            buf_append(out, text.data, len);
        text = span_skip(text, len);
    }
}

/* The same within runs of characters of two, three and four bytes. */
TEST_CASE(bytes_are_replaced_at_every_position_of_a_run_beyond_ascii)
{
    enum { LEN = 48 };
    EACH_TEXT (character, "\xD0\x96", "\xE0\xA4\x95", "\xE9\xA0\xBB", "\xED\x9F\xBF", "\xF0\x9F\x93\xA3",
               "\xF4\x8F\xBF\xBF", "a\xD0\x96", "a\xE0\xBF\xBF", "ab\xF1\x80\x80\x80") {
        for (int at = 0; at < LEN; at++)
            for (int byte = 0x7F; byte < 0x100; byte++) {
                char text[LEN];
                SCOPED_BUF(out);
                SCOPED_BUF(expected);
                for (size_t i = 0; i < LEN; i++)
                    text[i] = character[i % strlen(character)];
                text[at] = (char)byte;
                const struct span run = {text, LEN - (size_t)byte % 8}; /* it may end within a character */
                write_unquoted(&out, run);
                write_character_by_character(&expected, run);
                assert_true(span_equal(buf_span(&out), buf_span(&expected)));
            }
    }
}
