/* The fields of a request. What else a request says is in the simulation (tests/simulation/http/model.h). */
#include "unit/fixtures/http_feed.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"

/* Feeds every way and returns the request; it must be complete and end with the input. */
static const struct http_request *read_request(struct feed *f, const char *text)
{
    feed_every_way(f, &FEED_LIMITS, span_of(text));
    assert_int_equal(f->progress, HTTP_COMPLETE);
    assert_int_equal(f->used, strlen(text));
    return &f->parser.request;
}

TEST_CASE(field_names_ignore_case_and_values_are_trimmed)
{
    SCOPED_FEED(f);
    const struct http_request *r =
        read_request(&f, "GET / HTTP/1.1\r\nhOST:a:80\r\nx-API-key: \t key \t \r\nIF-NONE-MATCH:\"x\"\r\n"
                         "Origin: https://o\r\nAccess-Control-Request-Method: GET\r\ntraceparent: 00-1\r\n"
                         "X-Request-Id:\r\nUser-Agent: u\r\nX-Api-Keys: no\r\nX-Api-Ke: no\r\n\r\n");
    assert_span(r->field[HTTP_FIELD_HOST], "a:80");
    assert_span(r->field[HTTP_FIELD_API_KEY], "key");
    assert_span(r->field[HTTP_FIELD_IF_NONE_MATCH], "\"x\"");
    assert_span(r->field[HTTP_FIELD_ORIGIN], "https://o");
    assert_span(r->field[HTTP_FIELD_REQUEST_METHOD], "GET");
    assert_span(r->field[HTTP_FIELD_TRACEPARENT], "00-1");
    assert_span(r->field[HTTP_FIELD_REQUEST_ID], "");
    assert_span(r->field[HTTP_FIELD_EXPECT], NULL);
}

/* A tab becomes a space in no value that is kept, and not in content. */
TEST_CASE(tabs_in_values_are_kept)
{
    SCOPED_FEED(f);
    const struct http_request *r = read_request(
        &f, "POST / HTTP/1.1\r\nHost: a\t\r\nX-Api-Key:\tk\te \ty\t \r\nContent-Length: 3\t\r\nOrigin: \t\r\n"
            "X-Request-Id: \t1\r\nIf-None-Match: \"a\tb\"\t\r\nIf-None-Match:\t\"c\"\t\r\n\r\n\ta\t");
    assert_span(r->field[HTTP_FIELD_HOST], "a");
    assert_span(r->field[HTTP_FIELD_API_KEY], "k\te \ty");
    assert_span(r->field[HTTP_FIELD_ORIGIN], "");
    assert_span(r->field[HTTP_FIELD_REQUEST_ID], "1");
    assert_span(r->field[HTTP_FIELD_IF_NONE_MATCH], "\"a\tb\", \"c\"");
}

/* As far as they are complete: for the response. */
TEST_CASE(a_rejected_request_has_the_fields_before_the_error)
{
    static const struct {
        const char *text, *origin, *id;
    } rows[] = {
        {"GET / HTTP/1.1\r\nOrigin: o\r\nX-Request-Id: 1\r\nBad : x\r\n", "o", "1"},
        {"GET / HTTP/1.1\r\nOrigin: o\r\nX-Request-Id: 1\r\n z\r\n", "o", NULL},
        {"GET / HTTP/1.1\r\nOrigin: o\r\nX-Request-Id: 1\x01\r\n", "o", NULL},
        {"GET / HTTP/1.1\r\nOrigin: o\r\nOrigin: p\x01\r\n", "o", NULL},
        {"GET / HTTP/1.1\r\nHost: a\r\nOrigin: o\r\nTransfer-Encoding: x, chunked\r\n\r\n", "o", NULL},
        {"GET / HTTP/2.0\r\nOrigin: o\r\n", NULL, NULL},
        {"BREW / HTTP/1.1\r\nOrigin: o\r\n", NULL, NULL},
    };
    SCOPED_FEED(f);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        feed_every_way(&f, &FEED_LIMITS, span_of(rows[i].text));
        assert_int_equal(f.progress, HTTP_REJECTED);
        http_parser_end_rejected(&f.parser);
        assert_span(f.parser.request.field[HTTP_FIELD_ORIGIN], rows[i].origin);
        assert_span(f.parser.request.field[HTTP_FIELD_REQUEST_ID], rows[i].id);
    }
}

