/*
 * Ensures that only one load runs at a time: a lock in Redis, the string <prefix>loader, whose value names
 * its holder.
 *
 * The lock expires after LOCK_LEASE_MS and its holder renews it: a load that was killed leaves it to expire.
 * A holder that was suspended for longer may have lost it, and its next renewal fails.
 */
#ifndef CTL_LOCK_H
#define CTL_LOCK_H

#include "ctl/client.h"

enum { LOCK_LEASE_MS = 15000, LOCK_RENEWAL_MS = 5000, LOCK_VALUE_MAX = 160 };

struct lock {
    struct client *client;
    bool held;
    bool renewing; /* replies to a renewal are due */
    uint64_t sent_ms, renewed_ms;
    size_t value_len;
    char value[LOCK_VALUE_MAX]; /* this holder's, not NUL-terminated */
};

/*
 * Takes the lock. While another load holds it this waits, at most LOCK_LEASE_MS, until it is released or
 * expires; if it is renewed meanwhile its holder is alive, and this fails. Returns 0, -EINTR after a signal,
 * or -EIO with the reason in client_error(). lock_release is due in every case.
 */
int lock_acquire(struct lock *l, struct client *c) __attribute__((warn_unused_result));

/* True when a renewal is due. */
bool lock_is_due(const struct lock *l);

/* Queues a renewal if one is due. Its replies are received by lock_receive_renewal(). */
void lock_send_renewal(struct lock *l);

/* Receives the replies to a queued renewal, if any. Returns 0, or -EIO when another load has the lock. */
int lock_receive_renewal(struct lock *l) __attribute__((warn_unused_result));

/* Both; no other reply may be due. */
__attribute__((warn_unused_result)) static inline int lock_renew(struct lock *l)
{
    lock_send_renewal(l);
    return lock_receive_renewal(l);
}

/* WATCHes the lock, so that a transaction fails if the lock is lost before it. Returns 0, or -EIO when it is
 * lost already. */
int lock_watch(struct lock *l) __attribute__((warn_unused_result));

/* Releases the lock; over a new connection if `failed`: after a failure of the client. */
void lock_release(struct lock *l, bool failed);

#endif
