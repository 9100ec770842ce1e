/*
 * Ways to choose what a full cache forgets, over a cache that counts objects and holds nothing.
 *
 * SIEVE is channeld's own, linked from src/cache/sieve.c and used as src/cache/entries.c uses it; the others
 * are here for comparison.
 */
#pragma once

#include "cache/sieve.h"
#include "stream.h"

struct object {
    struct sieve_node node; /* its link serves LRU and FIFO too */
    bool held;
    uint32_t next_use, heap_at; /* of the optimum only */
};

struct simulation {
    const struct stream *stream;
    uint32_t capacity, held; /* objects */
    struct object *object;   /* all there are, by their numbers */
    struct sieve sieve;
    struct list queue;    /* LRU: by last use; FIFO: by arrival; the one to go first */
    struct object **heap; /* the optimum: what is held, the farthest next use first */
};

struct policy {
    const char *name;
    /* Lets the cache answer the stream's request number `at`; true when it held the object. */
    bool (*ask)(struct simulation *s, uint32_t at);
};

/*
 * The best that is possible on a stream, Belady's: forgets what is next used farthest in the future, be it
 * the newcomer itself. No other policy has more hits on the same stream from an empty cache, not even one
 * that may refuse newcomers.
 */
extern const struct policy policy_optimum;

extern const struct policy policy_sieve;
extern const struct policy policy_lru;
extern const struct policy policy_fifo;

/*
 * Keeps the most popular objects once they were asked for, and nothing else: where each request is drawn on
 * its own, the best that is possible without seeing the future.
 */
extern const struct policy policy_popular;

void simulation_init(struct simulation *s, const struct stream *stream, uint32_t capacity);
void simulation_fini(struct simulation *s);
