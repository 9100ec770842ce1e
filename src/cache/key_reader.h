/*
 * The key reader: checks API keys in Redis.
 *
 * A check confirms up to KEY_READER_KEYS keys at once. It sends HLEN of the infos (an absence may be
 * untracked, validity.h), HMGET of the infos of these keys, and SMISMEMBER of the set. The membership is read
 * last, so that a key is refused that is revoked in between together with its expiry. An invalidation in
 * between makes the check void.
 *
 * Requests whose key has no current record (api_keys.h) wait for a check. Each takes part in one check, in
 * its turn. There are two queues: keys that were valid before the last change are `known`, and any number of
 * `unknown` ones waits beside them. Each queue has one check of its own that begins with whatever waits.
 * While that is in flight, requests are collected. Further checks begin only with KEY_READER_KEYS requests.
 * So a request shares its check with others where there are many, and a check visits no more requests than it
 * takes.
 *
 * The reader's own check, without requests, is of one of these:
 *   - The keys used last, when an invalidation has made all records void. This is done once per second at
 *     most, since a Redis may evict the set from a full tracking table hundreds of times per second.
 *   - Once per heartbeat, keys of current records for the audit (invalidation.h), and members of the set that
 *     have no current record, so that these are valid in an outage. Each heartbeat asks for a portion of the
 *     set (SSCAN), which costs Redis the same however large the set is and however often it changes.
 *
 * A request whose key is confirmed is looked up again at once. A request whose key is not a member is
 * `denied`: it gets its 401 after a check of the catalogue, as fetches do (fetch.c). A denial that is certain
 * is kept. If keys cannot be checked here, each request has its own check with its fetch: nothing may be
 * cached, or Redis refuses the commands. So does a request whose key is absent here, but may be found outside
 * of the stream, and a request whose checks an invalidation has made void too often.
 *
 * Invariant: a request is in one of the queues, in a check in flight, in `denied`, or ended. The reader reads
 * one thing at a time for itself.
 */
#ifndef CACHE_KEY_READER_H
#define CACHE_KEY_READER_H

#include "cache/parts.h"

/*
 *   - KEY_READER_KEYS: keys of one check, and requests of one
 *   - KEY_READER_PORTION: members that are requested with one portion; Redis may return more
 *   - KEY_READER_FOUND: so many members of a portion are checked
 *   - KEY_READER_UNKNOWN: checks of unknown keys that may be in flight
 *
 * A portion takes at most 100 us of Redis, and so does a check.
 */
enum { KEY_READER_KEYS = 64, KEY_READER_PORTION = 24, KEY_READER_FOUND = 256, KEY_READER_UNKNOWN = 8 };

/* The minimum interval of checks of the keys used last. */
enum { KEY_READER_RECENT_INTERVAL_MS = 1000 };

enum { KEY_READER_CURSOR_MAX = 20 };

struct key_reader;

/* A check. It is in flight while it expects replies. */
struct key_check {
    struct key_reader *reader;
    enum key_check_reply { /* the next reply */
                           KEY_CHECK_INFO_COUNT,
                           KEY_CHECK_INFOS,
                           KEY_CHECK_MEMBERS,
                           KEY_CHECK_REPLIES
    } reply;
    unsigned replies_due;
    bool failed;     /* a command could not be sent, or its reply cannot be used */
    bool is_outside; /* the set may be outside of the stream, so an absence from it is not certain here */
    uint64_t epoch;  /* the epoch of the keys when the first reply came */
    uint64_t mark;   /* validity_mark() when it was sent */

    struct list requests;
    struct digest key[KEY_READER_KEYS]; /* after the last reply those that are no members */
    struct api_key_info info[KEY_READER_KEYS];
    size_t key_count;
};

/* The checks: the reader's own, then those for requests. A queue may use those from its own one on. */
enum {
    KEY_CHECK_OWN,
    KEY_CHECK_KNOWN,
    KEY_CHECK_UNKNOWN,
    KEY_CHECKS = KEY_CHECK_UNKNOWN + KEY_READER_UNKNOWN
};

/* Embedded in the cache; private to key_reader.c. */
struct key_reader {
    const struct cache_parts *parts;
    struct buf command, set_key, info_key;

    struct list known, unknown; /* requests that wait for a check */
    struct list denied;         /* requests that wait for a check of the catalogue */
    struct key_check check[KEY_CHECKS];

    /* What the reader reads for itself. */
    bool audit_due;      /* keys of current records must be read again, and found ones be checked */
    bool recent_due;     /* the keys used last must be checked */
    uint64_t recent_ms;  /* monotonic; they are not checked before */
    bool portion_due;    /* SSCAN may be sent */
    bool scanning;       /* SSCAN is in flight */
    uint64_t scan_epoch; /* the epoch of the keys when the scan began; 0: it must begin again */
    char cursor[KEY_READER_CURSOR_MAX + 1]; /* the cursor of the next SSCAN; empty: no portion is left */
    struct digest found[KEY_READER_FOUND];  /* members that are to be checked */
    size_t found_count;
};

/* Returns 0 or -ENOMEM; call key_reader_fini in both cases. */
int key_reader_init(struct key_reader *r, const struct cache_parts *parts)
    __attribute__((warn_unused_result));
void key_reader_fini(struct key_reader *r);

/* Whether requests may wait here for their keys to be checked. */
bool key_reader_is_able(const struct key_reader *r);

/* Adds a request, by `waiting`. The request is ended from the loop, and may leave at any time. */
void key_reader_wait(struct key_reader *r, struct list *request);

/* The set or the infos have changed. With `all` everything has, and the keys used last need not wait. */
void key_reader_invalidate(struct key_reader *r, bool all);

/* To be called every second. */
void key_reader_heartbeat(struct key_reader *r);

/* A check of the catalogue has ended. */
void key_reader_checked(struct key_reader *r, enum catalogue_state state);

#endif
