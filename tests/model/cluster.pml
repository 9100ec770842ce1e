/*
 * Redis Cluster: the slot of the catalogue migrates from the node of the connection to another one.
 *
 * While the slot is MIGRATING the source serves the keys that it has, and answers ASK for those that it has not: they
 * were moved, or do not exist. MIGRATE deletes a key at the source, which is an invalidation like any other. A key that
 * does not exist is created at the target, and of that the source tells nobody. So
 *   - what was read by way of ASK must not be cached, and no request may join a fetch that went that way;
 *   - that a key does not exist waits for a check of the catalogue, which may be answered by the target, at any time: no
 *     request may join the fetch from then on;
 *   - MOVED is a lost connection.
 *
 * The properties are those of card.pml. A write at the target is due when a heartbeat that was sent after its
 * acknowledgement has been answered, which bounds it by the lease (lease.pml).
 */
#define KEYS 1
#define CARD 0
#define FETCHES 2
#define COMMANDS 4
#define STREAM 12
#define OWN_PROCESS
#include "redis.pml"

mtype = { WAITING, HANDSHAKE, READY };
mtype = { FREE, FIRST, ASKED, UNCONFIRMED }; /* of a fetch: the read at the target; the check of the catalogue */
mtype = { STABLE, MIGRATING, MOVED, ASK }; /* the slot at the source; replies */

typedef fetch_t {
    mtype state;
    bool inflight;
    byte needed;
    byte result; /* that waits for the check */
};

/* --- the cluster --- */

mtype slot = STABLE;
bool at_target;  /* the key was moved, or created there */
byte acked;      /* the last version that was acknowledged */
byte acked_at_ping;
chan asking = [FETCHES] of { byte };        /* reads and checks at the target */
chan answers = [FETCHES] of { byte, byte }; /* and their replies: fetch, version. This connection is not tracked */

/* --- the worker --- */

mtype connection = WAITING;
fetch_t fetch[FETCHES];
bool cached;
byte cached_version;
bool ping_pending;

inline drop_entry()
{
    cached = false;
    cached_version = 0
}

inline put_entry(v)
{
    cached = true;
    cached_version = v
}

inline answer(f, v)
{
    check_answer(v >= fetch[f].needed);
    fetch[f].state = FREE;
    fetch[f].inflight = false;
    fetch[f].needed = 0;
    fetch[f].result = 0
}

inline on_card(f, v)
{
    printf("worker: reply %d\n", v);
    if
    :: !ABSENT(v) ->
        put_entry(v);
        answer(f, v)
    :: else ->
#ifndef JOIN_UNCONFIRMED
        fetch[f].inflight = false;
#endif
        fetch[f].state = UNCONFIRMED;
        fetch[f].result = v;
        send(CHECK, 0, f)
    fi
}

inline on_checked(f)
{
    printf("worker: the catalogue is there\n");
    answer(f, fetch[f].result)
}

/* To a read, or to the check. */
inline on_ask(f)
{
    printf("worker: ASK\n");
    if
    :: fetch[f].state == FIRST ->
        fetch[f].state = ASKED;
#ifndef JOIN_UNDER_ASK
        fetch[f].inflight = false
#endif
    :: else
    fi;
    asking ! f
}

inline on_asked(f, v)
{
    printf("worker: reply of the target, %d\n", v);
#ifdef REMEMBER_UNDER_ASK
    put_entry(v);
#endif
    answer(f, v)
}

/* The catalogue is checked with each heartbeat: a slot that has moved does not stay unnoticed. */
inline on_pong()
{
    printf("worker: PONG\n");
    ping_pending = false;
    due[CARD] = (acked_at_ping > due[CARD] -> acked_at_ping : due[CARD]);
    acked_at_ping = 0
}

inline on_lost()
{
    printf("worker: the connection is lost\n");
    connection = WAITING;
    ping_pending = false;
    acked_at_ping = 0;
    drop_entry(); /* lease.pml has the stale entries */
    for (i : 0 .. FETCHES - 1) {
        fetch[i].state = FREE;
        fetch[i].inflight = false;
        fetch[i].needed = 0;
        fetch[i].result = 0
    };
    i = 0;
    do
    :: nempty(asking) -> asking ? _
    :: empty(asking) -> break
    od;
    do
    :: nempty(answers) -> answers ? _, _
    :: empty(answers) -> break
    od;
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

inline begin_fetch()
{
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].state == FREE ->
            fetch[i].state = FIRST;
            fetch[i].inflight = true;
            fetch[i].needed = due[CARD];
            send(READ, CARD, i);
            break
        :: else
        fi
    };
    i = 0
}

inline get()
{
    if
    :: cached ->
        printf("client: a hit, %d, due is %d\n", cached_version, due[CARD]);
        check_answer(cached_version >= due[CARD])
    :: !cached && fetch[0].inflight -> printf("client: joins\n"); fetch[0].needed = due[CARD]
    :: !cached && !fetch[0].inflight && fetch[1].inflight -> printf("client: joins\n"); fetch[1].needed = due[CARD]
    :: else -> begin_fetch()
    fi
}

