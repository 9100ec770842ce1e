/*
 * Writes the channels of a load to Redis in batches: reads what Redis holds, skips channels that have not
 * changed (an identical write would remove them from every cache all the same), and writes the others in one
 * transaction: card, link keys, index. All transactions are the lock's (lock.h), which is watched since
 * before the reads: nobody else can have written in between.
 *
 * A replacing load lists its channels in the next index, a key of its own; writer_replace() then makes that
 * the index in one step.
 *
 * A link belongs to the first channel of a load that has it; a line that gives it to a second channel is
 * refused, whichever of the two Redis had before.
 */
#ifndef CTL_WRITER_H
#define CTL_WRITER_H

#include "ctl/client.h"
#include "ctl/lock.h"
#include "ctl/terminal.h"
#include "model/channel.h"

/* A channel; a value that is null or missing is absent from the row. */
struct card {
    int64_t id;
    struct channel_row row;
};

/* What Redis has confirmed. */
struct writer_counts {
    int64_t written;       /* channels */
    int64_t unchanged;     /* channels */
    int64_t refused;       /* channels; each is in the report */
    int64_t repeated;      /* lines of a replacing load about a channel of an earlier line */
    int64_t links_moved;   /* links that another channel had before */
    int64_t ttls_removed;  /* channels that had one */
    int64_t cards_removed; /* by writer_replace() */
    int64_t last_line;     /* of the file; 0: none */
    bool is_sent;          /* something was sent, confirmed or not */
    bool replaced;         /* the next index has become the index */
    bool index_ttl_removed;
    bool field_ttls_denied; /* TTLs of hash fields could not be checked */
};

/* All borrowed. */
struct writer_setup {
    struct client *client;
    struct lock *lock; /* held; the writer renews it */
    const char *file;  /* its name, for messages */
    struct report *report;
    bool replace;
    struct writer_counts *counts; /* zeroed; kept up to date */
    struct progress *progress;    /* of writer_replace() */
};

struct writer;

/* Owned; NULL when out of memory. */
struct writer *writer_new(const struct writer_setup *setup);
void writer_free(struct writer *w);

/* All below return 0, or -EIO with the reason in client_error(). */

/* Checks the index and what this Redis supports. To be called first. */
int writer_begin(struct writer *w) __attribute__((warn_unused_result));

/* Adds the card of a line of at most WRITER_CARD_BYTES_MAX bytes; its texts are copied. */
enum { WRITER_CARD_BYTES_MAX = 2 * 1024 * 1024 };
int writer_add(struct writer *w, const struct card *card, int64_t line) __attribute__((warn_unused_result));

/* Sends what was added, without waiting until Redis has written it. Renews the lock. */
int writer_flush(struct writer *w) __attribute__((warn_unused_result));

/* Sends what was added, and waits until Redis has confirmed all of it. */
int writer_finish(struct writer *w) __attribute__((warn_unused_result));

/* Makes the next index the index, then removes cards and link keys of channels that are not in it. */
int writer_replace(struct writer *w) __attribute__((warn_unused_result));

/* Instead: appends to the index what only the next index has, in its order, and drops the next index. */
int writer_merge(struct writer *w) __attribute__((warn_unused_result));

#endif
