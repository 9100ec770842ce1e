/* A heap of events by time and order of arrival; see events.h. */
#include "simulation/events.h"

#include <assert.h>
#include <stddef.h>

enum { EVENTS_MAX = 1 << 16 };

struct event {
    uint64_t at_ns, order;
    event_fn *fn;
    void *arg;
    uint64_t number;
};

static struct event heap[EVENTS_MAX];
static size_t count;
static uint64_t clock_ns, added;

void events_begin(void)
{
    count = 0;
    clock_ns = 0;
    added = 0;
}

uint64_t now_ns(void)
{
    return clock_ns;
}

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(size_t a, size_t b)
{
    struct event e = heap[a];
    heap[a] = heap[b];
    heap[b] = e;
}

void events_add(uint64_t at_ns, event_fn *fn, void *arg, uint64_t number)
{
    assert(count < EVENTS_MAX);
    size_t at = count++;
    heap[at] = (struct event){at_ns, added++, fn, arg, number};
    for (; at > 0 && is_before(&heap[at], &heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(at, (at - 1) / 2);
}

static struct event take_first(void)
{
    struct event first = heap[0];
    heap[0] = heap[--count];
    for (size_t at = 0;;) {
        size_t least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            least = is_before(&heap[child], &heap[least]) ? child : least;
        if (least == at)
            return first;
        swap(at, least);
        at = least;
    }
}

/* The process may be ahead of the event by the time that a call of it has taken. */
bool events_run_next(uint64_t limit_ns)
{
    if (count == 0 || heap[0].at_ns > limit_ns) {
        clock_ns = limit_ns > clock_ns ? limit_ns : clock_ns;
        return false;
    }
    struct event e = take_first();
    uint64_t ahead_ns = clock_ns;
    clock_ns = e.at_ns;
    e.fn(e.arg, e.number);
    clock_ns = ahead_ns > e.at_ns ? ahead_ns : e.at_ns;
    return true;
}

void events_run_until(uint64_t at_ns)
{
    while (events_run_next(at_ns))
        ;
}