TEST_CASE(field_names_are_compared_in_every_byte)
{
    static const char tokens[] =
        "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    SCOPED_FEED(f);
    for (size_t at = 0; at < sizeof "x-api-key" - 1; at++) {
        for (size_t i = 0; i < sizeof tokens - 1; i++) {
            char text[] = GET "x-api-key: k\r\n\r\n";
            char *byte = text + sizeof GET - 1 + at;
            bool same =
                tokens[i] == *byte || (tokens[i] >= 'A' && tokens[i] <= 'Z' && (tokens[i] | 0x20) == *byte);
            *byte = tokens[i];
            const struct http_request *r = read_request(&f, text);
            assert_span(r->field[HTTP_FIELD_API_KEY], same ? "k" : NULL);
        }
    }
}

TEST_CASE(fields_with_longer_names_are_dropped)
{
    SCOPED_FEED(f);
    SCOPED_BUF(b);
    for (size_t n = 25; n < 80; n++) {
        buf_clear(&b);
        buf_append_str(&b, GET "access-control-request-method");
        for (size_t i = 29; i < n; i++)
            buf_append_char(&b, 'x');
        buf_append_str(&b, ": GET\r\nX-Api-Key: k\r\n\r\n");
        const struct http_request *r = read_request(&f, buf_c_str(&b));
        assert_span(r->field[HTTP_FIELD_REQUEST_METHOD], n <= 29 ? "GET" : NULL);
        assert_span(r->field[HTTP_FIELD_API_KEY], "k");
    }
}

TEST_CASE(the_first_of_repeated_fields_counts_even_when_empty)
{
    SCOPED_FEED(f);
    const struct http_request *r = read_request(&f, GET "Origin: one\r\nOrigin: two\r\n\r\n");
    assert_span(r->field[HTTP_FIELD_ORIGIN], "one");
    r = read_request(&f, GET "Origin:\r\nOrigin: two\r\nX-Request-Id: id\r\n\r\n");
    assert_span(r->field[HTTP_FIELD_ORIGIN], "");
    assert_span(r->field[HTTP_FIELD_REQUEST_ID], "id");
}

TEST_CASE(a_field_may_be_repeated_with_the_same_value)
{
    static const char *const heads[] = {
        GET "X-Api-Key: one\r\nX-Api-Key: one\r\n\r\n",
        GET "X-Api-Key:one \r\nOrigin: o\r\nx-api-key: \t one\t\r\n\r\n",
        GET "X-Api-Key: one\r\nX-Api-Key: one\r\nX-Api-Key: one\r\nX: y\r\nOrigin: o\r\n\r\n"};
    SCOPED_FEED(f);
    for (size_t i = 0; i < TEST_COUNT(heads); i++) {
        const struct http_request *r = read_request(&f, heads[i]);
        assert_span(r->field[HTTP_FIELD_API_KEY], "one");
        assert_span(r->field[HTTP_FIELD_ORIGIN], i == 0 ? NULL : "o");
    }
    assert_span(read_request(&f, GET "X-Api-Key:\r\nX-Api-Key:\r\n\r\n")->field[HTTP_FIELD_API_KEY], "");
}

TEST_CASE(a_field_repeated_with_another_value_is_rejected)
{
    SCOPED_FEED(f);
    EACH_TEXT (text, GET "X-Api-Key: one\r\nX-Api-Key: two\r\n\r\n",
               GET "X-Api-Key: one\r\nX-Api-Key: on\r\n\r\n", GET "X-Api-Key: one\r\nX-Api-Key: ones\r\n\r\n",
               GET "X-Api-Key: one\r\nX-Api-Key: One\r\n\r\n", GET "X-Api-Key: one\r\nX-Api-Key:\r\n\r\n",
               GET "X-Api-Key:\r\nX-Api-Key: one\r\n\r\n",
               GET "X-Api-Key: one\r\nX-Api-Key: two\r\nX-Api-Key: one\r\nX: y\r\n\r\n",
               GET "X-Api-Key: one\r\nOrigin: o\r\nX-Api-Key: two\r\nOrigin: o\r\n\r\n",
               GET "X-Api-Key: one\r\nX-Api-Key: one\r\nX-Api-Key: two\r\n\r\n") {
        feed_every_way(&f, &FEED_LIMITS, span_of(text));
        assert_int_equal(f.progress, HTTP_REJECTED);
        assert_int_equal(f.parser.status, 400);
    }
}

TEST_CASE(x_forwarded_for_is_a_list)
{
    static const char head[] = GET "X-Forwarded-For: a\r\nIf-None-Match: \"b\"\r\nx-forwarded-for: c, d\r\n"
                                   "If-None-Match: \"e\"\r\nX-Forwarded-For:\r\n\r\n";
    SCOPED_FEED(f);
    const struct http_request *r = read_request(&f, head);
    assert_span(r->field[HTTP_FIELD_FORWARDED_FOR], "a, c, d,");
    assert_span(r->field[HTTP_FIELD_IF_NONE_MATCH], "\"b\", \"e\"");
}

