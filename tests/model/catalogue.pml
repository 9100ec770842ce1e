/*
 * A Redis that was emptied, and filled again: its "not found" and "no such key" must not be believed.
 *
 * FLUSHALL empties the API key set, the index and a card; then each is restored, in any order. As long as neither the
 * index nor the set exists the catalogue is missing (cache/stream.c).
 *
 *   A 401, or a 404, is sent only if at some time the catalogue was there without the set, or without the card.
 *
 * How old answers are is not looked at here: card.pml, api_keys.pml.
 */
#define KEYS 3
#define SET 0
#define INDEX 1
#define CARD 2
#define COMMANDS 8
#define STREAM 18
#define FLUSHALL
#define TIMED /* without DELIVERED */
#define WRITES 2
#define GONE(key) (value[key] == 1) /* 0: as at first; 1: flushed; 2: restored */
#define WRITABLE(key) GONE(key)
#ifndef EVICTIONS
#define EVICTIONS 0
#endif
#define AT_WRITE note_absences()

bool set_was_absent, card_was_absent; /* while the catalogue was there */

inline note_absences()
{
    if
    :: GONE(SET) && !GONE(INDEX) -> set_was_absent = true
    :: else
    fi;
    if
    :: GONE(CARD) && !(GONE(SET) && GONE(INDEX)) -> card_was_absent = true
    :: else
    fi
}

#include "redis.pml"

mtype = { WAITING, HANDSHAKE, READY };
mtype = { FREE, FIRST, UNCONFIRMED };             /* of a fetch */
mtype = { CHECK_IDLE, CHECK_KEYS, CHECK_INDEX };  /* the step of stream.c */
mtype = { SET_IDLE, SET_READING, SET_UNCOMMITTED }; /* a read of the set */

#define AUTH 0 /* tags of READ: SISMEMBER and HMGET of a fetch, SCARD and ZCARD of a check, SSCAN */
#define DATA 1
#define SCARD 2
#define ZCARD 3
#define SMEMBERS 4

mtype connection = WAITING;
mtype fetch = FREE;
byte replies_due;
bool needs_auth;
bool key_invalid, found;   /* of the fetch */
bool possible_loss;        /* fetch.keys_found is not that of the stream any more */
bool repeated;
bool set_seen, has_set;    /* keys_found is not 0; the set was found */
bool cached;               /* the card has an entry */
mtype check = CHECK_IDLE;
bool check_flushed;        /* probe.flushes is not stream.flushes any more */
bool all_deferred;
mtype set_step = SET_IDLE;
bool set_found;            /* of the set that was read: it held the key */
bool committed;

inline answer(invalid, absent)
{
    if
    :: invalid -> printf("worker: answers 401\n"); assert(set_was_absent)
    :: !invalid && absent -> printf("worker: answers 404\n"); assert(card_was_absent)
    :: else
    fi
}

inline drop_entry()
{
    cached = false
}

inline end_fetch()
{
    fetch = FREE;
    needs_auth = false;
    key_invalid = false;
    found = false;
    possible_loss = false;
    repeated = false
}

/* fetch.c: fetch_start */
inline start()
{
    fetch = FIRST;
    possible_loss = !set_seen;
    if
    :: needs_auth -> send(READ, SET, AUTH); replies_due = 2
    :: else -> replies_due = 1
    fi;
    send(READ, CARD, DATA)
}

/* stream.c: stream_check_catalogue */
inline check_catalogue()
{
    if
    :: check == CHECK_IDLE -> check = CHECK_KEYS; check_flushed = false; send(READ, SET, SCARD); send(READ, INDEX, ZCARD)
    :: else
    fi
}

inline read_api_keys()
{
    if
    :: set_step != SET_READING -> set_step = SET_READING; send(READ, SET, SMEMBERS)
    :: else
    fi
}

/* keys.c: keys_invalidate, then a read of the set */
inline drop_keys()
{
    committed = false;
    if
    :: set_step == SET_UNCOMMITTED -> set_step = SET_IDLE
    :: else
    fi;
    read_api_keys()
}

/* fetch.c: fetch_proceed */
inline proceed()
{
    replies_due--;
    if
    :: replies_due == 0 && (key_invalid || !found) ->
#ifdef NO_CATALOGUE_CHECK
        answer(key_invalid, !found);
        end_fetch()
#else
        fetch = UNCONFIRMED;
        check_catalogue()
#endif
    :: replies_due == 0 && !(key_invalid || !found) -> answer(false, false); end_fetch()
    :: else
    fi
}

/* fetch.c: fetch_read_card */
inline on_card(v)
{
    printf("worker: reply, the card is absent: %d\n", ABSENT(v));
    found = !ABSENT(v);
    if
    :: !all_deferred && !ABSENT(v) -> cached = true
    :: else
    fi;
    proceed()
}

inline on_auth(v)
{
    printf("worker: reply, the key is invalid: %d\n", ABSENT(v));
    key_invalid = ABSENT(v);
    proceed()
}

inline on_set(v)
{
    printf("worker: reply, the set is empty: %d\n", ABSENT(v));
    set_step = SET_UNCOMMITTED;
    set_found = !ABSENT(v);
    check_catalogue()
}

