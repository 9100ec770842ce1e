/*
 * One load at a time: a lock in Redis, the string <prefix>loader, whose value says who holds it.
 *
 * It has a time to live, LOCK_LEASE_MS, which its holder renews: after a load that was killed it goes by
 * itself. A holder that stood still for longer may have lost it: the next renewal tells.
 */
#ifndef CTL_LOCK_H
#define CTL_LOCK_H

#include "ctl/client.h"

enum { LOCK_LEASE_MS = 15000, LOCK_RENEWAL_MS = 5000, LOCK_VALUE_MAX = 160 };

struct lock {
    struct client *client;
    bool held;
    bool renewing; /* the replies to a renewal are owed */
    uint64_t sent_ms, renewed_ms;
    size_t value_len;
    char value[LOCK_VALUE_MAX]; /* this holder's, not NUL-terminated */
};

/*
 * Takes the lock. While another load holds it this waits, at most LOCK_LEASE_MS, until it is released or
 * expires; once it is renewed, its holder is alive, and that is a failure. Returns 0, -EINTR after a signal,
 * or -EIO with the reason in client_error(). lock_release is due in every case.
 */
int lock_acquire(struct lock *l, struct client *c) __attribute__((warn_unused_result));

/* True when the lock should be renewed. */
bool lock_is_due(const struct lock *l);

/* Queues the renewal, if it is due; lock_receive_renewal() is due for it. */
void lock_send_renewal(struct lock *l);

/* Receives what lock_send_renewal() has queued. Returns 0, or -EIO when another load has the lock. */
int lock_receive_renewal(struct lock *l) __attribute__((warn_unused_result));

/* Both at once, where no reply is owed. */
int lock_renew(struct lock *l) __attribute__((warn_unused_result));

/* Watches the lock, so that a transaction fails when it is lost before. Returns 0, or -EIO when it is. */
int lock_watch(struct lock *l) __attribute__((warn_unused_result));

/* Gives the lock back, over a new connection after a failure. */
void lock_release(struct lock *l, bool failed);

#endif
