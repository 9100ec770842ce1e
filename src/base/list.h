/* An intrusive, circular, doubly linked list. A link that is in no list points to itself. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define LIST_ENTRY(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_append(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* Safe on a link that is in no list. */
static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* Moves everything in `from` to the end of `to`: makes one circle of both, and takes `from` out of it. */
static inline void list_splice(struct list *to, struct list *from)
{
    struct list *last = from->prev;
    to->prev->next = from;
    from->prev = to->prev;
    last->next = to;
    to->prev = last;
    list_remove(from);
}

#endif
