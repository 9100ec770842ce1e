/* Handles in arrays, and uv_run; see loop.h. */
#include "simulation/loop.h"

#include "simulation/events.h"
#include "simulation/net.h"
#include "simulation/process.h"
#include "simulation/random.h"
#include "simulation/trace.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { HANDLES_MAX = 256, POSTED_MAX = 1024, TURNS_PER_SECOND_MAX = 100000 };

/* In uv_handle_t.flags. */
enum { INITIALISED = 1, ACTIVE = 2, CLOSING = 4 };

struct posted {
    void (*fn)(void *arg);
    void *arg;
};

static uv_handle_t *handles[HANDLES_MAX]; /* in the order of their beginning */
static size_t handle_count;
static struct posted posted[POSTED_MAX];
static size_t posted_count;
static unsigned requests; /* of uv_queue_work */
static const struct loop_streams *streams;
static uint64_t turns, turns_since_ns;
static void (*on_turned)(void);
static unsigned all_turns;

void loop_begin(void)
{
    handle_count = posted_count = 0;
    requests = 0;
    on_turned = NULL;
    turns = turns_since_ns = 0;
    all_turns = 0;
}

unsigned loop_turn(void)
{
    return all_turns;
}

void loop_use_streams(const struct loop_streams *calls)
{
    streams = calls;
}

void loop_post(void (*fn)(void *arg), void *arg)
{
    assert(posted_count < POSTED_MAX);
    posted[posted_count++] = (struct posted){fn, arg};
}

size_t loop_posted(void)
{
    return posted_count;
}

unsigned loop_active(uv_handle_type type)
{
    unsigned n = 0;
    for (size_t i = 0; i < handle_count; i++)
        n += handles[i]->type == type && (handles[i]->flags & ACTIVE) != 0;
    return n;
}

/* --- handles --- */

void loop_begin_handle(uv_loop_t *loop, uv_handle_t *h, uv_handle_type type)
{
    assert(handle_count < HANDLES_MAX);
    h->loop = loop;
    h->type = type;
    h->flags = INITIALISED;
    h->close_cb = NULL;
    handles[handle_count++] = h;
}

static void activate(uv_handle_t *h, bool active)
{
    assert((h->flags & CLOSING) == 0 || !active);
    h->flags = active ? h->flags | ACTIVE : h->flags & ~(unsigned)ACTIVE;
}

static void remove_handle(const uv_handle_t *h)
{
    size_t at = 0;
    while (handles[at] != h)
        at++;
    handle_count--;
    for (; at < handle_count; at++)
        handles[at] = handles[at + 1];
}

int uv_is_active(const uv_handle_t *h)
{
    return (h->flags & ACTIVE) != 0;
}

int uv_is_closing(const uv_handle_t *h)
{
    return (h->flags & CLOSING) != 0;
}

void uv_close(uv_handle_t *h, uv_close_cb closed)
{
    assert((h->flags & (INITIALISED | CLOSING)) == INITIALISED);
    activate(h, false);
    h->flags |= CLOSING;
    if (h->type == UV_TCP)
        streams->close(h);
    h->close_cb = closed;
    h->next_closing = h->loop->closing_handles;
    h->loop->closing_handles = h;
}

void uv_update_time(uv_loop_t *loop)
{
    loop->time = process_monotonic_ns() / MS;
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *t)
{
    loop_begin_handle(loop, (uv_handle_t *)t, UV_TIMER);
    t->timer_cb = NULL;
    t->repeat = 0;
    return 0;
}

int uv_timer_start(uv_timer_t *t, uv_timer_cb fn, uint64_t timeout, uint64_t repeat)
{
    if ((t->flags & CLOSING) != 0 || fn == NULL)
        return UV_EINVAL;
    t->timer_cb = fn;
    t->timeout = t->loop->time + timeout;
    t->repeat = repeat;
    t->start_id = t->loop->timer_counter++;
    activate((uv_handle_t *)t, true);
    return 0;
}

