/* SIEVE; see sieve.h. */
#include "cache/sieve.h"

void sieve_init(struct sieve *s)
{
    list_init(&s->queue);
    s->hand = NULL;
    s->steps = SIEVE_STEPS_MAX;
}

void sieve_add(struct sieve *s, struct sieve_node *n)
{
    n->visited = false;
    list_append(&s->queue, &n->link);
}

/* The one that arrived next; NULL behind the newest, from where the hand starts over at the oldest. */
static struct sieve_node *newer(struct sieve *s, struct sieve_node *n)
{
    struct list *next = n->link.next;
    return next == &s->queue ? NULL : LIST_ENTRY(next, struct sieve_node, link);
}

void sieve_remove(struct sieve *s, struct sieve_node *n)
{
    if (s->hand == n)
        s->hand = newer(s, n);
    list_remove(&n->link);
}

struct sieve_node *sieve_victim(struct sieve *s)
{
    if (list_empty(&s->queue))
        return NULL;
    s->steps += SIEVE_STEPS;
    if (s->steps > SIEVE_STEPS_MAX)
        s->steps = SIEVE_STEPS_MAX;
    for (;; s->steps--) {
        struct sieve_node *n = s->hand;
        if (n == NULL)
            n = LIST_ENTRY(s->queue.next, struct sieve_node, link);
        s->hand = n;
        if (!n->visited || s->steps == 0)
            return n;
        n->visited = false;
        s->hand = newer(s, n);
    }
}

void sieve_take_all(struct sieve *s, struct list *to)
{
    list_splice(to, &s->queue);
    s->hand = NULL;
}
