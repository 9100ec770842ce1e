/*
 * Time: the lease, the stale limit, and the API key that was revoked.
 *
 * One entry, or one digest of the API key set, and a clock of whole ticks. Redis, the network and the worker may take
 * any number of ticks for any step: a worker that was stopped (SIGSTOP), a machine that was suspended, a network that
 * holds the stream back. Nothing but the limits below bounds how old an answer is.
 *
 *   1. While the worker holds the connection for live, what it serves from the cache, or by joining a fetch in flight,
 *      was not overwritten, with the write's turn at its end, more than LEASE ticks ago.
 *   2. With the connection lost it was not overwritten more than LEASE and STALE_LIMIT ticks ago.
 *   3. A revoked key ends: the version that is overwritten may be the API key set that held it, so that the key is
 *      refused, or checked in Redis, after the same limits (STALE_LIMIT is then CHANNELD_STALE_KEYS_LIMIT).
 *
 * Ages count ticks and stop at OLD, where no limit distinguishes them any more: so the clock needs no end.
 */
#define KEYS 1
#define CARD 0
#define COMMANDS 4
#define STREAM 10
#ifndef LEASE
#define LEASE 2 /* STREAM_LEASE_MS, cache/stream.h */
#endif
#ifndef STALE_LIMIT
#define STALE_LIMIT 2 /* CHANNELD_STALE_LIMIT, CHANNELD_STALE_KEYS_LIMIT */
#endif
#define OLD (LEASE + STALE_LIMIT + 1)
#ifndef WRITES
#define WRITES 2
#endif
#define TIMED
#define AT_TURN_END set_overwritten()

/* For the properties: ticks since each version was overwritten, from the end of the write's turn. */
byte overwritten_age[WRITES];
bool overwritten[WRITES];

inline set_overwritten()
{
    for (k : 0 .. WRITES - 1) {
        overwritten[k] = k < value[CARD]
    };
    k = 0
}

#include "redis.pml"

/* --- the worker --- */

mtype = { WAITING, HANDSHAKE, READY }; /* enum connection_state, redis/connection.c */

mtype connection = WAITING;
bool cached;         /* there is an entry, of this version */
byte cached_version;
bool fetching;       /* a fetch is in flight, and may be joined */
byte needed;         /* by the request that began last, of those that wait for it */
bool ping_pending;
byte ping_age;       /* ticks since the PING that is pending was sent (heartbeat_sent_ms) */
byte pong_age = OLD; /* ticks since the last PING was sent that was answered (last_pong_ms) */
byte lost_age;       /* ticks since the connection was lost (stream.lost_ms) */

#ifdef NO_LEASE
#define FRESH true
#else
#define FRESH (pong_age <= LEASE) /* stream_freshness: FRESHNESS_FRESH */
#endif
#define STALE (lost_age < STALE_LIMIT) /* FRESHNESS_STALE */

#define VALID(version, bound) (version == value[CARD] || !overwritten[version] || overwritten_age[version] <= bound)

inline drop_entry()
{
    cached = false;
    cached_version = 0
}

inline end_fetch()
{
    fetching = false;
    needed = 0
}

/* fetch.c: fetch_on_card. The requests that wait began before: each got what was valid at its own begin (get). */
inline on_card(v)
{
    printf("worker: reply %d\n", v);
    cached = connection == READY;
    cached_version = (cached -> v : 0);
    check_answer(!fetching || v >= needed);
    end_fetch()
}

/* redis/connection.c: redis_connection_on_pong */
inline on_pong()
{
    ping_pending = false;
#ifdef LEASE_FROM_RECEIPT
    pong_age = 0;
#else
    pong_age = ping_age;
#endif
    ping_age = 0;
    printf("worker: PONG, whose PING is %d ticks old\n", pong_age)
}

