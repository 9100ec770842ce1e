/*
 * A counter of operations that must end before a callback runs. Each calls wait_group_done() at its end; the
 * last one calls the function passed to wait_group_wait(), or frees the owner (wait_group_close()).
 */
#ifndef BASE_WAIT_GROUP_H
#define BASE_WAIT_GROUP_H

#include <assert.h>
#include <stddef.h>

struct wait_group {
    unsigned pending;
    void (*ended)(void *arg); /* NULL before wait_group_wait() */
    void *arg;
    void (*closed)(void *arg); /* called after that; NULL: nothing is */
    void *closed_arg;
};

#define WAIT_GROUP_INIT ((struct wait_group){0})

static inline void wait_group_add(struct wait_group *g, unsigned n)
{
    g->pending += n;
}

/* `ended` may free the group. */
static inline void wait_group_end(const struct wait_group *g)
{
    const struct wait_group kept = *g;
    kept.ended(kept.arg);
    if (kept.closed != NULL)
        kept.closed(kept.closed_arg);
}

static inline void wait_group_done(struct wait_group *g)
{
    assert(g->pending > 0);
    if (--g->pending == 0 && g->ended != NULL)
        wait_group_end(g);
}

/* The same as a callback, whose argument is the group. */
static inline void wait_group_on_done(void *arg)
{
    wait_group_done(arg);
}

/* Calls `ended` once nothing is pending, possibly before this returns. This or wait_group_close() may be
 * called once per group. */
static inline void wait_group_wait(struct wait_group *g, void (*ended)(void *arg), void *arg)
{
    assert(g->ended == NULL);
    g->ended = ended;
    g->arg = arg;
    if (g->pending == 0)
        wait_group_end(g);
}

/* As wait_group_wait(), for the end of the owner: `release` frees it, and then `closed` is called. */
static inline void wait_group_close(struct wait_group *g, void (*release)(void *owner), void *owner,
                                    void (*closed)(void *arg), void *arg)
{
    g->closed = closed;
    g->closed_arg = arg;
    wait_group_wait(g, release, owner);
}

#endif
