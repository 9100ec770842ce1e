#ifndef SOAK_WITNESS_H
#define SOAK_WITNESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "coherence/run.h"

/* A thread that looks at channeld every few seconds, from outside: what it holds, and how fast it answers. */

struct sample {
    double at; /* seconds since the beginning */
    double resident_bytes;
    double descriptors; /* that are not connections of clients */
    double connections;
    double threads;
    double cache_bytes;
    double reads_per_s; /* of the interval before, and so the rest */
    double changes_per_s;
    uint64_t failed; /* 500s */
    uint64_t p50_us;
    uint64_t p99_us;
    uint64_t p999_us;
    bool calm; /* no fault was on */
};

struct witness {
    struct run *run;
    int interval_s;
    FILE *curve;              /* CSV, or NULL */
    _Atomic uint64_t *faults; /* begun and ended, together: odd while one is on */
    struct sample *samples;   /* owned */
    size_t count;
    size_t capacity;
    int64_t began;
    struct latency before; /* counts at the last sample, of all readers */
    uint64_t reads_before;
    uint64_t changes_before;
    uint64_t failed_before;
    uint64_t faults_before;
    int64_t sampled;
    atomic_bool finished;
    pthread_t thread;
};

/* Everything but `run`, `interval_s`, `curve` and `faults` is filled in. */
void witness_start(struct witness *witness);
void witness_stop(struct witness *witness);
void witness_free(struct witness *witness);

/* What channeld holds now; the rates are left at 0. */
struct sample witness_look(struct server *server);

#endif
