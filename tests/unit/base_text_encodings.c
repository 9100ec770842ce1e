/* Encodings: percent-decoding, query strings, UTF-8 against a second definition of it. */
#include "base/text.h"

#include "unit/check.h"

static void assert_decoded(struct span encoded, struct span expected)
{
    char out[64];
    assert_true(encoded.len <= sizeof out);
    size_t n = uri_decode(encoded, out);
    assert_true(n <= encoded.len);
    check_bytes((struct span){out, n}, expected, __FILE__, __LINE__);
}

static struct span find(const char *query, const char *name)
{
    return uri_query_find(span_of(query), span_of(name));
}

TEST_CASE(each_escape_is_decoded_once)
{
    assert_decoded(SPAN(""), SPAN(""));
    assert_decoded(SPAN("plain"), SPAN("plain"));
    assert_decoded(SPAN("a%20b"), SPAN("a b"));
    assert_decoded(SPAN("%41%4a%4A"), SPAN("AJJ"));
    assert_decoded(SPAN("%2541"), SPAN("%41"));
    assert_decoded(SPAN("%25%32%35"), SPAN("%25"));
    assert_decoded(SPAN("%D0%9D"), SPAN("Н"));
    assert_decoded(SPAN("%00%ff"), SPAN("\0\xFF"));
}

TEST_CASE(plus_sign_stays_a_plus_sign)
{
    assert_decoded(SPAN("a+b%2Bc"), SPAN("a+b+c"));
}

TEST_CASE(broken_escape_stays_itself)
{
    assert_decoded(SPAN("%"), SPAN("%"));
    assert_decoded(SPAN("%4"), SPAN("%4"));
    assert_decoded(SPAN("100%"), SPAN("100%"));
    assert_decoded(SPAN("%zz%4g%g4"), SPAN("%zz%4g%g4"));
    assert_decoded(SPAN("%%41"), SPAN("%A"));
    assert_decoded(SPAN("%4%41"), SPAN("%4A"));
    assert_decoded(SPAN("% 1%+1%-1"), SPAN("% 1%+1%-1"));
}

TEST_CASE(decoding_stops_at_the_end)
{
    char out[2];
    assert_int_equal(uri_decode((struct span){"%41", 2}, out), 2);
    assert_memory_equal(out, "%4", 2);
}

TEST_CASE(encoded_slashes_are_found)
{
    assert_int_equal(uri_find_encoded_slash(SPAN("a%2fb%2F")), 1);
    assert_int_equal(uri_find_encoded_slash(SPAN("%41%2F")), 3);
    assert_int_equal(uri_find_encoded_slash(SPAN("%%2f")), 1);
    EACH_TEXT (text, "", "a/b", "%2", "%", "%20%25%2E", "2F%", "%2%46")
        assert_int_equal(uri_find_encoded_slash(span_of(text)), strlen(text));
    assert_int_equal(uri_find_encoded_slash((struct span){"%2F", 2}), 2);
}

TEST_CASE(escapes_need_two_hexadecimal_digits)
{
    assert_true(uri_escapes_valid(SPAN("")));
    assert_true(uri_escapes_valid(SPAN_ABSENT));
    assert_true(uri_escapes_valid(SPAN("plain+text")));
    assert_true(uri_escapes_valid(SPAN("%00%fF%25")));
    assert_false(uri_escapes_valid(SPAN("%")));
    assert_false(uri_escapes_valid(SPAN("a%4")));
    assert_false(uri_escapes_valid(SPAN("%41%")));
    assert_false(uri_escapes_valid(SPAN("%4g")));
    assert_false(uri_escapes_valid(SPAN("%g4")));
    assert_false(uri_escapes_valid((struct span){"%41", 2}));
}

TEST_CASE(parameter_is_found_at_any_position)
{
    assert_span(find("page=2", "page"), "2");
    assert_span(find("page=2&link=x&api_key=k", "page"), "2");
    assert_span(find("page=2&link=x&api_key=k", "link"), "x");
    assert_span(find("page=2&link=x&api_key=k", "api_key"), "k");
}

TEST_CASE(missing_parameter_is_absent)
{
    assert_span(find("", "page"), NULL);
    assert_span(uri_query_find(SPAN_ABSENT, SPAN("page")), NULL);
    assert_span(find("link=x", "page"), NULL);
    assert_span(find("pages=1&pag=2&xpage=3&PAGE=4", "page"), NULL);
    assert_span(find("link=page=1", "page"), NULL);
}

TEST_CASE(empty_value_is_not_absent)
{
    assert_span(find("link=", "link"), "");
    assert_span(find("link", "link"), "");
    assert_span(find("link&page=1", "link"), "");
    assert_span(find("page=1&link", "link"), "");
    assert_span(find("page=1&link=", "link"), "");
}

TEST_CASE(first_parameter_of_a_name_counts)
{
    assert_span(find("page=1&page=2", "page"), "1");
    assert_span(find("page=&page=2", "page"), "");
    assert_span(find("page&page=2", "page"), "");
    assert_span(find("p%61ge=1&page=2", "page"), "1");
}

