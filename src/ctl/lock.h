/*
 * Ensures that only one load runs at a time: a lock in Redis, the string <prefix>loader, whose value names
 * its holder. It expires after LOCK_LEASE_MS, and its holder renews it. The lock of a load that was killed
 * expires.
 *
 * A load writes only by the transactions of this module, except for the release in a full Redis. Redis
 * executes one only if the load still holds the lock at that moment. So a load cannot write after it has lost
 * its lock, even if the process was suspended or the network delays commands. A lost lock is not taken again:
 * the load fails.
 *
 *     lock_send_watch(l);             ... and any reads
 *     lock_receive_watch(l);          ... and their replies
 *     lock_begin(l);                  ... and any writes
 *     lock_commit(l);                 renews the lock if it is time
 *     replies = lock_receive(l, ...);
 *
 * The next lock_send_watch may precede lock_receive, with reads that see these writes.
 */
#ifndef CTL_LOCK_H
#define CTL_LOCK_H

#include "ctl/client.h"
#include "ctl/terminal.h"

enum { LOCK_LEASE_MS = 15000, LOCK_RENEWAL_MS = 5000, LOCK_VALUE_MAX = 160 };

struct lock {
    struct client *client;
    bool held;                /* the load held the lock by the last reply */
    bool committed;           /* awaits the replies to lock_commit */
    char holder[EXCERPT_MAX]; /* the one in the last reply; empty: none */
    uint64_t sent_ms;         /* the last renewal */
    struct span value;        /* this holder's */
    char text[LOCK_VALUE_MAX];
};

/*
 * Does `work` with the lock. From then on signals are recorded: none may leave the lock behind. While another
 * load holds the lock this waits, at most LOCK_LEASE_MS, until it is released or expires. If the lock is
 * renewed meanwhile its holder is alive, and this fails. It also fails when the client has failed, or the
 * lock is lost before it is released: then another load may have changed what this one has written. Returns
 * 0, or -EIO after printing the reason.
 */
int lock_run(struct lock *l, struct client *c, void (*work)(void *arg), void *arg)
    __attribute__((warn_unused_result));

/* True when it is time to renew the lock: the next transaction does. */
bool lock_is_due(const struct lock *l);

/* Renews the lock by a transaction of its own. No reply may be pending. A failure is the client's. */
void lock_renew(struct lock *l);

/* --- A transaction. A failure is the client's and sticky: only the reply tells of it --- */

/* Queues a WATCH, so that the next transaction fails when the lock is lost. */
void lock_send_watch(struct lock *l);

/* Fails when the lock is lost already. */
void lock_receive_watch(struct lock *l);

/* Both; no other reply may be due. */
static inline void lock_watch(struct lock *l)
{
    lock_send_watch(l);
    lock_receive_watch(l);
}

void lock_begin(struct lock *l);
void lock_commit(struct lock *l);

/*
 * The replies to the commands of the transaction, of which there are `count` or more, as the elements of a
 * reply, borrowed until another one is received. NULL after a failure: the lock was lost and nothing of the
 * transaction was executed, or its outcome is unknown.
 */
const struct redis_reply *lock_receive(struct lock *l, size_t count) __attribute__((warn_unused_result));

/* lock_commit and lock_receive, where only the success matters. Returns 0 or -EIO. */
int lock_execute(struct lock *l);

#endif
