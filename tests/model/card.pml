/*
 * A card and its cache entry: fetches, single flight, cards that do not exist, null pushes, new connections.
 *
 *   1. A request is answered with a version that is at least the one due when it began (redis.pml: DELIVERED).
 *   2. What is cached on a connection can be reached by an invalidation, or the connection is lost.
 *
 * Answers during a lost connection are bounded by time: lease.pml.
 */
#define KEYS 1
#define CARD 0
#define FETCHES 2
#define COMMANDS 5
#define STREAM 11
#define FLUSHALL
#include "redis.pml"

/* --- the worker --- */

mtype = { WAITING, HANDSHAKE, READY }; /* enum connection_state, redis/connection.c */
mtype = { FREE, FIRST, UNCONFIRMED };  /* of a fetch, cache/fetch.c */

typedef fetch_t {
    mtype state;
    bool inflight; /* may be joined */
    byte version;  /* of its reply, while unconfirmed */
    byte needed;   /* by the request that began last, of those that wait */
};

mtype connection = WAITING;
fetch_t fetch[FETCHES];
bool cached;      /* there is an entry (cache/entries.c), of this version */
byte cached_version;
bool checking;    /* a check of the catalogue is under way */
bool all_deferred; /* INVALIDATED_ALL waits for a check (cache/stream.c) */
#ifdef NO_GENERATION
chan old = [1] of { byte }; /* sabotage: a reply of an older connection is still read */
#endif

#define MAY_STORE (connection == READY && !all_deferred) /* stream_may_store */

inline drop_entry()
{
    cached = false;
    cached_version = 0
}

/* What does not exist is not cached. */
inline put_entry(v)
{
    if
    :: MAY_STORE && !ABSENT(v) -> cached = true; cached_version = v
    :: else
    fi
}

inline free_fetch(f)
{
    fetch[f].state = FREE;
    fetch[f].inflight = false;
    fetch[f].version = 0;
    fetch[f].needed = 0
}

/* stream.c: stream_check_catalogue. One command here; catalogue.pml has both steps and a catalogue that is missing. */
inline check_catalogue()
{
    if
    :: checking
    :: else -> checking = true; send(CHECK, 0, 0)
    fi
}

/* fetch.c: fetch_on_card, fetch_read_card, fetch_proceed */
inline on_card(f, v)
{
    printf("worker: reply %d\n", v);
    put_entry(v);
    if
    :: ABSENT(v) ->
        fetch[f].state = UNCONFIRMED; /* waits for a check */
        fetch[f].inflight = false;
        fetch[f].version = v;
        check_catalogue()
    :: else ->
        check_answer(v >= fetch[f].needed);
        free_fetch(f)
    fi
}

/* stream.c: probe_proceed; fetch.c: fetch_on_probed */
inline on_check_reply()
{
    printf("worker: the check has passed\n");
    checking = false;
    if
    :: all_deferred -> all_deferred = false; drop_entry()
    :: else
    fi;
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].state == UNCONFIRMED ->
            check_answer(fetch[i].version >= fetch[i].needed);
            free_fetch(i)
        :: else
        fi
    };
    i = 0
}

inline unpublish_all()
{
    for (i : 0 .. FETCHES - 1) {
        fetch[i].inflight = false
    };
    i = 0
}

/* cache.c: cache_card_changed; fetch.c: fetches_invalidate_card */
inline on_card_invalidated()
{
    printf("worker: invalidation\n");
    drop_entry();
    unpublish_all()
}

/* stream.c: stream_flush */
inline on_null_push()
{
    printf("worker: null push\n");
#ifndef IGNORE_NULL_PUSH
    unpublish_all();
    all_deferred = true;
    check_catalogue()
#endif
}

/* cache.c: cache_on_ready, with the connection's handshake done */
inline on_ready()
{
    printf("worker: tracking is on\n");
    connection = READY;
#ifndef NO_DROP_AT_RECONNECT
    drop_entry()
#endif
}

