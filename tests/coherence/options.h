#ifndef COHERENCE_OPTIONS_H
#define COHERENCE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "coherence/weather.h"

/* What a run is made of. Times are in milliseconds. */
struct options {
    int seconds;
    int workers;
    int writers;
    int readers;
    int connections; /* of each reader */
    int channels;
    int changes;        /* a second, of all writers together; 0: as fast as it goes */
    int reads;          /* a second, of all readers together; 0: as fast as it goes */
    int page_permille;  /* of the requests that ask for a page */
    int bound_ms;       /* how old an answer may be */
    int stale_limit_ms; /* how long channeld may answer from memory without Redis */
    int fault_gap_ms;   /* between the end of a fault and the next */
    uint64_t seed;
    bool faults[FAULT_KINDS];
    bool verbose;
    const char *redis_server; /* the program, or NULL: the system's */
    const char *redis_args;   /* further arguments of it, separated by spaces, or NULL */
    const char *cache_size;   /* CHANNELD_CACHE_SIZE, or NULL: its default */
    const char *const *env;   /* further settings of channeld, NULL-terminated, or NULL */

    /* What makes a run fail, to show that it can. */
    bool expect_violations;
    const char *expected; /* kinds of violations that must all be among them, separated by commas, or NULL */
    bool ignore_invalidations; /* channeld's own test hook */
    int lie_ms;                /* a proxy answers from a memory that is so old; 0: none */
    int lose;                  /* one in so many changes is recorded, but not written; 0: none */
    bool tear;                 /* cards are written in two halves */
};

/* Reads the command line. Prints help or what is wrong and exits, when that is called for. */
void options_read(struct options *options, int argc, char **argv);

#endif
