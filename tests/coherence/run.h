#ifndef COHERENCE_RUN_H
#define COHERENCE_RUN_H

#include <stdatomic.h>

#include "coherence/faults.h"
#include "coherence/liar.h"
#include "coherence/reader.h"
#include "coherence/writer.h"

/* One run: Redis and channeld, writers that change the one, readers that ask the other and judge. */

struct run {
    struct options options;
    struct stage stage;
    struct liar *liar;
    struct writer writer[WRITERS_MAX];
    struct reader reader[READERS_MAX];
    atomic_bool readers_finished;
};

/* Starts the programs and the writers that run->options asks for; then the readers. */
void run_start(struct run *run);
void run_start_readers(struct run *run);

/* Ends the writers and then the readers, who look on for a moment when all is written and still. */
void run_settle(struct run *run);

/* Ends the programs. */
void run_stop(struct run *run);

/* Changes made, answers received, and how many of these were 500s. Any thread, at any time. */
uint64_t run_changes(struct run *run);
uint64_t run_reads(struct run *run, uint64_t *failed);

/* Prints what was counted, once it has stopped. */
void run_summary(struct run *run);

/* Frees what it holds, but not *run. */
void run_fini(struct run *run);

#endif
