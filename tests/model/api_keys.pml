/*
 * The API keys of a worker: the check of keys, in which their infos (names and expiries) are read before their membership;
 * and changes meanwhile. Which keys are checked does not matter: those used last, those of a portion of the set, those of
 * requests.
 *
 * A valid key is held with the versions that its check has read; a digest that is no key with the version of the set.
 *
 *   1. A key is accepted, or refused, by a set and infos that are at least those due when the request began: a key that was
 *      revoked, or given an expiry that has passed, ends, and one that was issued is valid, after the bound of redis.pml.
 *   2. What is held can be reached by an invalidation.
 */
#define KEYS 2
#define SET 0
#define INFO 1
#define COMMANDS 6
#define STREAM 20
#ifndef INFO_WRITES
#define INFO_WRITES WRITES
#endif
#define WRITABLE(key) (value[key] < (key == SET -> WRITES : INFO_WRITES))
#include "redis.pml"

mtype = { WAITING, HANDSHAKE, READY };
mtype = { IDLE, CHECKING }; /* a check is in flight (cache/keys.c) */

#define INFOS 0 /* tags of READ: HMGET, SMISMEMBER */
#define MEMBERS 1

mtype connection = WAITING;
mtype step = IDLE;
bool check_changed;   /* the epoch is another one than when the infos of the check came */
bool mark_changed;    /* the same, since the check was sent (stream_is_certain) */
bool confirmed;       /* a key was, in this epoch */
byte key_version;     /* of the set, in its check */
byte info_version;    /* of the infos */
byte infos_read, members_read; /* the same, of the check under way */
bool absent;          /* another key is known to be none, in this epoch (keys_keep_absent) */
byte absent_version;  /* of the set */
bool single;          /* a request waits for a check of its key */
bool single_checked;  /* the one under way */
byte single_needed, single_info_needed;
bool denied;          /* its key was found to be none: it waits for a check of the catalogue */
byte denied_version;  /* of the set, in that check; and as above: */
bool denied_changed, denied_mark_changed;

/* keys.c: keys_invalidate. The records stay, and count no more */
inline begin_epoch()
{
    confirmed = false;
    key_version = 0;
    info_version = 0;
    absent = false;
    absent_version = 0;
    check_changed = true;
    denied_changed = true
}

/* keys.c: key_check_send; of keys that the worker chooses, and of the request that waits */
inline send_check()
{
    step = CHECKING;
    infos_read = 0;
    members_read = 0;
    mark_changed = false;
    single_checked = single && !denied;
    send(READ, INFO, INFOS);
    send(READ, SET, MEMBERS)
}

/* keys.c: keys_run. Keys may be checked at any time */
inline proceed()
{
    if
    :: step == IDLE && connection == READY ->
        if
        :: true -> send_check()
        :: !single || denied -> skip
        fi
    :: else
    fi
}

/* keys.c: keys_invalidate */
inline drop_keys()
{
#ifdef IGNORE_CHANGE
    skip;
#else
    begin_epoch();
#endif
#ifdef IGNORE_CHANGE_IN_CHECK
    check_changed = false;
    denied_changed = false;
#endif
    proceed()
}

inline on_infos(v)
{
    printf("worker: the infos are of %d\n", v);
    infos_read = v;
    check_changed = false
}

inline forget_single()
{
    single = false;
    denied = false;
    denied_version = 0;
    denied_changed = false;
    denied_mark_changed = false;
    single_needed = 0;
    single_info_needed = 0
}

/* keys.c: key_check_end. A key that is none waits for a check of the catalogue */
inline on_members(v)
{
    members_read = v;
    step = IDLE;
    if
    :: check_changed -> /* the request waits for the next one */
        printf("worker: a check with a change behind its infos\n")
    :: else ->
        printf("worker: the keys are of set %d, with infos %d\n", members_read, infos_read);
        confirmed = true;
        key_version = members_read;
        info_version = infos_read;
        if
        :: single && !denied -> /* its key is a member: the request is looked up again */
            check_answer(members_read >= single_needed && infos_read >= single_info_needed);
            forget_single()
        :: true
        fi
    fi;
    if
    :: single && single_checked ->
        denied = true;
        denied_version = members_read;
        denied_changed = check_changed;
        denied_mark_changed = mark_changed;
        send(CHECK, 0, 0)
    :: true
    fi;
    infos_read = 0;
    members_read = 0;
    single_checked = false;
    proceed()
}

/* keys.c: key_check_on_probed */
inline on_check_reply()
{
    denied = false;
#ifdef KEEP_DENIAL
    if
    :: denied_changed -> absent = true; absent_version = denied_version
    :: true
    fi;
#endif
    if
    :: denied_changed -> skip /* the request waits for the next one */
    :: else -> /* the reply is of the request's time */
        check_answer(denied_version >= single_needed);
        if
        :: !denied_mark_changed -> absent = true; absent_version = denied_version /* what is certain is kept */
        :: else
        fi;
        forget_single()
    fi;
    denied_version = 0;
    denied_changed = false;
    denied_mark_changed = false;
    proceed()
}

/* cache.c: cache_key_changed */
inline on_keys_invalidated()
{
    printf("worker: invalidation\n");
    mark_changed = true;
    denied_mark_changed = true;
    drop_keys()
}

inline on_ready()
{
    printf("worker: tracking is on\n");
    connection = READY;
#ifndef NO_DROP_AT_RECONNECT
    begin_epoch();
#endif
    proceed()
}

/* The replies under way fail; requests are looked up again, and wait for the next connection with a fetch. */
inline on_lost()
{
    printf("worker: the connection is lost\n");
    connection = WAITING;
    step = IDLE;
    mark_changed = false;
    check_changed = false;
    infos_read = 0;
    members_read = 0;
    single_checked = false;
    forget_single();
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

/* cache.c: cache_check_key; keys.c: keys_look_up. Of a key that is confirmed, and of another */
inline get()
{
    if
    :: confirmed ->
        printf("client: a key of set %d and infos %d is valid, due are %d and %d\n", key_version, info_version, due[SET],
               due[INFO]);
        check_answer(key_version >= due[SET] && info_version >= due[INFO])
    :: absent ->
        printf("client: a key is not in set %d, due is %d\n", absent_version, due[SET]);
        check_answer(absent_version >= due[SET])
    :: !single ->
        single = true;
        single_needed = due[SET];
        single_info_needed = due[INFO];
        proceed()
    :: else
    fi
}

#define KEY_IS_REACHABLE (!confirmed || (REACHABLE(SET, key_version) && REACHABLE(INFO, info_version)))
#define ABSENCE_IS_REACHABLE (!absent || REACHABLE(SET, absent_version))

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
        :: m == REPLY && tag == INFOS -> on_infos(v)
        :: m == REPLY && tag == MEMBERS -> on_members(v)
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
        check_reachable(KEY_IS_REACHABLE && ABSENCE_IS_REACHABLE);
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
