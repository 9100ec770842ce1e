/*
 * A link that changes hands: its key is read without being tracked, then the card to which it leads.
 *
 * Each version says which channel has the link: one of two, or none. A transaction of the writer changes the link key and
 * both cards, so all keys are of one version; a card has the link if its version says so.
 *
 *   1. A request is answered with a card that has the link, in a version that is at least the one due when it began.
 *   2. It is answered with 404 only if nobody had the link, in such a version.
 *
 * A link key that does not agree with its card is none of a writer's here; the commands that it costs are bounded by the
 * same rule.
 */
#define KEYS 3
#define LINK 0
#define LEFT 1 /* the cards, and holders of the link */
#define RIGHT 2
#define NOBODY 0
#define UNTRACKED LINK
#ifndef FETCHES
#define FETCHES 2
#endif
#define COMMANDS 4
#define STREAM 22
#ifndef WRITES
#define WRITES 2
#endif
#define TRANSACTIONS
#define BEFORE_TRANSACTION choose_holder()

byte holder_of[WRITES + 1]; /* of a version */
byte newest;                /* version */

inline choose_holder()
{
    newest++;
    if
    :: holder_of[newest] = NOBODY
    :: holder_of[newest] = LEFT
    :: holder_of[newest] = RIGHT
    fi;
    printf("redis: the writer gives the link to %d, in version %d\n", holder_of[newest], newest)
}

#include "redis.pml"

/* --- the worker --- */

mtype = { WAITING, HANDSHAKE, READY };                          /* enum connection_state, redis/connection.c */
mtype = { FREE, FIRST, LINKED_CARD, RELINKED, UNCONFIRMED }; /* of a fetch, cache/fetch.c; RELINKED: FIRST, of a repetition */

typedef fetch_t {
    mtype state;
    bool inflight; /* may be joined */
    byte id;       /* the channel to which the link led */
    byte needed;   /* by the request that began last, of those that wait */
};

mtype connection = WAITING;
fetch_t fetch[FETCHES];
bool cached[KEYS]; /* there is an entry of the card, of this version */
byte cached_version[KEYS];
bool checking; /* a check of the catalogue is under way */

#define DUE due[KEYS - 1]
#define HAS_LINK(card, version) (holder_of[version] == card)
#define HIT(card) (cached[card] && HAS_LINK(card, cached_version[card]))

inline drop_card(card)
{
    cached[card] = false;
    cached_version[card] = 0
}

inline free_fetch(f)
{
    fetch[f].state = FREE;
    fetch[f].inflight = false;
    fetch[f].id = 0;
    fetch[f].needed = 0
}

inline answer(card, version, needed_version)
{
    printf("worker: answers with card %d of version %d, due is %d\n", card, version, needed_version);
    check_answer(HAS_LINK(card, version) && version >= needed_version)
}

/* One by one, as no expression runs through an array. */
#define WAS_FREE(version, needed_version) \
    (version <= newest && version >= needed_version && holder_of[version] == NOBODY)

inline answer_not_found(needed_version)
{
    printf("worker: answers with 404, due is %d\n", needed_version);
    check_answer(WAS_FREE(0, needed_version)
#if WRITES >= 1
                 || WAS_FREE(1, needed_version)
#endif
#if WRITES >= 2
                 || WAS_FREE(2, needed_version)
#endif
#if WRITES >= 3
                 || WAS_FREE(3, needed_version)
#endif
    )
}

/* fetch.c: fetch_advance, fetch_send_card */
inline send_linked_card(f, card)
{
    fetch[f].state = LINKED_CARD;
    fetch[f].inflight = false;
    fetch[f].id = card;
    send(READ, card, f)
}

/* fetch.c: fetch_proceed */
inline wait_for_check(f)
{
    fetch[f].state = UNCONFIRMED;
#ifndef JOIN_UNCONFIRMED
    fetch[f].inflight = false;
#endif
    if
    :: checking
    :: else -> checking = true; send(CHECK, 0, 0)
    fi
}

/* fetch.c: fetch_on_link, fetch_advance */
inline on_link(f, v)
{
    printf("worker: reply, the link leads to %d\n", holder_of[v]);
    if
    :: holder_of[v] == NOBODY -> wait_for_check(f)
#ifdef SECOND_LOOK_APART
    :: holder_of[v] != NOBODY && fetch[f].id == holder_of[v] -> /* as before: this time the card decides */
        fetch[f].state = RELINKED;
        send(READ, fetch[f].id, f)
    :: holder_of[v] != NOBODY && fetch[f].id != holder_of[v] -> send_linked_card(f, holder_of[v])
#else
    :: else -> send_linked_card(f, holder_of[v])
#endif
    fi
}

