/* CORS: which origins are told what, and what a list of origins may look like. */
#include "api/cors.h"

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
    const struct cors c = {span_of(origins)};
    struct http_request request = {.method = METHOD_GET};
    struct http_response r = {.status = 200};
    if (origin != NULL)
        request.field[HTTP_FIELD_ORIGIN] = span_of(origin);
    cors_add_fields(&c, &request, &r);
    return r;
}

TEST(when_it_is_off_nothing_is_added)
{
    assert_false(cors_enabled(&(struct cors){SPAN("")}));
    struct http_response r = answer_to("", "https://a.example");
    assert_int_equal(r.field_count, 0);
}

TEST(an_origin_that_is_named_is_let_in)
{
    static const char *const lists[] = {"https://a.example", "https://b.example,https://a.example",
                                        " https://b.example , https://a.example ",
                                        "https://a.example,https://b.example"};
    for (size_t i = 0; i < TEST_COUNT(lists); i++) {
        struct http_response r = answer_to(lists[i], "https://a.example");
        assert_string_equal(value_of(&r, "Access-Control-Allow-Origin"), "https://a.example");
        assert_string_equal(value_of(&r, "Access-Control-Expose-Headers"),
                            "ETag, Link, Retry-After, X-Request-Id");
        assert_string_equal(value_of(&r, "Vary"), "Origin");
    }
}

TEST(every_other_origin_is_not_but_caches_are_told_that_it_matters)
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
        assert_string_equal(value_of(&r, "Vary"), "Origin");
    }
}

TEST(the_star_lets_everyone_in_and_does_not_vary)
{
    struct http_response r = answer_to("*", "https://anyone.example");
    assert_string_equal(value_of(&r, "Access-Control-Allow-Origin"), "*");
    assert_string_equal(value_of(&r, "Vary"), "(none)");
    r = answer_to("*", NULL);
    assert_int_equal(r.field_count, 0);
}

static struct http_response preflight(const char *origins, const char *origin, const char *method)
{
    const struct cors c = {span_of(origins)};
    struct http_request request = {.method = METHOD_OPTIONS};
    struct http_response r = {.status = 204};
    if (origin != NULL)
        request.field[HTTP_FIELD_ORIGIN] = span_of(origin);
    if (method != NULL)
        request.field[HTTP_FIELD_REQUEST_METHOD] = span_of(method);
    cors_add_preflight_fields(&c, &request, &r);
    return r;
}

TEST(a_preflight_request_learns_what_is_allowed)
{
    struct http_response r = preflight("https://a.example", "https://a.example", "GET");
    assert_string_equal(value_of(&r, "Access-Control-Allow-Methods"), "GET, HEAD");
    assert_string_equal(value_of(&r, "Access-Control-Allow-Headers"),
                        "If-None-Match, Traceparent, X-Api-Key, X-Request-Id");
    assert_string_equal(value_of(&r, "Access-Control-Max-Age"), "86400");
    r = preflight("https://a.example", "https://b.example", "GET");
    assert_int_equal(r.field_count, 0);
    r = preflight("https://a.example", "https://a.example", NULL);
    assert_int_equal(r.field_count, 0);
    r = preflight("https://a.example", NULL, "GET");
    assert_int_equal(r.field_count, 0);
}

/* Both kinds of fields and those of any answer fit together. */
TEST(there_is_room_for_all_fields)
{
    const struct cors c = {SPAN("https://a.example")};
    struct http_request request = {.method = METHOD_OPTIONS};
    struct http_response r = {.status = 204};
    request.field[HTTP_FIELD_ORIGIN] = SPAN("https://a.example");
    request.field[HTTP_FIELD_REQUEST_METHOD] = SPAN("GET");
    cors_add_preflight_fields(&c, &request, &r);
    cors_add_fields(&c, &request, &r);
    assert_true(r.field_count + 5 <= HTTP_RESPONSE_FIELDS_MAX);
}

TEST(a_list_of_origins_is_empty_or_a_star_or_origins)
{
    static const char *const valid[] = {
        "", "*", " * ", "https://a", "http://a:80", "https://a, http://b", "https://[::1]:1", "https://a,"};
    static const char *const invalid[] = {",",           "https://a,,https://b", "a.example",   "https://",
                                          "ftp://a",     "https://a/",           "https://a/b", "*,https://a",
                                          "https://a b", "https://a;https://b/", "null",        ",https://a",
                                          "HTTPS://a"};
    for (size_t i = 0; i < TEST_COUNT(valid); i++)
        if (!cors_origins_valid(span_of(valid[i])))
            fail_msg("\"%s\" is refused", valid[i]);
    for (size_t i = 0; i < TEST_COUNT(invalid); i++)
        if (cors_origins_valid(span_of(invalid[i])))
            fail_msg("\"%s\" is taken", invalid[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_it_is_off_nothing_is_added),
        cmocka_unit_test(an_origin_that_is_named_is_let_in),
        cmocka_unit_test(every_other_origin_is_not_but_caches_are_told_that_it_matters),
        cmocka_unit_test(the_star_lets_everyone_in_and_does_not_vary),
        cmocka_unit_test(a_preflight_request_learns_what_is_allowed),
        cmocka_unit_test(there_is_room_for_all_fields),
        cmocka_unit_test(a_list_of_origins_is_empty_or_a_star_or_origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
