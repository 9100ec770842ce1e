/* CORS: which origins are told what, and what a list of origins may look like. */
#include "api/cors.h"
#include "api/params.h"

#include "unit/check.h"

static const char *value_of(const struct http_response *r, const char *name)
{
    static char text[256];
    for (unsigned i = 0; i < r->field_count; i++) {
        if (!span_equal(r->field[i].name, span_of(name)))
            continue;
        (void)snprintf(text, sizeof text, "%.*s", (int)r->field[i].value.len, r->field[i].value.data);
        return text;
    }
    return "(none)";
}

static struct http_response answer_to(const char *origins, const char *origin)
{
    struct http_request request = {.method = METHOD_GET};
    struct http_response r = {.status = 200};
    if (origin != NULL)
        request.field[API_FIELD_ORIGIN] = span_of(origin);
    cors_add_fields(span_of(origins), &request, &r);
    return r;
}

TEST_CASE(listed_origin_is_allowed)
{
    EACH_TEXT (text, "https://a.example", "https://b.example,https://a.example",
               " https://b.example , https://a.example ", "https://a.example,https://b.example") {
        struct http_response r = answer_to(text, "https://a.example");
        assert_string_equal(value_of(&r, "Access-Control-Allow-Origin"), "https://a.example");
        assert_string_equal(
            value_of(&r, "Access-Control-Expose-Headers"),
            "Age, Cache-Status, ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id");
        assert_int_equal(r.vary, HTTP_VARY_ORIGIN);
    }
}

TEST_CASE(other_origins_get_vary_alone)
{
    static const char *const origins[] = {"https://a.example.evil",
                                          "http://a.example",
                                          "https://a.example:8443",
                                          "null",
                                          "https://A.example",
                                          "*",
                                          "",
                                          NULL};
    for (size_t i = 0; i < TEST_COUNT(origins); i++) {
        struct http_response r = answer_to("https://a.example,https://b.example", origins[i]);
        assert_string_equal(value_of(&r, "Access-Control-Allow-Origin"), "(none)");
        assert_int_equal(r.vary, HTTP_VARY_ORIGIN);
    }
}

/* A cache may keep what was asked without an origin, and give it to a page. */
TEST_CASE(star_allows_every_origin_without_vary)
{
    static const char *const origins[] = {"https://anyone.example", "null", "", NULL};
    for (size_t i = 0; i < TEST_COUNT(origins); i++) {
        struct http_response r = answer_to("*", origins[i]);
        assert_string_equal(value_of(&r, "Access-Control-Allow-Origin"), "*");
        assert_string_equal(
            value_of(&r, "Access-Control-Expose-Headers"),
            "Age, Cache-Status, ETag, Link, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id");
        assert_int_equal(r.vary, 0);
    }
}

static struct http_response preflight(const char *origins, const char *origin, const char *method)
{
    struct http_request request = {.method = METHOD_OPTIONS};
    struct http_response r = {.status = 204};
    if (origin != NULL)
        request.field[API_FIELD_ORIGIN] = span_of(origin);
    if (method != NULL)
        request.field[API_FIELD_REQUEST_METHOD] = span_of(method);
    cors_add_preflight_fields(span_of(origins), &request, &r);
    return r;
}

TEST_CASE(preflight_response_has_methods_and_headers)
{
    struct http_response r = preflight("https://a.example", "https://a.example", "GET");
    assert_string_equal(value_of(&r, "Access-Control-Allow-Methods"), "GET, HEAD");
    assert_string_equal(value_of(&r, "Access-Control-Allow-Headers"),
                        "Baggage, If-Match, If-None-Match, Traceparent, Tracestate, X-Api-Key, X-Request-Id");
    assert_string_equal(value_of(&r, "Access-Control-Max-Age"), "86400");
    r = preflight("https://a.example", "https://b.example", "GET");
    assert_int_equal(r.field_count, 0);
    r = preflight("https://a.example", "https://a.example", NULL);
    assert_int_equal(r.field_count, 0);
    r = preflight("https://a.example", NULL, "GET");
    assert_int_equal(r.field_count, 0);
}

/* Both kinds of fields and those of any answer fit together. */
TEST_CASE(response_has_room_for_all_fields)
{
    const struct span origins = SPAN("https://a.example");
    struct http_request request = {.method = METHOD_OPTIONS};
    struct http_response r = {.status = 204};
    request.field[API_FIELD_ORIGIN] = SPAN("https://a.example");
    request.field[API_FIELD_REQUEST_METHOD] = SPAN("GET");
    cors_add_preflight_fields(origins, &request, &r);
    cors_add_fields(origins, &request, &r);
    assert_true(r.field_count + 5 <= HTTP_RESPONSE_FIELDS_MAX);
}

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
               "https://[::A]", "https://[0:0:0:0:0:0:0:1]", "https://::1", "https://[", "https://a:-1",
               "https://a~b", "https://[00000:00000:00000:00000:00000:00000:00000:00001]")
        assert_named(text, text);
}
