/*
 * Fetches: the queries that are on their way to Redis and back, single-flight.
 *
 * A fetch sends a batch of commands, counts the replies, and goes on to its next batch or ends:
 *   - a key:  SISMEMBER, in the first batch of the others where the key's validity is not known
 *   - a card: HMGET of its fields
 *   - a link: GET, then the HMGET of the card that it leads to
 *   - a page: ZCARD and ZRANGE of the index, then an HMGET of each channel whose summary is not cached
 * What a reply says is cached at once, in stream order with the invalidations. A fetch lives on one
 * connection; when that is lost, so is the fetch, and the requests that wait for it begin anew.
 *
 * Requests for the same thing at the same time share one fetch. One that is invalidated in flight is
 * still answered, for its requests came before; but no further request joins, and a page is not cached.
 *
 * Redis is reached through a function, and what waits for a fetch is links in a list: nothing here knows
 * of connections, loops or clients.
 */
#ifndef CACHE_FETCH_H
#define CACHE_FETCH_H

#include "cache/audit.h"
#include "cache/cache.h"
#include "cache/catalogue.h"
#include "cache/invalidation.h"
#include "cache/page.h"

/* As redis_connection_reply_fn: `reply` is NULL when the connection was lost. */
typedef void (*fetch_reply_fn)(void *arg, const redisReply *reply);

struct fetch;

/* All is borrowed while the fetches live. */
struct fetch_options {
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct entries *entries;
    const struct catalogue *catalogue;
    const struct invalidation *invalidation;
    struct buf *text; /* scratch for bodies */

    /* Sends a command. Returns 0 or a negative errno; `fn` is called from the loop, never from here. */
    int (*send)(void *arg, struct span command, fetch_reply_fn fn, void *fn_arg);
    /* Redis has said whether a key is valid. */
    void (*auth_known)(void *arg, const struct digest *key, bool valid);
    /* The catalogue is to be checked; then fetches_confirm. */
    void (*check)(void *arg);
    /*
     * The result of a fetch is complete; NULL: its connection was lost before. The callee takes all requests
     * out of the list, and references of the body for them. *q is what was fetched, without the key.
     */
    void (*ended)(void *arg, struct list *requests, const struct cache_query *q,
                  const struct cache_result *result);
    void *arg;
};

/* All fetches of a worker, and what they share. Embedded in the cache; private to fetch.c. */
struct fetches {
    struct fetch_options options;
    struct buf key, command; /* scratch */
    struct {
        struct buf text; /* the HMGET of a shape without its key */
        size_t head;     /* bytes of it that come before the key */
    } hmget[2];
    struct buf sismember; /* up to its last word, a digest in hex */

    struct list waiting;       /* for a connection, oldest first */
    struct list unconfirmed;   /* for a check of the catalogue */
    struct table inflight;     /* that others may join, by what is fetched */
    struct table page_members; /* pages in flight, by each of their channels */
    uint64_t seed;             /* of the hashes of both */
    uint64_t index_epoch;      /* grows when the index is invalidated, by which pages in flight are */
    uint64_t flush_epoch;      /* grows when everything is, as does index_epoch */

    struct value_reports reports;
    uint64_t error_logged_ms; /* when an error reply was last logged */
};

/* Returns 0 or -ENOMEM; fetches_fini is due in both cases, when there is no fetch any more. */
int fetches_init(struct fetches *fs, const struct fetch_options *options) __attribute__((warn_unused_result));
void fetches_fini(struct fetches *fs);

/* The fetch that a query may join, or NULL. */
struct fetch *fetches_find(struct fetches *fs, const struct cache_query *q);

/* What an invalidation means for those in flight. */
void fetches_invalidate_card(struct fetches *fs, int64_t id);
void fetches_invalidate_link(struct fetches *fs, struct span link);

static inline void fetches_invalidate_pages(struct fetches *fs)
{
    fs->index_epoch++;
}

static inline void fetches_invalidate_all(struct fetches *fs)
{
    fs->index_epoch++;
    fs->flush_epoch++;
}

/* Starts all that wait for a connection. One that cannot be sent waits on. */
void fetches_start_waiting(struct fetches *fs);

/* What a check of the catalogue has told those that wait for it: CATALOGUE_PRESENT concludes them, with
 * CATALOGUE_UNKNOWN they fail, otherwise they are lost. */
void fetches_confirm(struct fetches *fs, enum catalogue_state state);

/* Reads an entry for the audit. Returns 0 or a negative errno. */
int fetches_send_audit(struct fetches *fs, const struct audit_subject *subject, fetch_reply_fn fn, void *arg)
    __attribute__((warn_unused_result));

/*
 * Begins a fetch for a request, or leaves it to fetches_start_waiting until there is a connection. With
 * `needs_auth` the key is checked too, and the fetch is not shared. `known` (for a page; may be NULL) is
 * taken over: its members are current. Borrowed until the request has ended or left; NULL when out of memory.
 */
struct fetch *fetch_begin(struct fetches *fs, const struct cache_query *q, bool needs_auth,
                          struct page_builder *known, struct list *request);

/* Another request waits for it. */
void fetch_join(struct fetch *f, struct list *request);

/*
 * A request leaves. A fetch without requests is freed, unless replies are still to come: then the last
 * of them ends it.
 */
void fetch_leave(struct fetch *f, struct list *request);

#endif