/* A long list that is continued behind each other field: nothing is copied again, nor kept for the next
 * request. */
TEST_CASE(field_values_are_kept_once_in_any_order)
{
    SCOPED_FEED(f);
    SCOPED_BUF(head);
    buf_append_str(&head, GET "If-None-Match: ");
    while (head.len < FEED_LIMITS.head_max - 500)
        buf_append_str(&head, "\"\",");
    EACH_TEXT (text, "Origin: o", "X-Api-Key: k", "X-Api-Key: k", "Expect: e", "Traceparent: t",
               "X-Request-Id: i", "X-Forwarded-For: f", "Access-Control-Request-Method: m")
        buf_printf(&head, "\r\n%s\r\nIf-None-Match: \"\"", text);
    buf_append_str(&head, "\r\n\r\n");
    for (int requests = 0; requests < 3; requests++) {
        feed_whole(&f, &FEED_LIMITS, buf_span(&head));
        assert_int_equal(f.progress, HTTP_COMPLETE);
        assert_true(f.parser.head.cap + f.parser.lists.cap <= 2 * FEED_LIMITS.head_max);
    }
}

TEST_CASE(lists_are_joined_across_fields)
{
    SCOPED_FEED(f);
    const struct http_request *r =
        read_request(&f, GET "If-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n\r\n");
    assert_span(r->field[HTTP_FIELD_IF_NONE_MATCH], "\"a\", \"b\"");
    r = read_request(&f, GET "Accept-Encoding: a\r\nIf-None-Match: \"x\"\r\nAccept-Encoding: b\r\n\r\n");
    assert_span(r->field[HTTP_FIELD_ACCEPT_ENCODING], "a, b");
    assert_span(r->field[HTTP_FIELD_IF_NONE_MATCH], "\"x\"");
    r = read_request(&f, GET "If-None-Match: \"a\"\r\nX-Api-Key: k\r\nIf-None-Match: \"b\"\r\nOrigin: o\r\n"
                             "If-None-Match: W/\"c\"\r\n\r\n");
    assert_span(r->field[HTTP_FIELD_IF_NONE_MATCH], "\"a\", \"b\", W/\"c\"");
    assert_span(r->field[HTTP_FIELD_API_KEY], "k");
    assert_span(r->field[HTTP_FIELD_ORIGIN], "o");
}

/* Values of every length around the sizes to which the text buffer grows. */
TEST_CASE(joining_lists_survives_a_growing_buffer)
{
    struct feed f = {0};
    SCOPED_BUF(b);
    for (size_t n = 60; n < 140; n++) {
        char tag[160];
        memset(tag, 'x', n);
        tag[n] = '\0';
        buf_clear(&b);
        buf_append_str(&b, GET "Accept-Encoding: a\r\nAccept-Encoding: b\r\n");
        buf_printf(&b, "If-None-Match: %s\r\nX-Api-Key: %s\r\nIf-None-Match: %s\r\n\r\n", tag, tag, tag);
        feed_fini(&f); /* a fresh buffer each time */
        feed_whole(&f, &FEED_LIMITS, buf_span(&b));
        assert_int_equal(f.progress, HTTP_COMPLETE);
        buf_clear(&b);
        buf_printf(&b, "%s, %s", tag, tag);
        assert_span(f.parser.request.field[HTTP_FIELD_IF_NONE_MATCH], buf_c_str(&b));
        assert_span(f.parser.request.field[HTTP_FIELD_API_KEY], tag);
        assert_span(f.parser.request.field[HTTP_FIELD_ACCEPT_ENCODING], "a, b");
    }
    feed_fini(&f);
}

TEST_CASE(a_reused_parser_has_nothing_of_the_previous_request)
{
    SCOPED_FEED(f);
    feed_whole(&f, &FEED_LIMITS, SPAN("HEAD /x?y HTTP/1.0\r\nHost: b\r\nX-Api-Key: k\r\nExpect: e\r\nOri"));
    const struct http_request *r = read_request(&f, GET "\r\n");
    assert_int_equal(r->method, METHOD_GET);
    assert_int_equal(r->minor_version, 1);
    assert_span(r->path, "/");
    assert_span(r->query, NULL);
    assert_span(r->field[HTTP_FIELD_API_KEY], NULL);
    assert_span(r->field[HTTP_FIELD_EXPECT], NULL);
    assert_span(r->field[HTTP_FIELD_HOST], "a");
}

