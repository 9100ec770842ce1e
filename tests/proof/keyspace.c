/* Names of Redis keys, with a lower limit of the prefix. */
#include "model/keyspace.h"
#define KEYSPACE_PREFIX_MAX 2
#include "model/keyspace.c"

#include "proof.h"

static struct keyspace any_keyspace(size_t len)
{
    char bytes[KEYSPACE_PREFIX_MAX + 1];
    struct keyspace k = {.prefix_len = len};
    int err = keyspace_init(&k, (struct span){bytes, len});
    __CPROVER_assume(err == 0);
    assert(k.prefix_len >= 1 && k.prefix_len <= KEYSPACE_PREFIX_MAX);
    return k;
}

/* The link is read back from its key, which is none of a card. */
void link(void)
{
    char bytes[4];
    char room[12];
    struct keyspace k = any_keyspace(KEYSPACE_PREFIX_MAX);
    struct span text = ANY_TEXT(bytes);
    struct buf key = BUF_IN(room);
    keyspace_link(&k, &key, text);
    assert(keyspace_rest(&k, buf_span(&key), KEYSPACE_CARD).data == NULL);
    assert(span_equal(keyspace_rest(&k, buf_span(&key), KEYSPACE_LINK), text));
}

/* A key of another catalogue, or any other text, has an id only behind the whole prefix. */
void other(void)
{
    char bytes[9];
    struct keyspace k = any_keyspace(any_up_to(KEYSPACE_PREFIX_MAX + 1));
    struct span key = ANY_TEXT(bytes);
    struct span id = keyspace_rest(&k, key, KEYSPACE_CARD);
    if (id.data == NULL)
        return;
    assert(is_within(id, key) && id.len == key.len - k.prefix_len - 5);
    assert(span_starts_with(key, keyspace_prefix(&k)));
    assert(span_starts_with(span_skip(key, k.prefix_len), SPAN("card:")));
}

/* The prefix in a pattern matches itself alone. */
void pattern(void)
{
    char room[12];
    struct keyspace k = any_keyspace(KEYSPACE_PREFIX_MAX);
    struct buf out = BUF_IN(room);
    keyspace_pattern(&k, &out, KEYSPACE_CARD);
    struct span rest = buf_span(&out);
    for (size_t i = 0; i < k.prefix_len; i++) {
        bool escaped = rest.data[0] == '\\';
        assert(escaped || strchr("*?[]^", rest.data[0]) == NULL);
        rest = span_skip(rest, escaped);
        assert(rest.data[0] == k.prefix[i]);
        rest = span_skip(rest, 1);
    }
    assert(span_equal(rest, SPAN("card:*")));
}
