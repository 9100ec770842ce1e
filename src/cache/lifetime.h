/* How long the content of a reply may be served from the cache; stream_lifetime() determines it. */
#ifndef CACHE_LIFETIME_H
#define CACHE_LIFETIME_H

#include <stdbool.h>
#include <stdint.h>

struct lifetime {
    uint64_t until_ms; /* by the boot clock; or one of the two values below */
};

/* Must not be served: from outside of the stream, an absence that is not tracked, or without tracking. */
#define LIFETIME_NONE ((struct lifetime){0})

/* May be served until Redis announces a change on this connection. */
#define LIFETIME_TRACKED ((struct lifetime){UINT64_MAX})

static inline bool lifetime_is_none(struct lifetime l)
{
    return l.until_ms == 0;
}

static inline bool lifetime_is_tracked(struct lifetime l)
{
    return l.until_ms == UINT64_MAX;
}

/* The lifetime of data that was composed of both. */
static inline struct lifetime lifetime_of_both(struct lifetime a, struct lifetime b)
{
    return a.until_ms < b.until_ms ? a : b;
}

#endif
