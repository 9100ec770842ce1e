/*
 * The API key set and the infos of its keys, with their names and expiries: reading them in portions or at once, changes
 * meanwhile, and the check of a single key.
 *
 * The set of a worker is of the version of its oldest portion, and so are the infos.
 *
 *   1. A key is accepted, or refused, by a set and infos that are at least those due when the request began: a key that was
 *      revoked, or given an expiry that has passed, ends, after the bound of redis.pml.
 *   2. A set that is held can be reached by an invalidation, and so can the infos.
 */
#define KEYS 2
#define SET 0
#define INFO 1
#define COMMANDS 6
#define STREAM 20
#define PORTIONS 2
#ifndef INFO_WRITES
#define INFO_WRITES WRITES
#endif
#define WRITABLE(key) (value[key] < (key == SET -> WRITES : INFO_WRITES))
#include "redis.pml"

mtype = { WAITING, HANDSHAKE, READY };
/* enum api_keys_step, cache/api_keys.h */
mtype = { IDLE, READ_SIZE, READ_MEMBERS, READ_PORTION, READ_INFOS, READ_INFO, UNCOMMITTED };

#define SIZE 0    /* tags of READ: SCARD, SMEMBERS, SSCAN, SISMEMBER */
#define MEMBERS 1
#define PORTION 2
#define SINGLE 3
#define INFOS 4       /* HLEN, HMGET, HGET */
#define RECORDS 5
#define SINGLE_INFO 6

mtype connection = WAITING;
mtype step = IDLE;
byte portions_left;
bool set_changed;    /* api_keys.changed */
byte set_version;    /* of the set that is being read, or held */
byte info_version;   /* of its infos */
bool committed;
bool checking;       /* a check of the catalogue is under way */
bool keys_deferred;  /* INVALIDATED_KEYS waits for a check */
bool single;         /* a fetch that checks its key in Redis; it is not shared */
byte single_needed, single_info_needed;

/* api_keys.c: clear */
inline clear_set()
{
    committed = false;
    set_version = 0;
    info_version = 0
}

#define IN_PORTIONS (step == READ_PORTION || step == READ_INFOS || step == READ_INFO)

/* api_keys.c: api_keys_read */
inline read_api_keys()
{
    if
    :: step == IDLE || step == UNCOMMITTED ->
        step = READ_SIZE;
        send(READ, SET, SIZE)
    :: else /* under way */
    fi
}

/* api_keys.c: api_keys_invalidate; cache.c: on_drop */
inline drop_keys()
{
    if
    :: !IN_PORTIONS -> clear_set()
    :: else -> committed = false /* the portions so far are dropped with the next (take_portion, take_infos) */
    fi;
#ifndef IGNORE_CHANGE
    set_changed = true;
#endif
    if
    :: step == UNCOMMITTED -> step = IDLE
    :: else
    fi;
    read_api_keys()
}

inline check_catalogue()
{
    if
    :: checking
    :: else -> checking = true; send(CHECK, 0, 0)
    fi
}

/* api_keys.c: take_size; the set is small or large */
inline take_size()
{
    if
    :: true -> step = READ_MEMBERS; send(READ, SET, MEMBERS)
    :: true ->
        step = READ_PORTION;
        portions_left = PORTIONS;
        set_changed = false;
        clear_set();
        send(READ, SET, PORTION)
    fi
}

/* api_keys.c: end_members, of a set that is not empty */
inline end_members()
{
    step = READ_INFOS;
    send(READ, INFO, INFOS)
}

/* api_keys.c: take_members */
inline take_members(v)
{
    printf("worker: the whole set, %d\n", v);
    clear_set();
    set_version = v;
    set_changed = false;
    end_members()
}

#ifdef IGNORE_CHANGE_IN_INFOS
#define INFOS_CHANGED false /* sabotage */
#else
#define INFOS_CHANGED set_changed
#endif

inline stop_changed()
{
    printf("worker: a portion of a set that has changed\n");
    step = IDLE;
    clear_set();
    set_changed = false
}

/* api_keys.c: take_portion */
inline take_portion(v)
{
    if
    :: set_changed -> stop_changed()
    :: else ->
        printf("worker: a portion of %d\n", v);
        set_version = (portions_left == PORTIONS || v < set_version -> v : set_version);
        portions_left--;
        if
        :: portions_left == 0 -> end_members()
        :: else -> send(READ, SET, PORTION)
        fi
    fi
}

