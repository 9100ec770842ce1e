/*
 * From requests to queries: routes, where the API key is found, the cache of its digest, and which parameters
 * are wrong, key or no key.
 */
#include "api/params.h"

#include <errno.h>

#include "unit/check.h"

static const struct link_hosts HOSTS = {{"max.ru", 6}, {"web.max.ru", 10}};
static struct buf scratch;
static struct digest_cache digests;
static const struct params_context CONTEXT = {&HOSTS, &digests, &scratch};

/* --- routes --- */

static void expect_route(const char *base, const char *path, enum route route, struct route_id id)
{
    struct route_id found = {0};
    enum route r = route_match(span_of(base), span_of(path), &found);
    if (r != route)
        fail_msg("%s under %s is %s", path, base, route_name(r));
    assert_int_equal(found.error, id.error);
    assert_true(found.number == id.number);
}

TEST_CASE(routes_match_with_and_without_final_slash)
{
    static const char *const bases[] = {"/", "/api/", "/a/b-c/v1.0/"};
    static const struct {
        const char *path;
        enum route route;
        struct route_id id;
    } rows[] = {{"channels/", ROUTE_LIST, {0}},
                {"channels", ROUTE_LIST, {0}},
                {"channel/by-link/", ROUTE_CARD_BY_LINK, {0}},
                {"channel/by-link", ROUTE_CARD_BY_LINK, {0}},
                {"channel/by-id/1/", ROUTE_CARD_BY_ID, {0, 1}},
                {"channel/by-id/1", ROUTE_CARD_BY_ID, {0, 1}},
                {"channel/by-id/-9223372036854775808/", ROUTE_CARD_BY_ID, {0, INT64_MIN}},
                {"openapi.json", ROUTE_OPENAPI, {0}},
                {"channel/by-id/9223372036854775808", ROUTE_CARD_BY_ID, {-ERANGE, 0}},
                {"channel/by-id/no number", ROUTE_CARD_BY_ID, {-EINVAL, 0}},
                {"channel/by-id/%2", ROUTE_CARD_BY_ID, {-EINVAL, 0}},
                {"channel/by-id/by-link/", ROUTE_CARD_BY_ID, {-EINVAL, 0}}};
    for (size_t b = 0; b < TEST_COUNT(bases); b++) {
        for (size_t i = 0; i < TEST_COUNT(rows); i++) {
            char path[128];
            (void)snprintf(path, sizeof path, "%s%s", bases[b], rows[i].path);
            expect_route(bases[b], path, rows[i].route, rows[i].id);
        }
    }
}

TEST_CASE(other_paths_match_no_route)
{
    struct route_id id;
    EACH_TEXT (text, "", "/", "*", "/api", "/api/", "/api//", "/channels/", "api/channels/", "/API/channels/",
               "/api/Channels/", "/api/channels//", "/api//channels/", "/api/channels/1", "/api/channel/",
               "/api/channel", "/api/channel/by-id", "/api/channel/by-id/", "/api/channel/by-id//",
               "/api/channel/by-id/1/2", "/api/channel/by-id/1//", "/api/channel/by-id/1%2F2",
               "/api/channel/by-id/%2f", "/api/channel/by-link//", "/api/channel/by-link/x",
               "/api/channel/by-name/x", "/api/channelsx", "/api/channel/by-idx/1", "/apix/channels/",
               "/openapi.json", "/api/openapi.json/", "/api/openapi", "/api/../api/channels/",
               "/api/channels/ ")
        assert_int_equal(route_match(SPAN("/api/"), span_of(text), &id), ROUTE_NONE);
}

TEST_CASE(route_names_are_distinct)
{
    for (int i = ROUTE_NONE; i <= ROUTE_CARD_BY_LINK; i++)
        for (int j = ROUTE_NONE; j < i; j++)
            assert_string_not_equal(route_name((enum route)i), route_name((enum route)j));
}

/* --- keys --- */

/* Absent when NULL. */
static struct span span_or_absent(const char *text)
{
    return text == NULL ? SPAN_ABSENT : span_of(text);
}

static int digest_for(const char *header, const char *query, struct digest *out)
{
    struct params p;
    struct http_request r = {.query = span_or_absent(query)};
    r.field[API_FIELD_KEY] = span_or_absent(header);
    int err = params_parse(&p, &r, ROUTE_LIST, NULL, &CONTEXT);
    *out = p.cache.key;
    return err;
}

static void expect_key(const char *header, const char *query, struct span key)
{
    struct digest found;
    struct digest expected;
    assert_int_equal(digest_for(header, query, &found), 0);
    digest_sha256(key, &expected);
    assert_memory_equal(found.bytes, expected.bytes, DIGEST_LEN);
}

