/*
 * The state that the parts of a cache share, and the function by which they end the wait of requests. There
 * is one struct for all parts. They borrow it, and everything that it points to, while they live.
 */
#ifndef CACHE_PARTS_H
#define CACHE_PARTS_H

#include "cache/api_keys.h"
#include "cache/cache.h"
#include "cache/catalogue.h"
#include "cache/entries.h"
#include "cache/validity.h"

struct fetches;
struct key_reader;

struct cache_parts {
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct loop_lag *loop_lag;
    struct redis_session *session;
    const struct validity *validity; /* changed by invalidation.c, and by the checks of the catalogue */
    struct catalogue *catalogue;
    struct entries *entries;
    struct api_keys *api_keys;
    struct key_reader *key_reader;
    struct fetches *fetches;
    struct buf *text; /* scratch for bodies */

    /*
     * The requests do not wait any longer. With a result they are answered, and without one they are looked
     * up again. `q` is the query of a fetch that has ended, without the key. NULL: the requests waited for
     * their keys to be checked, and each has its own query. The callee removes all requests from the list,
     * and takes references of the body for them.
     */
    void (*ended)(void *arg, struct list *requests, const struct cache_query *q,
                  const struct cache_result *result);
    void *arg;
};

#endif
