/*
 * The cache: a read-through response cache over Redis, and the only access to the data.
 *
 * A query names a card, a page or a link, and has the digest of the caller's API key. The result says whether
 * the key is valid and what was found. Nothing is read for a key that is not valid. A cache hit is returned
 * at once, without a callback. A cache belongs to one loop and one thread.
 */
#ifndef CACHE_CACHE_H
#define CACHE_CACHE_H

#include "base/blob.h"
#include "base/digest.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/settings.h"
#include "cache/metrics.h"
#include "model/api_key.h"
#include "model/keyspace.h"

struct cache;
struct redis_config;  /* redis/endpoint.h */
struct redis_metrics; /* redis/metrics.h */
struct uv_loop_s;     /* uv_loop_t of libuv: users of the cache need not include uv.h */

/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): a member designator takes none */
/* As rows of a table of settings, for a struct cache_settings that is this member of `type`. */
#define CACHE_SETTINGS(type, member) \
    SETTING_ROW(type, member.request_timeout_ms, DURATION, "request-timeout", "2s", 10, (int64_t)10 * 60 * 1000, \
      "Longest wait for Redis before a request is answered with 500"), \
    SETTING_ROW(type, member.cache_size, SIZE, "cache-size", "64MiB", 0, (int64_t)1 << 40, \
      "Memory for cached data, split among the workers; 0: every request reads Redis"), \
    SETTING_ROW(type, member.ttl_ms, DURATION, "cache-ttl", "0s", 0, SETTINGS_DAY_MS, \
      "How long cached data and API keys are used while Redis refuses CLIENT TRACKING; 0: not at all"), \
    SETTING_WORDS(type, member.tracking, "tracking", "keys", "keys|broadcast", \
      "keys (Redis tracks what each worker reads) or broadcast (each worker gets every change)"), \
    SETTING_ROW(type, member.stale_limit_ms, DURATION, "stale-limit", "30s", 0, SETTINGS_DAY_MS, \
      "How long cached data is served, and the process stays ready, after Redis is lost"), \
    SETTING_ROW(type, member.stale_keys_limit, TEXT, "stale-keys-limit", "same", 0, 0, \
      "The same for cached API keys: a duration, or same (as stale-limit)")
/* NOLINTEND(bugprone-macro-parentheses) */
/* clang-format on */

/* The words of `tracking`. */
enum { CACHE_TRACKING_KEYS, CACHE_TRACKING_BROADCAST };

/* They are settings, so each number has the size of an int64_t. */
struct cache_settings {
    uint64_t request_timeout_ms;
    uint64_t cache_size;     /* bytes; 0: nothing is cached and every query goes to Redis */
    uint64_t ttl_ms;         /* how long entries may be served where Redis does not track; 0: not at all */
    uint64_t stale_limit_ms; /* how long entries may be served after the connection was lost */
    int64_t tracking;
    char *stale_keys_limit;
};

struct cache_options {
    struct redis_config *redis; /* the cache takes a reference */
    const char *client_name;    /* borrowed while the cache lives, as are all pointers that follow */
    const struct keyspace *keyspace;
    struct cache_metrics *metrics;
    struct redis_metrics *redis_metrics;
    struct cache_settings settings; /* with the size for this cache, and without `stale_keys_limit` */
    uint64_t stale_keys_limit_ms;   /* how long API keys may be served then; limited by stale_limit_ms */
    bool checks_eviction;           /* log of each connection whether Redis may evict keys: one worker does */
    void (*on_connection)(void *arg, bool ready); /* the connection became ready or was lost */
    void *arg;
};

enum cache_query_type {
    QUERY_AUTH_ONLY,    /* only whether the key is valid */
    QUERY_CARD,         /* the card of channel `number` */
    QUERY_CARD_BY_LINK, /* the card whose own link, in stored shape, is `link` */
    QUERY_PAGE          /* page `number` (from 1) of the list */
};

struct cache_query {
    struct digest key; /* the digest of the caller's API key */
    enum cache_query_type type;
    enum coding coding; /* the preferred coding of the body */
    int64_t number;
    struct span link; /* borrowed during the call */
};

/* In this order, what is not set says that nothing was found out. */
enum cache_status {
    CACHE_UNAVAILABLE, /* Redis is not connected, too slow, or replied with an error */
    CACHE_OUT_OF_MEMORY,
    CACHE_KEY_INVALID, /* the result has nothing else then */
    CACHE_NOT_FOUND,
    CACHE_FOUND
};

