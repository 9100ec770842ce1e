/* Request targets: every form, decoded in place. What is rejected stands in tests/support/malformed.c. */
#include <errno.h>
#include <stdlib.h>

#include "http/parser.h"
#include "unit/check.h"

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

/* Targets are scanned in words, and their rest in bytes. */
TEST_CASE(a_forbidden_byte_is_found_at_every_position)
{
    for (int c = 0; c < 256; c++) {
        bool forbidden = c <= 0x20 || c == '#' || c >= 0x7F;
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
