/*
 * Redis, the network and the one connection of a worker; included by the models beside it.
 *
 * A key holds a version: each write stores the next one, so "older" is "<". Every second version is an absent key: a
 * write and a DEL take turns.
 *
 * Redis works in iterations of its event loop ("turns"). It executes commands of the worker and of the writer in any
 * order; replies and invalidations are queued on the connection in stream order, and written at the end of the turn.
 *   BROADCAST    the invalidations of the keys that have changed are queued at the end of the turn, behind its replies
 *                (trackingBroadcastInvalidationMessages)
 *   BY_KEY       a read registers its key (but UNTRACKED), absent or not; the first change sends the invalidation at once and removes
 *                the registration; so may the tracking table for want of room (tracking-table-max-keys), at any time
 *   IO_THREADS   what is queued may be written during the turn, before the invalidations of its end
 * The null push of FLUSHALL is queued at once in both ways.
 *
 * The writer reads its acknowledgement at the end of the turn. DELIVERED stands on the stream for "everything that
 * Redis had queued by then has been read by the worker": it is no message of Redis but marks the bound. A request
 * that begins behind it may not get an older version: in between lies the network delay and the rest of the turn.
 */
#if defined(BROADCAST) == defined(BY_KEY)
#error "one of BROADCAST and BY_KEY"
#endif

#ifndef WRITES
#define WRITES 2 /* versions after the first, of each key */
#endif

#if defined(TIMED)
#define DELIVERS(key) false /* the bound is one of time: lease.pml */
#elif defined(TRANSACTIONS)
#define DELIVERS(key) (key == KEYS - 1) /* behind the invalidations of all keys */
#else
#define DELIVERS(key) true
#endif

#define ABSENT(version) ((version + first_absent) % 2 == 1)

/* The properties: PROPERTY is 1 for that of the answers alone, 2 for that of what is cached alone. */
#if PROPERTY == 2
#define check_answer(condition) skip
#else
#define check_answer(condition) assert(condition)
#endif
#if PROPERTY == 1
#define check_reachable(condition) skip
#else
#define check_reachable(condition) assert(condition)
#endif

mtype = {
    TRACKING, READ, PING, CHECK, /* commands */
    TRACKING_ON, REPLY, PONG, CHECKED, INVALIDATE, INVALIDATE_ALL, DELIVERED
};

bit first_absent;      /* whether the first version is an absent key */
byte value[KEYS];      /* the version that Redis holds */
bool changed[KEYS];    /* in this turn, by a write */
bool delivers[KEYS];   /* DELIVERED is due at the end of this turn */
bool registered[KEYS]; /* BY_KEY: in the tracking table, for this connection */
#ifdef EVICTIONS
byte evictions;        /* of keys from the tracking table, so far */
#endif
bool tracking;         /* CLIENT TRACKING is on, for this connection */
bool in_turn;
bool up;               /* the network carries the connection */

#ifdef READ_ONCE
byte readable;         /* commands that were read from the worker's socket in this turn, and not executed yet */
bool exhausted;        /* the socket was read in this turn: what comes now waits for the next */
#define MAY_EXECUTE !exhausted
#define TURN_MAY_END (readable == 0)
#else
#define MAY_EXECUTE true
#define TURN_MAY_END true
#endif

chan commands = [COMMANDS] of { mtype, byte, byte };      /* command, key, tag */
chan stream = [STREAM] of { mtype, byte, byte, byte };    /* message, key, version, tag */
byte written;                                             /* messages of the stream that the worker can read */

byte due[KEYS]; /* the oldest version that a request which begins now may get */

/* --- queueing on the connection --- */

inline queue(message, key, version, tag)
{
    assert(nfull(stream));
    stream ! message, key, version, tag
}

#ifdef SECOND_CONNECTION
/* Sabotage: invalidations come on a connection of their own (CLIENT TRACKING REDIRECT). */
chan pushes = [STREAM] of { mtype, byte, byte };
byte pushes_written;

