#ifndef SOAK_MONITOR_H
#define SOAK_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coherence/run.h"

/* A thread that samples channeld every second, from outside: what it holds, and how fast it responds. */

struct sample {
    double resident_bytes;
    double descriptors; /* without connections of clients */
    double connections;
    double threads;
    uint64_t p99_us; /* of the former interval */
    bool calm;       /* that one, without a fault */
};

struct monitor {
    struct run *run;
    _Atomic uint64_t *faults; /* begun plus ended: odd during a fault */
    struct sample *samples;   /* owned */
    size_t count;
    size_t capacity;
    struct latency before; /* counts at the last sample, of all readers */
    uint64_t faults_before;
    int64_t sampled;
    atomic_bool finished;
    pthread_t thread;
};

/* Everything but `run` and `faults` is filled in. */
void monitor_start(struct monitor *monitor);
void monitor_stop(struct monitor *monitor);
void monitor_free(struct monitor *monitor);

/* What channeld holds now. */
struct sample monitor_read(struct server *server);

/*
 * Prints and judges the samples; true when all is well. Memory may have grown by a fiftieth and a few
 * megabytes between the second quarter of the time and the last (not judged under sanitizers, which keep what
 * was freed). In runs of at least 40 samples the median p99 of calm intervals may have trebled. Once all
 * clients have gone, descriptors and threads are as many as before the first came.
 */
bool monitor_judge(const struct monitor *monitor, const struct sample *before, const struct sample *after);

#endif
