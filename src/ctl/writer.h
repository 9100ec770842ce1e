/*
 * Writes batches of channels: reads first what Redis holds, skips what has not changed (an identical write
 * would drop it from every cache all the same), and writes each other channel in one transaction: card, link
 * keys, index.
 *
 * The read and the write of a batch are not one transaction: one load at a time.
 */
#ifndef CTL_WRITER_H
#define CTL_WRITER_H

#include "ctl/batch.h"
#include "ctl/client.h"

struct writer {
    struct client *client;
    struct batch *filling; /* add to this one; it is another one after each flush */
    struct batch *sent;    /* its writes are on their way; empty when there are none */
    bool replace;          /* channels are listed in the next index */
    int64_t score;         /* of the next channel that is not listed yet */
    int64_t members;       /* of the next index */
    int64_t written;       /* channels; what Redis has confirmed, as all counts here */
    int64_t unchanged;     /* channels */
    int64_t taken;         /* links that named another channel before */
    int64_t last_line;     /* of the file */
};

/* All return 0, or -EIO with the reason in client_error(). writer_fini is due in every case. */

int writer_begin(struct writer *w, struct client *c, bool replace) __attribute__((warn_unused_result));

/* Sends off the batch that was filled, so that the next one can be filled while Redis works. */
int writer_flush(struct writer *w) __attribute__((warn_unused_result));

/* Sends off the last batch and waits until all is written. */
int writer_finish(struct writer *w) __attribute__((warn_unused_result));

void writer_fini(struct writer *w);

#endif