/* What two sections have in common at their beginning is not parsed again. */
TEST_CASE(a_request_has_nothing_of_one_that_began_with_the_same_fields)
{
    static const char *const fields[] = {
        "",
        "X-Api-Key: k\r\n",
        "X-Api-Key: l\r\n",
        "X-Api-Key: k\r\nX-Api-Key: l\r\n",
        "X-Api-Key: k\r\n l\r\n",
        "X-Api-Key: k\r\nHost: b\r\n",
        "X-Api-Key: k\r\nConnection: close\r\n",
        "X-Api-Key: k\r\nOrigin: o\r\n",
        "X-Api-Key:\r\nOrigin: p\r\n",
        "X-Api-Key:\r\n k\r\n",
        "X-Api-Key:\tk\r\nOrigin: p\r\n",
        "If-Match: a\r\nIf-Match: b\r\n",
        "If-Match: a\r\nOrigin: p\r\nIf-Match: b\r\n",
        "If-Match: a\r\nOrigin: p\r\n",
        "Connection: close\r\nOrigin: o\r\n",
        "Connection: close\r\nOrigin: p\r\n",
        "Connection: x\r\n close\r\n",
        "Connection: x\r\nOrigin: o\r\n",
        "Connection:\r\nOrigin: o\r\n",
        "Content-Length: 0\r\nOrigin: o\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Content-Length: 1\r\nOrigin: o\r\n",
        "Transfer-Encoding: chunked\r\nOrigin: o\r\n",
        "Transfer-Encoding: chunked\r\n chunked\r\n",
    };
    enum { COUNT = sizeof fields / sizeof fields[0] };
    for (int i = 0; i < COUNT * COUNT; i++) {
        SCOPED_FEED(f);
        SCOPED_BUF(first);
        SCOPED_BUF(second);
        buf_printf(&first, GET "%s\r\n", fields[i / COUNT]);
        buf_printf(&second, GET "%s\r\n", fields[i % COUNT]);
        feed_whole(&f, &FEED_LIMITS, buf_span(&first));
        feed_every_way(&f, &FEED_LIMITS, buf_span(&second));
    }
}

TEST_CASE(a_key_is_erased_when_the_next_section_is_another_one)
{
    EACH_TEXT (text, "GET / HTTP/1.1\r\nHost: b\r\n\r\n", GET "\r\n", GET "X-Api-Key: k\r\n\r\n") {
        SCOPED_FEED(f);
        feed_whole(&f, &FEED_LIMITS, SPAN(GET "Origin: https://example.org\r\nX-Api-Key: secret\r\n\r\n"));
        feed_whole(&f, &FEED_LIMITS, span_of(text));
        assert_int_equal(f.progress, HTTP_COMPLETE);
        assert_null(memmem(f.parser.head.data, f.parser.head.cap, "secret", 6));
    }
}

TEST_CASE(the_limit_of_a_head_counts_a_known_section)
{
    static const struct feed_limits limits = {.head_max = 60};
    for (int len = 1; len < (int)limits.head_max; len++) {
        SCOPED_FEED(f);
        SCOPED_BUF(second);
        buf_printf(&second, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", len, 0);
        feed_whole(&f, &limits, SPAN(GET "\r\n"));
        feed_every_way(&f, &limits, buf_span(&second));
        assert_int_equal(f.progress, second.len <= limits.head_max ? HTTP_COMPLETE : HTTP_REJECTED);
    }
}

/* Also where the header section is known, and llhttp does not see the target. It is scanned in words, and its
 * rest in bytes. */
TEST_CASE(a_forbidden_byte_of_a_target_is_found_at_every_position)
{
    SCOPED_FEED(f);
    feed_whole(&f, &FEED_LIMITS, SPAN(GET "\r\n"));
    assert_true(f.parser.is_section);
    for (int c = 0; c < 256; c++) {
        bool forbidden = c <= 0x20 || c == '#' || c >= 0x7F;
        for (size_t at = sizeof "GET /?" - 1; at < sizeof "GET /?a&b~c=defghijklmn" - 1; at++) {
            char text[] = "GET /?a&b~c=defghijklmno HTTP/1.1\r\nHost: a\r\n\r\n";
            text[at] = (char)c;
            feed_whole(&f, &FEED_LIMITS, (struct span){text, sizeof text - 1});
            if (f.progress != (forbidden ? HTTP_REJECTED : HTTP_COMPLETE))
                fail_msg("byte %d at %zu", c, at);
        }
    }
}
