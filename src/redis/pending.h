/* The queue of replies that a connection still owes: who asked, and when. A ring that grows and keeps its
 * memory. */
#ifndef REDIS_PENDING_H
#define REDIS_PENDING_H

#include "redis/connection.h"

struct expected_reply {
    rconn_reply_fn fn;
    void *arg;
    uint64_t sent_ns; /* monotonic */
};

struct expected {
    struct expected_reply *ring; /* owned */
    size_t capacity;             /* a power of two, or 0 */
    size_t head, used;
};

/* Makes room for one more. Returns 0 or -ENOMEM. */
int expected_reserve(struct expected *q) __attribute__((warn_unused_result));

/* Appends; expected_reserve must have succeeded since the last append. */
void expected_push(struct expected *q, struct expected_reply reply);

/* The oldest, or NULL when nothing is owed. Borrowed until the next change. */
const struct expected_reply *expected_oldest(const struct expected *q);

/* Takes the oldest off; the queue is not empty. */
struct expected_reply expected_pop(struct expected *q);

void expected_fini(struct expected *q);

#endif
