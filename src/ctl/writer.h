/*
 * Writes the channels of a load to Redis in batches: reads what Redis holds, skips channels that have not
 * changed (even an identical write would remove them from every cache), and writes the others in one
 * transaction: card, link keys, index. All transactions are those of lock.h. The lock is watched since before
 * the reads, so no other load can have written in between.
 *
 * A replacing load lists its channels in the next index, a separate key; writer_replace() then makes it the
 * index in one step.
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
    int64_t added;         /* of these and of the unchanged: those that the index did not have */
    int64_t unchanged;     /* channels */
    int64_t refused;       /* channels; each is in the report */
    int64_t links_moved;   /* links that another channel had before */
    int64_t ttls_removed;  /* channels that had one */
    int64_t cards_removed; /* by writer_replace() */
    bool replaced;         /* the next index has become the index */
    bool index_ttl_removed;
};

struct writer {
    /* Set before writer_begin(); the pointers are borrowed. */
    struct client *client;
    struct lock *lock; /* held; the writer renews it. NULL: nothing is written */
    const char *file;  /* its name, for messages */
    struct report *report;
    struct progress *progress; /* shown by writer_replace() */
    bool replace;
    int64_t samples; /* the channels of the catalogue after the load if all of them are samples, else 0 */

    /* What Redis has confirmed, or what would be written. Read-only but for `refused`, to which the load adds
     * what it refuses itself before writer_begin(). */
    struct writer_counts counts;
    bool is_sent; /* something was sent, confirmed or not */

    /* Private from here on. */
    struct batch *batch;       /* cards are added to it */
    struct writer_counts sent; /* `counts`, once Redis has confirmed what was sent */
    int64_t next_score;        /* for the next channel that is not in the index yet */
    int64_t checked;           /* keys, by writer_replace() */
    bool index_differs; /* a member of the next index is not in the index, or has another score there */
};

/* The channels that are in Redis as they are in the file. */
static inline int64_t writer_accepted(const struct writer *w)
{
    return w->counts.written + w->counts.unchanged;
}

/* All below return 0, or -EIO with the reason in client_error(). */

/* Checks the index and what this Redis supports. Call it first, and writer_fini in every case. */
int writer_begin(struct writer *w) __attribute__((warn_unused_result));
void writer_fini(struct writer *w);

/* Adds the card of a line of at most WRITER_CARD_BYTES_MAX bytes; its texts are copied. Often sends what was
 * added before, without waiting until Redis has written it. */
enum { WRITER_CARD_BYTES_MAX = 2 * 1024 * 1024 };
int writer_add(struct writer *w, const struct card *card, int64_t line) __attribute__((warn_unused_result));

/* Sends what was added, and waits until Redis has confirmed all of it. */
int writer_finish(struct writer *w) __attribute__((warn_unused_result));

/* Makes the next index the index, then removes cards and link keys of channels that are not in it. */
int writer_replace(struct writer *w) __attribute__((warn_unused_result));

/* Instead of writer_replace(): appends to the index the members that only the next index has, in its order,
 * and drops the next index. */
int writer_merge(struct writer *w) __attribute__((warn_unused_result));

/* Marks a catalogue of samples as such, after everything else. */
int writer_mark_samples(struct writer *w) __attribute__((warn_unused_result));

#endif
