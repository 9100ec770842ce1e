/* Key names; see keyspace.h. */
#include "model/keyspace.h"

#include <errno.h>

static const struct span CARD = {"card:", 5};
static const struct span LINK = {"link:", 5};

const struct span keyspace_cached[KEYSPACE_CACHED] = {{"card:", 5}, {"index", 5}, {"api_key", 7}};

int keyspace_init(struct keyspace *k, struct span prefix)
{
    if (prefix.len == 0 || prefix.len > KEYSPACE_PREFIX_MAX)
        return -EINVAL;
    for (size_t i = 0; i < prefix.len; i++)
        if (prefix.data[i] <= ' ' || prefix.data[i] > '~')
            return -EINVAL;
    k->prefix_len = prefix.len;
    memcpy(k->prefix, prefix.data, prefix.len);
    return 0;
}

void keyspace_card(const struct keyspace *k, struct buf *out, int64_t id)
{
    keyspace_append(k, out, CARD);
    buf_append_int(out, id);
}

void keyspace_link(const struct keyspace *k, struct buf *out, struct span link)
{
    keyspace_append(k, out, LINK);
    buf_append_span(out, link);
}

static void keyspace_append_pattern(const struct keyspace *k, struct buf *out, struct span name)
{
    for (size_t i = 0; i < k->prefix_len; i++) {
        if (strchr("*?[]^\\", k->prefix[i]) != NULL)
            buf_append_char(out, '\\');
        buf_append_char(out, k->prefix[i]);
    }
    buf_append_span(out, name);
    buf_append_char(out, '*');
}

void keyspace_card_pattern(const struct keyspace *k, struct buf *out)
{
    keyspace_append_pattern(k, out, CARD);
}

void keyspace_link_pattern(const struct keyspace *k, struct buf *out)
{
    keyspace_append_pattern(k, out, LINK);
}

static struct span keyspace_rest_after(const struct keyspace *k, struct span key, struct span name)
{
    if (!span_starts_with(key, keyspace_prefix(k)))
        return SPAN_ABSENT;
    key = span_skip(key, k->prefix_len);
    return span_starts_with(key, name) ? span_skip(key, name.len) : SPAN_ABSENT;
}

struct span keyspace_card_id(const struct keyspace *k, struct span key)
{
    return keyspace_rest_after(k, key, CARD);
}

struct span keyspace_link_of(const struct keyspace *k, struct span key)
{
    return keyspace_rest_after(k, key, LINK);
}
