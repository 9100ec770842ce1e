/* Date; and If-None-Match: lists, weak tags, the star, commas inside of tags, broken lists. */
#include "http/response.h"

#include <stdlib.h>
#include <time.h>

#include "unit/check.h"

#define DATE "Date: Sat, 21 Nov 2026 10:00:00 GMT\r\n"

static void expect(const struct http_response *r, const char *head)
{
    SCOPED_BUF(out);
    http_response_write_head(&out, r, SPAN("Sat, 21 Nov 2026 10:00:00 GMT"), 1, false);
    assert_buf(&out, head);
}

TEST_CASE(many_fields_are_written)
{
    struct http_response r = {.status = 204};
    SCOPED_BUF(pending);
    buf_append_str(&pending, "HTTP/1.1 204 No Content\r\n" DATE "X-Content-Type-Options: nosniff\r\n");
    for (int i = 0; i < 1000; i++) {
        http_response_add(&r, SPAN("X"), SPAN("y"));
        buf_append_str(&pending, "X: y\r\n");
    }
    buf_append_str(&pending, "\r\n");
    expect(&r, buf_c_str(&pending));
    buf_fini(&r.fields);
}

/* --- Date --- */

TEST_CASE(date_is_the_present_as_imf_fixdate)
{
    char text[HTTP_DATE_LEN + 1];
    time_t before = time(NULL);
    http_date_write(text);
    time_t after = time(NULL);
    assert_int_equal(strlen(text), HTTP_DATE_LEN);
    struct tm tm = {0};
    const char *rest = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    assert_non_null(rest);
    assert_int_equal(*rest, '\0');
    time_t told = timegm(&tm);
    assert_true(told >= before && told <= after);
}

/* --- If-Match and If-None-Match --- */

static const struct span TAG = {"\"abc\"", 5};

/* In a copy of exactly its size, for AddressSanitizer. */
static bool listed(struct span list, struct span tag, bool strong)
{
    char *copy = malloc(list.len + (list.len == 0));
    assert_non_null(copy);
    memcpy(copy, list.data, list.len);
    bool result = http_etag_find((struct span){copy, list.len}, tag, strong).data != NULL;
    free(copy);
    return result;
}

TEST_CASE(a_tag_is_found_anywhere_in_a_list)
{
    EACH_TEXT (text, "\"abc\"", "W/\"abc\"", "*", " \t* ", " \"abc\" ", "\"x\", \"abc\"", "\"abc\", \"x\"",
               "\"x\",W/\"abc\"", "\"x\" , \"abc\" ,", ", ,\"abc\"", "W/\"x\",\"\",\"abc\"",
               "\"x\"\t,\t\"abc\"", "\"a,b\", \"abc\"", "\"abc\", broken", "\"x\\\", \"abc\"")
        if (!listed(span_of(text), TAG, false))
            fail_msg("not found in %s", text);
}

TEST_CASE(a_tag_that_is_not_listed_is_not_found)
{
    EACH_TEXT (text, "", " ", ",", "\"abcd\"", "\"ab\"", "\"ABC\"", "abc", "w/\"abc\"", "W/ \"abc\"",
               "W\"abc\"", "\"abc", "abc\"", "\"", "W/", "W/\"", "\"x\", *", "**", "*, \"abc\"", "x, \"abc\"",
               "\"x, \"abc\"", "'abc'", "\"x,\"abc\",y\"", "\"a\", abc")
        if (listed(span_of(text), TAG, false))
            fail_msg("found in %s", text);
}

TEST_CASE(commas_and_spaces_are_part_of_a_tag)
{
    assert_true(listed(SPAN("\"a\", \"x, y\", \"b\""), SPAN("\"x, y\""), false));
    assert_false(listed(SPAN("\"x\", \"y\""), SPAN("\"x, y\""), false));
    assert_false(listed(SPAN("\"a,\"abc\",b\""), SPAN("\"b\""), false));
}

TEST_CASE(a_weak_tag_is_not_found_by_strong_comparison)
{
    EACH_TEXT (weak, "W/\"abc\"", "\"x\", W/\"abc\"", "W/\"abc\", W/\"x\"") {
        assert_true(listed(span_of(weak), TAG, false));
        if (listed(span_of(weak), TAG, true))
            fail_msg("found in %s", weak);
    }
    EACH_TEXT (text, "\"abc\"", "*", "W/\"x\", \"abc\"", "W/\"abc\", \"abc\"")
        assert_true(listed(span_of(text), TAG, true));
}

TEST_CASE(preconditions_concern_only_a_200_with_a_tag)
{
    const struct http_codings codings = {0};
    struct blob *tagged = blob_new_headroom(SPAN("{}"), 0);
    struct blob *untagged = blob_new(SPAN("{}"));
    assert_non_null(tagged);
    assert_non_null(untagged);
    const struct {
        int status;
        struct blob *body;
        int expected;
    } rows[] = {{200, tagged, 412}, {404, tagged, 404}, {200, untagged, 200}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        struct http_response r = {.status = rows[i].status, .body = rows[i].body};
        http_response_evaluate_preconditions(&r, SPAN("\"x\""), SPAN("*"), &codings);
        assert_int_equal(r.status, rows[i].expected);
    }
    blob_unref(tagged);
    blob_unref(untagged);
}