static void expect_none(const char *header, const char *query)
{
    struct digest found;
    assert_int_equal(digest_for(header, query, &found), -ENOENT);
}

TEST_CASE(key_is_in_the_header_or_the_query)
{
    expect_key("secret", NULL, SPAN("secret"));
    expect_key(NULL, "api_key=secret", SPAN("secret"));
    expect_key(NULL, "page=1&api_key=secret&link=x", SPAN("secret"));
    expect_key("a key with spaces", NULL, SPAN("a key with spaces"));
}

TEST_CASE(header_wins_even_when_empty)
{
    expect_key("one", "api_key=two", SPAN("one"));
    expect_none("", "api_key=two");
}

TEST_CASE(missing_and_empty_keys_are_none)
{
    expect_none(NULL, NULL);
    expect_none(NULL, "");
    expect_none("", NULL);
    EACH_TEXT (text, "api_key=", "api_key", "API_KEY=x", "xapi_key=x&api_keyx=x")
        expect_none(NULL, text);
}

TEST_CASE(query_key_is_decoded_once_and_the_first_counts)
{
    expect_key(NULL, "api_key=%73ecret", SPAN("secret"));
    expect_key(NULL, "%61pi_key=a%26b%3D%2526", SPAN("a&b=%26"));
    expect_key(NULL, "api_key=a+b", SPAN("a+b"));
    expect_key(NULL, "api_key=100%", SPAN("100%"));
    expect_key(NULL, "api_key=a%00b", SPAN("a\0b"));
    expect_key(NULL, "api_key=one&api_key=two", SPAN("one"));
    expect_none(NULL, "api_key=&api_key=two");
}

TEST_CASE(header_key_is_not_decoded)
{
    expect_key("%73ecret", NULL, SPAN("%73ecret"));
}

/* The decoded key is overwritten, although the buffer lives on. */
TEST_CASE(decoded_key_is_wiped)
{
    struct params p;
    struct http_request r = {.query = SPAN("api_key=a-very-secret-key")};
    assert_int_equal(buf_reserve(&scratch, 256), 0);
    memset(scratch.data, 'x', 256);
    assert_int_equal(params_parse(&p, &r, ROUTE_LIST, NULL, &CONTEXT), 0);
    assert_null(memmem(scratch.data, 256, "secret", 6));
}

/* The digest of a key, as a request has it. */
static void get_digest(struct span key, struct digest *out)
{
    struct params p;
    struct http_request r = {.method = METHOD_GET};
    r.field[API_FIELD_KEY] = key;
    assert_int_equal(params_parse(&p, &r, ROUTE_LIST, NULL, &CONTEXT), 0);
    *out = p.cache.key;
}

static void expect_digest(struct span key)
{
    struct digest found;
    struct digest expected;
    get_digest(key, &found);
    digest_sha256(key, &expected);
    assert_memory_equal(found.bytes, expected.bytes, DIGEST_LEN);
}

static bool is_kept(struct span key)
{
    for (size_t i = 0; i < DIGEST_CACHE_SLOTS; i++) {
        const struct digest_cache_entry *e = &digests.slot[i];
        if (span_equal((struct span){e->key, e->len}, key))
            return true;
    }
    return false;
}

static void keep(struct span key)
{
    struct digest digest;
    get_digest(key, &digest);
    digest_cache_put(&digests, &digest);
}

TEST_CASE(digest_is_the_same_cached_or_not)
{
    expect_digest(SPAN("ck_one"));
    keep(SPAN("ck_one"));
    assert_true(is_kept(SPAN("ck_one")));
    expect_digest(SPAN("ck_one"));
}

TEST_CASE(keys_of_one_slot_have_digests_of_their_own)
{
    char key[32];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4 * DIGEST_CACHE_SLOTS; i++) {
            int n = snprintf(key, sizeof key, "key-%d", i);
            expect_digest((struct span){key, (size_t)n});
            keep((struct span){key, (size_t)n});
        }
    }
}

TEST_CASE(key_differs_from_its_prefixes_and_suffixes)
{
    keep(SPAN("abcdefghijkl"));
    keep(SPAN("bcdefghijkl"));
    expect_digest(SPAN("abcdefghijkl"));
    expect_digest(SPAN("xbcdefghijkl"));
    expect_digest(SPAN("a"));
}

TEST_CASE(digest_of_keys_of_any_length)
{
    char key[DIGEST_CACHE_KEY_MAX + 2];
    memset(key, 'k', sizeof key);
    for (size_t n = 1; n <= sizeof key; n++) {
        expect_digest((struct span){key, n});
        keep((struct span){key, n});
        expect_digest((struct span){key, n});
    }
}

