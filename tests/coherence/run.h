#ifndef COHERENCE_RUN_H
#define COHERENCE_RUN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "coherence/fault_schedule.h"
#include "coherence/model.h"
#include "coherence/options.h"
#include "coherence/reader.h"
#include "coherence/replica.h"
#include "coherence/report.h"
#include "coherence/writer.h"
#include "support/certs.h"
#include "support/cluster.h"
#include "support/redis.h"
#include "support/secret.h"
#include "support/server.h"

/*
 * One run: Redis and channeld, writers that change Redis, readers that send requests to channeld and check
 * the responses, and faults.
 */
struct run {
    struct options options;
    struct model *model;
    struct fault_schedule *schedule;
    struct report *report;
    struct redis redis; /* that the writers change */
    struct replica replica;
    struct cluster cluster; /* in their place */
    int owner;              /* its node that has the slot */
    bool moved;             /* the slot, an odd number of times */
    struct tempdir dir;     /* of what follows, with TLS */
    struct certs_pair authority, certificate;
    int tls_port;            /* 0: without TLS */
    struct secret secret;    /* channeld's password */
    int password;            /* which of the two it is */
    bool acknowledges_early; /* before the invalidations of the event loop iteration are queued */
    struct server server;
    struct writer writer[WRITERS_MAX];
    struct reader reader[READERS_MAX];
    atomic_bool readers_finished;
};

/* Starts the programs and the writers that run->options asks for; then the readers. */
void run_start(struct run *run);
void run_start_readers(struct run *run);

/*
 * Causes a fault, undoes it, and waits until every worker is connected again. To be called from the thread
 * that started the programs.
 */
void run_fault(struct run *run, enum fault_kind kind);

/* Ends the writers, and the readers a moment after all is written. */
void run_settle(struct run *run);

/* Ends the programs. */
void run_stop(struct run *run);

/* Changes made, responses received, and how many of these were 500s. Any thread, at any time. */
uint64_t run_changes(struct run *run);
uint64_t run_reads(struct run *run, uint64_t *failed);

/* Prints the counters, once it has stopped. */
void run_summary(struct run *run);

/* Frees what it holds, but not *run. */
void run_fini(struct run *run);

#endif
