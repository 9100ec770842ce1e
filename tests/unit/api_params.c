/* Questions: what each route asks the store for, and which parameters are wrong, key or no key. */
#include "api/params.h"

#include <errno.h>

#include "unit/check.h"

static const struct link_hosts HOSTS = {{"max.ru", 6}, {"web.max.ru", 10}};
static struct buf scratch;
static struct digest_cache memo;
static const struct params_context CONTEXT = {&HOSTS, &memo, &scratch};

static int ask(struct params *q, enum route route, const char *query, const char *id)
{
    struct http_request r = {.method = METHOD_GET};
    r.field[HTTP_FIELD_API_KEY] = SPAN("key");
    if (query != NULL)
        r.query = span_of(query);
    return params_parse(q, &r, route, id == NULL ? SPAN_ABSENT : span_of(id), &CONTEXT);
}

static void expect_page(const char *query, int64_t page)
{
    struct params q;
    assert_int_equal(ask(&q, ROUTE_LIST, query, NULL), 0);
    assert_int_equal(q.error, API_ERROR_NONE);
    assert_int_equal(q.cache.target, QUERY_PAGE);
    assert_true(q.cache.number == page);
}

static void expect_error(enum route route, const char *query, const char *id, enum api_error error)
{
    struct params q;
    assert_int_equal(ask(&q, route, query, id), 0);
    assert_int_equal(q.error, error);
    assert_int_equal(q.cache.target, QUERY_AUTH_ONLY); /* the key is asked about all the same */
}

TEST(the_list_asks_for_a_page_the_first_without_one)
{
    expect_page(NULL, 1);
    expect_page("", 1);
    expect_page("other=5", 1);
    expect_page("page=1", 1);
    expect_page("page=2", 2);
    expect_page("page=%32", 2);
    expect_page("p%61ge=7&page=8", 7);
    expect_page("x=y&page=9223372036854775807", INT64_MAX);
}

TEST(a_page_that_is_no_positive_integer_is_wrong)
{
    static const char *const queries[] = {"page=",
                                          "page",
                                          "page=0",
                                          "page=-1",
                                          "page=abc",
                                          "page=1.5",
                                          "page=+1",
                                          "page=01",
                                          "page=1%20",
                                          "page=%201",
                                          "page=1,2",
                                          "page=9223372036854775808",
                                          "page=1e3",
                                          "page=0x1",
                                          "page=1%00",
                                          "page=&page=2",
                                          "page=-9223372036854775808"};
    for (size_t i = 0; i < TEST_COUNT(queries); i++)
        expect_error(ROUTE_LIST, queries[i], NULL, API_ERROR_BAD_PAGE);
}

TEST(a_card_by_id_takes_every_int64_and_nothing_else)
{
    static const struct {
        const char *id;
        int64_t number;
    } valid[] = {{"0", 0},
                 {"1", 1},
                 {"-1", -1},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN}};
    static const char *const invalid[] = {
        "",   "abc", "1.0", "+1",     "-0", "01", "9223372036854775808", "-9223372036854775809",
        " 1", "1 ",  "0x1", "by-link"};
    for (size_t i = 0; i < TEST_COUNT(valid); i++) {
        struct params q;
        assert_int_equal(ask(&q, ROUTE_CARD_BY_ID, "page=0&link=x", valid[i].id), 0);
        assert_int_equal(q.error, API_ERROR_NONE);
        assert_int_equal(q.cache.target, QUERY_CARD);
        assert_true(q.cache.number == valid[i].number);
    }
    for (size_t i = 0; i < TEST_COUNT(invalid); i++)
        expect_error(ROUTE_CARD_BY_ID, NULL, invalid[i], API_ERROR_BAD_CHANNEL_ID);
}

static void expect_link(const char *query, const char *link)
{
    struct params q;
    assert_int_equal(ask(&q, ROUTE_CARD_BY_LINK, query, NULL), 0);
    assert_int_equal(q.error, API_ERROR_NONE);
    assert_int_equal(q.cache.target, QUERY_CARD_BY_LINK);
    assert_span(q.cache.link, link);
}

