/* CORS: which origins are told what, and what a list of origins may look like. */
#include "api/cors.h"
#include "api/params.h"

#include "unit/check.h"

TEST_CASE(origins_are_empty_star_or_a_list)
{
    struct span which = SPAN_ABSENT;
    EACH_TEXT (text, "", "*", " * ", "https://a", "http://a:443", "https://a:80", "https://a:0",
               "https://a:65535", "https://a, http://b", "https://[::1]:1", "http://[2001:db8::1]",
               "https://a_b.c-d.xn--e1afmkfd.example", "http://127.0.0.1:3000")
        if (cors_origins_error(span_of(text), &which) != NULL)
            fail_msg("\"%s\" is refused", text);
}

static void assert_named(const char *list, const char *expected)
{
    struct span which = SPAN_ABSENT;
    if (cors_origins_error(span_of(list), &which) == NULL)
        fail_msg("\"%s\" is taken", list);
    assert_span(which, expected);
}

/* A browser writes none of them: they would match nothing, for ever. */
TEST_CASE(origin_that_no_browser_sends_is_named)
{
    EACH_PAIR (list, which, {",", ""}, {"https://a,,https://b", ""}, {"https://a,", ""}, {",https://a", ""},
               {"*,https://a", "*"}, {"https://a, *", "*"}, {"https://b,https://a/", "https://a/"},
               {"https://a/b , https://b", "https://a/b"})
        assert_named(list, which);
    EACH_TEXT (text, "a.example", "//a", "https://", "https://:1", "ftp://a", "null", "https://*.a",
               "https://a?b", "https://a#b", "https://u@a", "https://a b", "https://a;https://b", "HTTPS://a",
               "https://A.example", "https://\xC3\xA9.example", "https://a:443", "http://a:80",
               "https://a:", "https://a:65536", "https://a:080", "https://a:-0", "https://a:x",
               "https://a:1:2", "https://[::1", "https://[]", "https://[::1]x", "https://[::1]:443",
               "https://[::A]", "https://[1.2.3.4]", "https://[0:0:0:0:0:0:0:1]", "https://::1", "https://[",
               "https://a:-1", "https://a~b", "https://[00000:00000:00000:00000:00000:00000:00000:00001]")
        assert_named(text, text);
}
