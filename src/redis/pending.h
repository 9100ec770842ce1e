/*
 * Commands that wait for their replies, oldest first: a ring that grows and keeps its memory. The functions
 * are inline, since each command and each reply passes through them.
 */
#ifndef REDIS_PENDING_H
#define REDIS_PENDING_H

#include "redis/connection.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { PENDING_CAPACITY_MIN = 64 };

/* A command of the connection itself has `own`. Any other command has `fn` and `arg`. */
struct pending_command {
    void (*own)(struct redis_connection *c, const struct redis_reply *reply);
    redis_reply_fn fn;
    void *arg;
    uint64_t sent_ns; /* monotonic */
};

struct pending {
    struct pending_command *ring; /* owned */
    size_t capacity;              /* a power of two, or 0 */
    size_t head, used;
};

/* Makes room for `count` more commands, at most PENDING_CAPACITY_MIN. Returns 0 or -ENOMEM. */
static inline int pending_reserve(struct pending *q, size_t count)
{
    assert(count <= PENDING_CAPACITY_MIN);
    if (q->used + count <= q->capacity)
        return 0;
    size_t capacity = q->capacity == 0 ? PENDING_CAPACITY_MIN : q->capacity * 2;
    struct pending_command *ring = calloc(capacity, sizeof *ring);
    if (ring == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < q->used; i++)
        ring[i] = q->ring[(q->head + i) & (q->capacity - 1)];
    free(q->ring);
    q->ring = ring;
    q->capacity = capacity;
    q->head = 0;
    return 0;
}

/* pending_reserve must have succeeded since the last call. */
static inline void pending_push(struct pending *q, struct pending_command command)
{
    assert(q->used < q->capacity);
    q->ring[(q->head + q->used) & (q->capacity - 1)] = command;
    q->used++;
}

/* The oldest command, or NULL. Borrowed until the next change. */
static inline const struct pending_command *pending_oldest(const struct pending *q)
{
    return q->used == 0 ? NULL : &q->ring[q->head];
}

/* Removes the oldest command; there must be one. */
static inline struct pending_command pending_pop(struct pending *q)
{
    assert(q->used > 0);
    struct pending_command command = q->ring[q->head];
    q->head = (q->head + 1) & (q->capacity - 1);
    q->used--;
    return command;
}

static inline void pending_fini(struct pending *q)
{
    free(q->ring);
    *q = (struct pending){0};
}

#endif
