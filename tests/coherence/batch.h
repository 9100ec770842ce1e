#ifndef COHERENCE_BATCH_H
#define COHERENCE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "coherence/history.h"

/*
 * Changes on their way to Redis, pipelined over one connection. Each is one command or one transaction; what
 * it changes is issued in the histories before anything is sent, and acknowledged when its last reply has
 * come.
 */

enum { BATCH_CHANGES = 32, BATCH_EFFECTS = BATCH_CHANGES * 8 };

struct batch {
    int port;
    struct redisContext *redis; /* NULL: not connected */
    bool lost;                  /* with the connection: the changes of this batch may have happened or not */
    bool losing;                /* the change that is open is recorded, but not sent */
    bool transaction;
    int changes;
    int replies[BATCH_CHANGES];     /* of each change */
    int effects_end[BATCH_CHANGES]; /* of each change, in the list below */
    int effects;
    struct {
        struct history *history;
        int64_t number;
    } effect[BATCH_EFFECTS];
    char error[160]; /* what Redis refused, which is a mistake of this test: "" as long as it did not */
};

void batch_init(struct batch *batch, int port);
void batch_fini(struct batch *batch);

/* Connects unless it is connected; false when that fails. */
bool batch_connect(struct batch *batch);

/* The commands and effects in between are one change; `lost` ones are not sent. */
void batch_open(struct batch *batch, bool transaction, bool lost);
void batch_close(struct batch *batch);

/* An effect of the change: returns the number that it has in the history. */
int64_t batch_effect(struct batch *batch, struct history *history, int64_t value);

/* An effect that has been issued already. */
void batch_adopt(struct batch *batch, struct history *history, int64_t number);

void batch_command(struct batch *batch, int argc, const char **argv);

/* True when there is room for another change. */
bool batch_has_room(const struct batch *batch);

/* Sends what was added and takes the replies; false when the connection was lost. The batch is empty then. */
bool batch_run(struct batch *batch);

#endif
