/*
 * Ensures that only one load runs at a time: a lock in Redis, the string <prefix>loader, whose value names
 * its holder. It expires after LOCK_LEASE_MS, and its holder renews it.
 *
 * A load writes only by the transactions of this module, except for the release in a full Redis. Redis
 * executes one only if the load still holds the lock at that moment. So a load cannot write after it has lost
 * its lock, even if the process was suspended or the network delays commands. A lost lock is not taken again:
 * the load fails. Every failure is the client's, and sticky.
 *
 * While the lock is held it is watched. So what is read before a transaction was read under the lock.
 */
#ifndef CTL_LOCK_H
#define CTL_LOCK_H

#include "ctl/client.h"
#include "ctl/terminal.h"

enum { LOCK_LEASE_MS = 15000, LOCK_VALUE_MAX = 160 };

struct lock {
    struct client *client;
    bool held;                  /* the load held the lock by the last reply */
    char holder[EXCERPT_MAX];   /* the one in the last reply; empty: none */
    uint64_t renewed_ms;        /* 0: not yet */
    char value[LOCK_VALUE_MAX]; /* this holder's */
};

/*
 * Takes the lock. From then on signals are recorded: none may leave it behind. While another load holds the
 * lock this waits, at most LOCK_LEASE_MS, until it is released or expires. If the lock is renewed meanwhile
 * its holder is alive, and this fails. Call lock_release in every case. Returns client_status().
 */
int lock_acquire(struct lock *l, struct client *c) __attribute__((warn_unused_result));

/*
 * Ends the work with the lock, also after a failure. Returns 0, or -EIO after printing the reason: the client
 * has failed, or the lock was lost before it was released; then another load may have changed what this one
 * has written.
 */
int lock_release(struct lock *l) __attribute__((warn_unused_result));

/* Renews the lock, if it is held and it is time: by a transaction of its own. No reply may be pending. */
void lock_keep(struct lock *l);

/* Begins a transaction; its commands follow. */
void lock_begin(struct lock *l);

/* Executes it, and renews the lock if it is time. `integers` gets those that the first `count` commands
 * replied with. Returns 0, or a negative errno: nothing was executed, or the outcome is unknown. */
int lock_commit(struct lock *l, int64_t *integers, size_t count);

#endif