#define UNCERTAIN (possible_loss || !set_seen)

/* fetch.c: fetch_on_probed, fetch_is_certain, fetch_repeat; there is no limit to the repetitions */
inline confirm()
{
    if
#ifndef NO_SECOND_READ
    :: fetch == UNCONFIRMED && UNCERTAIN && (has_set || !repeated) ->
        printf("worker: reads once more\n");
        repeated = true;
        found = false;
        key_invalid = false;
        start()
    :: fetch == UNCONFIRMED && !(UNCERTAIN && (has_set || !repeated)) ->
#else
    :: fetch == UNCONFIRMED ->
#endif
        answer(key_invalid, !found);
        end_fetch()
    :: else
    fi
}

/* stream.c: probe_proceed, stream_on_checked */
inline on_catalogue_present()
{
    printf("worker: the check has passed\n");
    check = CHECK_IDLE;
    if
    :: connection == HANDSHAKE -> on_ready()
    :: else ->
        if
        :: all_deferred -> all_deferred = false; drop_entry(); drop_keys()
        :: else
        fi;
        if
        :: set_step == SET_UNCOMMITTED -> set_step = SET_IDLE; committed = true
        :: else
        fi;
        confirm()
    fi
}

/* stream.c: probe_on_key_count, stream_counted, stream_on_probed; without a catalogue the connection is closed */
inline on_scard(v)
{
    check = CHECK_INDEX;
    if
    :: ABSENT(v) ->
        printf("worker: the check finds no set\n");
        set_seen = false; /* what was read before ZCARD may be of an empty Redis */
        has_set = false;
        possible_loss = fetch != FREE
    :: else ->
        set_seen = true;
        has_set = true
    fi
}

inline on_zcard(v)
{
    if
    :: check_flushed -> check = CHECK_IDLE; check_catalogue()
    :: !check_flushed && ABSENT(v) && !has_set -> printf("worker: no catalogue\n"); on_lost()
    :: else -> on_catalogue_present()
    fi
}

/* stream.c: stream_flush */
inline on_null_push()
{
    printf("worker: null push\n");
    set_seen = false;
    possible_loss = fetch != FREE;
    all_deferred = true;
    check_flushed = true;
    check_catalogue()
}

inline on_keys_invalidated()
{
    printf("worker: invalidation of the set\n");
    set_seen = false;
    possible_loss = fetch != FREE;
    drop_keys()
}

inline on_ready()
{
    connection = READY;
    drop_entry();
    committed = false;
    set_step = SET_IDLE;
    read_api_keys()
}

inline on_lost()
{
    connection = WAITING;
    end_fetch();
    replies_due = 0;
    check = CHECK_IDLE;
    all_deferred = false;
    check_flushed = false;
    set_step = SET_IDLE;
    committed = false; /* what is served while the connection is lost is lease.pml's */
    drop_entry();
    break_connection();
    clear_connection()
}

inline connect()
{
    printf("worker: connects\n");
    open_connection();
    connection = HANDSHAKE;
    send(TRACKING, 0, 0)
}

/* cache.c: cache_lookup, cache_check_key, cache_hit_entry, cache_begin */
inline get()
{
    if
    :: committed && !all_deferred && !set_found -> answer(true, false)
    :: committed && !all_deferred && set_found ->
        if
        :: cached -> answer(false, false)
        :: !cached && fetch == FREE -> start()
        :: else /* joins */
        fi
    :: else ->
        if
        :: fetch == FREE -> needs_auth = true; start()
        :: else
        fi
    fi
}

proctype worker()
{
    mtype m;
    byte k, v, tag;
    do
    :: atomic {
        written > 0 ->
        stream ? m, k, v, tag;
        written--;
        if
        :: m == TRACKING_ON -> check_catalogue()
        :: m == REPLY && tag == AUTH -> on_auth(v)
        :: m == REPLY && tag == DATA -> on_card(v)
        :: m == REPLY && tag == SCARD -> on_scard(v)
        :: m == REPLY && tag == ZCARD -> on_zcard(v)
        :: m == REPLY && tag == SMEMBERS -> on_set(v)
        :: m == INVALIDATE && connection == READY && k == SET -> on_keys_invalidated()
        :: m == INVALIDATE && connection == READY && k == CARD -> drop_entry()
        :: m == INVALIDATE && (connection != READY || k == INDEX) /* of the index: page.pml */
        :: m == INVALIDATE_ALL && connection == READY -> on_null_push()
        :: m == INVALIDATE_ALL && connection != READY -> check_flushed = true
        fi;
        m = 0; k = 0; v = 0; tag = 0
    }
    :: atomic {
        connection == READY && check == CHECK_IDLE -> /* a heartbeat */
        check_catalogue()
    }
    :: atomic {
        connection != WAITING ->
        on_lost()
    }
    :: atomic {
        connection == WAITING ->
        connect()
    }
    od
}

proctype clients()
{
    do
    :: atomic {
        connection == READY ->
        get()
    }
    od
}

init
{
    atomic {
        run redis();
        run network();
        run worker();
        run clients()
    }
}
