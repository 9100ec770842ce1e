/* Percent-decoding happens once, and the first parameter of a name counts. */
#include "base/uri.h"

#include "unit/check.h"

static void assert_decoded(struct span encoded, struct span pending)
{
    char out[64];
    assert_true(encoded.len <= sizeof out);
    size_t n = uri_decode(encoded, out);
    assert_true(n <= encoded.len);
    check_bytes((struct span){out, n}, pending, __FILE__, __LINE__);
}

static struct span find(const char *query, const char *name)
{
    return uri_query_find(span_of(query), span_of(name));
}

TEST(each_escape_is_decoded_once)
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

TEST(a_plus_sign_stays_a_plus_sign)
{
    assert_decoded(SPAN("a+b%2Bc"), SPAN("a+b+c"));
}

TEST(a_broken_escape_stays_itself)
{
    assert_decoded(SPAN("%"), SPAN("%"));
    assert_decoded(SPAN("%4"), SPAN("%4"));
    assert_decoded(SPAN("100%"), SPAN("100%"));
    assert_decoded(SPAN("%zz%4g%g4"), SPAN("%zz%4g%g4"));
    assert_decoded(SPAN("%%41"), SPAN("%A"));
    assert_decoded(SPAN("%4%41"), SPAN("%4A"));
    assert_decoded(SPAN("% 1%+1%-1"), SPAN("% 1%+1%-1"));
}

TEST(nothing_behind_the_end_is_read)
{
    char out[2];
    assert_int_equal(uri_decode((struct span){"%41", 2}, out), 2);
    assert_memory_equal(out, "%4", 2);
}

TEST(valid_escapes_are_told_from_broken_ones)
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

TEST(a_parameter_is_found_wherever_it_stands)
{
    assert_span(find("page=2", "page"), "2");
    assert_span(find("page=2&link=x&api_key=k", "page"), "2");
    assert_span(find("page=2&link=x&api_key=k", "link"), "x");
    assert_span(find("page=2&link=x&api_key=k", "api_key"), "k");
}

TEST(a_missing_parameter_is_absent)
{
    assert_span(find("", "page"), NULL);
    assert_span(uri_query_find(SPAN_ABSENT, SPAN("page")), NULL);
    assert_span(find("link=x", "page"), NULL);
    assert_span(find("pages=1&pag=2&xpage=3&PAGE=4", "page"), NULL);
    assert_span(find("link=page=1", "page"), NULL);
}

TEST(an_empty_value_is_not_absent)
{
    assert_span(find("link=", "link"), "");
    assert_span(find("link", "link"), "");
    assert_span(find("link&page=1", "link"), "");
    assert_span(find("page=1&link", "link"), "");
    assert_span(find("page=1&link=", "link"), "");
}

TEST(the_first_of_a_name_counts)
{
    assert_span(find("page=1&page=2", "page"), "1");
    assert_span(find("page=&page=2", "page"), "");
    assert_span(find("page&page=2", "page"), "");
    assert_span(find("p%61ge=1&page=2", "page"), "1");
}

TEST(names_are_compared_after_decoding)
{
    assert_span(find("api%5Fkey=k", "api_key"), "k");
    assert_span(find("%6C%69%6E%6B=x", "link"), "x");
    assert_span(find("%256cink=x", "link"), NULL);
    assert_span(find("lin%6=x", "link"), NULL);
    assert_span(find("link%3Dx", "link"), NULL);
}

TEST(values_come_still_encoded_and_whole)
{
    assert_span(find("link=https%3A%2F%2Fmax.ru%2Fa&x=1", "link"), "https%3A%2F%2Fmax.ru%2Fa");
    assert_span(find("link=https://max.ru/a?b=c&x=1", "link"), "https://max.ru/a?b=c");
    assert_span(find("link=a%26page%3D7", "page"), NULL);
    assert_span(find("a==b", "a"), "=b");
}

TEST(stray_separators_do_no_harm)
{
    assert_span(find("&&page=3&&", "page"), "3");
    assert_span(find("&", "page"), NULL);
    assert_span(find("=1&=2", "page"), NULL);
    assert_span(find("a;page=3", "page"), NULL);
    assert_span(find("=x", ""), "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_escape_is_decoded_once),
        cmocka_unit_test(a_plus_sign_stays_a_plus_sign),
        cmocka_unit_test(a_broken_escape_stays_itself),
        cmocka_unit_test(nothing_behind_the_end_is_read),
        cmocka_unit_test(valid_escapes_are_told_from_broken_ones),
        cmocka_unit_test(a_parameter_is_found_wherever_it_stands),
        cmocka_unit_test(a_missing_parameter_is_absent),
        cmocka_unit_test(an_empty_value_is_not_absent),
        cmocka_unit_test(the_first_of_a_name_counts),
        cmocka_unit_test(names_are_compared_after_decoding),
        cmocka_unit_test(values_come_still_encoded_and_whole),
        cmocka_unit_test(stray_separators_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
