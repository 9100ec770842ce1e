/*
 * The API keys of a worker: the check of keys, in which their infos (names and expiries) are read before their membership;
 * the portions of the set, whose infos are read behind them and confirmed by a check of the catalogue; and changes meanwhile.
 *
 * A key that is held is of the versions that its check has read. A set that is whole is of the version of its oldest
 * portion: it says which keys are invalid.
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
#define PORTIONS 2
#define NONE 255
#ifndef INFO_WRITES
#define INFO_WRITES WRITES
#endif
#define WRITABLE(key) (value[key] < (key == SET -> WRITES : INFO_WRITES))
#include "redis.pml"

mtype = { WAITING, HANDSHAKE, READY };
/* enum key_reader_step, cache/key_reader.h; CONFIRMING: a request is denied */
mtype = { IDLE, SCANNING, CHECKING, CONFIRMING, COMMITTING };
/* enum api_keys_state, cache/api_keys.h */
mtype = { UNREAD, READING, WHOLE };

#define PORTION 0 /* tags of READ: SSCAN, HMGET, SMISMEMBER */
#define INFOS 1
#define MEMBERS 2

mtype connection = WAITING;
mtype step = IDLE;
mtype state = UNREAD;
byte portions_left;
bool portion_changed; /* the epoch is another one than when SSCAN was sent */
bool check_changed;   /* the same, since the infos of a check came, or since the portion came */
bool is_portion;      /* the infos are those of a portion */
bool confirmed;       /* a key was, in this epoch */
byte key_version;     /* of the set, in its check */
byte info_version;    /* of the infos */
byte infos_read;      /* the same, of the check under way */
byte portion_version; /* of the portion */
byte set_version;     /* of the set, in its oldest portion */
byte commits_left;    /* checks of the catalogue until the portion is confirmed */
bool checking;        /* a check of the catalogue is under way */
bool keys_deferred;   /* INVALIDATED_KEYS waits for a check */
bool single;          /* a request waits for a check of its key */
bool single_checked;  /* the one under way */
byte single_needed, single_info_needed;

/* api_keys.c: api_keys_invalidate. The digests stay, and count no more */
inline begin_epoch()
{
    confirmed = false;
    key_version = 0;
    info_version = 0;
    set_version = 0;
    state = UNREAD;
    portions_left = 0;
    check_changed = true;
    portion_changed = true
}

inline check_catalogue()
{
    if
    :: checking
    :: else -> checking = true; send(CHECK, 0, 0)
    fi
}

/* key_reader.c: key_check_send; of the keys used last, of members, and of the request that waits */
inline send_check()
{
    step = CHECKING;
    infos_read = 0;
    is_portion = false;
    single_checked = single;
    send(READ, INFO, INFOS);
    send(READ, SET, MEMBERS)
}

/* key_reader.c: key_reader_commit_later: by a check that is sent from now on */
inline commit_later()
{
    step = COMMITTING;
    commits_left = (checking -> 2 : 1);
    check_catalogue()
}

/* key_reader.c: key_reader_run. Keys may be checked at any time, and portions be read */
inline proceed()
{
    if
    :: step == IDLE && connection == READY && !keys_deferred ->
        if
        :: state == UNREAD || (state == READING && portions_left > 0) ->
            step = SCANNING;
            portion_changed = false;
            send(READ, SET, PORTION)
        :: true -> send_check()
        :: !single -> skip
        fi
    :: else
    fi
}

/* key_reader.c: key_reader_invalidate */
inline drop_keys()
{
#ifdef IGNORE_CHANGE
    if
    :: state == READING -> confirmed = false; key_version = 0; info_version = 0; check_changed = true
    :: else -> begin_epoch()
    fi;
#else
    begin_epoch();
#endif
#ifdef IGNORE_CHANGE_IN_CHECK
    if
    :: is_portion
    :: else -> check_changed = false
    fi;
#endif
#ifdef IGNORE_CHANGE_IN_PORTION
    if
    :: is_portion -> check_changed = false
    :: else
    fi;
#endif
    proceed()
}

/* key_reader.c: key_reader_on_portion; the infos of its members are read, unless all of them are confirmed already */
inline on_portion(v)
{
    step = IDLE;
    if
    :: portion_changed -> printf("worker: a portion of a set that has changed\n"); proceed()
    :: else ->
        printf("worker: a portion of %d\n", v);
        if
        :: state == UNREAD -> state = READING; portions_left = PORTIONS - 1; set_version = v
        :: else -> portions_left--; set_version = (v < set_version -> v : set_version)
        fi;
        portion_version = v;
        is_portion = true;
        infos_read = 0;
        check_changed = false;
        if
        :: true -> step = CHECKING; send(READ, INFO, INFOS)
        :: true -> infos_read = NONE; commit_later()
        fi
    fi
}