/* redis/connection.c: redis_connection_drop_socket; cache.c: cache_on_lost; cache.c: get_again for those that wait */
inline on_lost()
{
    printf("worker: the connection is lost\n");
    connection = WAITING;
    up = false;
    if
    :: all_deferred -> drop_entry()
    :: all_deferred -> skip /* the catalogue is missing: old entries are kept for the stale limits */
    :: else
    fi;
    all_deferred = false;
    checking = false;
#ifdef NO_GENERATION
    do
    :: written > 0 ->
        written--;
        stream ? m, k, v, tag;
        if
        :: m == REPLY && len(old) == 0 -> old ! v
        :: else
        fi
    :: else -> break
    od;
    m = 0; k = 0; v = 0; tag = 0;
#endif
    for (i : 0 .. FETCHES - 1) {
        free_fetch(i)
    };
    i = 0;
    break_connection();
    clear_connection()
}

inline connect()
{
    printf("worker: connects\n");
    open_connection();
#ifdef TRACKING_AFTER_READ
    on_ready()
#else
    connection = HANDSHAKE;
    send(TRACKING, 0, 0)
#endif
}

inline begin_fetch(shared)
{
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].state == FREE ->
            fetch[i].state = FIRST;
            fetch[i].inflight = shared;
            fetch[i].needed = due[CARD];
            send(READ, CARD, i);
            break
        :: else
        fi
    };
    i = 0
}

inline join(f)
{
    printf("client: joins the fetch in flight\n");
    fetch[f].needed = due[CARD]
}

/* cache.c: cache_try_get, cache_lookup, cache_join, cache_begin. Requests without a connection are lease.pml's. */
inline get()
{
    if
    :: all_deferred -> begin_fetch(false) /* FRESHNESS_NONE: each request has its own fetch */
    :: !all_deferred && cached ->
        printf("client: a hit, %d, due is %d\n", cached_version, due[CARD]);
        check_answer(cached_version >= due[CARD])
    :: else ->
        if
        :: fetch[0].inflight -> join(0)
        :: fetch[1].inflight -> join(1)
        :: else -> begin_fetch(true)
        fi
    fi
}

/* While all_deferred it is not served. */
#define CACHED_IS_REACHABLE (!cached || connection != READY || all_deferred || REACHABLE(CARD, cached_version))

/* --- processes --- */

proctype worker()
{
    mtype m;
    byte k, v, tag, i;
    do
    :: atomic {
        written > 0 ->
        stream ? m, k, v, tag;
        written--;
        if
        :: m == TRACKING_ON && connection == HANDSHAKE -> on_ready()
        :: m == TRACKING_ON && connection != HANDSHAKE
        :: m == REPLY -> on_card(tag, v)
        :: m == CHECKED -> on_check_reply()
        :: m == INVALIDATE -> on_card_invalidated()
        :: m == INVALIDATE_ALL -> on_null_push()
        :: m == DELIVERED -> due[CARD] = v
        fi;
        m = 0; k = 0; v = 0; tag = 0
    }
#ifdef SECOND_CONNECTION
    :: atomic {
        pushes_written > 0 ->
        pushes ? m, k, v;
        pushes_written--;
        if
        :: m == INVALIDATE -> on_card_invalidated()
        :: m == INVALIDATE_ALL -> on_null_push()
        :: m == DELIVERED -> due[CARD] = v
        fi;
        m = 0; k = 0; v = 0
    }
#endif
#ifdef NO_GENERATION
    :: atomic {
        old ? v ->
        printf("worker: of the older connection: reply %d\n", v);
        put_entry(v);
        v = 0
    }
#endif
#ifdef TRACKING_AFTER_READ
    :: atomic {
        connection == READY && up && !tracking && !(commands ?? [TRACKING, 0, 0]) ->
        send(TRACKING, 0, 0)
    }
#endif
    :: atomic {
        connection != WAITING -> /* at the end of the stream, or for want of a reply */
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
    byte i;
    do
    :: atomic {
        connection == READY ->
        check_reachable(CACHED_IS_REACHABLE);
        get()
    }
    od
}

init
{
    atomic {
        if
        :: first_absent = 0
        :: first_absent = 1
        fi;
        fetch[0].state = FREE;
        fetch[1].state = FREE;
        run redis();
        run network();
        run worker();
        run clients()
    }
}
