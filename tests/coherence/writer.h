#ifndef COHERENCE_WRITER_H
#define COHERENCE_WRITER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coherence/model.h"
#include "coherence/options.h"
#include "coherence/replica.h"
#include "coherence/slot_client.h"

/* A thread that changes its part of the catalogue, at a steady rate. */

enum change_kind { CHANGE_CARD, CHANGE_LINK, CHANGE_INDEX, CHANGE_CHANNEL, CHANGE_KEY, CHANGE_KINDS };

enum { BATCH_CHANGES = 32, BATCH_EFFECTS = BATCH_CHANGES * 8 };

/*
 * Changes on their way to Redis, pipelined over one connection. Each is one command or one transaction. Its
 * changes are issued in the histories before anything is sent. They are acknowledged when the last reply has
 * arrived, or when the replica that channeld reads has applied all of them. In a cluster all are acknowledged
 * when the node of the slot has executed the last.
 */
struct batch {
    int port;
    int source_port; /* the replica's; 0: none */
    bool in_cluster;
    struct slot_client slot;
    struct slot_change slot_change[BATCH_CHANGES]; /* in a cluster */
    const atomic_bool *durable;
    const atomic_bool *redis_up;
    struct redisContext *redis;  /* NULL: not connected */
    struct redisContext *source; /* the same */
    bool lost;                   /* with the connection: the changes of this batch may have happened or not */
    bool dropping;               /* the open change is recorded, but not sent */
    bool transaction;
    int changes;
    int replies[BATCH_CHANGES];     /* of each change */
    int effects_end[BATCH_CHANGES]; /* of each change, in the list below */
    int effects;
    struct {
        struct history *history;
        int64_t number;
    } effect[BATCH_EFFECTS];
    char error[160]; /* an error reply, which is a mistake of this test; "" when there was none */
};

struct writer {
    const struct options *options;
    struct model *model;
    const char *prefix; /* of all keys, borrowed */
    int number;
    uint64_t random;
    int generation; /* of the catalogue that it has written */
    struct batch batch;
    pthread_t thread;
    _Atomic uint64_t changes[CHANGE_KINDS];
};

/* The name of a kind of change. */
const char *writer_change_name(enum change_kind kind);

/* Where the catalogue is. The ports are on 127.0.0.1. */
struct writer_place {
    const char *prefix; /* of all keys, borrowed */
    int port;           /* of the master, unless it is in a cluster */
    int source_port;    /* of the replica that channeld reads; 0: none */
    int nodes;          /* of the cluster; 0: it is in none */
    int node_port[SLOT_NODES_MAX];
};

/* Starts it; it first writes all it owns. */
void writer_start(struct writer *writer, const struct options *options, struct model *model, int number,
                  const struct writer_place *place);

/* Waits for its end, once the model is finished. */
void writer_join(struct writer *writer);

#endif
