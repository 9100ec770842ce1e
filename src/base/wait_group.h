/*
 * A counter of operations that must end before a callback runs: handles that are closing, connections that
 * finish, look-ups that cannot be cancelled. Each calls wait_group_done() at its end; the last one calls the
 * function passed to wait_group_wait().
 *
 * Embedded by its owner; for one thread.
 */
#ifndef BASE_WAIT_GROUP_H
#define BASE_WAIT_GROUP_H

#include <assert.h>
#include <stddef.h>

struct wait_group {
    unsigned pending;
    void (*ended)(void *arg); /* NULL before wait_group_wait() */
    void *arg;
};

#define WAIT_GROUP_INIT ((struct wait_group){0})

/* Adds `n` operations. */
static inline void wait_group_add(struct wait_group *g, unsigned n)
{
    g->pending += n;
}

/* One operation has ended. The last one calls `ended`, which may free the group. */
static inline void wait_group_done(struct wait_group *g)
{
    assert(g->pending > 0);
    if (--g->pending == 0 && g->ended != NULL)
        g->ended(g->arg);
}

/* The same as a callback, whose argument is the group. */
static inline void wait_group_on_done(void *arg)
{
    wait_group_done(arg);
}

/* Calls `ended` once nothing is pending, possibly before this returns. May be called once per group. */
static inline void wait_group_wait(struct wait_group *g, void (*ended)(void *arg), void *arg)
{
    assert(g->ended == NULL);
    g->ended = ended;
    g->arg = arg;
    if (g->pending == 0)
        ended(arg);
}

#endif