/*
 * fetch.c: fetch_repeat, fetch_start_card. Redis executes HMGET and GET in one turn, without a write in between: one reply tells
 * what both say, as all keys are of one version. The check of the catalogue before it is left out.
 */
inline look_again(f)
{
#ifdef NO_SECOND_LOOK
    wait_for_check(f)
#elif defined(SECOND_LOOK_APART)
    fetch[f].state = FIRST;
    send(READ, LINK, f)
#else
    fetch[f].state = RELINKED;
    send(READ, fetch[f].id, f)
#endif
}

/* fetch.c: fetch_on_card, fetch_read_card, fetch_advance */
inline on_card(f, card, v)
{
    printf("worker: reply, card %d in version %d\n", card, v);
    cached[card] = true;
    cached_version[card] = v;
    if
#ifdef NO_COMPARISON
    :: true -> answer(card, v, fetch[f].needed); free_fetch(f)
#endif
    :: HAS_LINK(card, v) -> answer(card, v, fetch[f].needed); free_fetch(f)
    :: !HAS_LINK(card, v) && fetch[f].state == LINKED_CARD -> look_again(f)
    :: !HAS_LINK(card, v) && fetch[f].state == RELINKED ->
#ifdef SECOND_LOOK_APART
        wait_for_check(f)
#else
        if
        :: holder_of[v] == NOBODY -> wait_for_check(f)
        :: else -> send_linked_card(f, holder_of[v])
        fi
#endif
    fi
}

/* fetch.c: fetch_on_probed */
inline on_check_reply()
{
    printf("worker: the check has passed\n");
    checking = false;
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].state == UNCONFIRMED -> answer_not_found(fetch[i].needed); free_fetch(i)
        :: else
        fi
    };
    i = 0
}

/* redis/connection.c: redis_connection_drop_socket; cache.c: cache_on_lost; cache.c: get_again for those that wait */
inline on_lost()
{
    printf("worker: the connection is lost\n");
    connection = WAITING;
    checking = false;
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
    connection = HANDSHAKE;
    send(TRACKING, 0, 0)
}

inline on_ready()
{
    printf("worker: tracking is on\n");
    connection = READY;
    drop_card(LEFT);
    drop_card(RIGHT)
}

inline begin_fetch()
{
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].state == FREE ->
            fetch[i].state = FIRST;
            fetch[i].inflight = true;
            fetch[i].needed = DUE;
            send(READ, LINK, i);
            break
        :: else
        fi
    };
    i = 0
}

inline join(f)
{
    printf("client: joins the fetch in flight\n");
    fetch[f].needed = DUE
}

/* cache.c: cache_try_get, cache_lookup, cache_join, cache_begin; entries.c: entries_find_link. Of two cards with the link it is any. */
inline get()
{
    if
    :: HIT(LEFT) -> answer(LEFT, cached_version[LEFT], DUE)
    :: HIT(RIGHT) -> answer(RIGHT, cached_version[RIGHT], DUE)
    :: !HIT(LEFT) && !HIT(RIGHT) ->
        if
        :: fetch[0].inflight -> join(0)
#if FETCHES == 2
        :: fetch[1].inflight -> join(1)
#endif
        :: else -> begin_fetch()
        fi
    fi
}

#define IS_REACHABLE(card) (!cached[card] || connection != READY || REACHABLE(card, cached_version[card]))

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
        :: m == TRACKING_ON -> on_ready()
        :: m == REPLY && k == LINK -> on_link(tag, v)
        :: m == REPLY && k != LINK -> on_card(tag, k, v)
        :: m == CHECKED -> on_check_reply()
        :: m == INVALIDATE && k == LINK /* by broadcast */
        :: m == INVALIDATE && k != LINK -> printf("worker: invalidation of card %d\n", k); drop_card(k)
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
    byte i;
    do
    :: atomic {
        connection == READY ->
        check_reachable(IS_REACHABLE(LEFT) && IS_REACHABLE(RIGHT));
        get()
    }
    od
}

init
{
    byte f;
    atomic {
        if
        :: holder_of[0] = NOBODY
        :: holder_of[0] = LEFT /* RIGHT would be the same */
        fi;
        for (f : 0 .. FETCHES - 1) {
            fetch[f].state = FREE
        };
        run redis();
        run network();
        run worker();
        run clients()
    }
}
