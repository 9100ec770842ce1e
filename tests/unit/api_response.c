/* What responses are made of: error bodies and statuses, and the Link field of each page. */
#include "api/response.h"

#include <stdlib.h>

#include "http/response.h"
#include "support/json.h"
#include "unit/check.h"

TEST_CASE(error_bodies_have_the_envelope_and_distinct_texts)
{
    struct api_bodies b;
    assert_int_equal(api_bodies_init(&b, SPAN("/api/")), 0);
    for (int i = 0; i < API_ERROR_COUNT; i++) {
        struct buf body = BUF_INIT;
        buf_append(&body, b.error[i].body->data, b.error[i].body->len);
        const char *text = buf_c_str(&body);
        assert_non_null(text);
        json_assert_error(text);
        json_assert_at(text, "success", "false");
        buf_fini(&body);
        assert_int_equal(b.error[i].body->etag_len, 0);
        for (int j = 0; j < i; j++)
            assert_false(span_equal((struct span){b.error[i].body->data, b.error[i].body->len},
                                    (struct span){b.error[j].body->data, b.error[j].body->len}));
    }
    api_bodies_fini(&b);
}

TEST_CASE(error_texts_are_those_of_the_contract)
{
    struct api_bodies b;
    assert_int_equal(api_bodies_init(&b, SPAN("/api/")), 0);
    struct span internal = {b.error[API_ERROR_INTERNAL].body->data, b.error[API_ERROR_INTERNAL].body->len};
    struct span missing = {b.error[API_ERROR_CHANNEL_NOT_FOUND].body->data,
                           b.error[API_ERROR_CHANNEL_NOT_FOUND].body->len};
    assert_span(internal, "{\"success\":false,\"error\":\"Internal server error\"}");
    assert_span(missing, "{\"success\":false,\"error\":\"Channel not found\"}");
    api_bodies_fini(&b);
}

TEST_CASE(error_statuses_are_known_to_http)
{
    struct api_bodies b;
    assert_int_equal(api_bodies_init(&b, SPAN("/api/")), 0);
    for (int i = 0; i < API_ERROR_COUNT; i++) {
        int status = b.error[i].status;
        assert_true(status >= 400 && status <= 599);
        assert_string_not_equal(http_status_text(status), "Unknown");
    }
    api_bodies_fini(&b);
}

TEST_CASE(rejections_have_their_status)
{
    static const int refusals[] = {400, 408, 413, 414, 431, 500, 501, 503, 505};
    struct api_bodies b;
    assert_int_equal(api_bodies_init(&b, SPAN("/api/")), 0);
    for (size_t i = 0; i < TEST_COUNT(refusals); i++)
        assert_int_equal(b.error[api_error_for_status(refusals[i])].status, refusals[i]);
    api_bodies_fini(&b);
    assert_int_equal(api_error_for_status(400), API_ERROR_MALFORMED); /* none of the 400s about parameters */
    assert_int_equal(api_error_for_status(418), API_ERROR_INTERNAL);
    assert_int_equal(api_error_for_status(404), API_ERROR_INTERNAL);
}

TEST_CASE(partial_errors_can_be_freed)
{
    struct blob *body = blob_new(SPAN("x"));
    assert_non_null(body);
    struct api_bodies b = {0};
    b.error[API_ERROR_COUNT - 1].body = blob_ref(body); /* the only one */
    api_bodies_fini(&b);
    assert_int_equal(body->refs, 1);
    blob_unref(body);
}

/* --- links --- */

static void expect_links(int64_t page, int64_t last, const char *text)
{
    SCOPED_BUF(out);
    page_links_write(&out, SPAN("/api/"), page, last);
    assert_buf(&out, text);
}

#define AT(page, relation) "</api/channels/?page=" page ">; rel=\"" relation "\""

TEST_CASE(only_page_is_first_and_last)
{
    expect_links(1, 1, AT("1", "first") ", " AT("1", "last"));
}

TEST_CASE(prev_and_next_depend_on_the_position)
{
    expect_links(1, 3, AT("1", "first") ", " AT("2", "next") ", " AT("3", "last"));
    expect_links(2, 3, AT("1", "first") ", " AT("1", "prev") ", " AT("3", "next") ", " AT("3", "last"));
    expect_links(3, 3, AT("1", "first") ", " AT("2", "prev") ", " AT("3", "last"));
}

TEST_CASE(prev_beyond_the_end_is_the_last_page)
{
    expect_links(4, 3, AT("1", "first") ", " AT("3", "prev") ", " AT("3", "last"));
    expect_links(5, 3, AT("1", "first") ", " AT("3", "prev") ", " AT("3", "last"));
    expect_links(INT64_MAX, 1, AT("1", "first") ", " AT("1", "prev") ", " AT("1", "last"));
}

TEST_CASE(largest_numbers_are_written_in_full)
{
    expect_links(
        INT64_MAX, INT64_MAX,
        AT("1", "first") ", " AT("9223372036854775806", "prev") ", " AT("9223372036854775807", "last"));
}

TEST_CASE(links_begin_with_the_base_path)
{
    SCOPED_BUF(out);
    buf_append_str(&out, "before ");
    page_links_write(&out, SPAN("/"), 1, 1);
    assert_buf(&out, "before </channels/?page=1>; rel=\"first\", </channels/?page=1>; rel=\"last\"");
}