inline push(message, key, version)
{
    assert(nfull(pushes));
    pushes ! message, key, version
}
#else
inline push(message, key, version)
{
    queue(message, key, version, 0)
}
#endif

/* LOST_PUSHES: a proxy or server that accepts CLIENT TRACKING, and forwards some invalidations or none. */
inline push_invalidation(message, key)
{
#ifdef LOST_PUSHES
    if
    :: true -> push(message, key, 0)
    :: true -> printf("redis: an invalidation is lost\n")
    fi
#else
    push(message, key, 0)
#endif
}

inline clear_connection()
{
    do
    :: nempty(commands) -> commands ? _, _, _
    :: empty(commands) -> break
    od;
    do
    :: nempty(stream) -> stream ? _, _, _, _
    :: empty(stream) -> break
    od;
#ifdef SECOND_CONNECTION
    do
    :: nempty(pushes) -> pushes ? _, _, _
    :: empty(pushes) -> break
    od;
    pushes_written = 0;
#endif
    written = 0
}

inline send(command, key, tag)
{
    if
    :: up -> assert(nfull(commands)); commands ! command, key, tag
    :: else /* the network swallows it */
    fi
}

/* --- Redis --- */

/* Any key of which the condition holds. */
#if KEYS == 1
#define select_key(condition) if :: condition(0) -> key = 0 fi
#elif KEYS == 2
#define select_key(condition) if :: condition(0) -> key = 0 :: condition(1) -> key = 1 fi
#else
#define select_key(condition) if :: condition(0) -> key = 0 :: condition(1) -> key = 1 :: condition(2) -> key = 2 fi
#endif
#ifndef WRITABLE
#define WRITABLE(key) (value[key] < WRITES)
#endif
#ifdef EVICTIONS
#define EVICTABLE(key) (registered[key] && evictions < EVICTIONS)
#else
#define EVICTABLE(key) registered[key]
#endif

inline invalidate_key(key)
{
    registered[key] = false;
    push_invalidation(INVALIDATE, key)
}

inline write(key)
{
    in_turn = true;
    value[key]++;
#ifdef AT_WRITE
    AT_WRITE;
#endif
    changed[key] = true;
    delivers[key] = up && DELIVERS(key);
    if
    :: registered[key] -> invalidate_key(key)
    :: else
    fi
}

/* Only while no key is absent already, so that the versions bound their number. */
inline flushall()
{
    in_turn = true;
    if
    :: tracking -> push_invalidation(INVALIDATE_ALL, 0)
    :: else
    fi;
    for (k : 0 .. KEYS - 1) {
        value[k]++;
        registered[k] = false;
        delivers[k] = up && DELIVERS(k)
    };
    k = 0
}

#ifdef ABSENT_NOT_TRACKED
#define REGISTERS(key) (tracking && !ABSENT(value[key])) /* sabotage */
#elif defined(BY_KEY) && defined(UNTRACKED)
#define REGISTERS(key) (tracking && key != UNTRACKED)
#elif defined(BY_KEY)
#define REGISTERS(key) tracking
#else
#define REGISTERS(key) false
#endif

inline register(key)
{
    if
    :: REGISTERS(key) -> registered[key] = true
    :: else
    fi
}

inline execute_tracking()
{
    tracking = true;
    queue(TRACKING_ON, 0, 0, 0);
#ifndef TIMED
    for (k : 0 .. KEYS - 1) {
        if
        :: DELIVERS(k) -> push(DELIVERED, k, value[k])
        :: else
        fi
    };
    k = 0
#endif
}

inline end_turn()
{
    in_turn = false;
#ifdef READ_ONCE
    exhausted = false;
#endif
    for (k : 0 .. KEYS - 1) {
#ifdef BROADCAST
        if
        :: changed[k] && tracking -> push_invalidation(INVALIDATE, k)
        :: else
        fi;
#endif
        changed[k] = false;
#ifndef TIMED
        if
        :: delivers[k] && up -> push(DELIVERED, k, value[k])
        :: else
        fi;
        delivers[k] = false
#endif
    };
    k = 0;
    write_all()
}

