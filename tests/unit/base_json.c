/* JSON strings: whatever bytes come in, a strict parser reads them back, and only what must be is escaped. */
#include "base/json.h"

#include <yyjson.h>

#include "base/text.h"
#include "unit/check.h"

static void assert_string(struct span text, const char *expected)
{
    SCOPED_BUF(out);
    json_write_string(&out, text);
    assert_buf(&out, expected);
}

/* The written string as a strict parser reads it. Owned: yyjson_doc_free. */
static yyjson_doc *read_back(struct buf *out)
{
    assert_int_equal(buf_error(out), 0);
    yyjson_doc *doc = yyjson_read(out->data, out->len, YYJSON_READ_NOFLAG);
    if (doc == NULL || !yyjson_is_str(yyjson_doc_get_root(doc)))
        fail_msg("not a JSON string: %.*s", (int)out->len, out->data);
    return doc;
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

TEST_CASE(string_is_appended_to_the_buffer)
{
    SCOPED_BUF(out);
    buf_append_str(&out, "{\"title\":");
    json_write_string(&out, SPAN("x"));
    assert_buf(&out, "{\"title\":\"x\"");
}

TEST_CASE(buffer_in_error_stays_in_error)
{
    struct buf out = BUF_INIT;
    assert_int_not_equal(buf_reserve(&out, SIZE_MAX), 0);
    json_write_string(&out, SPAN("text \x01 \xFF"));
    assert_int_not_equal(buf_error(&out), 0);
    assert_int_equal(out.len, 0);
}

static size_t random_text(uint64_t *seed, char *text, size_t room)
{
    /* Besides all bytes, those that sit on the edges, so that characters are begun, finished and broken. */
    static const unsigned char edges[] = {'"',  '\\', 0x00, 0x1F, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC2,
                                          0xD0, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, '\n'};
    size_t n = check_random(seed) % room;
    unsigned kind = check_random(seed) % 3;
    for (size_t i = 0; i < n; i++) {
        uint32_t r = check_random(seed);
        if (kind == 0)
            text[i] = (char)(r & 0xFF);
        else
            text[i] = (char)(r % 4 < kind ? edges[(r >> 8) % sizeof edges] : 'a' + (r >> 8) % 26);
    }
    return n;
}

TEST_CASE(random_bytes_always_make_valid_json)
{
    uint64_t seed = 20261121;
    for (int round = 0; round < 20000; round++) {
        char bytes[200];
        struct span text = {bytes, random_text(&seed, bytes, sizeof bytes)};
        SCOPED_BUF(out);
        json_write_string(&out, text);
        yyjson_doc *doc = read_back(&out);
        yyjson_val *root = yyjson_doc_get_root(doc);
        struct span read = {yyjson_get_str(root), yyjson_get_len(root)};
        assert_true(utf8_valid(read));
        if (utf8_valid(text))
            assert_true(span_equal(read, text));
        else
            assert_false(span_equal(read, text));
        yyjson_doc_free(doc);
    }
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
                write_unquoted(&out, (struct span){text, LEN});
                write_character_by_character(&expected, (struct span){text, LEN});
                assert_true(span_equal(buf_span(&out), buf_span(&expected)));
            }
    }
}

TEST_CASE(every_pair_of_bytes_beyond_ascii_is_a_character_or_is_replaced)
{
    for (int first = 0x80; first < 0x100; first++)
        for (int second = 0; second < 0x100; second++) {
            const char text[] = {'a', (char)first, (char)second, 'b'};
            bool valid = first >= 0xC2 && first < 0xE0 && second >= 0x80 && second < 0xC0;
            SCOPED_BUF(out);
            write_unquoted(&out, (struct span){text, sizeof text});
            if (valid)
                assert_memory_equal(out.data, text, sizeof text);
            bool is_replaced = out.data == NULL || memmem(out.data, out.len, "\xEF\xBF\xBD", 3) != NULL;
            assert_int_equal(is_replaced, !valid);
        }
}

TEST_CASE(valid_characters_are_read_back)
{
    static const char text[] =
        "\x01\x1F\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF";
    SCOPED_BUF(out);
    json_write_string(&out, span_of(text));
    yyjson_doc *doc = read_back(&out);
    assert_string_equal(yyjson_get_str(yyjson_doc_get_root(doc)), text);
    yyjson_doc_free(doc);
}