inline on_infos(v)
{
    printf("worker: the infos are of %d\n", v);
    infos_read = v;
    if
    :: is_portion -> commit_later()
    :: else -> check_changed = false
    fi
}

/* key_reader.c: key_reader_commit, key_reader_end_reading */
inline commit()
{
    step = IDLE;
    if
    :: check_changed -> printf("worker: infos with a change behind the portion\n")
    :: else ->
        if
        :: infos_read != NONE ->
            printf("worker: keys are of set %d, with infos %d\n", portion_version, infos_read);
            confirmed = true;
            key_version = portion_version;
            info_version = infos_read
        :: else
        fi;
        if
        :: state == READING && portions_left == 0 -> printf("worker: set %d is whole\n", set_version); state = WHOLE
        :: else
        fi
    fi;
    is_portion = false;
    portion_version = 0;
    infos_read = 0
}

/* key_reader.c: key_check_read_members, key_check_end */
inline on_members(v)
{
    step = IDLE;
    if
    :: check_changed -> /* the request waits for the next one */
        printf("worker: a check with a change behind its infos\n")
    :: else ->
        printf("worker: the keys are of set %d, with infos %d\n", v, infos_read);
        confirmed = true;
        key_version = v;
        info_version = infos_read;
        if
        :: single && !keys_deferred -> /* its key is a member: the request is looked up again */
            check_answer(v >= single_needed && infos_read >= single_info_needed);
            single = false; single_needed = 0; single_info_needed = 0
        :: single && single_checked -> /* it is none: the reply is of the request's time */
            check_answer(v >= single_needed);
            step = CONFIRMING;
            check_catalogue()
        :: true
        fi
    fi;
    infos_read = 0;
    single_checked = false;
    proceed()
}

/* invalidation.c: invalidation_invalidate, invalidation_wait_for_check */
inline on_keys_invalidated()
{
    printf("worker: invalidation\n");
    if
    :: !checking -> drop_keys()
    :: true -> keys_deferred = true; check_catalogue()
    fi
}

/* invalidation.c: invalidation_checked: pending invalidations first; key_reader.c: key_reader_checked */
inline on_check_reply()
{
    checking = false;
    if
    :: keys_deferred -> keys_deferred = false; drop_keys()
    :: else
    fi;
    if
    :: step == COMMITTING ->
        commits_left--;
        if
        :: commits_left == 0 -> commit()
        :: else -> check_catalogue()
        fi
    :: step == CONFIRMING ->
        step = IDLE;
        single = false; single_needed = 0; single_info_needed = 0
    :: else
    fi;
    proceed()
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
    if
    :: keys_deferred -> begin_epoch()
    :: else
    fi;
    if
    :: state != WHOLE -> state = UNREAD; portions_left = 0; set_version = 0
    :: else
    fi;
    commits_left = 0;
    is_portion = false;
    portion_version = 0;
    portion_changed = false;
    check_changed = false;
    infos_read = 0;
    keys_deferred = false;
    checking = false;
    single = false;
    single_checked = false;
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

/* cache.c: cache_check_key; api_keys.c: api_keys_check. Of a key that is confirmed, and of another */
inline get()
{
    if
    :: confirmed && !keys_deferred ->
        printf("client: a key of set %d and infos %d is valid, due are %d and %d\n", key_version, info_version, due[SET],
               due[INFO]);
        check_answer(key_version >= due[SET] && info_version >= due[INFO])
    :: state == WHOLE && !keys_deferred ->
        printf("client: a key is not in set %d, due is %d\n", set_version, due[SET]);
        check_answer(set_version >= due[SET])
    :: (state != WHOLE || keys_deferred) && !single ->
        single = true;
        single_needed = due[SET];
        single_info_needed = due[INFO];
        proceed()
    :: else
    fi
}

#define KEY_IS_REACHABLE (!confirmed || keys_deferred || (REACHABLE(SET, key_version) && REACHABLE(INFO, info_version)))
#define SET_IS_REACHABLE (state != WHOLE || keys_deferred || REACHABLE(SET, set_version))

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
        :: m == REPLY && tag == PORTION -> on_portion(v)
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
        check_reachable(KEY_IS_REACHABLE && SET_IS_REACHABLE);
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
