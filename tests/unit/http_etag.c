/* If-None-Match: lists, weak tags, the star, commas inside of tags, and lists that are broken. */
#include "http/etag.h"

#include <stdlib.h>

#include "unit/check.h"

static const struct span TAG = {"\"abc\"", 5};

/* Looked at in a copy of exactly its size. */
static bool listed(struct span list, struct span tag)
{
    char *copy = malloc(list.len + (list.len == 0));
    assert_non_null(copy);
    memcpy(copy, list.data, list.len);
    bool result = http_etag_listed((struct span){copy, list.len}, tag);
    free(copy);
    return result;
}

TEST(a_tag_is_found_wherever_it_stands)
{
    static const char *const lists[] = {
        "\"abc\"",
        "W/\"abc\"",
        "*",
        " \t* ",
        " \"abc\" ",
        "\"x\", \"abc\"",
        "\"abc\", \"x\"",
        "\"x\",W/\"abc\"",
        "\"x\" , \"abc\" ,",
        ", ,\"abc\"",
        "W/\"x\",\"\",\"abc\"",
        "\"a,b\", \"abc\"",
        "\"abc\", broken",
        "\"x\\\", \"abc\"",
    };
    for (size_t i = 0; i < TEST_COUNT(lists); i++)
        if (!listed(span_of(lists[i]), TAG))
            fail_msg("not found in %s", lists[i]);
}

TEST(what_is_not_listed_is_not_found)
{
    static const char *const lists[] = {
        "",           " ",
        ",",          "\"abcd\"",
        "\"ab\"",     "\"ABC\"",
        "abc",        "w/\"abc\"",
        "W/ \"abc\"", "W\"abc\"",
        "\"abc",      "abc\"",
        "\"",         "W/",
        "W/\"",       "\"x\", *",
        "**",         "*, \"abc\"",
        "x, \"abc\"", "\"x, \"abc\"",
        "'abc'",      "\"x,\"abc\",y\"",
        "\"a\", abc",
    };
    for (size_t i = 0; i < TEST_COUNT(lists); i++)
        if (listed(span_of(lists[i]), TAG))
            fail_msg("found in %s", lists[i]);
}

TEST(commas_and_spaces_belong_to_a_tag)
{
    assert_true(listed(SPAN("\"a\", \"x, y\", \"b\""), SPAN("\"x, y\"")));
    assert_false(listed(SPAN("\"x\", \"y\""), SPAN("\"x, y\"")));
    assert_false(listed(SPAN("\"a,\"abc\",b\""), SPAN("\"b\"")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tag_is_found_wherever_it_stands),
        cmocka_unit_test(what_is_not_listed_is_not_found),
        cmocka_unit_test(commas_and_spaces_belong_to_a_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