TEST_CASE(wrong_keys_are_not_cached_and_evict_none)
{
    char key[32];
    keep(SPAN("ck_valid"));
    for (int i = 0; i < 16 * DIGEST_CACHE_SLOTS; i++) {
        int n = snprintf(key, sizeof key, "wrong-%d", i);
        expect_digest((struct span){key, (size_t)n});
        assert_false(is_kept((struct span){key, (size_t)n}));
    }
    assert_true(is_kept(SPAN("ck_valid")));
}

TEST_CASE(key_is_cached_only_by_its_own_digest)
{
    struct digest first;
    struct digest second;
    get_digest(SPAN("ck_first"), &first);
    get_digest(SPAN("ck_second"), &second);
    digest_cache_put(&digests, &first);
    assert_false(is_kept(SPAN("ck_first")));
    assert_false(is_kept(SPAN("ck_second")));
    digest_cache_put(&digests, &second);
    assert_true(is_kept(SPAN("ck_second")));
}

TEST_CASE(keys_are_wiped_at_the_end)
{
    static const struct digest_cache empty;
    keep(SPAN("ck_secret"));
    expect_digest(SPAN("ck_other"));
    digest_cache_fini(&digests);
    assert_memory_equal(&digests, &empty, sizeof digests);
}

/* --- parameters --- */

static int parse(struct params *q, enum route route, const char *query, const char *id)
{
    struct http_request r = {.method = METHOD_GET};
    r.field[API_FIELD_KEY] = SPAN("key");
    if (query != NULL)
        r.query = span_of(query);
    struct route_id number = {0};
    if (id != NULL)
        number.error = parse_int64(span_of(id), &number.number);
    return params_parse(q, &r, route, &number, &CONTEXT);
}

static void expect_page(const char *query, int64_t page)
{
    struct params q;
    assert_int_equal(parse(&q, ROUTE_LIST, query, NULL), 0);
    assert_int_equal(q.error, API_ERROR_NONE);
    assert_int_equal(q.cache.type, QUERY_PAGE);
    assert_true(q.cache.number == page);
}

static void expect_error(enum route route, const char *query, const char *id, enum api_error error)
{
    struct params q;
    assert_int_equal(parse(&q, route, query, id), 0);
    assert_int_equal(q.error, error);
    assert_int_equal(q.cache.type, QUERY_AUTH_ONLY); /* the key is asked about all the same */
}

TEST_CASE(list_queries_a_page_by_default_the_first)
{
    expect_page(NULL, 1);
    expect_page("", 1);
    expect_page("other=5", 1);
    expect_page("page=1", 1);
    expect_page("page=2", 2);
    expect_page("page=%32", 2);
    expect_page("p%61ge=7&page=8", 7);
    expect_page("x=y&page=9223372036854775807", INT64_MAX);
    expect_page("page=1&page=2&page=abc", 1);
    expect_page("&&=&=x&foo=bar&page=2&x&&", 2);
    expect_page("%&%zz=%&page=2", 2);
    expect_page("x=1%26page=2", 1); /* what is encoded separates nothing */
    EACH_TEXT (text, "&", "per_page=5", "Page=2", "pages=2&xpage=2&page%20=2")
        expect_page(text, 1);
}

TEST_CASE(page_must_be_a_positive_integer)
{
    EACH_TEXT (text, "page=", "page", "page=0", "page=-1", "page=abc", "page=1.5", "page=+1", "page=01",
               "page=1%20", "page=%201", "page=1,2", "page=9223372036854775808", "page=1e3", "page=0x1",
               "page=1%00", "page=1%26x=1", "page=abc&page=1", "page=&page=2", "page=-9223372036854775808")
        expect_error(ROUTE_LIST, text, NULL, API_ERROR_BAD_PAGE);
}

TEST_CASE(card_by_id_takes_int64_alone)
{
    static const struct {
        const char *id;
        int64_t number;
    } valid[] = {{"0", 0},
                 {"1", 1},
                 {"-1", -1},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < TEST_COUNT(valid); i++) {
        struct params q;
        assert_int_equal(parse(&q, ROUTE_CARD_BY_ID, "page=0&link=x", valid[i].id), 0);
        assert_int_equal(q.error, API_ERROR_NONE);
        assert_int_equal(q.cache.type, QUERY_CARD);
        assert_true(q.cache.number == valid[i].number);
    }
    EACH_TEXT (text, "", "abc", "1.0", "+1", "-0", "01", " 1", "1 ", "0x1", "by-link",
               "99999999999999999999x")
        expect_error(ROUTE_CARD_BY_ID, NULL, text, API_ERROR_BAD_CHANNEL_ID);
    EACH_TEXT (text, "9223372036854775808", "-9223372036854775809", "99999999999999999999")
        expect_error(ROUTE_CARD_BY_ID, NULL, text, API_ERROR_CHANNEL_NOT_FOUND);
}

