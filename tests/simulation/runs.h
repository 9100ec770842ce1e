/*
 * The command line of a simulation:
 *
 *   [--seconds N] [--from SEED] [--count N] [--brief]    many seeds, until one fails
 *   --repeat [--from SEED] [--count N]                   each twice, which must be the same
 *   --seed SEED [--trace] [--faults MASK] [--length S]   one, with each event if wanted
 *
 *   --cases FILE                                         the cases, of which FILE names those that fail
 *
 * All take [--topology NAME], if there are several, and [--case NAME].
 *
 * With many seeds each runs in its own process. So nothing of one run reaches the next, and a crash is a
 * failure. A seed that fails is repeated with fewer kinds of faults and for a shorter time. The command that
 * still shows the failure is printed.
 */
#ifndef SIMULATION_RUNS_H
#define SIMULATION_RUNS_H

#include <stddef.h>
#include <stdint.h>

struct run {
    uint64_t seed;
    unsigned faults; /* a set of kinds */
    unsigned length_s;
    int topology;   /* -1: the seed chooses */
    int which_case; /* -1: none */
};

struct runs {
    const char *name;
    unsigned kinds, length_s;      /* of faults; of a run */
    const char *const *topologies; /* their names, and NULL */
    void (*simulate)(const struct run *r);

    /* Prints what the seeds have done, in memory that the processes share, in these seconds of a processor.
     */
    void (*summarise)(const void *totals, double used_s);
    size_t totals_size;
    void **totals;
    const char *(*case_name)(unsigned number); /* NULL behind the last one; NULL: there are no cases */
};

int runs_main(int argc, char **argv, const struct runs *which);

#endif
