/*
 * Channels that go to Redis together. Within a batch no two have the same id or the same link, so that
 * reading all of it first and writing all of it then is as good as doing one after the other.
 */
#ifndef CTL_BATCH_H
#define CTL_BATCH_H

#include "ctl/card.h"

#include <hiredis/hiredis.h>

enum {
    BATCH_CHANNELS_MAX = 256,
    BATCH_BYTES_MAX = 2 * 1024 * 1024, /* of lines; more than the longest one has */
};

/* A channel and what the writer finds out about it. */
struct batch_entry {
    struct card card;
    int64_t line;       /* of the file */
    redisReply *stored; /* the fields that Redis holds, in the order of a card; owned */
    bool refused;       /* is not written */
    bool listed;        /* stands in the index already */
    bool changed;       /* card or link key differ from what Redis holds, or have a TTL */
    bool expires;       /* card or link key have a TTL */
    bool taken;         /* the link key names another channel: `owner` */
    bool contested;     /* ... which an earlier line of the file has given this link */
    int64_t owner;
    bool drop_link; /* its former link's key goes */
    int commands;   /* between MULTI and EXEC */
};

struct batch {
    size_t count;
    struct batch_entry entry[BATCH_CHANNELS_MAX];
    int64_t last_line; /* of the file, that is in here; 0: none */
    struct buf texts;  /* what the rows borrow; BATCH_BYTES_MAX are reserved, so that it never moves */
};

/* Returns a new batch, owned, or NULL when out of memory. */
struct batch *batch_new(void);
void batch_free(struct batch *b);

/* True when a line of `bytes` can be read into b->texts and its card added. */
bool batch_has_room(const struct batch *b, size_t bytes);

/* True when a card of the batch has the id or the link of `card`. */
bool batch_conflicts(const struct batch *b, const struct card *card);

/* Adds the card of a line; its row borrows from b->texts. There must be room. */
void batch_add(struct batch *b, const struct card *card, int64_t line);

/* True when a channel of the batch, and not a refused one, has this link; this id. */
bool batch_has_link(const struct batch *b, struct span link);
bool batch_has_id(const struct batch *b, int64_t id);

/* Empties the batch and b->texts. */
void batch_clear(struct batch *b);

static inline struct span card_link(const struct card *card)
{
    return card->row.value[CHANNEL_FIELD_link];
}

#endif
