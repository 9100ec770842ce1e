/* What the files of the store share: its own state, and one question on its way to Redis. */
#ifndef CACHE_CACHE_INTERNAL_H
#define CACHE_CACHE_INTERNAL_H

#include "model/datetime.h"
#include "cache/entries.h"
#include "cache/fetch_command.h"
#include "cache/api_keys.h"
#include "redis/connection.h"
#include "cache/cache.h"

enum { STORE_REPORTED = 1024, STORE_TEXT_KEPT = 256 * 1024 };

/* What was logged of a channel. */
enum store_report {
    STORE_REPORT_NONE,
    STORE_REPORT_UNREADABLE,
    STORE_REPORT_LEFT_OUT,
    STORE_REPORT_OVERSIZE
};

struct page_fetch;

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
    enum cache_kind kind; /* of the entry that is, or was last, read again */
    int64_t number;       /* of the card, the summary or the page */
    struct buf link;      /* of the link */
    unsigned entry_waits; /* heartbeats until a difference is proven that no invalidation explains; 0: none */
    unsigned keys_waits;  /* the same for the size of the set of keys */
    size_t cursor;        /* where in the table it goes on */
};

enum { KEYRING_CURSOR_MAX = 20 };

/* The reading of the set of keys. */
struct keyring_fetch {
    bool under_way;
    bool complete;     /* read to its end, and not valid before the next check of the catalogue */
    bool outdated;     /* the set has changed since its first portion was asked for */
    uint64_t asked_ms; /* monotonic; when the last reading began, or turned out to be in vain */
    char cursor[KEYRING_CURSOR_MAX + 1]; /* where SSCAN goes on */
    int portions_left;                   /* that it may take */
    int64_t size;                        /* of the set that is held, whatever its members are */
};

struct store {
    struct store_options options;
    struct rconn *rconn;
    struct buf key;     /* scratch for key names */
    struct buf command; /* scratch for a command */
    struct buf text;    /* scratch for a body, which is copied when its length is known */
    struct fetch_commands commands;

    struct cache cache;
    struct keyring keyring;
    struct keyring_fetch keyring_fetch;
    struct catalogue catalogue;
    struct audit audit;
    bool keys_large;       /* the set cannot be held: verdicts are remembered one by one */
    int64_t verdict_epoch; /* grows with each change of the set: remembered verdicts hold for one epoch */
    bool index_known;
    int64_t index_entries;
    bool distrusted;  /* this connection did not tell of a change: nothing is cached any more */
    bool coherent;    /* what is cached was kept true until the connection was lost, or is being kept true */
    uint64_t lost_ms; /* by the boot clock; when it was lost, or the lease had run out before */

    struct list waiting;       /* fetches for which there is no connection, oldest first */
    struct list by_deadline;   /* requests: one timeout for all, so in order of arrival */
    struct table joinable;     /* fetches that others may join, by cache_hash; see join.c */
    struct table page_members; /* pages being put together, by cache_hash_id of each channel */
    uint64_t index_epoch;      /* grows when the index changes: what was read of an older one is overtaken */
    uint64_t flush_epoch;      /* grows when everything is dropped, as does index_epoch */
    uv_timer_t timer;          /* runs until the first deadline, and a moment longer */
    uv_idle_t reclaim;         /* runs while the cache has something to free */
    uint64_t looked_ms;        /* monotonic; when it last ran out */

    /* Channels (or hashes of keys) of which something was logged, by hash: bounded, and each is news only
     * once. */
    struct {
        enum store_report kind;
        int64_t id;
    } reported[STORE_REPORTED];
    uint64_t error_logged_ms;         /* when an error reply was last logged */
    char newest_update[DATETIME_LEN]; /* the latest updated_at read from Redis; zeros before the first */

