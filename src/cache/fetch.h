/*
 * Fetches: queries in flight to Redis, single-flight.
 *
 * A fetch sends a batch of commands, counts the replies, and sends its next batch or ends (docs/design.md,
 * "What an answer costs Redis"). Cards are cached at once, in stream order with the invalidations, and a page
 * when it is complete. When the connection is lost the fetch ends, and the requests that wait for it are
 * looked up again.
 *
 * Concurrent requests for the same object share one fetch. A fetch that is invalidated in flight still
 * answers its requests, which are older, but no further request joins it. A fetch whose result lacks
 * something is repeated until that is certain: all is read again but the summaries of a page that have not
 * changed.
 */
#ifndef CACHE_FETCH_H
#define CACHE_FETCH_H

#include "cache/page.h"
#include "cache/parts.h"

struct fetch;

/* All fetches of a worker, and their shared state. Embedded in the cache; private to fetch.c. */
struct fetches {
    const struct cache_parts *parts;
    uint64_t delay_limit_ms; /* the excess over the fastest reply that shows a busy Redis */

    struct table inflight;  /* fetches that requests may join, by query */
    uint64_t seed;          /* the seed of its hashes */
    uint64_t outside_epoch; /* grows when a command is sent outside of the stream */

    unsigned count;          /* of all fetches */
    unsigned waiting;        /* those that wait for a probe: they do not fill the window */
    unsigned window;         /* so many, and one for each command at another node, leave no room for more */
    bool has_lost;           /* reads were lost with the last connection */
    bool window_filled;      /* there was no room at some time since the window last changed */
    uint64_t window_ms;      /* when the window last changed, by the boot clock */
    uint64_t least_delay_ms; /* the shortest time from a batch to its last reply, on this connection */
};

void fetches_init(struct fetches *fs, const struct cache_parts *parts, uint64_t delay_limit_ms);
void fetches_fini(struct fetches *fs); /* when all fetches have ended */

/* The fetch that a query may join, or NULL. */
struct fetch *fetches_find(struct fetches *fs, const struct cache_query *q);

/* A fetch that reads the card is not joined any more. Pages note changes of their channels (entries.h). */
void fetches_invalidate_card(struct fetches *fs, int64_t id);

/*
 * A command is sent outside of the stream (REDIS_ORIGIN_OUTSIDE). A client whose request arrives from now on
 * may have seen a newer state than the reply has, and no invalidation names it. So the request does not join
 * a fetch that may be waiting for that reply.
 */
static inline void fetches_read_outside(struct fetches *fs)
{
    fs->outside_epoch++;
}

/* A new connection is in use. */
void fetches_connected(struct fetches *fs);

/*
 * Whether another fetch may begin now. If Redis takes long to reply, few may be in flight. The other requests
 * then wait here, where they can time out at no cost. There may be room again when Redis has replied.
 */
bool fetches_have_room(struct fetches *fs);

/*
 * Begins a fetch for a request; there must be a connection. If the cache `is_fresh` the fetch is shared, and
 * of a page with a current list only what it lacks is read. The result is borrowed until the request has
 * ended or left; NULL when out of memory.
 */
struct fetch *fetch_begin(struct fetches *fs, const struct cache_query *q, bool is_fresh,
                          struct list *request);

/* Adds a request, which may leave the list at any time. */
void fetch_join(struct fetch *f, struct list *request);

#endif