#define CACHED_IS_REACHABLE (!cached || REACHABLE(CARD, cached_version))

/* --- processes --- */

/* The source, its turns, and the cluster's administration. */
proctype source()
{
    mtype c;
    byte k, key, tag;
end:
    do
    :: atomic {
        nempty(commands) ->
        commands ? c, key, tag;
        in_turn = true;
        if
        :: c == TRACKING -> execute_tracking()
        :: c == PING ->
            printf("source: executes PING\n");
            queue(PONG, 0, (slot == MOVED -> MOVED : STABLE), 0)
        :: (c == READ || c == CHECK) && slot == MOVED -> queue(MOVED, 0, 0, tag)
        :: c == CHECK && slot != MOVED -> queue(CHECKED, 0, 0, tag)
        :: c == CHECK && slot == MIGRATING -> /* the keys of the catalogue have moved */
            printf("source: executes the check: ASK\n");
            queue(ASK, 0, 0, tag)
        :: c == READ && slot == MIGRATING && (at_target || ABSENT(value[CARD])) ->
            printf("source: executes a read: ASK\n");
            queue(ASK, 0, 0, tag)
        :: else ->
            printf("source: executes a read, %d\n", value[CARD]);
            register(CARD);
            queue(REPLY, CARD, value[CARD], tag)
        fi;
        c = 0; key = 0; tag = 0
    }
    :: atomic {
        value[CARD] < WRITES && !at_target && (slot == STABLE || slot == MIGRATING && !ABSENT(value[CARD])) ->
        write(CARD);
        printf("source: the writer sets %d\n", value[CARD])
    }
    :: atomic {
        registered[CARD] ->
        in_turn = true;
        invalidate_key(CARD);
        printf("source: the tracking table removes the key\n")
    }
    :: atomic {
        slot == MIGRATING && !at_target && !ABSENT(value[CARD]) ->
        in_turn = true;
        at_target = true;
        changed[CARD] = true;
        if
        :: registered[CARD] -> invalidate_key(CARD)
        :: else
        fi;
        printf("source: MIGRATE moves the key\n")
    }
    :: atomic {
        slot == STABLE ->
        slot = MIGRATING;
        printf("cluster: the slot migrates\n")
    }
    :: atomic {
        slot == MIGRATING && (at_target || ABSENT(value[CARD])) && !in_turn ->
        slot = MOVED;
        printf("cluster: the slot has moved\n")
    }
    :: atomic {
        in_turn ->
        end_turn();
        acked = value[CARD];
        printf("source: the turn ends, the writer is acknowledged\n")
    }
    od
}

/* The target: each command is a turn of its own. */
proctype target()
{
    byte f;
end:
    do
    :: atomic {
        asking ? f ->
        printf("target: executes a read or check, %d\n", value[CARD]);
        answers ! f, value[CARD];
        f = 0
    }
    :: atomic {
        value[CARD] < WRITES && !in_turn && slot != STABLE && (at_target || ABSENT(value[CARD])) ->
        value[CARD]++;
        at_target = true;
        acked = value[CARD];
        printf("target: the writer sets %d, and is acknowledged\n", value[CARD])
    }
    od
}

proctype worker()
{
    mtype m;
    byte k, v, tag, i;
end:
    do
    :: atomic {
        written > 0 ->
        stream ? m, k, v, tag;
        written--;
        if
        :: m == TRACKING_ON -> printf("worker: tracking is on\n"); connection = READY
        :: m == REPLY -> on_card(tag, v)
        :: m == CHECKED -> on_checked(tag)
        :: m == ASK -> on_ask(tag)
        :: m == MOVED || m == PONG && v == MOVED -> on_lost()
        :: m == PONG && v != MOVED -> on_pong()
        :: m == INVALIDATE -> printf("worker: invalidation\n"); drop_entry()
        :: m == DELIVERED -> due[CARD] = (v > due[CARD] -> v : due[CARD])
        fi;
        m = 0; k = 0; v = 0; tag = 0
    }
    :: atomic {
        answers ? tag, v ->
        if
        :: fetch[tag].state == ASKED -> on_asked(tag, v)
        :: else -> on_checked(tag)
        fi;
        tag = 0; v = 0
    }
    :: atomic {
        connection == READY && !ping_pending ->
        printf("worker: PING\n");
        ping_pending = true;
        acked_at_ping = acked;
        send(PING, 0, 0)
    }
    :: atomic {
        connection != WAITING ->
        on_lost()
    }
    :: atomic {
        connection == WAITING && slot != MOVED -> /* the target is a new connection like any other: card.pml */
        connect()
    }
    od
}

proctype clients()
{
    byte i;
end:
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
        run source();
        run target();
        run worker();
        run clients()
    }
}
