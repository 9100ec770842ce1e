/*
 * Counts what has to end before something else may: handles that are closing, connections that finish,
 * look-ups that cannot be cancelled. What is counted says wait_group_done() when it has ended; the last one
 * calls what wait_group_wait() was given.
 *
 * To be embedded. Of one thread.
 */
#ifndef BASE_WAIT_GROUP_H
#define BASE_WAIT_GROUP_H

#include <assert.h>
#include <stddef.h>

struct wait_group {
    unsigned pending;
    void (*ended)(void *arg); /* NULL: nobody waits yet */
    void *arg;
};

#define WAIT_GROUP_INIT ((struct wait_group){0})

/* `n` more have to end. */
static inline void wait_group_add(struct wait_group *g, unsigned n)
{
    g->pending += n;
}

/* Calls what waits, if this was the last: the group may be gone when it returns. */
static inline void wait_group_done(struct wait_group *g)
{
    assert(g->pending > 0);
    if (--g->pending == 0 && g->ended != NULL)
        g->ended(g->arg);
}

/* `ended` is called once nothing is pending any more, possibly before this returns. One call per group. */
static inline void wait_group_wait(struct wait_group *g, void (*ended)(void *arg), void *arg)
{
    assert(g->ended == NULL);
    g->ended = ended;
    g->arg = arg;
    if (g->pending == 0)
        ended(arg);
}

#endif
