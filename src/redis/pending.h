/* The queue of replies that a connection still owes: who asked, and when. A ring that grows and keeps its
 * memory. */
#ifndef REDIS_PENDING_H
#define REDIS_PENDING_H

#include "redis/connection.h"

struct pending_command {
    redis_connection_reply_fn fn;
    void *arg;
    uint64_t sent_ns; /* monotonic */
};

struct pending {
    struct pending_command *ring; /* owned */
    size_t capacity;              /* a power of two, or 0 */
    size_t head, used;
};

/* Makes room for one more. Returns 0 or -ENOMEM. */
int pending_reserve(struct pending *q) __attribute__((warn_unused_result));

/* Appends; pending_reserve must have succeeded since the last append. */
void pending_push(struct pending *q, struct pending_command reply);

/* The oldest, or NULL when nothing is owed. Borrowed until the next change. */
const struct pending_command *pending_oldest(const struct pending *q);

/* Takes the oldest off; the queue is not empty. */
struct pending_command pending_pop(struct pending *q);

void pending_fini(struct pending *q);

#endif
