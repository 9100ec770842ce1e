/* Deadlines and the run queue; see scheduler.h. */
#include "http/scheduler.h"

#include "base/clock.h"

#include <assert.h>

enum { TICK_MS = 100 };

/*
 * How long a turn may take, without its last task. Few deadlines expire in one turn: the kernel frees the
 * resources of a connection when it is closed, which is after the turn.
 */
enum { TURN_NS = 50 * 1000, EXPIRIES_PER_TURN = 2 };

/* --- the loop --- */

static struct http_task *http_scheduler_first_of(const struct http_scheduler *s, int kind)
{
    return LIST_ENTRY(s->deadlines[kind].next, struct http_task, deadline_link);
}

static struct http_task *http_scheduler_first_expired(const struct http_scheduler *s)
{
    for (int i = 0; i < HTTP_DEADLINES; i++)
        if (!list_empty(&s->deadlines[i]) && http_scheduler_first_of(s, i)->deadline_ms <= s->overdue_ms)
            return http_scheduler_first_of(s, i);
    return NULL;
}

static bool http_scheduler_run_one(struct http_scheduler *s)
{
    if (!http_scheduler_busy(s))
        return false;
    struct http_task *t = LIST_ENTRY(s->run_queue.next, struct http_task, run_link);
    list_remove(&t->run_link);
    s->callbacks.run(t);
    return true;
}

static void http_scheduler_on_turn(uv_idle_t *turn)
{
    struct http_scheduler *s = turn->data;
    uint64_t until_ns = clock_now_ns() + TURN_NS;
    bool more = false;
    for (int i = 0; i < EXPIRIES_PER_TURN; i++) {
        struct http_task *expired = http_scheduler_first_expired(s);
        if (expired == NULL)
            break;
        more = true;
        s->callbacks.expired(expired);
    }
    while (http_scheduler_run_one(s)) {
        more = true;
        if (clock_now_ns() >= until_ns)
            break;
    }
    if (!more)
        (void)uv_idle_stop(turn);
}

static void http_scheduler_start_turns(struct http_scheduler *s)
{
    (void)uv_idle_start(&s->turn, http_scheduler_on_turn); /* fails only without a callback */
}

/*
 * A deadline counts if it had passed at the previous tick: all sockets were read since. After the process was
 * stopped and continued, input that clients sent in time may still wait there.
 */
void http_scheduler_tick(struct http_scheduler *s, uint64_t now_ms)
{
    assert(now_ms >= s->tick_ms);
    s->overdue_ms = s->tick_ms;
    s->tick_ms = now_ms;
    if (http_scheduler_first_expired(s) != NULL)
        http_scheduler_start_turns(s);
}

static void http_scheduler_on_tick(uv_timer_t *tick)
{
    struct http_scheduler *s = tick->data;
    s->callbacks.ticked(s->callbacks.arg);
    http_scheduler_tick(s, uv_now(tick->loop));
}

void http_scheduler_init(struct http_scheduler *s, uv_loop_t *loop, const uint64_t timeout_ms[HTTP_DEADLINES],
                         const struct http_scheduler_callbacks *callbacks)
{
    s->callbacks = *callbacks;
    list_init(&s->run_queue);
    for (int i = 0; i < HTTP_DEADLINES; i++) {
        list_init(&s->deadlines[i]);
        s->timeout_ms[i] = timeout_ms[i];
    }
    (void)uv_timer_init(loop, &s->tick); /* cannot fail, nor can the next */
    (void)uv_idle_init(loop, &s->turn);
    s->tick.data = s->turn.data = s;
    s->tick_ms = uv_now(loop);
    s->overdue_ms = 0;
    (void)uv_timer_start(&s->tick, http_scheduler_on_tick, TICK_MS, TICK_MS);
}

static void http_scheduler_on_handle_closed(uv_handle_t *handle)
{
    struct http_scheduler *s = handle->data;
    wait_group_done(s->handles);
}

void http_scheduler_close(struct http_scheduler *s, struct wait_group *handles)
{
    assert(!http_scheduler_busy(s));
    s->handles = handles;
    wait_group_add(handles, 2);
    uv_close((uv_handle_t *)&s->tick, http_scheduler_on_handle_closed);
    uv_close((uv_handle_t *)&s->turn, http_scheduler_on_handle_closed);
}

/* --- tasks --- */

void http_task_set_deadline(struct http_scheduler *s, struct http_task *t, enum http_deadline kind,
                            uint64_t now_ms)
{
    assert(kind < HTTP_DEADLINES);
    if (t->deadline == kind)
        return;
    list_remove(&t->deadline_link);
    t->deadline = kind;
    t->deadline_ms = now_ms + s->timeout_ms[kind];
    list_append(&s->deadlines[kind], &t->deadline_link);
}

void http_task_set_deadline_since(struct http_scheduler *s, struct http_task *t, enum http_deadline kind,
                                  uint64_t since_ms)
{
    struct list *next = &s->deadlines[kind];
    if (t->deadline == kind)
        return;
    http_task_set_deadline(s, t, kind, since_ms);
    list_remove(&t->deadline_link);
    while (next->prev != &s->deadlines[kind] &&
           LIST_ENTRY(next->prev, struct http_task, deadline_link)->deadline_ms > t->deadline_ms)
        next = next->prev;
    list_append(next, &t->deadline_link);
}

struct http_task *http_scheduler_oldest(const struct http_scheduler *s, enum http_deadline first,
                                        enum http_deadline last)
{
    struct http_task *oldest = NULL;
    uint64_t oldest_ms = UINT64_MAX;
    for (int i = (int)first; i <= (int)last; i++) {
        if (list_empty(&s->deadlines[i]))
            continue;
        uint64_t set_ms = http_scheduler_first_of(s, i)->deadline_ms - s->timeout_ms[i];
        if (set_ms < oldest_ms) {
            oldest = http_scheduler_first_of(s, i);
            oldest_ms = set_ms;
        }
    }
    return oldest;
}

void http_task_enqueue(struct http_scheduler *s, struct http_task *t)
{
    assert(!http_task_queued(t));
    list_append(&s->run_queue, &t->run_link);
    http_scheduler_start_turns(s);
}
