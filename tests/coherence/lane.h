#ifndef COHERENCE_LANE_H
#define COHERENCE_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coherence/checks.h"

/*
 * A keep-alive connection to channeld with one batch of pipelined requests under way. The socket does not
 * block; its owner polls.
 */

enum { LANE_BATCH_MAX = 8, LANE_ETAG_SIZE = 80 };

struct lane {
    int fd; /* -1: closed */
    char *in;
    size_t in_from; /* what has been read and not been taken yet */
    size_t in_to;
    size_t capacity;
    int asked;
    int answered;
    int since_opened;
    struct question question[LANE_BATCH_MAX];

    /* An earlier answer about one channel, to be asked for again with its entity tag. */
    bool remembers;
    struct question memory;
    char etag[LANE_ETAG_SIZE];
};

/* Connects; 0 or a negative errno. */
int lane_open(struct lane *lane, int port);
void lane_close(struct lane *lane);

/* Sends a batch: `text` holds the `count` requests that lane->question tells of. False when it cannot be
 * sent. */
bool lane_send(struct lane *lane, const char *text, size_t length, int count);

/* Reads what there is; 1, or 0 when there is nothing, or a negative errno (-EPIPE at the end of the stream).
 */
int lane_fill(struct lane *lane);

struct lane_reply {
    struct reply reply; /* borrowed until the next lane_fill() */
    char etag[LANE_ETAG_SIZE];
};

/* Takes the next reply; 1, or 0 when it is not complete, or -EPROTO. */
int lane_take(struct lane *lane, struct lane_reply *out);

/*
 * The extent of the HTTP response at the beginning of the data: 1, or 0 when it is not complete, or -EPROTO.
 * It must have a Content-Length unless its status is 304.
 */
int lane_measure(const char *data, size_t length, int *status, size_t *head, size_t *body);

#endif
