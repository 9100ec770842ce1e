#ifndef COHERENCE_LIAR_H
#define COHERENCE_LIAR_H

/*
 * A caching proxy before channeld that answers from a memory of up to so many milliseconds, as a careless
 * cache would: to show that the checks notice it.
 */

struct liar;

/* Starts it on a port of its own; owned. */
struct liar *liar_new(int target_port, int lie_ms);
int liar_port(const struct liar *liar);

/* Its clients must have closed their connections. */
void liar_free(struct liar *liar);

#endif