/* api_keys.c: take_infos, of HLEN: there are none, or they are read in portions */
inline take_infos(v)
{
    if
    :: INFOS_CHANGED -> stop_changed()
    :: else ->
        printf("worker: the number of infos of %d\n", v);
        if
        :: true -> info_version = v; step = UNCOMMITTED; check_catalogue()
        :: true -> step = READ_INFO; portions_left = PORTIONS; send(READ, INFO, RECORDS)
        fi
    fi
}

/* The same, of HMGET. */
inline take_records(v)
{
    if
    :: INFOS_CHANGED -> stop_changed()
    :: else ->
        printf("worker: a portion of infos of %d\n", v);
        info_version = (portions_left == PORTIONS || v < info_version -> v : info_version);
        portions_left--;
        if
        :: portions_left == 0 -> step = UNCOMMITTED; check_catalogue()
        :: else -> send(READ, INFO, RECORDS)
        fi
    fi
}

/* fetch.c: the reply to HGET, which comes before that to SISMEMBER */
inline on_key_info(v)
{
    printf("worker: the key's info is of %d\n", v);
    check_answer(v >= single_info_needed);
    single_info_needed = 0
}

/* fetch.c: on_auth; cache.c: on_auth_known, which may begin to read the set again */
inline on_auth(v)
{
    printf("worker: the key's result is of set %d\n", v);
    check_answer(v >= single_needed);
    single = false;
    single_needed = 0;
    if
    :: !committed && step == IDLE -> read_api_keys()
    :: else
    fi
}

/* invalidation.c: invalidate, wait_for_check */
inline on_keys_invalidated()
{
    printf("worker: invalidation\n");
    if
    :: !checking -> drop_keys()
    :: true -> keys_deferred = true; check_catalogue()
    fi
}

/* invalidation.c: finish_check: pending invalidations first */
inline on_check_reply()
{
    checking = false;
    if
    :: keys_deferred -> keys_deferred = false; drop_keys()
    :: else
    fi;
    if
    :: step == UNCOMMITTED ->
        printf("worker: set %d is committed\n", set_version);
        step = IDLE;
        committed = true
    :: else
    fi
}

inline on_ready()
{
    printf("worker: tracking is on\n");
    connection = READY;
    step = IDLE;
#ifdef NO_DROP_AT_RECONNECT
    if
    :: !committed -> read_api_keys()
    :: else
    fi
#else
    clear_set();
    read_api_keys()
#endif
}

/* cache.c: on_api_keys_reply with NULL */
inline on_lost()
{
    printf("worker: the connection is lost\n");
    connection = WAITING;
    step = IDLE;
    portions_left = 0;
    set_changed = false;
    if
    :: !committed || keys_deferred -> clear_set()
    :: else
    fi;
    keys_deferred = false;
    checking = false;
    single = false;
    single_needed = 0;
    single_info_needed = 0;
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

/* cache.c: check_key */
inline get()
{
    if
    :: committed && !keys_deferred ->
        printf("client: the key is looked up in set %d, due is %d, with infos %d, due is %d\n", set_version, due[SET],
               info_version, due[INFO]);
        check_answer(set_version >= due[SET] && info_version >= due[INFO])
    :: !(committed && !keys_deferred) && !single ->
        single = true;
        single_needed = due[SET];
        single_info_needed = due[INFO];
        send(READ, INFO, SINGLE_INFO);
        send(READ, SET, SINGLE)
    :: else
    fi
}

#define CACHED_IS_REACHABLE (!committed || keys_deferred || (REACHABLE(SET, set_version) && REACHABLE(INFO, info_version)))

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
        :: m == REPLY && tag == SIZE -> take_size()
        :: m == REPLY && tag == MEMBERS -> take_members(v)
        :: m == REPLY && tag == PORTION -> take_portion(v)
        :: m == REPLY && tag == INFOS -> take_infos(v)
        :: m == REPLY && tag == RECORDS -> take_records(v)
        :: m == REPLY && tag == SINGLE_INFO -> on_key_info(v)
        :: m == REPLY && tag == SINGLE -> on_auth(v)
        :: m == CHECKED -> on_check_reply()
        :: m == INVALIDATE -> on_keys_invalidated()
        :: m == DELIVERED -> due[k] = v
        fi;
        m = 0; k = 0; v = 0; tag = 0
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
        check_reachable(CACHED_IS_REACHABLE);
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
