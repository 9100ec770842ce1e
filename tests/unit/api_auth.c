/* Keys: the header wins, the query is decoded, and no key is no key. */
#include "api/auth.h"

#include <errno.h>

#include "unit/check.h"

/* Absent when NULL. */
static struct span span_or_absent(const char *text)
{
    return text == NULL ? SPAN_ABSENT : span_of(text);
}

static struct digest_cache memo;

static int digest_for(const char *header, const char *query, struct digest *out)
{
    struct buf scratch = BUF_INIT;
    struct http_request r = {.query = span_or_absent(query)};
    r.field[HTTP_FIELD_API_KEY] = span_or_absent(header);
    int err = auth_digest(&r, &memo, &scratch, out);
    buf_fini(&scratch);
    return err;
}

static void expect_key(const char *header, const char *query, struct span key)
{
    struct digest found;
    struct digest pending;
    assert_int_equal(digest_for(header, query, &found), 0);
    digest_sha256(key, &pending);
    assert_memory_equal(found.bytes, pending.bytes, DIGEST_LEN);
}

static void expect_none(const char *header, const char *query)
{
    struct digest found;
    assert_int_equal(digest_for(header, query, &found), -ENOENT);
}

TEST(the_key_comes_from_the_header_or_from_the_query)
{
    expect_key("secret", NULL, SPAN("secret"));
    expect_key(NULL, "api_key=secret", SPAN("secret"));
    expect_key(NULL, "page=1&api_key=secret&link=x", SPAN("secret"));
    expect_key("a key with spaces", NULL, SPAN("a key with spaces"));
}

TEST(the_header_wins_even_when_it_is_empty)
{
    expect_key("one", "api_key=two", SPAN("one"));
    expect_none("", "api_key=two");
}

TEST(without_a_key_there_is_none)
{
    expect_none(NULL, NULL);
    expect_none(NULL, "");
    expect_none("", NULL);
    expect_none(NULL, "api_key=");
    expect_none(NULL, "api_key");
    expect_none(NULL, "API_KEY=x");
    expect_none(NULL, "xapi_key=x&api_keyx=x");
}

TEST(in_the_query_escapes_are_decoded_once_and_the_first_counts)
{
    expect_key(NULL, "api_key=%73ecret", SPAN("secret"));
    expect_key(NULL, "%61pi_key=a%26b%3D%2526", SPAN("a&b=%26"));
    expect_key(NULL, "api_key=a+b", SPAN("a+b"));
    expect_key(NULL, "api_key=100%", SPAN("100%"));
    expect_key(NULL, "api_key=a%00b", SPAN("a\0b"));
    expect_key(NULL, "api_key=one&api_key=two", SPAN("one"));
    expect_none(NULL, "api_key=&api_key=two");
}

TEST(in_the_header_nothing_is_decoded)
{
    expect_key("%73ecret", NULL, SPAN("%73ecret"));
}

/* The decoded key is overwritten, although the buffer lives on. */
TEST(the_decoded_key_is_wiped)
{
    struct buf scratch = BUF_INIT;
    struct digest d;
    struct http_request r = {.query = SPAN("api_key=a-very-secret-key")};
    assert_int_equal(buf_reserve(&scratch, 256), 0);
    memset(scratch.data, 'x', 256);
    assert_int_equal(auth_digest(&r, &memo, &scratch, &d), 0);
    assert_null(memmem(scratch.data, 256, "secret", 6));
    buf_fini(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_comes_from_the_header_or_from_the_query),
        cmocka_unit_test(the_header_wins_even_when_it_is_empty),
        cmocka_unit_test(without_a_key_there_is_none),
        cmocka_unit_test(in_the_query_escapes_are_decoded_once_and_the_first_counts),
        cmocka_unit_test(in_the_header_nothing_is_decoded),
        cmocka_unit_test(the_decoded_key_is_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