TEST(a_card_by_link_asks_for_the_stored_shape)
{
    expect_link("link=https://max.ru/slug", "https://max.ru/slug");
    expect_link("link=https%3A%2F%2Fmax.ru%2Fslug", "https://max.ru/slug");
    expect_link("link=HTTP://WEB.MAX.RU:80/slug/", "https://max.ru/slug");
    expect_link("page=0&link=https://max.ru/slug%3Fa=b&x=y", "https://max.ru/slug");
    expect_link("link=https://max.ru/one&link=https://max.ru/two", "https://max.ru/one");
}

TEST(a_missing_link_is_wrong_and_a_foreign_one_is_nobodys)
{
    expect_error(ROUTE_CARD_BY_LINK, NULL, NULL, API_ERROR_LINK_MISSING);
    expect_error(ROUTE_CARD_BY_LINK, "", NULL, API_ERROR_LINK_MISSING);
    expect_error(ROUTE_CARD_BY_LINK, "link=", NULL, API_ERROR_LINK_MISSING);
    expect_error(ROUTE_CARD_BY_LINK, "link", NULL, API_ERROR_LINK_MISSING);
    expect_error(ROUTE_CARD_BY_LINK, "Link=https://max.ru/a", NULL, API_ERROR_LINK_MISSING);
    expect_error(ROUTE_CARD_BY_LINK, "link=&link=https://max.ru/a", NULL, API_ERROR_LINK_MISSING);
    expect_error(ROUTE_CARD_BY_LINK, "link=https://example.org/a", NULL, API_ERROR_CHANNEL_NOT_FOUND);
    expect_error(ROUTE_CARD_BY_LINK, "link=slug", NULL, API_ERROR_CHANNEL_NOT_FOUND);
    expect_error(ROUTE_CARD_BY_LINK, "link=ftp://max.ru/a", NULL, API_ERROR_CHANNEL_NOT_FOUND);
}

/* The stored shape is made behind the decoded link in one buffer, which may have to grow for it. */
TEST(links_of_every_length_survive_the_growth_of_the_buffer)
{
    for (size_t n = 1; n < 1200; n++) {
        char query[1300];
        char pending[1300];
        char slug[1201];
        memset(slug, 'x', n);
        slug[n] = '\0';
        (void)snprintf(query, sizeof query, "link=http://web.max.ru/%s", slug);
        (void)snprintf(pending, sizeof pending, "https://max.ru/%s", slug);
        buf_fini(&scratch); /* a fresh buffer each time */
        expect_link(query, pending);
    }
}

TEST(without_a_key_nothing_is_asked_whatever_the_parameters)
{
    static const enum route routes[] = {ROUTE_LIST, ROUTE_CARD_BY_ID, ROUTE_CARD_BY_LINK};
    for (size_t i = 0; i < TEST_COUNT(routes); i++) {
        struct params q;
        struct http_request r = {.method = METHOD_GET, .query = SPAN("page=0")};
        assert_int_equal(params_parse(&q, &r, routes[i], SPAN("x"), &CONTEXT), -ENOENT);
    }
}

TEST(the_question_carries_the_digest_of_the_key)
{
    struct params q;
    struct digest pending;
    assert_int_equal(ask(&q, ROUTE_LIST, NULL, NULL), 0);
    digest_sha256(SPAN("key"), &pending);
    assert_memory_equal(q.cache.key.bytes, pending.bytes, DIGEST_LEN);
}

static int free_scratch(void **state)
{
    (void)state;
    buf_fini(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_asks_for_a_page_the_first_without_one),
        cmocka_unit_test(a_page_that_is_no_positive_integer_is_wrong),
        cmocka_unit_test(a_card_by_id_takes_every_int64_and_nothing_else),
        cmocka_unit_test(a_card_by_link_asks_for_the_stored_shape),
        cmocka_unit_test(a_missing_link_is_wrong_and_a_foreign_one_is_nobodys),
        cmocka_unit_test(links_of_every_length_survive_the_growth_of_the_buffer),
        cmocka_unit_test(without_a_key_nothing_is_asked_whatever_the_parameters),
        cmocka_unit_test(the_question_carries_the_digest_of_the_key),
    };
    return cmocka_run_group_tests(tests, NULL, free_scratch);
}
