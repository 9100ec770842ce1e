/*
 * Writes batches of channels: reads first what Redis holds, skips what has not changed (an identical write
 * would drop it from every cache all the same), and writes each other channel in one transaction: card, link
 * keys, index.
 *
 * The read and the write of a batch are not one transaction: one load at a time (ctl/lock.h).
 *
 * A link belongs to the first channel that has it in a file; the line of a second one is refused, whichever
 * of them had the link before. To tell, the writer keeps the ids of the channels with a link that it has
 * written: at most 32 bytes each.
 */
#ifndef CTL_WRITER_H
#define CTL_WRITER_H

#include "ctl/batch.h"
#include "ctl/client.h"
#include "ctl/lock.h"
#include "ctl/report.h"

/* What a writer works with; all borrowed. */
struct writer_setup {
    struct client *client;
    struct lock *lock; /* held; renewed with each batch */
    const char *file;  /* its name, for messages */
    struct report *report;
    bool replace; /* channels are listed in the next index */
};

/* Ids in a hash table with open addressing. */
struct id_set {
    int64_t *slot; /* owned; 0: free */
    size_t capacity, count;
    bool has_zero;
};

struct writer {
    struct writer_setup setup;
    struct client *client; /* setup.client */
    struct batch *filling; /* add to this one; it is another one after each flush */
    struct batch *sent;    /* its writes are on their way; empty when there are none */
    enum field_ttls field_ttls;
    struct id_set linked; /* channels of this file that have a link, up to now */
    int64_t score;        /* of the next channel that is not listed yet */
    int64_t members;      /* of the next index */
    int64_t written;      /* channels; what Redis has confirmed, as all counts here */
    int64_t unchanged;    /* channels */
    int64_t refused;      /* channels, each of them reported */
    int64_t taken;        /* links that named another channel before */
    int64_t expired;      /* channels whose TTL was removed */
    bool index_expired;   /* the index had a TTL */
    int64_t last_line;    /* of the file */
};

/* All return 0, or -EIO with the reason in client_error(). writer_fini is due in every case. */

int writer_begin(struct writer *w, const struct writer_setup *setup) __attribute__((warn_unused_result));

/* Sends off the batch that was filled, so that the next one can be filled while Redis works. */
int writer_flush(struct writer *w) __attribute__((warn_unused_result));

/* Sends off the last batch and waits until all is written. */
int writer_finish(struct writer *w) __attribute__((warn_unused_result));

void writer_fini(struct writer *w);

#endif