int uv_timer_stop(uv_timer_t *t)
{
    activate((uv_handle_t *)t, false);
    return 0;
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *p)
{
    loop_begin_handle(loop, (uv_handle_t *)p, UV_PREPARE);
    return 0;
}

int uv_prepare_start(uv_prepare_t *p, uv_prepare_cb fn)
{
    p->prepare_cb = uv_is_active((uv_handle_t *)p) ? p->prepare_cb : fn;
    activate((uv_handle_t *)p, true);
    return 0;
}

int uv_prepare_stop(uv_prepare_t *p)
{
    activate((uv_handle_t *)p, false);
    return 0;
}

int uv_check_init(uv_loop_t *loop, uv_check_t *c)
{
    loop_begin_handle(loop, (uv_handle_t *)c, UV_CHECK);
    return 0;
}

int uv_check_start(uv_check_t *c, uv_check_cb fn)
{
    c->check_cb = uv_is_active((uv_handle_t *)c) ? c->check_cb : fn;
    activate((uv_handle_t *)c, true);
    return 0;
}

int uv_check_stop(uv_check_t *c)
{
    activate((uv_handle_t *)c, false);
    return 0;
}

int uv_idle_init(uv_loop_t *loop, uv_idle_t *i)
{
    loop_begin_handle(loop, (uv_handle_t *)i, UV_IDLE);
    return 0;
}

int uv_idle_start(uv_idle_t *i, uv_idle_cb fn)
{
    i->idle_cb = uv_is_active((uv_handle_t *)i) ? i->idle_cb : fn;
    activate((uv_handle_t *)i, true);
    return 0;
}

int uv_idle_stop(uv_idle_t *i)
{
    activate((uv_handle_t *)i, false);
    return 0;
}

int uv_async_init(uv_loop_t *loop, uv_async_t *a, uv_async_cb fn)
{
    loop_begin_handle(loop, (uv_handle_t *)a, UV_ASYNC);
    a->async_cb = fn;
    a->pending = 0;
    activate((uv_handle_t *)a, true);
    return 0;
}

int uv_async_send(uv_async_t *a)
{
    assert((a->flags & CLOSING) == 0);
    a->pending = 1;
    return 0;
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *p, int fd)
{
    loop_begin_handle(loop, (uv_handle_t *)p, UV_POLL);
    p->io_watcher.fd = fd;
    return 0;
}

int uv_poll_start(uv_poll_t *p, int events, uv_poll_cb fn)
{
    p->poll_cb = fn;
    p->io_watcher.pevents = (unsigned)events;
    activate((uv_handle_t *)p, events != 0);
    return 0;
}

int uv_poll_stop(uv_poll_t *p)
{
    activate((uv_handle_t *)p, false);
    return 0;
}

/* --- work in the thread pool: done when its time is over, in the poll that sees that --- */

static void end_work(void *arg)
{
    uv_work_t *w = arg;
    bool cancelled = w->reserved[0] != NULL;
    if (!cancelled)
        w->work_cb(w);
    requests--;
    w->after_work_cb(w, cancelled ? UV_ECANCELED : 0);
}

static void on_work_due(void *arg, uint64_t number)
{
    (void)number;
    loop_post(end_work, arg);
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *w, uv_work_cb work, uv_after_work_cb after)
{
    w->loop = loop;
    w->work_cb = work;
    w->after_work_cb = after;
    w->reserved[0] = NULL;
    requests++;
    events_add_in(random_duration(STREAM_PROCESS, 100 * (uint64_t)MS), on_work_due, w, 0);
    return 0;
}

/* A request that has not begun; whether it has is random. */
int uv_cancel(uv_req_t *r)
{
    if (random_once_in(STREAM_PROCESS, 2))
        return UV_EBUSY;
    r->reserved[0] = r; /* it is cancelled */
    return 0;
}

/* --- uv_run --- */

