/* Request targets: every form, decoded in place, and what is rejected; and the hosts that are valid. */
#include <errno.h>
#include <stdlib.h>

#include "unit/fixtures/http_feed.h"

struct split {
    char *copy; /* of exactly the target's size */
    struct span path, query;
    int err;
};

static struct split split(struct span target)
{
    struct split s = {.copy = malloc(target.len + (target.len == 0))};
    assert_non_null(s.copy);
    memcpy(s.copy, target.data, target.len);
    s.err = http_target_split(s.copy, target.len, &s.path, &s.query);
    return s;
}

struct row {
    const char *target, *path, *query;
};

static void expect_splits(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct split s = split(span_of(rows[i].target));
        assert_int_equal(s.err, 0);
        assert_span(s.path, rows[i].path);
        assert_span(s.query, rows[i].query);
        free(s.copy);
    }
}

TEST_CASE(path_and_query_are_split)
{
    static const struct row rows[] = {{"/", "/", NULL},
                                      {"/?", "/", ""},
                                      {"?a", "/", "a"},
                                      {"/a/b/", "/a/b/", NULL},
                                      {"/a?b?c", "/a", "b?c"},
                                      {"//a", "//a", NULL},
                                      {"/a/../b/./c", "/a/../b/./c", NULL},
                                      {"*", "*", NULL},
                                      {"host:443", "host:443", NULL},
                                      {"/a:b@c", "/a:b@c", NULL},
                                      {"/http://x/", "/http://x/", NULL}};
    expect_splits(rows, TEST_COUNT(rows));
}

TEST_CASE(the_absolute_form_is_read_as_its_path)
{
    static const struct row rows[] = {{"http://h/", "/", NULL},          {"http://h", "/", NULL},
                                      {"http://h?q", "/", "q"},          {"HTTP://h:80/a?b", "/a", "b"},
                                      {"hTTps://[::1]:1/a", "/a", NULL}, {"http://h:/a", "/a", NULL},
                                      {"http://h//a", "//a", NULL},      {"https://h", "/", NULL},
                                      {"ftp://h/a", "ftp://h/a", NULL},  {"http:/a", "http:/a", NULL}};
    expect_splits(rows, TEST_COUNT(rows));
}

TEST_CASE(an_authority_that_is_not_a_valid_host_is_rejected)
{
    EACH_TEXT (text, "http:///a", "https://", "http://?q", "http://u@h/a", "http://h:x/a", "http://[/a",
               "http://h\\x/a", "http://:80/") {
        struct split s = split(span_of(text));
        assert_int_equal(s.err, -EINVAL);
        free(s.copy);
    }
}

TEST_CASE(the_path_is_decoded_once_and_the_query_stays_as_sent)
{
    struct split s = split(SPAN("/%61%2Fb%3f%23%252F?%61=%zz&%"));
    assert_int_equal(s.err, 0);
    assert_span(s.path, "/a%2Fb?#%2F");
    assert_span(s.query, "%61=%zz&%");
    free(s.copy);
    s = split(SPAN("/%D0%B6%ff+"));
    assert_int_equal(s.err, 0);
    assert_span(s.path, "/\xD0\xB6\xFF+");
    free(s.copy);
}

TEST_CASE(fragments_controls_spaces_and_broken_escapes_are_rejected)
{
    static const struct span rows[] = {
        {"", 0},       {"#", 1},    {"/#", 2},    {"/a?b#", 5}, {"http://h#/a", 11}, {"/a b", 4},
        {"/a?b c", 6}, {"/\t", 2},  {"/\0", 2},   {"/a?\n", 4}, {"/\x7F", 2},        {"/\x1F", 2},
        {"/%", 2},     {"/%4", 3},  {"/%4?a", 5}, {"/%g0", 4},  {"/%0g", 4},         {"/%%20", 5},
        {"/a%", 3},    {"/%00", 4}, {"/%1f", 4},  {"/%7F", 4},  {"/a%0d%0ab", 9},    {"/%09", 4},
    };
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct split s = split(rows[i]);
        if (s.err != -EINVAL)
            fail_msg("%s: %d", rows[i].data, s.err);
        free(s.copy);
    }
}

/* Targets are scanned in words, and their rest in bytes. */
TEST_CASE(a_forbidden_byte_is_found_at_every_position)
{
    for (int c = 0; c < 256; c++) {
        bool forbidden = c <= 0x20 || c == '#' || c == 0x7F;
        for (size_t at = 2; at < 20; at++) {
            char target[] = "/?a&b~c=defghijklmno";
            target[at] = (char)c;
            struct split s = split(SPAN(target));
            if (s.err != (forbidden ? -EINVAL : 0))
                fail_msg("byte %d at %zu: %d", c, at, s.err);
            free(s.copy);
        }
    }
}

/* --- Host --- */

/* As the only header field of a request. */
static bool valid(struct span host)
{
    SCOPED_FEED(f);
    SCOPED_BUF(b);
    buf_append_str(&b, "GET / HTTP/1.1\r\nHost: ");
    buf_append_span(&b, host);
    buf_append_str(&b, "\r\n\r\n");
    feed_whole(&f, &FEED_LIMITS, buf_span(&b));
    bool result = f.progress == HTTP_COMPLETE;
    if (!result) {
        assert_int_equal(f.progress, HTTP_REJECTED);
        assert_int_equal(f.parser.status, 400);
    }
    return result;
}

TEST_CASE(names_addresses_and_ports_are_valid_hosts)
{
    EACH_TEXT (text, "a", "example.org", "EXAMPLE.org.", "a-b_c~d.1", "127.0.0.1", "a:80", "a:", "a:0",
               "a:65535", "[::1]", "[::1]:8080", "[::]:", "[::ffff:1.2.3.4]:1", "xn--e1afmkfd", "%D0%B6",
               "!$&'()*+,;=", "[v1.fe80]")
        if (!valid(span_of(text)))
            fail_msg("\"%s\" is refused", text);
}

TEST_CASE(other_hosts_are_rejected)
{
    EACH_TEXT (text, "", ":", ":80", "a b", "a/", "a?", "a#", "u@a", "a:b", "a:80:", "a:-1", "a:+1", "a: 80",
               "::1", "a:123456", "[", "[]", "[::1", "[::1]x", "[::1]:x", "[::1]80", "[::1%eth0]", "[a b]",
               "a]", "a\\b", "\"a\"", "<a>", "a^", "a|b", "\xD0\xB6", "a\tb", "%", "%4", "%zz", "a%",
               "http://a", "[::1]:123456")
        if (valid(span_of(text)))
            fail_msg("\"%s\" is taken", text);
    assert_false(valid(SPAN("a\0b")));
    assert_false(valid(SPAN("\0")));
    assert_false(valid(SPAN("a:8\0")));
    assert_false(valid(SPAN("[::1\0]")));
}
