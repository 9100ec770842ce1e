/* What the files of the store share: its own state, and one question on its way to Redis. */
#ifndef CACHE_CACHE_INTERNAL_H
#define CACHE_CACHE_INTERNAL_H

#include "cache/api_keys.h"
#include "cache/cache.h"
#include "cache/entries.h"
#include "cache/fetch_command.h"
#include "model/datetime.h"
#include "redis/connection.h"

enum { CACHE_REPORTED = 1024, CACHE_TEXT_KEPT = 256 * 1024 };

/* What was logged of a channel. */
enum cache_report {
    CACHE_REPORT_NONE,
    CACHE_REPORT_INVALID_VALUE,
    CACHE_REPORT_SKIPPED,
    CACHE_REPORT_OVERSIZE
};

struct page_builder;

/* What a reply says of the index or the set of keys. */
enum catalogue_key {
    CATALOGUE_KEY_UNKNOWN,
    CATALOGUE_KEY_FORBIDDEN,
    CATALOGUE_KEY_ABSENT,
    CATALOGUE_KEY_PRESENT
};

/* What Redis has told to have changed. */
enum catalogue_change { CHANGE_ALL = 1, CHANGE_INDEX = 2, CHANGE_KEYS = 4 };

/* Whether Redis holds a catalogue; see catalogue.c. */
struct catalogue {
    bool checking;           /* a check is under way */
    bool missing;            /* the last check that told found none */
    bool forbidden;          /* it was logged that the ACL does not permit to see it */
    enum catalogue_key keys; /* what the first reply said */
    uint64_t begun, passed;  /* the numbers of the last check, and of the last that found one */
    unsigned changes;        /* told, but not applied before it is known that there is a catalogue */
    uint64_t doubts;         /* changes so far that may have left no keys */
    uint64_t doubted_ms;     /* by the boot clock; when the first of them was told */
    uint64_t index_doubted_ms, keys_doubted_ms; /* the same; when a change of either was last doubted */
    struct list waiting;                        /* fetches whose answer lacks something */
};

/* The reading again of what is cached; see audit.c. */
struct audit {
    bool under_way;
    enum entry_kind kind; /* of the entry that is, or was last, read again */
    int64_t number;       /* of the card, the summary or the page */
    struct buf link;      /* of the link */
    unsigned entry_waits; /* heartbeats until a difference is proven that no invalidation explains; 0: none */
    unsigned keys_waits;  /* the same for the size of the set of keys */
    size_t cursor;        /* where in the table it goes on */
};

enum { API_KEYS_CURSOR_MAX = 20 };

/* The reading of the set of keys. */
struct api_keys_fetch {
    bool under_way;
    bool complete;     /* read to its end, and not valid before the next check of the catalogue */
    bool outdated;     /* the set has changed since its first portion was asked for */
    uint64_t asked_ms; /* monotonic; when the last reading began, or turned out to be in vain */
    char cursor[API_KEYS_CURSOR_MAX + 1]; /* where SSCAN goes on */
    int portions_left;                    /* that it may take */
    int64_t size;                         /* of the set that is held, whatever its members are */
};

struct cache {
    struct cache_options options;
    struct redis_connection *redis_connection;
    struct buf key;     /* scratch for key names */
    struct buf command; /* scratch for a command */
    struct buf text;    /* scratch for a body, which is copied when its length is known */
    struct fetch_commands commands;

    struct entries entries;
    struct api_keys api_keys;
    struct api_keys_fetch api_keys_fetch;
    struct catalogue catalogue;
    struct audit audit;
    bool keys_large;    /* the set cannot be held: verdicts are remembered one by one */
    int64_t auth_epoch; /* grows with each change of the set: remembered verdicts hold for one epoch */
    bool index_known;
    int64_t index_entries;
    bool suspended;   /* this connection did not tell of a change: nothing is cached any more */
    bool coherent;    /* what is cached was kept true until the connection was lost, or is being kept true */
    uint64_t lost_ms; /* by the boot clock; when it was lost, or the lease had run out before */

    struct list waiting;       /* fetches for which there is no connection, oldest first */
    struct list by_deadline;   /* requests: one timeout for all, so in order of arrival */
    struct table inflight;     /* fetches that others may join, by entries_hash; see inflight.c */
    struct table page_members; /* pages being put together, by entries_hash_id of each channel */
    uint64_t index_epoch;      /* grows when the index changes: what was read of an older one is overtaken */
    uint64_t flush_epoch;      /* grows when everything is dropped, as does index_epoch */
    uv_timer_t timer;          /* runs until the first deadline, and a moment longer */
    uv_idle_t reclaim;         /* runs while the cache has something to free */
    uint64_t looked_ms;        /* monotonic; when it last ran out */

