/*
 * A page of the list: an answer that is composed of two keys, which are read one after the other.
 *
 * The page has one channel. Cached are its list of channels (of one version of the index), and the channel's summary (of
 * one version of the card). It is served while both are current.
 *
 *   1. A request is answered with an index and a card that are at least those due when it began.
 *   2. What is cached can be reached by an invalidation of each key of which it was made.
 */
#define KEYS 2
#define INDEX 0
#define CARD 1
#define FETCHES 2
#define COMMANDS 5
#define STREAM 14
#include "redis.pml"

/* --- the worker --- */

mtype = { WAITING, HANDSHAKE, READY };   /* enum connection_state, redis/connection.c */
mtype = { FREE, FIRST, SUMMARIES };      /* of a fetch, cache/fetch.c: the index, or the card, is being read */

typedef fetch_t {
    mtype state;
    bool inflight;    /* may be joined */
    bool watched;     /* its channel is known: an invalidation of the card finds its entry (entries_new_page) */
    bool changed;     /* the card was invalidated (entries_drop_member) */
    bool invalidated; /* the index was: its epoch is not that of the entries any more (entries_index_epoch) */
    byte index;       /* the version of the index that it has read */
    byte needed_index, needed_card; /* by the request that began last, of those that wait */
};

mtype connection = WAITING;
fetch_t fetch[FETCHES];
bool list;      /* the page's list of channels is current (entries_has_list), of this version of the index */
byte list_index;
bool summary;   /* the channel's summary in its body is current, of this version of the card */
byte summary_card;

/* entries.c: entries_drop_lists */
inline drop_list()
{
    list = false;
    list_index = 0
}

/* entries.c: entries_drop_summary */
inline drop_summary()
{
    summary = false;
    summary_card = 0
}

/* entries.c: entries_put_page */
inline put_page(f, card_version)
{
    list = true;
    list_index = fetch[f].index;
    if
    :: fetch[f].changed -> drop_summary()
    :: else -> summary = true; summary_card = card_version
    fi
}

inline free_fetch(f)
{
    fetch[f].state = FREE;
    fetch[f].inflight = false;
    fetch[f].watched = false;
    fetch[f].changed = false;
    fetch[f].invalidated = false;
    fetch[f].index = 0;
    fetch[f].needed_index = 0;
    fetch[f].needed_card = 0
}

inline answer(index_version, card_version, index_due, card_due)
{
    printf("worker: answers with index %d, card %d; due are %d and %d\n", index_version, card_version, index_due,
           card_due);
    check_answer(index_version >= index_due && card_version >= card_due)
}

/* fetch.c: fetch_compose_page, conclude */
inline conclude(f, card_version)
{
    answer(fetch[f].index, card_version, fetch[f].needed_index, fetch[f].needed_card);
    if
    :: !fetch[f].invalidated -> put_page(f, card_version)
    :: else
    fi;
    free_fetch(f)
}

/* fetch.c: fetch_on_members, fetch_send_summaries; page.c: page_builder_read_list */
inline on_members(f, v)
{
    printf("worker: reply, index %d\n", v);
    fetch[f].index = v;
    fetch[f].state = SUMMARIES;
    fetch[f].watched = true;
    if
    :: summary -> conclude(f, summary_card) /* page_take found it */
    :: else -> send(READ, CARD, f)
    fi
}

/* fetch.c: fetch_on_summary, fetch_read_summary */
inline on_summary(f, v)
{
    printf("worker: reply, card %d\n", v);
    conclude(f, v)
}

/* fetch.c: fetch_is_current */
inline unpublish(f)
{
#if !defined(NO_INFLIGHT_MARK) && !defined(JOIN_INVALIDATED)
    fetch[f].inflight = false;
#endif
    skip
}

/* entries.c: entries_drop_summary */
inline invalidate_card()
{
    printf("worker: invalidation of the card\n");
    drop_summary();
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].watched ->
#ifndef NO_INFLIGHT_MARK
            fetch[i].changed = true;
#endif
            unpublish(i)
        :: else
        fi
    };
    i = 0
}

/* entries.c: entries_drop_lists. A fetch of an older epoch is not found by fetches_find. */
inline invalidate_pages()
{
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].state != FREE ->
#if !defined(NO_INFLIGHT_MARK) && !defined(STORE_INVALIDATED)
            fetch[i].invalidated = true;
#endif
            unpublish(i)
        :: else
        fi
    };
    i = 0
}

/* cache.c: cache_key_changed */
inline invalidate_index()
{
    printf("worker: invalidation of the index\n");
    invalidate_pages();
    drop_list()
}

/* cache.c: cache_on_ready */
inline on_ready()
{
    printf("worker: tracking is on\n");
    connection = READY;
#ifndef NO_DROP_AT_RECONNECT
    drop_list();
    drop_summary()
#endif
}

/* redis/connection.c: redis_connection_drop_socket; cache.c: cache_on_lost; cache.c: cache_get_again */
inline on_lost()
{
    printf("worker: the connection is lost\n");
    connection = WAITING;
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

/* fetch.c: fetch_begin; `known`: only the card is to be read */
inline begin_fetch(known)
{
    for (i : 0 .. FETCHES - 1) {
        if
        :: fetch[i].state == FREE ->
            fetch[i].inflight = true;
            fetch[i].needed_index = due[INDEX];
            fetch[i].needed_card = due[CARD];
            if
            :: known ->
                fetch[i].state = SUMMARIES;
                fetch[i].watched = true;
                fetch[i].index = list_index;
                send(READ, CARD, i)
            :: else ->
                fetch[i].state = FIRST;
                send(READ, INDEX, i)
            fi;
            break
        :: else
        fi
    };
    i = 0
}

inline join(f)
{
    printf("client: joins the fetch in flight\n");
    fetch[f].needed_index = due[INDEX];
    fetch[f].needed_card = due[CARD]
}

/* cache.c: cache_hit_page, cache_join, cache_begin; fetch.c: fetch_start_page */
inline get()
{
    if
    :: list && summary -> answer(list_index, summary_card, due[INDEX], due[CARD])
    :: else ->
        if
        :: fetch[0].inflight -> join(0)
        :: fetch[1].inflight -> join(1)
        :: else -> begin_fetch(list)
        fi
    fi
}

#define CACHED_IS_REACHABLE \
    ((!list || REACHABLE(INDEX, list_index)) && (!summary || REACHABLE(CARD, summary_card)))

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
        :: m == REPLY && k == INDEX -> on_members(tag, v)
        :: m == REPLY && k == CARD -> on_summary(tag, v)
        :: m == INVALIDATE && k == INDEX -> invalidate_index()
        :: m == INVALIDATE && k == CARD -> invalidate_card()
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
        check_reachable(CACHED_IS_REACHABLE);
        get()
    }
    od
}

init
{
    atomic {
#ifdef ABSENT_NOT_TRACKED
        first_absent = 1;
#endif
        fetch[0].state = FREE;
        fetch[1].state = FREE;
        run redis();
        run network();
        run worker();
        run clients()
    }
}
