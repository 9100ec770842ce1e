#ifndef COHERENCE_READER_H
#define COHERENCE_READER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coherence/checks.h"
#include "coherence/lane.h"
#include "coherence/latency.h"
#include "coherence/options.h"

/* A thread that asks over several connections as fast as it gets answers, and has each judged. */

struct reader {
    const struct options *options;
    struct checker checker;
    int port; /* of channeld, or of what stands before it */
    uint64_t chance;
    int poller;
    struct lane *lanes;
    int first;   /* of the lanes, to be put to work */
    int64_t due; /* when the next batch may be sent, if there is a pace */
    struct tally tally;
    struct latency latency;
    pthread_t thread;
    atomic_bool *finished;
};

/* Starts it; `finished` tells it to end. */
void reader_start(struct reader *reader, const struct options *options, const struct checker *checker,
                  int number, int port, atomic_bool *finished);

/* Waits for its end, which comes when its last requests have been answered. */
void reader_join(struct reader *reader);

/* ---- between reader.c and questions.c ---- */

/* Writes the next batch of requests and lane->question; returns the length of the text, and how many they
 * are. */
size_t reader_compose(struct reader *reader, struct lane *lane, char *text, size_t size, int *count);

#endif