static uv_timer_t *first_timer(void)
{
    uv_timer_t *first = NULL;
    for (size_t i = 0; i < handle_count; i++) {
        uv_timer_t *t = (uv_timer_t *)handles[i];
        if (t->type != UV_TIMER || (t->flags & ACTIVE) == 0)
            continue;
        if (first == NULL || t->timeout < first->timeout ||
            (t->timeout == first->timeout && t->start_id < first->start_id))
            first = t;
    }
    return first;
}

static void run_timers(const uv_loop_t *loop)
{
    for (uv_timer_t *t = first_timer(); t != NULL && t->timeout <= loop->time; t = first_timer()) {
        (void)uv_timer_stop(t);
        if (t->repeat != 0)
            (void)uv_timer_start(t, t->timer_cb, t->repeat, t->repeat);
        t->timer_cb(t);
    }
}

static void call(uv_handle_t *h)
{
    if (h->type == UV_IDLE)
        ((uv_idle_t *)h)->idle_cb((uv_idle_t *)h);
    else if (h->type == UV_PREPARE)
        ((uv_prepare_t *)h)->prepare_cb((uv_prepare_t *)h);
    else
        ((uv_check_t *)h)->check_cb((uv_check_t *)h);
}

static uint64_t idle_since_ns;

uint64_t loop_idle_since_ns(void)
{
    return idle_since_ns;
}

/* What begins meanwhile has to wait for the next turn; the last to begin comes first. */
static void run_phase(uv_handle_type type)
{
    uv_handle_t *due[HANDLES_MAX] = {NULL};
    size_t count = 0;
    for (size_t i = handle_count; i > 0; i--)
        if (handles[i - 1]->type == type && (handles[i - 1]->flags & ACTIVE) != 0)
            due[count++] = handles[i - 1];
    idle_since_ns = type == UV_IDLE ? process_monotonic_ns() : 0;
    for (size_t i = 0; i < count; i++)
        if ((due[i]->flags & ACTIVE) != 0)
            call(due[i]);
    idle_since_ns = 0;
}

static bool is_alive(const uv_loop_t *loop)
{
    bool alive = requests > 0 || loop->closing_handles != NULL;
    for (size_t i = 0; i < handle_count && !alive; i++)
        alive = (handles[i]->flags & ACTIVE) != 0;
    return alive;
}

static unsigned events_of(const uv_handle_t *h)
{
    const uv_poll_t *p = (const uv_poll_t *)h;
    if (h->type == UV_ASYNC)
        return ((const uv_async_t *)h)->pending != 0;
    if (h->type == UV_TCP)
        return (h->flags & CLOSING) == 0 ? streams->events(h) : 0;
    if (h->type != UV_POLL || (h->flags & ACTIVE) == 0)
        return 0;
    unsigned events = net_events(p->io_watcher.fd);
    return (events & NET_ERROR) != 0 ? NET_ERROR : events & p->io_watcher.pevents;
}

static bool is_ready(void)
{
    bool ready = posted_count > 0;
    for (size_t i = 0; i < handle_count && !ready; i++)
        ready = events_of(handles[i]) != 0;
    return ready;
}

/* As libuv does it: an error stops the handle, and is EBADF whatever it is. */
static void deliver(uv_handle_t *h, unsigned events)
{
    uv_poll_t *p = (uv_poll_t *)h;
    uv_async_t *a = (uv_async_t *)h;
    if (h->type == UV_TCP && (h->flags & CLOSING) == 0)
        streams->deliver(h, events);
    if ((h->flags & ACTIVE) == 0)
        return;
    if (h->type == UV_ASYNC) {
        a->pending = 0;
        a->async_cb(a);
    } else if ((events & NET_ERROR) != 0) {
        (void)uv_poll_stop(p);
        p->poll_cb(p, UV_EBADF, 0);
    } else {
        p->poll_cb(p, 0, (int)events);
    }
}

