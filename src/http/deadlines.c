/* Queues of deadlines; see deadlines.h. */
#include "http/deadlines.h"

void http_deadlines_init(struct http_deadlines *all)
{
    for (int i = 0; i < DEADLINE_KINDS; i++)
        list_init(&all->queue[i]);
}

void http_deadline_init(struct http_deadline *d)
{
    list_init(&d->link);
    d->kind = DEADLINE_NONE;
}

void http_deadline_set(struct http_deadlines *all, struct http_deadline *d, enum http_deadline_kind kind,
                       uint64_t now_ms)
{
    list_remove(&d->link);
    d->kind = kind;
    d->at_ms = now_ms + all->timeout_ms[kind];
    list_append(&all->queue[kind], &d->link);
}

void http_deadline_clear(struct http_deadline *d)
{
    list_remove(&d->link);
    d->kind = DEADLINE_NONE;
}

struct http_deadline *http_deadlines_passed(struct http_deadlines *all, uint64_t now_ms)
{
    for (int i = 0; i < DEADLINE_KINDS; i++) {
        if (list_empty(&all->queue[i]))
            continue;
        struct http_deadline *first = LIST_ENTRY(all->queue[i].next, struct http_deadline, link);
        if (first->at_ms <= now_ms)
            return first;
    }
    return NULL;
}
