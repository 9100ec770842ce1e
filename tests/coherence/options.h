#ifndef COHERENCE_OPTIONS_H
#define COHERENCE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "coherence/fault_schedule.h"

/* The options of a run. Times are in milliseconds. */
struct options {
    int seconds;
    int workers;
    int writers;
    int readers;
    int connections; /* per reader */
    int channels;
    int changes;        /* per second, of all writers together; 0: as fast as possible */
    int reads;          /* per second, of all readers together; 0: as fast as possible */
    int page_permille;  /* of the requests are for pages */
    int bound_ms;       /* how old a response may be */
    int stale_limit_ms; /* how long channeld may answer from its cache without Redis */
    int fault_gap_ms;   /* between the end of a fault and the next */
    bool cluster;       /* of six nodes, in place of one server; without a replica */
    bool replica;       /* between the writers' server and channeld: see replica.h */
    bool tls;           /* between channeld and the one server; without a replica */
    uint64_t seed;
    bool faults[FAULT_KINDS];
    const char *redis_server; /* the program, or NULL: the system's */
    const char *redis_args;   /* further arguments of it, separated by spaces, or NULL */
    const char *cache_size;   /* CHANNELD_CACHE_SIZE, or NULL: its default */
    const char *cache_ttl;    /* CHANNELD_CACHE_TTL, or NULL: its default */
    const char *tracking;     /* CHANNELD_TRACKING, or NULL: its default */
    const char *const *env;   /* further settings of channeld, NULL-terminated, or NULL */

    /* What makes a run fail, to show that violations are noticed. */
    bool expect_violations;
    const char *expected; /* kinds of violations that must all be among them, separated by commas, or NULL */
    int drop;             /* one in so many changes is recorded, but not written; 0: none */
    bool torn_writes;     /* cards are written in two halves */
    bool hide_link;       /* channeld cannot see whether its replica has a master */
    bool misdirect_links; /* some requests by link are for another one than is checked */
};

/* The defaults, and then what the arguments set. The program ends where these are wrong, or ask for help. */
void options_read(struct options *options, int argc, char **argv);

#endif
