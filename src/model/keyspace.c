/* Key names; see keyspace.h. */
#include "model/keyspace.h"

#include <errno.h>

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
    keyspace_append(k, out, KEYSPACE_CARD);
    buf_append_int(out, id);
}

void keyspace_link(const struct keyspace *k, struct buf *out, struct span link)
{
    keyspace_append(k, out, KEYSPACE_LINK);
    buf_append_span(out, link);
}

void keyspace_pattern(const struct keyspace *k, struct buf *out, struct span kind)
{
    for (size_t i = 0; i < k->prefix_len; i++) {
        if (strchr("*?[]^\\", k->prefix[i]) != NULL)
            buf_append_char(out, '\\');
        buf_append_char(out, k->prefix[i]);
    }
    buf_append_span(out, kind);
    buf_append_char(out, '*');
}

struct span keyspace_rest(const struct keyspace *k, struct span key, struct span kind)
{
    if (!span_starts_with(key, keyspace_prefix(k)))
        return SPAN_ABSENT;
    key = span_skip(key, k->prefix_len);
    return span_starts_with(key, kind) ? span_skip(key, kind.len) : SPAN_ABSENT;
}
