/*
 * Removes what a replacing load has left behind: cards that the index lacks, and link keys whose channel is
 * gone or has another link.
 */
#ifndef CTL_PRUNE_H
#define CTL_PRUNE_H

#include "ctl/lock.h"

struct prune {
    int64_t cards; /* how many were removed */
    int64_t links;
};

/* Returns 0, or -EIO with the reason in client_error(); *out counts what was removed up to then. */
int prune_run(struct client *c, struct lock *lock, struct prune *out) __attribute__((warn_unused_result));

#endif
