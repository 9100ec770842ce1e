/*
 * SIEVE eviction (Zhang et al., NSDI 2024): a queue in order of arrival, a mark that a hit sets, and a hand
 * that walks from the oldest to the newest, taking marks away and evicting the first it finds without one. A
 * hit moves nothing.
 *
 * Where all of a large queue is marked, one eviction would walk over all of it. So the steps of the hand are
 * bounded: each eviction grants SIEVE_STEPS of them, and what is not needed is saved for later ones, up to
 * SIEVE_STEPS_MAX. When the saving is used up, the entry under the hand is evicted, marked or not: until the
 * run of marked entries is over the policy is then FIFO with one entry in SIEVE_STEPS. In the long run an
 * eviction takes fewer steps than it grants; the bound is felt only where runs of marked entries are longer
 * than SIEVE_STEPS_MAX, and costs a quarter of a point of the hit ratio there (bench/hitratio).
 */
#ifndef CACHE_SIEVE_H
#define CACHE_SIEVE_H

#include "base/list.h"

enum { SIEVE_STEPS = 16, SIEVE_STEPS_MAX = 16 * 1024 };

/* To be embedded in what can be evicted. */
struct sieve_node {
    struct list link;
    bool visited;
};

struct sieve {
    struct list queue;       /* oldest first */
    struct sieve_node *hand; /* where the next search begins; NULL: at the oldest */
    int steps;               /* saved, for passing over marked entries */
};

void sieve_init(struct sieve *s);

/* Adds `n` as the newest, unmarked. */
void sieve_add(struct sieve *s, struct sieve_node *n);

void sieve_remove(struct sieve *s, struct sieve_node *n);

/* The node to evict, still in the queue; NULL when the queue is empty. */
struct sieve_node *sieve_victim(struct sieve *s);

/* Moves the links of all nodes to the end of `to`; the queue is empty afterwards. */
void sieve_take_all(struct sieve *s, struct list *to);

static inline void sieve_hit(struct sieve_node *n)
{
    n->visited = true;
}

#endif