/* The origin of a result. */
enum cache_source {
    CACHE_SOURCE_NONE,      /* a failure */
    CACHE_SOURCE_HIT,       /* from the cache, coherent with Redis */
    CACHE_SOURCE_TTL,       /* from the cache, as Redis does not track: it may have changed */
    CACHE_SOURCE_STALE,     /* from the cache while Redis is not connected */
    CACHE_SOURCE_MISS,      /* from Redis */
    CACHE_SOURCE_COALESCED, /* from Redis, by a fetch that another request had begun */
    CACHE_SOURCES
};

struct cache_result {
    enum cache_status status;
    enum cache_source source;
    /* One reference for the receiver, with CACHE_FOUND. Plain, unless the cache has it in the coding. */
    struct blob *body;
    int64_t last_page; /* set for a page, with CACHE_FOUND */
    /*
     * Of a hit whose body is not known to be coherent, in seconds. `age_s`: the longest time for which it may
     * have been out of date. `ttl_s`: how long it still counts as fresh, below 0 while Redis is not
     * connected.
     */
    int64_t age_s, ttl_s;
    /* The name of the caller's key, borrowed until the receiver returns. It is known if the key is in the
     * set; after a failure only if it is valid. */
    const struct api_key_name *key_name;
};

/* A query in flight, of a caller that sets `done` and `arg`, and keeps it until `done` or cache_cancel. */
struct cache_request {
    void (*done)(void *arg, const struct cache_result *result);
    void *arg;
    /* Private to the cache. */
    struct cache *cache;
    struct list waiting;  /* in a list of its fetch, or of the cache */
    struct list checking; /* in a list of the keys */
    struct list deadline;
    uint64_t deadline_ms;
    bool shared; /* another request began the fetch */
    enum request_key {
        REQUEST_KEY_UNCHECKED, /* the records of keys say whether the key is valid */
        REQUEST_KEY_PENDING,   /* it is checked, and the data is read already */
        REQUEST_KEY_VALID      /* a check has found it valid since then, on this connection */
    } key_state;
    unsigned char checked_at; /* the place of the key in its check */
    unsigned repeats;         /* checks of its key that decided nothing */
    /* What the last of these found lacking. */
    enum request_lack { REQUEST_LACKS_NOTHING, REQUEST_LACKS_KEY, REQUEST_LACKS_INFO } lack;
    unsigned losses;       /* connections with which its fetch was lost */
    uint64_t undrained_ms; /* when the socket was first found undrained, by the boot clock; 0: never */
    uint64_t queued_ms;    /* when it first had to wait in the queue, monotonic; 0: never */
    struct cache_query query;
    struct api_key_name key_name;
    char *link; /* the text of the query's link, once the request waits; owned; NULL: there is none */
};

/* Starts connecting. `options` is copied. Owned by the caller (cache_close). Returns 0 or a negative errno.
 */
int cache_new(struct uv_loop_s *loop, const struct cache_options *options, struct cache **out)
    __attribute__((warn_unused_result));

/* No request may be in flight. `closed` is called from the loop when the memory has been freed. */
void cache_close(struct cache *c, void (*closed)(void *arg), void *arg);

/*
 * Uses these settings of Redis when a connection with them is ready; the connection in use serves until
 * then. The cache takes a reference of `config`. After a negative errno nothing has changed.
 */
int cache_use_redis(struct cache *c, struct redis_config *config) __attribute__((warn_unused_result));

/* The number of the settings in use (redis_config). */
uint64_t cache_redis_number(const struct cache *c);

/*
 * When the connection was lost, in milliseconds of the boot clock (clock.h). If its data was known to be
 * valid only until an earlier time, that time. The stale limits count from then. Undefined while connected.
 */
uint64_t cache_lost_ms(const struct cache *c);

/* True when *result is complete; false when `done` will be called from the loop, within the timeout. */
bool cache_get(struct cache *c, struct cache_request *request, const struct cache_query *query,
               struct cache_result *result) __attribute__((warn_unused_result));

/*
 * For a request that may be answered without a query: true when a query would find the key invalid without
 * Redis. *name becomes the name of the key, as far as it is known.
 */
bool cache_is_key_invalid(struct cache *c, const struct digest *key, struct api_key_name *name);

/* Cancels a request: `done` will not be called. Does nothing if the request is complete. */
void cache_cancel(struct cache_request *request);

#endif
