/*
 * Writes the channels of a load to Redis in batches: reads what Redis holds, skips channels that have not
 * changed (even an identical write would remove them from every cache), and writes the others in one
 * transaction: card, link keys, index. All transactions are those of lock.h. The lock is watched since before
 * the reads, so no other load can have written in between.
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
#include "ctl/client.h"
#include "ctl/lock.h"

struct writer_counts {
    int64_t written;       /* channels */
    int64_t unchanged;     /* channels */
    int64_t links_moved;   /* links that another channel had before */
    int64_t ttls_removed;  /* channels that had one */
    int64_t cards_removed; /* by a replacing load */
    bool replaced;         /* the next index has become the index */
    bool index_ttl_removed;
};

struct writer {
    /* Set before writer_begin(); the pointers are borrowed. */
    struct client *client;
    struct lock *lock; /* held; the writer renews it */
    bool replace;
    int64_t samples; /* the channels of the catalogue after the load if all of them are samples, else 0 */

    /* Read-only: what was sent, and what of that Redis has confirmed. */
    struct writer_counts sent, counts;

    /* Private from here on. */
    struct batch *batch; /* cards are added to it */
    int64_t next_score;  /* for the next channel that is not in the index yet */
    bool index_differs;  /* a member of the next index is not in the index, or has another score there */
};

/* The channels that are in Redis as they are in the file. */
static inline int64_t writer_accepted(const struct writer_counts *n)
{
    return n->written + n->unchanged;
}

/* All below fail as the client does, whose failure is sticky. */

/* Checks the index. Call it first, and writer_fini in every case. */
void writer_begin(struct writer *w);
void writer_fini(struct writer *w);

/* Adds the card of a line; its texts are copied. Often sends what was added before, without waiting until
 * Redis has written it. */
void writer_add(struct writer *w, const struct card *card);

/* Waits until Redis has confirmed what was sent. */
void writer_confirm(struct writer *w);

/*
 * Sends what was added, and waits until Redis has confirmed all of it. A replacing load then makes the next
 * index the index, and removes cards and link keys of channels that are not in it. Last, a catalogue of
 * samples is marked as such.
 */
void writer_finish(struct writer *w);

#endif
