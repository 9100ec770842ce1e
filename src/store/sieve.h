/*
 * SIEVE eviction (Zhang et al., NSDI 2024): a queue in order of arrival, a mark that a hit sets, and a hand
 * that walks from the oldest to the newest, taking marks away and evicting the first it finds without one. A
 * hit moves nothing.
 */
#ifndef STORE_SIEVE_H
#define STORE_SIEVE_H

#include "base/list.h"

/* To be embedded in what can be evicted. */
struct sieve_node {
    struct list link;
    bool visited;
};

struct sieve {
    struct list queue;       /* oldest first */
    struct sieve_node *hand; /* where the next search begins; NULL: at the oldest */
};

void sieve_init(struct sieve *s);

/* Adds `n` as the newest, unmarked. */
void sieve_add(struct sieve *s, struct sieve_node *n);

void sieve_remove(struct sieve *s, struct sieve_node *n);

/* The node to evict, still in the queue; NULL when the queue is empty. */
struct sieve_node *sieve_victim(struct sieve *s);

static inline void sieve_hit(struct sieve_node *n)
{
    n->visited = true;
}

#endif
