/*
 * A counter of operations that must end before their owner is freed. Each calls wait_group_done() at its end;
 * behind wait_group_close() the last one frees the owner. Empty if all is zero.
 */
#ifndef BASE_WAIT_GROUP_H
#define BASE_WAIT_GROUP_H

#include <assert.h>
#include <stddef.h>

struct wait_group {
    unsigned pending;
    void (*release)(void *owner); /* NULL before wait_group_close() */
    void *owner;
    void (*closed)(void *arg);
    void *arg;
};

static inline void wait_group_add(struct wait_group *g, unsigned n)
{
    g->pending += n;
}

static inline void wait_group_done(struct wait_group *g)
{
    assert(g->pending > 0);
    if (--g->pending > 0 || g->release == NULL)
        return;
    const struct wait_group kept = *g; /* the group may be a member of the owner */
    kept.release(kept.owner);
    kept.closed(kept.arg);
}

static inline void wait_group_on_done(void *arg)
{
    wait_group_done(arg);
}

/* Once nothing is pending, possibly before this returns, `release` frees the owner, and `closed` is called.
 * Once per group. */
static inline void wait_group_close(struct wait_group *g, void (*release)(void *owner), void *owner,
                                    void (*closed)(void *arg), void *arg)
{
    assert(g->release == NULL);
    g->release = release;
    g->owner = owner;
    g->closed = closed;
    g->arg = arg;
    g->pending++; /* this call, so that there is an operation that is the last */
    wait_group_done(g);
}

#endif
