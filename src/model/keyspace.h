/*
 * The names of the Redis keys, in one place (docs/schema.md is the loader's manual of the same).
 *
 * All keys share one prefix, so that several catalogues fit in one Redis and one tracking prefix covers them.
 */
#ifndef MODEL_KEYSPACE_H
#define MODEL_KEYSPACE_H

#include "base/buf.h"

enum { KEYSPACE_PREFIX_MAX = 64 };

struct keyspace {
    size_t prefix_len;
    char prefix[KEYSPACE_PREFIX_MAX];
};

/* The prefix is 1 to KEYSPACE_PREFIX_MAX visible ASCII characters. Returns 0 or -EINVAL. */
int keyspace_init(struct keyspace *k, struct span prefix) __attribute__((warn_unused_result));

static inline struct span keyspace_prefix(const struct keyspace *k)
{
    return (struct span){k->prefix, k->prefix_len};
}

/* Each appends one key to `out`. */
void keyspace_card(const struct keyspace *k, struct buf *out, int64_t id);       /* hash */
void keyspace_link(const struct keyspace *k, struct buf *out, struct span link); /* string */
void keyspace_index(const struct keyspace *k, struct buf *out);                  /* sorted set */
void keyspace_index_next(const struct keyspace *k,
                         struct buf *out); /* sorted set being built by a replacing load */
void keyspace_api_keys(const struct keyspace *k, struct buf *out); /* set */
void keyspace_loader(const struct keyspace *k, struct buf *out);   /* string: the lock of the running load */

/* Each appends the glob pattern that SCAN finds all keys of its kind with. */
void keyspace_card_pattern(const struct keyspace *k, struct buf *out);
void keyspace_link_pattern(const struct keyspace *k, struct buf *out);

/* What follows "<prefix>card:" or "<prefix>link:" in `key`; absent when it is another key. */
struct span keyspace_card_id(const struct keyspace *k, struct span key);
struct span keyspace_link_of(const struct keyspace *k, struct span key);

#endif
