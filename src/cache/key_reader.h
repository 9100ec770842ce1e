/*
 * The key reader: checks API keys in Redis, and reads their set, one command after the other.
 *
 * A check confirms up to KEY_READER_KEYS keys at once: HLEN of the infos (an absence may be untracked,
 * validity.h), HMGET of theirs, SMISMEMBER of the set. Their membership is read last, so that a key
 * is refused that is revoked in between, and its expiry with it; where an invalidation comes in between, the
 * check is worthless. It is made for
 *   - the keys used last, when an invalidation has made all keys unconfirmed. A set of one portion is read as
 *     a whole instead. Once a second at most, since a Redis may evict the set from a full tracking table
 *     hundreds of times per second;
 *   - requests whose key is not confirmed while the set is not whole. They wait; all that come during one
 *     check share the next. One check is under way at a time, and their rate is bounded by what they cost: so
 *     a flood of invalid keys takes a bounded part of Redis' time, also while the set changes so often that
 *     it is never whole.
 *
 * With each heartbeat one portion of the set is read (SSCAN), and the infos of its members. So reading the
 * set costs Redis the same per second however large it is and however often it changes. Their membership was
 * read first, and they are confirmed by a check of the catalogue that is sent after the last reply: it comes
 * from another turn of Redis, behind the invalidations of the turns before. Where the
 * set is empty, that check also shows that Redis has not lost its data.
 *
 * A request whose key is confirmed is looked up again at once. One whose key is no member gets its 401 after
 * a check of the catalogue, as fetches do (fetch.c). Where keys cannot be checked here, because nothing may
 * be cached or Redis refuses the commands, each request has its own check with its fetch; so has one whose
 * key is absent here, but may be found outside of the stream.
 *
 * Invariant: one command or check is under way at a time, by `step`; a request is in `waiting`, in `checked`,
 * or ended.
 *
 * Timers: one, until the rate permits the next check; runs only while requests wait for that.
 */
#ifndef CACHE_KEY_READER_H
#define CACHE_KEY_READER_H

#include "base/wait_group.h"
#include "cache/parts.h"

#include <uv.h>

/*
 * Keys of one check, and members asked for with one portion, of which Redis may return some more. A portion
 * takes at most 100 us of Redis, as does a check of the keys used last.
 */
enum { KEY_READER_KEYS = 64, KEY_READER_PORTION = 24, KEY_READER_PORTION_MAX = 32 };

/*
 * The rate of checks for requests: so many keys per millisecond, where each check counts as some more. What
 * was not used is kept for so many milliseconds.
 */
enum { KEY_READER_KEYS_PER_MS = 32, KEY_READER_CHECK_COST = 8, KEY_READER_BURST_MS = 10 };

/* The shortest interval of checks of the keys used last. */
enum { KEY_READER_RECENT_INTERVAL_MS = 1000 };

enum { KEY_READER_CURSOR_MAX = 20 };

/* Embedded in the cache; private to key_reader.c. */
struct key_reader {
    const struct cache_parts *parts;
    struct buf command, set_key, info_key;
    uv_timer_t timer;

    enum key_reader_step {
        KEY_READER_IDLE,
        KEY_READER_SCANNING,   /* SSCAN is under way */
        KEY_READER_CHECKING,   /* a check is under way, or the infos of a portion are being read */
        KEY_READER_CONFIRMING, /* requests whose keys are no members wait for a check of the catalogue */
        KEY_READER_COMMITTING  /* a portion waits for a check of the catalogue */
    } step;
    enum key_reader_reply { /* the next reply to a check */
                            KEY_READER_INFO_COUNT,
                            KEY_READER_INFOS,
                            KEY_READER_MEMBERS,
                            KEY_READER_REPLIES
    } reply;
    unsigned replies_due;
    bool failed;     /* a command of the check could not be sent, or its reply is of no use */
    bool is_outside; /* the set may be outside of the stream: that keys are no members is not known here */
    uint64_t epoch;  /* the epoch of the keys when SSCAN was sent, or when the first reply to a check came */

    struct list waiting; /* requests for the next check */
    struct list checked; /* requests of the check under way */
    struct digest key[KEY_READER_KEYS];
    struct api_key_info info[KEY_READER_KEYS];
    size_t key_count;
    uint64_t mark; /* validity_mark() when the check was sent */
    int repeats;   /* the check was repeated so often, because its keys may have been missing for a moment */
    uint64_t paid_ns; /* monotonic; by then the rate will have paid for all checks so far */

    bool recent_due;    /* the keys used last are to be checked */
    uint64_t recent_ms; /* monotonic; from then on they may be */
    bool portion_due;
    bool is_portion;                        /* the keys are members of the set, by a portion of it */
    char cursor[KEY_READER_CURSOR_MAX + 1]; /* the cursor of the next SSCAN; empty: no portion is left */
    struct digest *found;                   /* owned; members whose infos are to be read */
    size_t found_count;
    int64_t members; /* members that were read */
    uint64_t commit; /* the number of the check of the catalogue that commits the portion */
};

/* Returns 0 or -ENOMEM; key_reader_fini is due in both cases. */
int key_reader_init(struct key_reader *r, const struct cache_parts *parts)
    __attribute__((warn_unused_result));
void key_reader_fini(struct key_reader *r);

/* To be called before any of the following. */
void key_reader_open(struct key_reader *r, uv_loop_t *loop);

/* To be called once, at the end: no request may wait then. Handles that are closing are operations of
 * `closing`. */
void key_reader_close(struct key_reader *r, struct wait_group *closing);

/* Whether requests may wait here for their keys to be checked. */
bool key_reader_is_able(const struct key_reader *r);

/* Adds a request, by `waiting`; it is ended from the loop. It may leave at any time. */
void key_reader_wait(struct key_reader *r, struct list *request);

/* The set or the infos have changed; with `all`, everything: then the keys used last need not wait. */
void key_reader_invalidate(struct key_reader *r, bool all);

/* Every second. */
void key_reader_heartbeat(struct key_reader *r);

/* A check of the catalogue has ended. */
void key_reader_checked(struct key_reader *r, enum catalogue_state state);

#endif
