/*
 * The cache of the digests of API keys, and links of any length. What requests mean is in
 * tests/integration/requests.
 */
#include "api/params.h"

#include "unit/check.h"

static const struct link_hosts HOSTS = {{"max.ru", 6}, {"web.max.ru", 10}};
static struct buf scratch;
static struct digest_cache digests;
static const struct params_context CONTEXT = {&HOSTS, &digests, &scratch};

/* --- keys --- */

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

/* The slot that parsing a request has found, for which any is tried here. */
TEST_CASE(invalid_keys_are_wiped)
{
    static const struct digest_cache empty;
    struct digest digest;
    keep(SPAN("ck_revoked"));
    keep(SPAN("ck_valid"));
    get_digest(SPAN("ck_revoked"), &digest);
    for (unsigned slot = 0; slot < DIGEST_CACHE_SLOTS; slot++)
        digest_cache_remove(&digests, slot, &digest);
    assert_false(is_kept(SPAN("ck_revoked")));
    assert_true(is_kept(SPAN("ck_valid")));
    get_digest(SPAN("ck_never"), &digest);
    digest_cache_remove(&digests, 0, &digest);
    assert_memory_equal(digests.latest.key, empty.latest.key, sizeof empty.latest.key);
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

static void expect_link(const char *query, const char *link)
{
    struct params q;
    assert_int_equal(parse(&q, ROUTE_CARD_BY_LINK, query, NULL), 0);
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
        buf_fini(&scratch); /* a fresh buffer each time */
        expect_link(query, expected);
    }
}

static int free_scratch(void **state)
{
    (void)state;
    buf_fini(&scratch);
    return 0;
}

TEST_GROUP(NULL, free_scratch)
