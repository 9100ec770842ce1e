#ifndef COHERENCE_WRITER_H
#define COHERENCE_WRITER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "coherence/batch.h"
#include "coherence/clock.h"
#include "coherence/options.h"
#include "coherence/world.h"

/* A thread that changes what it owns of the catalogue, at a steady pace. */

enum change_kind { CHANGE_CARD, CHANGE_LINK, CHANGE_INDEX, CHANGE_CHANNEL, CHANGE_KEY, CHANGE_KINDS };

struct writer {
    const struct options *options;
    struct world *world;
    int number;
    uint64_t chance;
    int generation; /* of the catalogue that it has written */
    struct batch batch;
    pthread_t thread;
    _Atomic uint64_t changes[CHANGE_KINDS];
    uint64_t lost_batches;
};

/* The name of a kind of change. */
const char *writer_change_name(enum change_kind kind);

/* Starts it; it first writes all it owns. `redis_port` is of the server on 127.0.0.1. */
void writer_start(struct writer *writer, const struct options *options, struct world *world, int number,
                  int redis_port);

/* Waits for its end, once the world is finished. */
void writer_join(struct writer *writer);

/* ---- between writer.c, changes.c and commands.c ---- */

/* Adds one change of that kind to the batch, if it is possible. */
void writer_change(struct writer *writer, enum change_kind kind);

/* Writes all it owns; false when the connection was lost. */
bool writer_reload(struct writer *writer);

/* Each adds a command with its effect to the open change, and keeps the owner's state. */
void writer_put_link(struct writer *writer, int link, int channel);    /* channel -1: nobody's */
void writer_put_member(struct writer *writer, int channel, int score); /* score -1: no member */
void writer_put_key(struct writer *writer, int key, bool valid);

/* The next version of the card, with the link that the channel has now. */
void writer_put_card(struct writer *writer, int channel);

/* Takes the link out of the card, or the whole card away. */
void writer_cut_card(struct writer *writer, int channel, bool whole);

/*
 * A change of its own: the next version of the card in two halves, of which readers can see the first alone.
 * This is what a loader must not do.
 */
void writer_tear_card(struct writer *writer, int channel);

#endif