    /* Channels (or hashes of keys) of which something was logged, by hash: bounded, and each is news only
     * once. */
    struct {
        enum cache_report kind;
        int64_t id;
    } reported[CACHE_REPORTED];
    uint64_t error_logged_ms;         /* when an error reply was last logged */
    char newest_update[DATETIME_LEN]; /* the latest updated_at read from Redis; zeros before the first */

    int open_parts; /* the timer, the idle handle and the connection, while closing */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* To be called when something was put into the cache or dropped: what is not needed any more is freed in
 * steps. */
void cache_schedule_reclaim(struct cache *s);

/* --- lookup.c: what can be said without asking Redis --- */

/* What memory leaves for Redis to answer. */
struct cache_miss {
    bool needs_auth; /* whether the key is valid must be asked too */
    struct page_builder
        *known;  /* the page's list of channels, for the receiver to own; NULL where it is not known */
    bool linked; /* the question was for a link whose channel is known, and is now for its card */
};

/*
 * Answers from memory; false when Redis must be asked: then *gap says for what, and *q is what to ask: a link
 * whose channel is known becomes a card.
 */
bool cache_lookup(struct cache *s, struct cache_query *q, struct cache_result *answer,
                  struct cache_miss *gap);

/* Remembers what Redis said of a key, where the whole set is not held. */
void lookup_store_auth(struct cache *s, const struct digest *key, bool valid);

/* --- invalidation.c: keeping memory true --- */

/* A new connection: nothing that an older one brought may be answered from now on. */
void invalidation_begin(struct cache *s);

/* The connection was lost. */
void invalidation_connection_lost(struct cache *s);

/* An element of what Redis pushes: a key that has changed, or everything. */
void invalidation_push(struct cache *s, struct span kind, const redisReply *element);

/* Redis did not tell of a change: everything is dropped, and nothing remembered on this connection. */
void invalidation_suspend(struct cache *s);

/* There is a catalogue: what was told to have changed is dropped. */
void invalidation_apply(struct cache *s);

/* True when replies may be remembered: invalidations come on this connection. */
bool invalidation_may_store(const struct cache *s);

/* The same for what the index says. */
bool invalidation_may_store_index(const struct cache *s);

/*
 * An entry is served without asking only for so long after the sending of the last PING that was answered, in
 * milliseconds: a process that was stopped must hear what it missed before it speaks from memory.
 */
enum { CACHE_LEASE_MS = 3000 };

/* --- catalogue.c: whether Redis holds a catalogue at all --- */

/* Checks, unless a check is under way. Where there is none the connection is ended, or not taken into use. */
void catalogue_check(struct cache *s);

/*
 * The number of the next check: it will tell whether what a reply has just said to be absent is absent, or
 * the whole catalogue is missing.
 */
uint64_t catalogue_next_check(const struct cache *s);

static inline bool catalogue_is_confirmed(const struct cache *s, int64_t check)
{
    return (uint64_t)check <= s->catalogue.passed;
}

/* The fetch has all its replies, and lacks something: it is concluded when the next check has told. */
void catalogue_await(struct fetch *f);

/*
 * True when a change must not be applied yet, because nothing may be left of the catalogue:
 * invalidation_apply will be called, or the connection lost.
 */
bool catalogue_defer(struct cache *s, enum catalogue_change change);

/* --- audit.c: does what is cached still stand in Redis? --- */

/* To be called with each heartbeat that was answered: judges what differed, and reads the next entry again.
 */
void audit_heartbeat(struct cache *s);

/* Redis says how many keys there are. */
void audit_count_keys(struct cache *s, int64_t count);

/* Redis has told of a change, by which a difference is explained; ENTRY_AUTH stands for the set of keys,
 * and ENTRY_CARD for the summary too. */
void audit_invalidated(struct cache *s, enum entry_kind kind, int64_t number, struct span link);

/* It has told of a change of everything, or the connection is another one. */
void audit_reset(struct cache *s);

/* --- api_keys_fetch.c: reading the set of keys --- */

/* The set is not known, or no more as it was: reads it, at once or after the reading that is under way. */
void api_keys_fetch_begin(struct cache *s);

/* There is a catalogue: the set that was read is valid. */
void api_keys_fetch_commit(struct cache *s);

/* Redis has answered about a single key: the set that could not be read (it changed meanwhile, was refused,
 * or there was no memory) may be readable now. Begins every now and then. */
void api_keys_fetch_retry(struct cache *s);

/* --- inflight.c: one request to Redis for all who ask the same at a time --- */

/* The fetch that a question may join, or NULL. None that began in an older epoch is found. */
struct fetch *inflight_find(struct cache *s, const struct cache_query *q);
void inflight_add(struct cache *s, struct fetch *f);
void inflight_remove(struct cache *s, struct fetch *f);

#endif
