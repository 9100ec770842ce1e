/*
 * Deadlines of the connections of one loop, and the run queue of connections that have pipelined more
 * requests than one turn serves.
 *
 * Each kind of deadline has one timeout for all tasks, so a list in order of arrival is in order of expiry:
 * setting and clearing take constant time, and a tick looks at the first of each list.
 *
 * A turn of the run queue takes a bounded time. Then all sockets are polled before the next one, so that a
 * client with a single request is served between two turns and does not wait for those with many.
 */
#ifndef HTTP_SCHEDULER_H
#define HTTP_SCHEDULER_H

#include "base/list.h"
#include "base/wait_group.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* In the order in which connections are closed for new ones; see http_connections_evict. */
enum http_deadline {
    HTTP_DEADLINE_OPENING,       /* for the first byte of the first request */
    HTTP_DEADLINE_IDLE,          /* for the first byte of another request */
    HTTP_DEADLINE_PROXY_OPENING, /* the same two on connections of trusted proxies */
    HTTP_DEADLINE_PROXY_IDLE,
    HTTP_DEADLINE_HEAD,
    HTTP_DEADLINE_WRITE,
    HTTP_DEADLINE_ROOM,
    HTTP_DEADLINE_LINGER,
    HTTP_DEADLINE_GRACE,
    HTTP_DEADLINES,
    HTTP_DEADLINE_NONE
};

/* Embedded in each connection. */
struct http_task {
    struct list deadline_link;
    uint64_t deadline_ms;
    enum http_deadline deadline;
    struct list run_link; /* in the run queue, or in no list */
};

struct http_scheduler_callbacks {
    void (*ticked)(void *arg); /* a few times per second */

    /* A deadline has passed: it has to be cleared or replaced. */
    void (*expired)(struct http_task *t);

    /* The task has left the run queue and may run. */
    void (*run)(struct http_task *t);

    void *arg;
};

struct http_scheduler {
    struct http_scheduler_callbacks callbacks;
    uv_timer_t tick;
    uv_idle_t turn;      /* active while there is something to do: then polling does not wait */
    uint64_t tick_ms;    /* the loop's time at the last tick */
    uint64_t overdue_ms; /* and at the one before */
    struct list deadlines[HTTP_DEADLINES];
    uint64_t timeout_ms[HTTP_DEADLINES];
    struct list run_queue;
    struct wait_group *handles;
};

/* `timeout_ms`: for each kind of deadline. To be ended with http_scheduler_close. */
void http_scheduler_init(struct http_scheduler *s, uv_loop_t *loop, const uint64_t timeout_ms[HTTP_DEADLINES],
                         const struct http_scheduler_callbacks *callbacks);

/* Adds the closing handles to `handles`. No task may be scheduled any more. */
void http_scheduler_close(struct http_scheduler *s, struct wait_group *handles);

/* Returns the task that has had a deadline of the kinds `first` to `last` longest; NULL when none has one. */
struct http_task *http_scheduler_oldest(const struct http_scheduler *s, enum http_deadline first,
                                        enum http_deadline last);

/* Called by the tick with the loop's time. A deadline that passed before the previous tick has expired. */
void http_scheduler_tick(struct http_scheduler *s, uint64_t now_ms);

static inline void http_task_init(struct http_task *t)
{
    list_init(&t->deadline_link);
    list_init(&t->run_link);
    t->deadline = HTTP_DEADLINE_NONE;
}

static inline void http_task_clear_deadline(struct http_task *t)
{
    list_remove(&t->deadline_link);
    t->deadline = HTTP_DEADLINE_NONE;
}

/* Removes the task from all lists. */
static inline void http_task_fini(struct http_task *t)
{
    http_task_clear_deadline(t);
    list_remove(&t->run_link);
}

/* Sets the deadline or replaces one of another kind, counting from `now_ms`. One of the same kind stays. */
void http_task_set_deadline(struct http_scheduler *s, struct http_task *t, enum http_deadline kind,
                            uint64_t now_ms);

/* The same, counting from an earlier time than the present: its place is close to the end of the list. */
void http_task_set_deadline_since(struct http_scheduler *s, struct http_task *t, enum http_deadline kind,
                                  uint64_t since_ms);

/* Appends the task to the run queue. It must not be in it. */
void http_task_enqueue(struct http_scheduler *s, struct http_task *t);

static inline bool http_task_queued(const struct http_task *t)
{
    return !list_empty(&t->run_link);
}

/* True while tasks wait in the run queue. */
static inline bool http_scheduler_busy(const struct http_scheduler *s)
{
    return !list_empty(&s->run_queue);
}

#endif
