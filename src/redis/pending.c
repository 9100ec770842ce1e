/* Queue of owed replies; see expected.h. */
#include "redis/pending.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 64 };

int expected_reserve(struct expected *q)
{
    if (q->used < q->capacity)
        return 0;
    size_t capacity = q->capacity == 0 ? FIRST_CAPACITY : q->capacity * 2;
    struct expected_reply *ring = calloc(capacity, sizeof *ring);
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

void expected_push(struct expected *q, struct expected_reply reply)
{
    q->ring[(q->head + q->used) & (q->capacity - 1)] = reply;
    q->used++;
}

const struct expected_reply *expected_oldest(const struct expected *q)
{
    return q->used == 0 ? NULL : &q->ring[q->head];
}

struct expected_reply expected_pop(struct expected *q)
{
    struct expected_reply reply = q->ring[q->head];
    q->head = (q->head + 1) & (q->capacity - 1);
    q->used--;
    return reply;
}

void expected_fini(struct expected *q)
{
    free(q->ring);
    *q = (struct expected){0};
}
