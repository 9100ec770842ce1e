/*
 * Simulated time: one clock that all simulated machines share, in nanoseconds since the beginning, and the
 * events that are due. The process under test has its own clocks (process.h).
 */
#ifndef SIMULATION_EVENTS_H
#define SIMULATION_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

enum { US = 1000, MS = 1000 * US };
static const uint64_t SECOND = UINT64_C(1000) * MS;

/* `number` tells whether the event still counts: an event cannot be cancelled. */
typedef void event_fn(void *arg, uint64_t number);

void events_begin(void);

uint64_t now_ns(void);

/* Events of one moment happen in the order in which they were added. */
void events_add(uint64_t at_ns, event_fn *fn, void *arg, uint64_t number);

static inline void events_add_in(uint64_t delay_ns, event_fn *fn, void *arg, uint64_t number)
{
    events_add(now_ns() + delay_ns, fn, arg, number);
}

/* Lets time pass until then; events that are due happen at their own time. */
void events_run_until(uint64_t at_ns);

/* Lets the next event happen if it is due by then; otherwise time passes until then, and this is false. */
bool events_run_next(uint64_t limit_ns);

#endif
