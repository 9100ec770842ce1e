/* What the parts of a cache share. They borrow it, and all that it points to, while they live. */
#ifndef CACHE_PARTS_H
#define CACHE_PARTS_H

#include "cache/body.h"
#include "cache/cache.h"
#include "cache/entries.h"
#include "cache/stream.h"
#include "redis/session.h"

struct fetches;
struct keys;

/* How often a read, or the check of a key, is repeated because it was not certain. */
enum { REPEATS_MAX = 8 };

struct cache_parts {
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct redis_session *session;
    struct stream *stream; /* changed by stream.c */
    struct entries *entries;
    struct keys *keys;
    struct fetches *fetches;
    struct commands *commands;
    struct value_reports *reports;
    struct buf *text; /* scratch for bodies */

    /*
     * A fetch has ended. With a result its requests are answered, and without one
     * they are looked up again. The callee removes all requests from the list, and takes references of the
     * body for them.
     */
    void (*ended)(void *arg, struct list *requests, const struct cache_result *result);

    /* The request waits for no check of its key any longer; otherwise as `ended`. */
    void (*checked)(void *arg, struct cache_request *request, const struct cache_result *result);

    /* Everything was invalidated. */
    void (*drop_all)(void *arg);
    void *arg;
};

#endif