    int open_parts; /* the timer, the idle handle and the connection, while closing */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* To be called when something was put into the cache or dropped: what is not needed any more is freed in
 * steps. */
void store_reclaim_later(struct store *s);

/* --- memory.c: what can be said without asking Redis --- */

/* What memory leaves for Redis to answer. */
struct memory_gap {
    bool needs_verdict; /* whether the key is valid must be asked too */
    struct page_fetch
        *known;  /* the page's list of channels, for the receiver to own; NULL where it is not known */
    bool linked; /* the question was for a link whose channel is known, and is now for its card */
};

/*
 * Answers from memory; false when Redis must be asked: then *gap says for what, and *q is what to ask: a link
 * whose channel is known becomes a card.
 */
bool memory_answer(struct store *s, struct store_question *q, struct store_answer *answer,
                   struct memory_gap *gap);

/* Remembers what Redis said of a key, where the whole set is not held. */
void memory_keep_verdict(struct store *s, const struct digest *key, bool valid);

/* --- coherence.c: keeping memory true --- */

/* A new connection: nothing that an older one brought may be answered from now on. */
void coherence_begin(struct store *s);

/* The connection was lost. */
void coherence_lost(struct store *s);

/* An element of what Redis pushes: a key that has changed, or everything. */
void coherence_push(struct store *s, struct span kind, const redisReply *element);

/* Redis did not tell of a change: everything is dropped, and nothing remembered on this connection. */
void coherence_distrust(struct store *s);

/* There is a catalogue: what was told to have changed is dropped. */
void coherence_apply(struct store *s);

/* True when replies may be remembered: invalidations come on this connection. */
bool coherence_keeps(const struct store *s);

/* The same for what the index says. */
bool coherence_keeps_index(const struct store *s);

/*
 * An entry is served without asking only for so long after the sending of the last PING that was answered, in
 * milliseconds: a process that was stopped must hear what it missed before it speaks from memory.
 */
enum { COHERENCE_LEASE_MS = 3000 };

/* --- catalogue.c: whether Redis holds a catalogue at all --- */

/* Checks, unless a check is under way. Where there is none the connection is ended, or not taken into use. */
void catalogue_check(struct store *s);

/*
 * The number of the next check: it will tell whether what a reply has just said to be absent is absent, or
 * the whole catalogue is missing.
 */
uint64_t catalogue_next_check(const struct store *s);

static inline bool catalogue_is_confirmed(const struct store *s, int64_t check)
{
    return (uint64_t)check <= s->catalogue.passed;
}

/* The fetch has all its replies, and lacks something: it is concluded when the next check has told. */
void catalogue_await(struct fetch *f);

/*
 * True when a change must not be applied yet, because nothing may be left of the catalogue: coherence_apply
 * will be called, or the connection lost.
 */
bool catalogue_doubt(struct store *s, enum catalogue_change change);

/* --- audit.c: does what is cached still stand in Redis? --- */

/* To be called with each heartbeat that was answered: judges what differed, and reads the next entry again.
 */
void audit_heartbeat(struct store *s);

/* Redis says how many keys there are. */
void audit_count_keys(struct store *s, int64_t count);

/* Redis has told of a change, by which a difference is explained; CACHE_VERDICT stands for the set of keys,
 * and CACHE_CARD for the summary too. */
void audit_told(struct store *s, enum cache_kind kind, int64_t number, struct span link);

/* It has told of a change of everything, or the connection is another one. */
void audit_forget(struct store *s);

/* --- keyring_fetch.c: reading the set of keys --- */

/* The set is not known, or no more as it was: reads it, at once or after the reading that is under way. */
void keyring_fetch_begin(struct store *s);

/* There is a catalogue: the set that was read is valid. */
void keyring_fetch_commit(struct store *s);

/* Redis has answered about a single key: the set that could not be read (it changed meanwhile, was refused,
 * or there was no memory) may be readable now. Begins every now and then. */
void keyring_fetch_retry(struct store *s);

/* --- join.c: one request to Redis for all who ask the same at a time --- */

/* The fetch that a question may join, or NULL. None that began in an older epoch is found. */
struct fetch *join_find(struct store *s, const struct store_question *q);
void join_add(struct store *s, struct fetch *f);
void join_remove(struct store *s, struct fetch *f);

#endif
