/*
 * The audit: pushes that are lost, and differences that are none.
 *
 * With each heartbeat an entry is read again (cache/audit.c). There is one entry here; with more each takes its turn.
 *
 *   1. LOST_PUSHES: what is older than due is served for at most HEARTBEATS_MAX heartbeats.
 *   2. Without LOST_PUSHES the audit never reports a failure.
 */
#define KEYS 1
#define CARD 0
#define COMMANDS 4
#define STREAM 12
#define READ_ONCE
#define HEARTBEATS_MAX 4
#include "redis.pml"

#define FETCH 0 /* tags of READ */
#define AUDIT 1

mtype = { WAITING, HANDSHAKE, READY };

mtype connection = WAITING;
bool cached;
byte cached_version;
bool fetching;
bool ping_pending;
bool under_way;        /* invalidation.reading */
bool differed;         /* invalidation.differed: this entry did, when it was last read again */
bool suspended;        /* stream.suspended: nothing is cached on this connection any more */
byte late;             /* heartbeats for which the entry has been older than due */

inline drop_entry()
{
    cached = false;
    cached_version = 0;
    differed = false;
    late = 0
}

inline suspend()
{
    printf("worker: an invalidation was lost\n");
#ifndef LOST_PUSHES
    assert(false);
#endif
    suspended = true;
    drop_entry()
}

/* fetch.c: fetch_read_card, where stream_may_store */
inline on_card(v)
{
    fetching = false;
    printf("worker: reply %d\n", v);
    if
    :: !suspended -> drop_entry(); cached = true; cached_version = v
    :: else
    fi
}

#ifdef ONE_HEARTBEAT
#define IS_CONFIRMED true
#else
#define IS_CONFIRMED differed
#endif

/* audit.c: audit_on_entry_reply, audit_compare_entry, audit_fail */
inline on_audit_reply(v)
{
    printf("worker: the entry is %d, read again it is %d\n", cached_version, v);
    under_way = false;
    if
    :: cached && cached_version != v && !suspended && IS_CONFIRMED -> suspend()
    :: cached && cached_version != v && !suspended && !IS_CONFIRMED -> differed = true
    :: else -> differed = false
    fi
}

/* audit.c: audit_heartbeat, audit_entry */
inline on_heartbeat()
{
    ping_pending = false;
    printf("worker: PONG\n");
    if
    :: cached && cached_version < due[CARD] -> late++; assert(late <= HEARTBEATS_MAX)
    :: else
    fi;
#ifndef NO_AUDIT
    if
    :: !suspended && !under_way && cached -> under_way = true; send(READ, CARD, AUDIT)
    :: else
    fi
#endif
}

/* cache.c: cache_card_changed */
inline on_card_invalidated()
{
    printf("worker: invalidation\n");
    drop_entry()
}

/* cache.c: cache_on_ready */
inline on_ready()
{
    printf("worker: tracking is on\n");
    connection = READY;
    suspended = false;
    drop_entry()
}

inline on_lost()
{
    printf("worker: the connection is lost\n");
    connection = WAITING;
    fetching = false;
    ping_pending = false;
    under_way = false;
    late = 0;
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
        :: m == REPLY && tag == FETCH -> on_card(v)
        :: m == REPLY && tag == AUDIT -> on_audit_reply(v)
        :: m == PONG -> on_heartbeat()
        :: m == INVALIDATE -> on_card_invalidated()
        :: m == DELIVERED -> due[CARD] = v
        fi;
        m = 0; k = 0; v = 0; tag = 0
    }
    :: atomic {
        connection == READY && !ping_pending ->
        printf("worker: PING\n");
        ping_pending = true;
        send(PING, 0, 0)
    }
    :: atomic {
        connection == READY && !cached && !fetching && !suspended -> /* a request */
        fetching = true;
        send(READ, CARD, FETCH)
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

init
{
    atomic {
        run redis();
        run network();
        run worker()
    }
}
