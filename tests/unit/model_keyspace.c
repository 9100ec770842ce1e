/* Key names: the four shapes of the schema, and the way back from a key to what it names. */
#include "model/keyspace.h"

#include <errno.h>
#include <fnmatch.h>

#include "unit/check.h"

static struct keyspace with_prefix(const char *prefix)
{
    struct keyspace k;
    assert_int_equal(keyspace_init(&k, span_of(prefix)), 0);
    return k;
}

TEST_CASE(keys_follow_the_schema)
{
    struct keyspace k = with_prefix("channels:");
    SCOPED_BUF(out);
    assert_span(keyspace_prefix(&k), "channels:");
    keyspace_card(&k, &out, 42);
    assert_buf(&out, "channels:card:42");
    buf_clear(&out);
    keyspace_link(&k, &out, SPAN("https://max.ru/news"));
    assert_buf(&out, "channels:link:https://max.ru/news");
    buf_clear(&out);
    keyspace_append(&k, &out, KEYSPACE_INDEX);
    assert_buf(&out, "channels:index");
    buf_clear(&out);
    keyspace_append(&k, &out, KEYSPACE_INDEX_NEXT);
    assert_buf(&out, "channels:index.next");
    buf_clear(&out);
    keyspace_append(&k, &out, KEYSPACE_API_KEYS);
    assert_buf(&out, "channels:api_keys");
    buf_clear(&out);
    keyspace_append(&k, &out, KEYSPACE_LOADER);
    assert_buf(&out, "channels:loader");
}

TEST_CASE(prefix_has_1_to_64_characters)
{
    struct keyspace k;
    char text[KEYSPACE_PREFIX_MAX + 1];
    memset(text, 'p', sizeof text);
    assert_int_equal(keyspace_init(&k, SPAN("")), -EINVAL);
    assert_int_equal(keyspace_init(&k, SPAN_ABSENT), -EINVAL);
    assert_int_equal(keyspace_init(&k, (struct span){text, 1}), 0);
    assert_int_equal(keyspace_init(&k, (struct span){text, KEYSPACE_PREFIX_MAX}), 0);
    assert_true(span_equal(keyspace_prefix(&k), (struct span){text, KEYSPACE_PREFIX_MAX}));
    assert_int_equal(keyspace_init(&k, (struct span){text, KEYSPACE_PREFIX_MAX + 1}), -EINVAL);
}

TEST_CASE(prefix_is_visible_ascii)
{
    for (int c = 0; c < 256; c++) {
        struct keyspace k;
        char text[3] = {'a', (char)c, 'b'};
        assert_int_equal(keyspace_init(&k, (struct span){text, 3}), c > 0x20 && c < 0x7F ? 0 : -EINVAL);
    }
}

TEST_CASE(card_key_leads_back_to_its_id)
{
    struct keyspace k = with_prefix("channels:");
    assert_span(keyspace_rest(&k, SPAN("channels:card:42"), KEYSPACE_CARD), "42");
    assert_span(keyspace_rest(&k, SPAN("channels:card:-1"), KEYSPACE_CARD), "-1");
    assert_span(keyspace_rest(&k, SPAN("channels:card:"), KEYSPACE_CARD), "");
    assert_span(keyspace_rest(&k, SPAN("channels:card"), KEYSPACE_CARD), NULL);
    assert_span(keyspace_rest(&k, SPAN("channels:link:x"), KEYSPACE_CARD), NULL);
    assert_span(keyspace_rest(&k, SPAN("channels:index"), KEYSPACE_CARD), NULL);
    assert_span(keyspace_rest(&k, SPAN("other:card:42"), KEYSPACE_CARD), NULL);
    assert_span(keyspace_rest(&k, SPAN("card:42"), KEYSPACE_CARD), NULL);
    assert_span(keyspace_rest(&k, SPAN("channels:"), KEYSPACE_CARD), NULL);
    assert_span(keyspace_rest(&k, SPAN(""), KEYSPACE_CARD), NULL);
    assert_span(keyspace_rest(&k, SPAN_ABSENT, KEYSPACE_CARD), NULL);
}

TEST_CASE(link_key_leads_back_to_its_link)
{
    struct keyspace k = with_prefix("channels:");
    assert_span(keyspace_rest(&k, SPAN("channels:link:https://max.ru/a"), KEYSPACE_LINK), "https://max.ru/a");
    assert_span(keyspace_rest(&k, SPAN("channels:card:42"), KEYSPACE_LINK), NULL);
    assert_span(keyspace_rest(&k, SPAN("channels:api_keys"), KEYSPACE_LINK), NULL);
    assert_span(keyspace_rest(&k, SPAN("channels:xlink:a"), KEYSPACE_LINK), NULL);
}

TEST_CASE(patterns_find_all_keys_of_their_kind)
{
    struct keyspace k = with_prefix("channels:");
    SCOPED_BUF(out);
    keyspace_pattern(&k, &out, KEYSPACE_CARD);
    assert_buf(&out, "channels:card:*");
    buf_clear(&out);
    keyspace_pattern(&k, &out, KEYSPACE_LINK);
    assert_buf(&out, "channels:link:*");
}

TEST_CASE(prefix_is_escaped_in_patterns)
{
    EACH_TEXT (text, "*", "?", "[a-z]", "[^a]", "\\", "a*b?c[d]e^f\\g") {
        struct keyspace k = with_prefix(text);
        SCOPED_BUF(pattern);
        SCOPED_BUF(key);
        keyspace_pattern(&k, &pattern, KEYSPACE_CARD);
        keyspace_card(&k, &key, 1);
        assert_int_equal(fnmatch(buf_c_str(&pattern), buf_c_str(&key), 0), 0);
        assert_int_equal(fnmatch(buf_c_str(&pattern), "acard:1", 0), FNM_NOMATCH);
    }
}