static void call_posted(void)
{
    struct posted due[POSTED_MAX];
    size_t count = posted_count;
    memcpy(due, posted, count * sizeof due[0]);
    posted_count = 0;
    for (size_t i = 0; i < count; i++)
        due[i].fn(due[i].arg);
}

/* What one call of epoll_wait has returned, in any order. */
static void deliver_all(void)
{
    uv_handle_t *ready[HANDLES_MAX];
    unsigned events[HANDLES_MAX];
    size_t count = 0;
    bool posted_first = random_once_in(STREAM_PROCESS, 2);
    for (size_t i = 0; i < handle_count; i++) {
        events[count] = events_of(handles[i]);
        ready[count] = handles[i];
        count += events[count] != 0;
    }
    if (posted_first)
        call_posted();
    size_t first = count > 1 ? random_below(STREAM_PROCESS, (unsigned)count) : 0;
    for (size_t i = 0; i < count; i++)
        deliver(ready[(first + i) % count], events[(first + i) % count]);
    if (!posted_first)
        call_posted();
}

/* Until when the poll may wait. */
static uint64_t poll_until_ns(const uv_loop_t *loop, uint64_t limit_ns)
{
    const uv_timer_t *t = first_timer();
    if (loop->closing_handles != NULL || loop_active(UV_IDLE) > 0)
        return now_ns();
    if (t == NULL)
        return limit_ns;
    uint64_t wait_ms = t->timeout > loop->time ? t->timeout - loop->time : 0;
    uint64_t until_ns = now_ns() + wait_ms * MS;
    return until_ns < limit_ns ? until_ns : limit_ns;
}

static void poll_all(uv_loop_t *loop, uint64_t limit_ns)
{
    uint64_t until_ns = poll_until_ns(loop, limit_ns);
    uint64_t began_ns = now_ns();
    process_spend(1000);
    while (!is_ready() && now_ns() < until_ns && events_run_next(until_ns))
        ;
    if (now_ns() - began_ns > (uint64_t)MS / 10) /* it slept: it is woken by the scheduler */
        process_spend(random_duration(STREAM_PROCESS, 2 * (uint64_t)MS));
    process_resume();
    uv_update_time(loop);
    deliver_all();
}

static void close_all(uv_loop_t *loop)
{
    uv_handle_t *h = loop->closing_handles;
    loop->closing_handles = NULL;
    for (uv_handle_t *next = NULL; h != NULL; h = next) {
        next = h->next_closing;
        remove_handle(h);
        if (h->type == UV_TCP)
            streams->closed(h);
        if (h->close_cb != NULL)
            h->close_cb(h);
    }
}

/* A loop that turns without waiting is a fault even where all answers are right. */
static void count_turn(void)
{
    if (now_ns() - turns_since_ns >= SECOND) {
        turns = 0;
        turns_since_ns = now_ns();
    }
    if (++turns > TURNS_PER_SECOND_MAX)
        trace_fail("the loop turns without waiting");
}

static void turn(uv_loop_t *loop, uint64_t limit_ns)
{
    all_turns++;
    count_turn();
    uv_update_time(loop);
    run_timers(loop);
    run_phase(UV_IDLE);
    run_phase(UV_PREPARE);
    poll_all(loop, limit_ns);
    run_phase(UV_CHECK);
    close_all(loop);
    if (on_turned != NULL)
        on_turned();
}

void loop_watch(void (*turned)(void))
{
    on_turned = turned;
}

bool loop_run_until(uv_loop_t *loop, uint64_t at_ns)
{
    while (now_ns() < at_ns && is_alive(loop))
        turn(loop, at_ns);
    return is_alive(loop);
}

int uv_loop_init(uv_loop_t *loop)
{
    *loop = (uv_loop_t){.data = loop->data};
    uv_update_time(loop);
    return 0;
}

int uv_loop_close(uv_loop_t *loop)
{
    (void)loop;
    return handle_count > 0 || requests > 0 ? UV_EBUSY : 0;
}

const char *uv_strerror(int err)
{
    return strerror(-err);
}