inline write_all()
{
    if
    :: up -> written = len(stream)
#ifdef SECOND_CONNECTION
             ; pushes_written = len(pushes)
#endif
    :: else
    fi
}

/* --- the network --- */

/* What was written can still be read; Redis forgets the connection. */
inline break_connection()
{
    up = false;
#ifdef READ_ONCE
    readable = 0;
#endif
    tracking = false;
    for (k : 0 .. KEYS - 1) {
        registered[k] = false;
        delivers[k] = false
    };
    k = 0
}

inline open_connection()
{
    clear_connection();
    up = true
}

/* --- processes --- */

#ifndef OWN_PROCESS
/* The writer is part of it: only the order in which Redis executes the commands matters. */
proctype redis()
{
    mtype c;
    byte k, key, tag;
    do
    :: atomic {
        nempty(commands) && MAY_EXECUTE ->
#ifdef READ_ONCE
        readable = (readable == 0 -> len(commands) - 1 : readable - 1);
        exhausted = readable == 0;
#endif
        commands ? c, key, tag;
        in_turn = true;
        if
        :: c == TRACKING ->
            printf("redis: executes CLIENT TRACKING\n");
            execute_tracking()
        :: c == READ ->
            printf("redis: executes a read of key %d, which is %d\n", key, value[key]);
            register(key);
            queue(REPLY, key, value[key], tag)
        :: c == PING ->
            printf("redis: executes PING\n");
            queue(PONG, 0, 0, 0)
        :: c == CHECK ->
            printf("redis: executes the check\n");
            queue(CHECKED, 0, 0, 0)
        fi;
        c = 0; key = 0; tag = 0
    }
#ifdef TRANSACTIONS
    :: atomic { /* all keys are of one version */
        WRITABLE(0) ->
        BEFORE_TRANSACTION;
        for (key : 0 .. KEYS - 1) {
            write(key)
        };
        key = 0
    }
#else
    :: atomic {
        select_key(WRITABLE);
        write(key);
        printf("redis: the writer sets key %d to %d\n", key, value[key]);
        key = 0
    }
#endif
#ifdef FLUSHALL
    :: atomic {
        value[0] < WRITES && !ABSENT(value[0]) ->
        flushall();
        printf("redis: FLUSHALL\n")
    }
#endif
    :: atomic {
        select_key(EVICTABLE);
        in_turn = true;
#ifdef EVICTIONS
        evictions++;
#endif
        invalidate_key(key);
        printf("redis: the tracking table removes key %d\n", key);
        key = 0
    }
    :: atomic {
        in_turn && TURN_MAY_END ->
        end_turn();
#ifdef AT_TURN_END
        AT_TURN_END;
#endif
        printf("redis: the turn ends, the writer is acknowledged\n")
    }
#ifdef IO_THREADS
    :: atomic {
        in_turn && up && written < len(stream) ->
        write_all();
        printf("redis: an I/O thread writes\n")
    }
#endif
    od
}
#endif

proctype network()
{
    byte k;
    do
    :: atomic {
        up ->
        break_connection();
        printf("network: breaks the connection\n")
    }
    od
}

/* --- what is remembered can be invalidated --- */

#ifdef SECOND_CONNECTION
#define UNDER_WAY(key) (pushes ?? [INVALIDATE, key, 0] || pushes ?? [INVALIDATE_ALL, 0, 0])
#else
#define UNDER_WAY(key) (stream ?? [INVALIDATE, key, 0, 0] || stream ?? [INVALIDATE_ALL, 0, 0, 0])
#endif

/* An invalidation will come when `key` changes, or is under way, or the connection is lost. */
#ifdef BY_KEY
#define REACHABLE(key, version) (!up || registered[key] || UNDER_WAY(key))
#else
#define REACHABLE(key, version) (!up || (tracking && (version == value[key] || changed[key])) || UNDER_WAY(key))
#endif
