/*
 * SIEVE eviction (Zhang et al., NSDI 2024): a queue in order of arrival, a mark that a hit sets, and a hand
 * that walks from the oldest node to the newest, clears marks and evicts the first node without one.
 *
 * Where all of a large queue is marked, one eviction would walk over all of it. So each eviction grants the
 * hand SIEVE_STEPS, and unused ones are saved, up to SIEVE_STEPS_MAX. When none are left, the node under the
 * hand is evicted, marked or not. That costs a quarter of a point of the hit ratio where runs of marked nodes
 * are longer (bench/hitratio).
 */
#ifndef BASE_SIEVE_H
#define BASE_SIEVE_H

#include "base/list.h"

enum { SIEVE_STEPS = 16, SIEVE_STEPS_MAX = 16 * 1024 };

/* Embedded in each entry. */
struct sieve_node {
    struct list link;
    bool visited;
};

struct sieve {
    struct list queue; /* the oldest first */
    struct list *hand; /* &queue: at the oldest */
    int steps;         /* saved, for passing over marked nodes */
};

static inline void sieve_init(struct sieve *s)
{
    list_init(&s->queue);
    s->hand = &s->queue;
    s->steps = SIEVE_STEPS_MAX;
}

/* Adds `n` as the newest, unmarked. */
static inline void sieve_add(struct sieve *s, struct sieve_node *n)
{
    n->visited = false;
    list_append(&s->queue, &n->link);
}

static inline void sieve_hit(struct sieve_node *n)
{
    n->visited = true;
}

static inline void sieve_remove(struct sieve *s, struct sieve_node *n)
{
    if (s->hand == &n->link)
        s->hand = n->link.next;
    list_remove(&n->link);
}

/* The node to evict, still in the queue; NULL when the queue is empty. */
static inline struct sieve_node *sieve_victim(struct sieve *s)
{
    if (list_empty(&s->queue))
        return NULL;
    s->steps += SIEVE_STEPS;
    if (s->steps > SIEVE_STEPS_MAX)
        s->steps = SIEVE_STEPS_MAX;
    for (;; s->hand = s->hand->next) {
        if (s->hand == &s->queue)
            s->hand = s->queue.next;
        struct sieve_node *n = LIST_ENTRY(s->hand, struct sieve_node, link);
        if (!n->visited || s->steps == 0)
            return n;
        n->visited = false;
        s->steps--;
    }
}

/* Moves the links of all nodes to the end of `to`; the queue is empty afterwards. */
static inline void sieve_drain(struct sieve *s, struct list *to)
{
    list_splice(to, &s->queue);
    s->hand = &s->queue;
}

#endif
