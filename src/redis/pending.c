/* Queue of owed replies; see pending.h. */
#include "redis/pending.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

int pending_reserve(struct pending *q)
{
    if (q->used < q->capacity)
        return 0;
    size_t capacity = q->capacity == 0 ? FIRST_CAPACITY : q->capacity * 2;
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

void pending_push(struct pending *q, struct pending_command reply)
{
    q->ring[(q->head + q->used) & (q->capacity - 1)] = reply;
    q->used++;
}

const struct pending_command *pending_oldest(const struct pending *q)
{
    return q->used == 0 ? NULL : &q->ring[q->head];
}

struct pending_command pending_pop(struct pending *q)
{
    struct pending_command reply = q->ring[q->head];
    q->head = (q->head + 1) & (q->capacity - 1);
    q->used--;
    return reply;
}

void pending_fini(struct pending *q)
{
    free(q->ring);
    *q = (struct pending){0};
}
