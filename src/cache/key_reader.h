/*
 * The key reader: checks API keys in Redis, of all requests whose keys have no current record (api_keys.h).
 *
 * A check is of up to KEY_READER_KEYS keys. It sends HMGET of their infos and SMISMEMBER of the set, and
 * before them HLEN of the infos if an absence may be untracked (stream.h). The membership is read last, so
 * that a key is refused that is revoked in between together with its expiry. An invalidation in between makes
 * the check void. What it finds is kept as long as the replies may be cached. The requests that waited when
 * it was sent have their result in any case, also where nothing may be cached.
 *
 * There are two queues: keys that were valid when they were last checked are `known`, and any number of
 * `unknown` ones waits beside them. Each queue has one check that begins with whatever waits. While that is
 * in flight, requests are collected. Further checks begin only with KEY_READER_KEYS requests. So a request
 * shares its check with others where there are many, and a check visits no more requests than it takes. Where
 * nothing may be cached each known key waits for a check, so further checks of these begin at once. Unless
 * the cache is fresh, the data of a known key is read behind its check, in the same write.
 *
 * The reader's own check, without requests, is of one of these:
 *   - The keys used last, when an invalidation has made all records void. This is done once per second at
 *     most, since a Redis may evict the set from a full tracking table hundreds of times per second.
 *   - Once per heartbeat, keys of current records for the audit (audit.h), and members of the set that
 *     have no current record, so that these are valid in an outage. Each heartbeat asks for a portion of the
 *     set (SSCAN), which costs Redis the same however large the set is and however often it changes.
 *
 * A request whose key is a member is looked up again at once. A request whose key is none is `denied`: it
 * gets its 401 after a check of the catalogue, as fetches do (fetch.c). A denial that is certain is kept.
 *
 * Invariant: the `checking` of a request is in one of the queues, in a check in flight, in `denied`, or in no
 * list. The reader reads one thing at a time for itself.
 */
#ifndef CACHE_KEY_READER_H
#define CACHE_KEY_READER_H

#include "cache/parts.h"

/*
 *   - KEY_READER_KEYS: keys of one check, and requests of one
 *   - KEY_READER_PORTION: members that are requested with one portion; Redis may return more
 *   - KEY_READER_FOUND: so many members of a portion are checked
 *   - KEY_READER_CHECKS: checks for requests that may be in flight
 *
 * A portion takes at most 100 us of Redis, and so does a check.
 */
enum { KEY_READER_KEYS = 64, KEY_READER_PORTION = 24, KEY_READER_FOUND = 256, KEY_READER_CHECKS = 9 };

/* The minimum interval of checks of the keys used last. */
enum { KEY_READER_RECENT_INTERVAL_MS = 1000 };

enum { KEY_READER_CURSOR_MAX = 20 };

/* Requests that wait for a check, and the number of checks of such requests that are in flight. */
struct key_queue {
    struct list requests;
    unsigned in_flight;
};

/* Embedded in the cache; private to key_reader.c. */
struct key_reader {
    const struct cache_parts *parts;

    struct key_queue known, unknown;
    struct list denied; /* requests that wait for a check of the catalogue */

    /* What the reader reads for itself. */
    bool is_checking;    /* its own check is in flight */
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

void key_reader_init(struct key_reader *r, const struct cache_parts *parts);

/*
 * Adds a request, by `checking`; there must be a connection. The end is told from the loop (parts.checked),
 * and the request may leave at any time.
 */
void key_reader_wait(struct key_reader *r, struct cache_request *request);

/* The set or the infos have changed. With `all` everything has, and the keys used last need not wait. */
void key_reader_invalidate(struct key_reader *r, bool all);

/* To be called every second. */
void key_reader_heartbeat(struct key_reader *r);

/* A check of the catalogue has ended. */
void key_reader_checked(struct key_reader *r, enum catalogue_state state);

#endif