/* redis/connection.c: redis_connection_accept, redis_connection_second_step (last_pong_ms); cache.c: cache_on_ready */
inline on_ready()
{
    printf("worker: tracking is on\n");
    connection = READY;
    pong_age = ping_age;
    ping_age = 0;
#ifndef NO_DROP_AT_RECONNECT
    drop_entry()
#endif
}

/* cache.c: cache_on_lost. It may be noticed late: then it counts from the end of the lease. */
inline on_lost()
{
#ifdef LOST_WHEN_NOTICED
    lost_age = 0;
#else
    lost_age = (pong_age > LEASE -> pong_age - LEASE : 0);
#endif
    if
    :: connection == READY -> printf("worker: the connection is lost, since %d ticks\n", lost_age)
    :: else
    fi;
    connection = WAITING;
    ping_pending = false;
    ping_age = 0;
    pong_age = OLD;
    end_fetch();
    break_connection();
    clear_connection()
}

inline on_attempt_failed()
{
    connection = WAITING;
    ping_age = 0;
    break_connection();
    clear_connection()
}

inline connect()
{
    printf("worker: connects\n");
    open_connection();
    connection = HANDSHAKE;
    ping_age = 0; /* second_step: of the PING behind CLIENT TRACKING */
    send(TRACKING, 0, 0)
}

/* redis/connection.c: redis_connection_send_heartbeat */
inline send_heartbeat()
{
    printf("worker: PING\n");
    ping_pending = true;
    ping_age = 0;
    send(PING, 0, 0)
}

/* Every version that was overwritten more than LEASE ticks ago is too old for a request that begins now. */
inline set_needed()
{
    needed = 0;
    for (v : 0 .. WRITES - 1) {
        if
        :: !VALID(v, LEASE) -> needed = v + 1
        :: else
        fi
    };
    v = 0
}

/* cache.c: cache_try_get, with stream_freshness. Without the lease each request has a fetch of its own, which is younger. */
inline get()
{
    if
    :: connection == READY && FRESH && cached ->
        printf("client: a hit, %d\n", cached_version);
        check_answer(VALID(cached_version, LEASE))
    :: connection == READY && FRESH && !cached && fetching ->
        printf("client: joins the fetch in flight\n");
        set_needed()
    :: connection == READY && FRESH && !cached && !fetching ->
        fetching = true;
        send(READ, CARD, 0)
    :: connection != READY && cached && STALE ->
        printf("client: a stale hit, %d\n", cached_version);
        check_answer(VALID(cached_version, LEASE + STALE_LIMIT))
    :: else
    fi
}

/* --- processes --- */

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
        :: m == TRACKING_ON -> on_ready()
        :: m == REPLY -> on_card(v)
        :: m == PONG -> on_pong()
        :: m == INVALIDATE -> printf("worker: invalidation\n"); drop_entry()
        :: m == DELIVERED
        fi;
        m = 0; k = 0; v = 0; tag = 0
    }
    :: atomic {
        connection == READY && !ping_pending ->
        send_heartbeat()
    }
    :: atomic {
        connection == READY ->
        on_lost()
    }
    :: atomic {
        connection == HANDSHAKE ->
        on_attempt_failed()
    }
    :: atomic {
        connection == WAITING ->
        connect()
    }
    od
}

proctype clients()
{
    byte v;
    do
    :: atomic {
        true ->
        get()
    }
    od
}

inline grow(age)
{
    age = (age < OLD -> age + 1 : OLD)
}

proctype clock()
{
    byte v;
    do
    :: atomic {
        printf("clock: a tick\n");
        if
        :: ping_pending || connection == HANDSHAKE -> grow(ping_age)
        :: else
        fi;
        if
        :: connection == READY -> grow(pong_age)
        :: else -> grow(lost_age)
        fi;
        for (v : 0 .. WRITES - 1) {
            if
            :: overwritten[v] -> grow(overwritten_age[v])
            :: else
            fi
        };
        v = 0
    }
    od
}

init
{
    atomic {
        run redis();
        run network();
        run worker();
        run clients();
        run clock()
    }
}
