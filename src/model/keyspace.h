/* The names of the Redis keys (docs/schema.md), which share one prefix. */
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

/*
 * The keys that channeld caches continue with one of these behind the prefix. None begins with another. They
 * also match index.next, but neither links nor the lock.
 */
enum { KEYSPACE_CACHED = 3 };
extern const struct span keyspace_cached[KEYSPACE_CACHED];

/* --- Each appends one key to `out` --- */

void keyspace_card(const struct keyspace *k, struct buf *out, int64_t id);

void keyspace_link(const struct keyspace *k, struct buf *out, struct span link);

/* The key with one of these names behind the prefix. */
static inline void keyspace_append(const struct keyspace *k, struct buf *out, struct span name)
{
    buf_append_span(out, keyspace_prefix(k));
    buf_append_span(out, name);
}

#define KEYSPACE_INDEX        SPAN("index")        /* sorted set: the ids in the order of the list */
#define KEYSPACE_INDEX_NEXT   SPAN("index.next")   /* sorted set that a replacing load builds */
#define KEYSPACE_API_KEYS     SPAN("api_keys")     /* set of the digests of API keys */
#define KEYSPACE_API_KEY_INFO SPAN("api_key_info") /* hash of their names and expiries, by digest */
#define KEYSPACE_LOADER       SPAN("loader")       /* string: the lock of a running load */

/*
 * String: how many channels the catalogue has, all of them samples. No link has this name, which is one of a
 * link key so that whoever may write links may write it.
 */
#define KEYSPACE_SAMPLES SPAN("link:samples")

/* --- All keys of a kind: KEYSPACE_CARD, whose keys end with an id, or KEYSPACE_LINK --- */

#define KEYSPACE_CARD SPAN("card:")
#define KEYSPACE_LINK SPAN("link:")

/* Appends the glob pattern for a SCAN of them. */
void keyspace_pattern(const struct keyspace *k, struct buf *out, struct span kind);

/* The part of `key` behind the prefix and the kind; absent for other keys. */
struct span keyspace_rest(const struct keyspace *k, struct span key, struct span kind);

#endif
