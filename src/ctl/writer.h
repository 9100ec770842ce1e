/*
 * Writes the channels of a load to Redis in batches: reads what Redis holds, skips channels that have not
 * changed (even an identical write would remove them from every cache), and writes the others in one
 * transaction of lock.h: card, link keys, index.
 *
 * A replacing load lists its channels in the next index, a separate key, which becomes the index in one step
 * at the end.
 *
 * No two cards of a load have the same id or the same link, so their order makes no difference. A link that
 * another channel has in Redis moves to the channel of the load.
 */
#ifndef CTL_WRITER_H
#define CTL_WRITER_H

#include "ctl/card.h"
#include "ctl/lock.h"

/* A test of loads with few channels has smaller batches. */
#ifndef BATCH_CHANNELS_MAX
enum { BATCH_CHANNELS_MAX = 100 };
#endif

struct writer {
    /* Set before writer_begin(). */
    struct lock *lock; /* borrowed; held */
    bool replace;
    int64_t samples; /* the channels of the catalogue after the load if all of them are samples, else 0 */

    /* Read-only: what Redis has confirmed. */
    int64_t channels;      /* of the load, written or as they were in Redis */
    int64_t written;       /* of these */
    int64_t links_moved;   /* links that another channel had before */
    int64_t ttls_removed;  /* channels that had one */
    int64_t cards_removed; /* by a replacing load */
    bool replaced;         /* the next index has become the index */
    bool index_ttl_removed;
    bool is_sent; /* a batch was sent, confirmed or not */

    /* Private from here on. */
    struct entry {
        struct card card;
        struct buf former_link; /* the link in Redis, if the card gets another one or none; may be empty */
        bool listed;            /* is in the index already, with this score */
        double score;
        bool card_changed; /* differs from what Redis holds, or has a TTL there */
        bool link_changed; /* its link key differs or has a TTL */
        bool has_ttl;      /* card or link key have a TTL */
        bool moves_link;   /* the link key names another channel */
        bool drops_link;   /* the key of its former link still names it */
    } entry[BATCH_CHANNELS_MAX];
    size_t count;       /* of entries */
    size_t bytes;       /* of their lines */
    int64_t next_score; /* for the next channel that is not in the index yet */
    bool index_differs; /* a member of the next index is not in the index, or has another score there */
};

/* All below fail as the client does. */

/* Checks the index. Call it first, and writer_clear, which drops the last batch, in every case. */
void writer_begin(struct writer *w);
void writer_clear(struct writer *w);

/* Adds a card, which becomes the writer's, from a line of so many bytes. */
void writer_add(struct writer *w, const struct card *card, size_t bytes);

/*
 * Writes the last batch. A replacing load then makes the next index the index, and removes cards and link
 * keys of channels that are not in it. Last, a catalogue of samples is marked as such.
 */
void writer_finish(struct writer *w);

#endif
