/*
 * The cache of the digests of API keys, and links of any length. What requests mean is in
 * tests/integration/requests.
 */
#include "api/params.h"

#include "unit/check.h"

static struct params_parser parser = {.hosts = {{"max.ru", 6}, {"web.max.ru", 10}}};

/* --- keys --- */

/* The decoded key is overwritten, although the buffer lives on. */
TEST_CASE(decoded_key_is_wiped)
{
    struct params p = {.error = API_ERROR_NONE};
    struct http_request r = {.query = SPAN("api_key=a-very-secret-key")};
    assert_int_equal(buf_reserve(&parser.scratch, 256), 0);
    memset(parser.scratch.data, 'x', 256);
    assert_int_equal(params_parse(&parser, &p, &r, ROUTE_LIST), 0);
    assert_null(memmem(parser.scratch.data, 256, "secret", 6));
}

/* Parses a request with this key, whose digest must be right. */
static struct params parse_key(struct span key)
{
    struct params p = {.error = API_ERROR_NONE};
    struct digest expected;
    struct http_request r = {.method = METHOD_GET};
    r.field[HTTP_FIELD_API_KEY] = key;
    assert_int_equal(params_parse(&parser, &p, &r, ROUTE_LIST), 0);
    digest_sha256(key, &expected);
    assert_memory_equal(p.cache.key.bytes, expected.bytes, DIGEST_LEN);
    return p;
}

static bool is_kept(struct span key)
{
    return memmem(parser.digests, sizeof parser.digests, key.data, key.len) != NULL;
}

TEST_CASE(digest_is_the_same_cached_or_not)
{
    (void)parse_key(SPAN("ck_one"));
    assert_true(is_kept(SPAN("ck_one")));
    (void)parse_key(SPAN("ck_one"));
}

TEST_CASE(keys_of_one_slot_have_digests_of_their_own)
{
    char key[32];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4 * DIGEST_CACHE_SLOTS; i++) {
            int n = snprintf(key, sizeof key, "key-%d", i);
            (void)parse_key((struct span){key, (size_t)n});
        }
    }
}

TEST_CASE(key_differs_from_its_prefixes_and_suffixes)
{
    (void)parse_key(SPAN("abcdefghijkl"));
    (void)parse_key(SPAN("bcdefghijkl"));
    (void)parse_key(SPAN("abcdefghijkl"));
    (void)parse_key(SPAN("xbcdefghijkl"));
    (void)parse_key(SPAN("a"));
}

TEST_CASE(digest_of_keys_of_any_length)
{
    char key[DIGEST_CACHE_KEY_MAX + 2];
    memset(key, 'k', sizeof key);
    for (size_t n = 1; n <= sizeof key; n++) {
        (void)parse_key((struct span){key, n});
        (void)parse_key((struct span){key, n});
    }
}

TEST_CASE(invalid_keys_are_erased)
{
    (void)parse_key(SPAN("ck_valid"));
    struct params p = parse_key(SPAN("ck_revoked"));
    assert_true(is_kept(SPAN("ck_revoked")));
    params_erase_key(&p);
    assert_false(is_kept(SPAN("ck_revoked")));
    params_erase_key(&p);
    assert_true(is_kept(SPAN("ck_valid")));
}

/* Which has taken the slot meanwhile. */
TEST_CASE(another_key_is_not_erased)
{
    char key[32];
    int i = 0;
    const struct params first = parse_key(SPAN("ck_first"));
    do
        (void)snprintf(key, sizeof key, "key-%d", i++);
    while (parse_key(span_of(key)).slot != first.slot);
    params_erase_key(&first);
    assert_true(is_kept(span_of(key)));
}

TEST_CASE(keys_are_erased_at_the_end)
{
    (void)parse_key(SPAN("ck_secret"));
    params_parser_fini(&parser);
    assert_false(is_kept(SPAN("ck_secret")));
}

/* --- parameters --- */

static void expect_link(const char *query, const char *link)
{
    struct params q = {.error = API_ERROR_NONE};
    struct http_request r = {.method = METHOD_GET, .query = span_of(query)};
    r.field[HTTP_FIELD_API_KEY] = SPAN("key");
    assert_int_equal(params_parse(&parser, &q, &r, ROUTE_CARD_BY_LINK), 0);
    assert_int_equal(q.error, API_ERROR_NONE);
    assert_int_equal(q.cache.type, QUERY_CARD_BY_LINK);
    assert_span(q.cache.link, link);
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
        buf_fini(&parser.scratch); /* a fresh buffer each time */
        expect_link(query, expected);
    }
}

static int free_scratch(void **state)
{
    (void)state;
    buf_fini(&parser.scratch);
    return 0;
}

TEST_GROUP(NULL, free_scratch)
