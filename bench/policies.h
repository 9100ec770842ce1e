/*
 * Eviction policies, simulated on a cache that counts objects and stores nothing.
 *
 * SIEVE is channeld's own (src/base/sieve.h), used as src/cache uses it; the others are for comparison.
 */
#pragma once

#include "base/sieve.h"
#include "trace.h"

struct object {
    struct sieve_node node; /* its link serves LRU and FIFO too */
    bool cached;
    uint32_t next_use, heap_at; /* for the optimum only */
};

struct simulation {
    const struct trace *trace;
    uint32_t capacity, cached; /* objects */
    struct object *object;     /* all objects, by their numbers */
    struct sieve sieve;
    struct list queue;    /* LRU: by last use; FIFO: by insertion; the next victim first */
    struct object **heap; /* the optimum: the cached objects, the farthest next use first */
};

struct policy {
    const char *name;
    /* Simulates the trace's request number `at`; true on a hit. */
    bool (*access)(struct simulation *s, uint32_t at);
};

/*
 * Belady's optimum: evicts the object whose next use is farthest in the future, which may be the new one. No
 * other policy has more hits on the same trace from an empty cache, not even one that may reject new objects.
 */
extern const struct policy policy_optimum;

extern const struct policy policy_sieve;
extern const struct policy policy_lru;
extern const struct policy policy_fifo;

/*
 * Keeps the most popular objects once they were requested, and nothing else: with independent requests the
 * best that is possible without knowing the future.
 */
extern const struct policy policy_popular;

void simulation_init(struct simulation *s, const struct trace *trace, uint32_t capacity);
void simulation_fini(struct simulation *s);
