/* The header section of an earlier request: a request with the same one is what it is without that. */
#include "unit/fixtures/http_feed.h"

#define SECTION "Host: a\r\nX-API-Key: 123\r\n\r\n"

/* Feeds a request in which the section is accepted. */
static void send_section(struct feed *f, const char *section)
{
    SCOPED_BUF(b);
    buf_printf(&b, "GET /first HTTP/1.1\r\n%s", section);
    feed_known(f, &FEED_LIMITS, buf_span(&b));
    assert_int_equal(f->progress, HTTP_COMPLETE);
}

/* llhttp has not seen a byte of the last request: `head` is its target. */
static bool was_recognised(const struct feed *f)
{
    return f->progress == HTTP_COMPLETE && f->parser.head.data[0] == '/';
}

TEST_CASE(a_section_is_recognised_until_another_one_comes)
{
    SCOPED_FEED(f);
    EACH_TEXT (section, SECTION, "Host: ab\r\nX-API-Key: 12345\r\n\r\n", "Host: a\r\n\r\n",
               "Host: b\r\nX-API-Key: 123\r\n\r\n") {
        for (int times = 0; times < 3; times++) {
            send_section(&f, section);
            assert_int_equal(was_recognised(&f), times > 0);
        }
    }
}

TEST_CASE(a_section_may_be_as_long_as_the_limit)
{
    for (int longer = 0; longer < 2; longer++) {
        SCOPED_FEED(f);
        SCOPED_BUF(b);
        int padding = HTTP_SECTION_MAX + longer - (int)strlen("X: \r\n" SECTION);
        buf_printf(&b, "X: %0*d\r\n" SECTION, padding, 0);
        send_section(&f, buf_c_str(&b));
        send_section(&f, buf_c_str(&b));
        assert_int_equal(was_recognised(&f), !longer);
    }
}

TEST_CASE(all_values_of_a_recognised_section_are_there)
{
    static const char section[] =
        "Accept:\t a/b , c\r\nHOST:  a \r\nOrigin:\r\nx-api-key: 1\r\nX-Api-Key: 1\r\n"
        "Other: z\r\nTraceparent: 00\r\ntraceparent: 01\r\n\r\n";
    SCOPED_FEED(f);
    send_section(&f, section);
    send_section(&f, section);
    assert_true(was_recognised(&f));
    assert_span(f.parser.request.field[FEED_FIELD_LIST], "a/b , c");
    assert_span(f.parser.request.field[FEED_FIELD_ORIGIN], "");
    assert_span(f.parser.request.field[FEED_FIELD_TRACEPARENT], "00");
}

TEST_CASE(a_list_in_several_fields_is_parsed_each_time)
{
    SCOPED_FEED(f);
    for (int times = 0; times < 4; times++) {
        send_section(&f, "Host: a\r\nAccept: a\r\nAccept: b\r\n\r\n");
        assert_false(was_recognised(&f));
        assert_span(f.parser.request.field[FEED_FIELD_LIST], "a, b");
    }
}

TEST_CASE(what_follows_a_section_is_left)
{
    SCOPED_FEED(f);
    send_section(&f, SECTION);
    feed_known(&f, &FEED_LIMITS, SPAN("GET /a HTTP/1.1\r\n" SECTION "GET /b"));
    assert_true(was_recognised(&f));
    assert_int_equal(f.used, strlen("GET /a HTTP/1.1\r\n" SECTION));
}

TEST_CASE(a_section_is_recognised_with_its_content)
{
    EACH_TEXT (section, "Host: a\r\nContent-Length: 1\r\n\r\nx",
               "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n") {
        SCOPED_FEED(f);
        for (int times = 0; times < 3; times++) {
            send_section(&f, section);
            assert_int_equal(was_recognised(&f), times > 0);
        }
    }
}

TEST_CASE(the_limit_of_the_head_counts_for_a_recognised_request)
{
    static const char request[] = "GET /first HTTP/1.1\r\n" SECTION;
    SCOPED_FEED(f);
    send_section(&f, SECTION);
    for (size_t less = 0; less < 2; less++) {
        struct feed_limits limits = FEED_LIMITS;
        limits.head_max = strlen(request) - less;
        feed_known(&f, &limits, SPAN(request));
        assert_int_equal(f.progress, less == 0 ? HTTP_COMPLETE : HTTP_REJECTED);
    }
}
