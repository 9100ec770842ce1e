/*
 * The key reader: checks API keys in Redis, and reads their set, one command after the other.
 *
 * A check confirms up to KEY_READER_KEYS keys at once. It sends HLEN of the infos (an absence may be
 * untracked, validity.h), HMGET of the infos of these keys, and SMISMEMBER of the set. The membership is read
 * last, so that a key is refused that is revoked in between together with its expiry. An invalidation in
 * between makes the check void. There are two kinds of checks:
 *   - Checks of the keys used last, when an invalidation has made all keys unconfirmed. A set of one portion
 *     is read as a whole instead. These checks are made once per second at most, since a Redis may evict the
 *     set from a full tracking table hundreds of times per second.
 *   - Checks for requests whose key is not confirmed while the set is not whole. The requests wait, and all
 *     that arrive during one check share the next. One check is in flight at a time, and the rate of checks
 *     is limited by their cost. So a flood of invalid keys takes a bounded part of Redis' time, even if the
 *     set changes so often that it is never whole.
 *
 * Each heartbeat reads one portion of the set (SSCAN), and the infos of its members. So reading the set costs
 * Redis the same per second however large it is and however often it changes. The membership is read first
 * here, and the members are confirmed by a check of the catalogue that is sent after the last reply. That
 * check comes from another event loop iteration of Redis, behind the invalidations of the iterations before.
 * If the set is empty, the check also shows that Redis has not lost its data.
 *
 * A request whose key is confirmed is looked up again at once. A request whose key is not a member gets its
 * 401 after a check of the catalogue, as fetches do (fetch.c). If keys cannot be checked here, each request
 * has its own check with its fetch: nothing may be cached, or Redis refuses the commands. So does a request
 * whose key is absent here, but may be found outside of the stream.
 *
 * Invariant: one command or check is in flight at a time, by `step`. A request is in `waiting`, in `checked`,
 * or ended.
 *
 * Timers: one, until the rate permits the next check. It runs only while requests wait for that.
 */
#ifndef CACHE_KEY_READER_H
#define CACHE_KEY_READER_H

#include "base/wait_group.h"
#include "cache/parts.h"

#include <uv.h>

/*
 *   - KEY_READER_KEYS: keys of one check
 *   - KEY_READER_PORTION: members that are requested with one portion; Redis may return more
 *
 * A portion takes at most 100 us of Redis, and so does a check of the keys used last.
 */
enum { KEY_READER_KEYS = 64, KEY_READER_PORTION = 24, KEY_READER_PORTION_MAX = 32 };

/*
 * The rate of checks for requests, in keys per millisecond. Each check counts as KEY_READER_CHECK_COST
 * further keys. What was not used is kept for KEY_READER_BURST_MS.
 */
enum { KEY_READER_KEYS_PER_MS = 32, KEY_READER_CHECK_COST = 8, KEY_READER_BURST_MS = 10 };

/* The minimum interval of checks of the keys used last. */
enum { KEY_READER_RECENT_INTERVAL_MS = 1000 };

enum { KEY_READER_CURSOR_MAX = 20 };

/* Embedded in the cache; private to key_reader.c. */
struct key_reader {
    const struct cache_parts *parts;
    struct buf command, set_key, info_key;
    uv_timer_t timer;

    enum key_reader_step {
        KEY_READER_IDLE,
        KEY_READER_SCANNING,   /* SSCAN is in flight */
        KEY_READER_CHECKING,   /* a check, or a read of the infos of a portion, is in flight */
        KEY_READER_CONFIRMING, /* requests whose keys are not members wait for a check of the catalogue */
        KEY_READER_COMMITTING  /* a portion waits for a check of the catalogue */
    } step;
    enum key_reader_reply { /* the next reply to a check */
                            KEY_READER_INFO_COUNT,
                            KEY_READER_INFOS,
                            KEY_READER_MEMBERS,
                            KEY_READER_REPLIES
    } reply;
    unsigned replies_due;
    bool failed;     /* a command of the check could not be sent, or its reply cannot be used */
    bool is_outside; /* the set may be outside of the stream, so an absence from it is not certain here */
    uint64_t epoch;  /* the epoch of the keys when the first reply to a check came */

    struct list waiting;                /* requests for the next check */
    struct list checked;                /* requests of the check in flight */
    struct digest key[KEY_READER_KEYS]; /* of the check; after the last reply those that are no members */
    struct api_key_info info[KEY_READER_KEYS];
    size_t key_count;
    uint64_t mark;    /* validity_mark() when the check was sent */
    int repeats;      /* repetitions of the check, because its keys may have been missing for a moment */
    uint64_t paid_ns; /* monotonic; the time at which the rate will have paid for all checks so far */

    bool audit_due;     /* confirmed keys must be read again */
    bool recent_due;    /* the keys used last must be checked */
    uint64_t recent_ms; /* monotonic; they are not checked before */
    bool portion_due;
    bool is_portion;                        /* the keys are members of the set, as a portion has shown */
    char cursor[KEY_READER_CURSOR_MAX + 1]; /* the cursor of the next SSCAN; empty: no portion is left */
    struct digest *found;                   /* owned; members of portions that are not confirmed yet */
    size_t found_count;
    size_t left_count; /* those of them that remain when the portion in flight is confirmed */
    int64_t members;   /* members that were read */
    uint64_t commit;   /* the number of the check of the catalogue that commits the portion */
};

/* Returns 0 or -ENOMEM; key_reader_fini is due in both cases. */
int key_reader_init(struct key_reader *r, const struct cache_parts *parts)
    __attribute__((warn_unused_result));
void key_reader_fini(struct key_reader *r);

/* To be called before any of the functions below. */
void key_reader_open(struct key_reader *r, uv_loop_t *loop);

/* To be called once, at the end: no request may wait then. Handles that are closing are operations of
 * `closing`. */
void key_reader_close(struct key_reader *r, struct wait_group *closing);

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
