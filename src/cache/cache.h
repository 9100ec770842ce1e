/*
 * The one door to the data: "get me this, on behalf of this key".
 *
 * A question carries the digest of the caller's API key and what is wanted; the answer says in one go whether
 * the key is valid and what was found, so that authorisation and data travel to Redis together. Where the
 * answer is known at once it is given at once, without a callback. What stands behind (memory kept true by
 * Redis' invalidations, one connection) is no concern of the caller.
 *
 * A store belongs to one loop and one thread.
 */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include "base/blob.h"
#include "base/digest.h"
#include "base/list.h"
#include "base/metrics.h"
#include "model/keyspace.h"
#include "redis/endpoint.h"

#include <uv.h>

struct ssl_ctx_st;
struct store;

struct store_options {
    const struct redis_target *target; /* borrowed while the store lives, as are all pointers here */
    struct ssl_ctx_st *tls;            /* NULL without TLS */
    const char *client_name;
    const struct keyspace *keyspace;
    struct metrics *metrics;
    uint64_t request_timeout_ms;
    size_t cache_size;            /* bytes; 0: nothing is remembered and every question goes to Redis */
    uint64_t stale_limit_ms;      /* how long memory may answer after the connection was lost */
    uint64_t stale_keys_limit_ms; /* the same for verdicts on keys; at most the former counts */
    void (*on_connection)(void *arg, bool ready); /* the connection came or went */
    void *arg;
};

enum store_target {
    STORE_NOTHING,      /* only whether the key is valid */
    STORE_CARD,         /* the card of channel `number` */
    STORE_CARD_BY_LINK, /* the card of the channel whose link, in stored shape, is `link` */
    STORE_PAGE          /* page `number` (from 1) of the list */
};

struct store_question {
    struct digest key; /* of the caller's API key */
    enum store_target target;
    int64_t number;
    struct span link; /* borrowed during the call */
};

enum store_status {
    STORE_FOUND,
    STORE_NOT_FOUND,
    STORE_KEY_REFUSED, /* the key is not valid; nothing else is told */
    STORE_UNAVAILABLE, /* Redis is away, too slow, or answered with an error */
    STORE_OUT_OF_MEMORY
};

/* Where an answer came from. */
enum store_source {
    STORE_SOURCE_NONE,         /* nobody was asked */
    STORE_SOURCE_MEMORY,       /* what Redis said, and has not taken back */
    STORE_SOURCE_STALE_MEMORY, /* the same while Redis is away */
    STORE_SOURCE_REDIS,
    STORE_SOURCE_SHARED, /* Redis, asked by another who wanted to know the same */
    STORE_SOURCES
};

struct store_answer {
    enum store_status status;
    enum store_source source;
    struct blob *body; /* STORE_FOUND of a card or page: one reference, for the receiver. NULL otherwise */
    int64_t last_page; /* STORE_FOUND of a page */
};

/*
 * A question under way: embedded by the asker, who fills `done` and `arg`. It must stay until `done` was
 * called or store_forget has returned.
 */
struct store_request {
    void (*done)(void *arg, const struct store_answer *answer);
    void *arg;
    /* The store's own. */
    struct fetch *fetch;
    struct list link_in_fetch, deadline;
    uint64_t deadline_ms;
    bool shared; /* the fetch was under way already */
    struct digest key;
    char *link; /* owned; the link that was asked for, where memory knows its channel and the fetch is of the
                   card */
    size_t link_len;
};

/* Starts connecting. Owned by the caller, who ends it with store_close. Returns 0 or a negative errno. */
int store_new(uv_loop_t *loop, const struct store_options *options, struct store **out)
    __attribute__((warn_unused_result));

/* Ends it; no question may be under way. `closed` is called from the loop when the memory is gone. */
void store_close(struct store *s, void (*closed)(void *arg), void *arg);

/*
 * When the connection was lost, or what Redis served was last known to be good, in milliseconds of the
 * boot clock (clock.h): the stale limits count from then. To be asked while there is none.
 */
uint64_t store_lost_ms(const struct store *s);

/*
 * Asks. True when *answer holds the answer already (`done` is not called then); false when `done` will be
 * called from the loop, within the request timeout.
 */
bool store_ask(struct store *s, struct store_request *request, const struct store_question *question,
               struct store_answer *answer) __attribute__((warn_unused_result));

/* The asker has gone: `done` will not be called. */
void store_forget(struct store_request *request);

#endif