TEST_CASE(names_are_compared_after_decoding)
{
    assert_span(find("api%5Fkey=k", "api_key"), "k");
    assert_span(find("%6C%69%6E%6B=x", "link"), "x");
    assert_span(find("%256cink=x", "link"), NULL);
    assert_span(find("lin%6=x", "link"), NULL);
    assert_span(find("link%3Dx", "link"), NULL);
}

TEST_CASE(values_are_returned_encoded_and_whole)
{
    assert_span(find("link=https%3A%2F%2Fmax.ru%2Fa&x=1", "link"), "https%3A%2F%2Fmax.ru%2Fa");
    assert_span(find("link=https://max.ru/a?b=c&x=1", "link"), "https://max.ru/a?b=c");
    assert_span(find("link=a%26page%3D7", "page"), NULL);
    assert_span(find("a==b", "a"), "=b");
}

TEST_CASE(stray_separators_are_ignored)
{
    assert_span(find("&&page=3&&", "page"), "3");
    assert_span(find("&", "page"), NULL);
    assert_span(find("=1&=2", "page"), NULL);
    assert_span(find("a;page=3", "page"), NULL);
    assert_span(find("=x", ""), "x");
}

static int encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    int length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (point & 0x3F));
        point >>= 6;
    }
    out[0] = (char)((0xF00 >> length & 0xFF) | point);
    return length;
}

static void assert_step(const char *bytes, size_t n, int expected)
{
    int step = utf8_step((struct span){bytes, n});
    if (step != expected)
        fail_msg("%zu bytes %02x %02x %02x %02x: %d, not %d", n, (unsigned char)bytes[0],
                 n > 1 ? (unsigned char)bytes[1] : 0U, n > 2 ? (unsigned char)bytes[2] : 0U,
                 n > 3 ? (unsigned char)bytes[3] : 0U, step, expected);
}

TEST_CASE(code_points_are_characters_and_surrogates_are_not)
{
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        char bytes[4];
        int length = encode(point, bytes);
        bool surrogate = point >= 0xD800 && point <= 0xDFFF;
        assert_step(bytes, (size_t)length, surrogate ? -1 : length);
        if (utf8_valid((struct span){bytes, (size_t)length}) == surrogate)
            fail_msg("U+%04X is judged wrong", (unsigned)point);
    }
}

TEST_CASE(bounds_of_each_class_are_well_formed)
{
    EACH_TEXT (text, "\x01", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xE0\xBF\xBF", "\xE1\x80\x80",
               "\xEC\xBF\xBF", "\xED\x80\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF",
               "\xF0\x90\x80\x80", "\xF0\xBF\xBF\xBF", "\xF1\x80\x80\x80", "\xF3\xBF\xBF\xBF",
               "\xF4\x80\x80\x80", "\xF4\x8F\xBF\xBF") {
        assert_step(text, strlen(text), (int)strlen(text));
        assert_true(utf8_valid(span_of(text)));
    }
}

TEST_CASE(ill_formed_sequences_have_the_length_of_their_prefix)
{
    static const struct {
        const char *bytes;
        int step;
    } cases[] = {
        {"\x80", -1}, /* a continuation alone */
        {"\xBF", -1},
        {"\xC0\x80", -1}, /* overlong forms */
        {"\xC1\xBF", -1},
        {"\xE0\x80\x80", -1},
        {"\xE0\x9F\xBF", -1},
        {"\xF0\x80\x80\x80", -1},
        {"\xF0\x8F\xBF\xBF", -1},
        {"\xED\xA0\x80", -1}, /* surrogates */
        {"\xED\xBF\xBF", -1},
        {"\xF4\x90\x80\x80", -1}, /* above U+10FFFF */
        {"\xF5\x80\x80\x80", -1},
        {"\xF8\x88\x80\x80", -1},
        {"\xFE", -1},
        {"\xFF", -1},
        {"\xC2", -1}, /* truncated */
        {"\xE1\x80", -2},
        {"\xF1\x80", -2},
        {"\xF1\x80\x80", -3},
        {"\xC2\x41", -1}, /* broken off by another character */
        {"\xE1\x80\x41", -2},
        {"\xE1\x80\xE1", -2},
        {"\xF1\x80\x80\x41", -3},
        {"\xF1\x80\x41\x80", -2},
        {"\xF0\x90\x80\xC0", -3},
    };
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        assert_step(cases[i].bytes, strlen(cases[i].bytes), cases[i].step);
        assert_false(utf8_valid(span_of(cases[i].bytes)));
    }
}

TEST_CASE(text_is_valid_as_a_whole)
{
    assert_true(utf8_valid(SPAN("")));
    assert_true(utf8_valid(SPAN_ABSENT));
    assert_true(utf8_valid(SPAN("plain, Каналы, 频道, 📣, \0 too")));
    assert_false(utf8_valid(SPAN("plain, then \xD0")));
    assert_false(utf8_valid(SPAN("\xD0 first")));
}
