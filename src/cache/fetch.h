/*
 * One question on its way to Redis and back: which commands it takes, and what their replies amount to.
 *
 * A fetch sends a batch of commands, counts the replies, and goes on to its next batch or ends. What a reply
 * says is remembered at once, in stream order with the invalidations. A fetch lives on one connection: when
 * that is lost, those who wait ask anew. Internal to the store.
 */
#ifndef CACHE_FETCH_H
#define CACHE_FETCH_H

#include "cache/cache_internal.h"
#include "cache/page_builder.h"
#include "model/channel.h"

enum fetch_step { FETCH_FIRST, FETCH_LINKED_CARD, FETCH_PAGE_ITEMS };

struct fetch {
    struct list link;     /* in a list of those that wait: to be sent, or for a check of the catalogue */
    struct list requests; /* those who wait for the answer */
    bool inflight;        /* in the table of those that may be joined */
    uint64_t inflight_hash;
    uint64_t inflight_epoch; /* see inflight.c */
    struct cache *cache;
    void (*ended)(
        struct fetch *f); /* the store's: all replies are in and `answer` is complete, or `lost` is set */

    bool needs_auth; /* the key is asked about too; such a fetch has one request */
    unsigned owed;   /* replies that have not come yet */
    bool lost;       /* the connection went before they all came */
    bool failed;     /* Redis answered one of them with an error */
    bool refused;    /* the key is not valid */
    bool again;      /* for the second and last time, because the first answer lacked something */
    uint64_t doubts; /* the catalogue's, when it was sent */
    bool found;
    struct cache_result answer; /* owns its body */

    enum fetch_step step;
    int64_t id;                /* of the card */
    struct page_builder *page; /* of QUERY_PAGE; owned */

    struct digest key;
    enum cache_query_type target;
    int64_t number;
    size_t link_len;
    char link_text[];
};

/*
 * A fetch for `question`, not yet sent. `known` (for a page; may be NULL) is taken over: its list of channels
 * is current. Owned by the caller; NULL when out of memory.
 */
struct fetch *fetch_new(struct cache *s, const struct cache_query *params, bool needs_auth,
                        struct page_builder *known);
void fetch_free(struct fetch *f);

/*
 * Sends its first batch. Returns 0, or a negative errno when not one command could
 * be sent: then nothing will come. When only some could be sent, the failure is told as an answer, after
 * their replies.
 */
int fetch_start(struct fetch *f) __attribute__((warn_unused_result));

/* --- between fetch.c and what it fetches (fetch_card.c, fetch_page.c) --- */

/* Composes in the store's `command` the first two of `count` words: a name, and the key that is in its `key`.
 */
void fetch_begin_command(struct fetch *f, size_t count, struct span name);

/* Sends the store's `command` and counts its reply. A failure marks the fetch as failed. */
void fetch_send(struct fetch *f, redis_connection_reply_fn fn);

/* Every reply passes here first; true when there is something to be read in it. */
bool fetch_accept(struct fetch *f, const redisReply *reply);

/* To be called last in every reply function: goes on when all replies are in. */
void fetch_settle(struct fetch *f);

/* Composes the answer, if anybody waits for it, and ends the fetch. */
void fetch_conclude(struct fetch *f);

/*
 * There was a catalogue behind the replies of a fetch that lacks something: it is concluded, or sent once
 * more.
 */
void fetch_confirmed(struct fetch *f);

/* HMGET of all fields of a shape. */
void fetch_send_hmget(struct fetch *f, int64_t id, enum channel_shape shape, redis_connection_reply_fn fn);

/* What the reply of that HMGET holds. */
enum row_state { ROW_INVALID, ROW_ABSENT, ROW_PRESENT };
enum row_state fetch_parse_row(const redisReply *reply, enum channel_shape shape, struct channel_row *row);

/* Reads the reply of that HMGET; false when it holds no channel (or is no such reply, which fails the fetch).
 */
bool fetch_read_row(struct fetch *f, const redisReply *reply, enum channel_shape shape,
                    struct channel_row *row);

/* Counts, and logs once a channel, the fields whose value did not parse. */
void fetch_report_unreadable(struct fetch *f, int64_t id, unsigned fields);

/* Logs, once a channel, that a member of the index is left out of its page. */
void fetch_report_left_out(struct cache *s, int64_t id, const char *why);

void fetch_card_send(struct fetch *f);       /* HMGET of f->id */
void fetch_link_send(struct fetch *f);       /* GET of the link */
void fetch_page_send(struct fetch *f);       /* size of the index and ids of the page */
void fetch_page_send_items(struct fetch *f); /* HMGET of each that is not remembered */

#endif