static void expect_link(const char *query, const char *link)
{
    struct params q;
    assert_int_equal(parse(&q, ROUTE_CARD_BY_LINK, query, NULL), 0);
    assert_int_equal(q.error, API_ERROR_NONE);
    assert_int_equal(q.cache.type, QUERY_CARD_BY_LINK);
    assert_span(q.cache.link, link);
}

TEST_CASE(card_by_link_queries_the_stored_shape)
{
    EACH_PAIR (text, expected, {"link=https://max.ru/slug", "https://max.ru/slug"},
               {"link=https%3A%2F%2Fmax.ru%2Fslug", "https://max.ru/slug"},
               {"link=HTTP://WEB.MAX.RU:80/slug/", "https://max.ru/slug"},
               {"page=0&link=https://max.ru/slug%3Fa=b&x=y", "https://max.ru/slug"},
               {"link=https://max.ru/one&link=https://max.ru/two", "https://max.ru/one"},
               {"%6cink=https://max.ru:%34%343/%73lug", "https://max.ru/slug"},
               {"link=https://max.ru/%2573lug", "https://max.ru/%73lug"},
               {"link=https://max.ru/slug%26x=y", "https://max.ru/slug&x=y"},
               {"link=https://max.ru/a%zz%4%", "https://max.ru/a%zz%4%"},
               {"link=https://max.ru/a%c1%9f", "https://max.ru/a\xC1\x9F"},
               {"link=https://max.ru/%0d%0aDEL", "https://max.ru/\r\nDEL"})
        expect_link(text, expected);
}

TEST_CASE(missing_link_is_400_and_foreign_link_404)
{
    expect_error(ROUTE_CARD_BY_LINK, NULL, NULL, API_ERROR_LINK_MISSING);
    EACH_TEXT (text, "", "link=", "link", "Link=https://max.ru/a", "link=&link=https://max.ru/a",
               "other=https://max.ru/a", "link%00=https://max.ru/a", "link[]=https://max.ru/a",
               "link;=https://max.ru/a", "x=y;link=https://max.ru/a", "?link=https://max.ru/a")
        expect_error(ROUTE_CARD_BY_LINK, text, NULL, API_ERROR_LINK_MISSING);
    EACH_TEXT (text, "link=https://example.org/a", "link=slug", "link=ftp://max.ru/a",
               "link==https://max.ru/a", "link=https://example.org/a&link=https://max.ru/a", "link=%00",
               "link=%00https://max.ru/a", "link=https://max.ru%00/a",
               "link=https%253A%252F%252Fmax.ru%252Fa", "link=https://max.ru%c0%afa",
               "link=https://max.ru%ff/a", "link=%0ahttps://max.ru/a", "link=+https://max.ru/a",
               "link=https://max.ru%40evil.example/a", "link=https://max.ru%3fa")
        expect_error(ROUTE_CARD_BY_LINK, text, NULL, API_ERROR_CHANNEL_NOT_FOUND);
}

/* The stored shape is made behind the decoded link in one buffer, which may have to grow for it. */
TEST_CASE(links_of_any_length_survive_buffer_growth)
{
    for (size_t n = 1; n <= LINK_SLUG_MAX; n++) {
        char query[1300];
        char expected[1300];
        char slug[1201];
        memset(slug, 'x', n);
        slug[n] = '\0';
        (void)snprintf(query, sizeof query, "link=http://web.max.ru/%s", slug);
        (void)snprintf(expected, sizeof expected, "https://max.ru/%s", slug);
        buf_fini(&scratch); /* a fresh buffer each time */
        expect_link(query, expected);
    }
}

TEST_CASE(missing_key_wins_over_bad_parameters)
{
    static const enum route routes[] = {ROUTE_LIST, ROUTE_CARD_BY_ID, ROUTE_CARD_BY_LINK};
    static const struct route_id id = {-EINVAL, 0};
    for (size_t i = 0; i < TEST_COUNT(routes); i++) {
        struct params q;
        struct http_request r = {.method = METHOD_GET, .query = SPAN("page=0")};
        assert_int_equal(params_parse(&q, &r, routes[i], &id, &CONTEXT), -ENOENT);
    }
}

static int free_scratch(void **state)
{
    (void)state;
    buf_fini(&scratch);
    return 0;
}

TEST_GROUP(NULL, free_scratch)
