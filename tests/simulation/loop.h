/*
 * libuv's event loop on simulated time: the functions of libuv that src/ calls. It has the phases of the real
 * uv_run in their order: timers, idle, prepare, poll, check, closing.
 *
 * The poll reports the state of a descriptor (net.h), and calls the callbacks that were posted.
 */
#ifndef SIMULATION_LOOP_H
#define SIMULATION_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Before uv_loop_init(), once in a run. */
void loop_begin(void);

/* Calls `fn` in the next poll of the loop, as for a descriptor that has become readable. */
void loop_post(void (*fn)(void *arg), void *arg);

/* How many of them wait: the process may be stopped. */
size_t loop_posted(void);

/* Calls `turned` at the end of each turn; NULL: nothing. */
void loop_watch(void (*turned)(void));

/* The turn of the loop that runs, or has run last; the first is 1. */
unsigned loop_turn(void);

/* When the idle phase began that runs now, by the monotonic clock; 0: none does. */
uint64_t loop_idle_since_ns(void);

/* Runs the loop until then, or until nothing keeps it alive: false. */
bool loop_run_until(uv_loop_t *loop, uint64_t at_ns);

/* For handles of another file: adds `h`, which is not active. */
void loop_begin_handle(uv_loop_t *loop, uv_handle_t *h, uv_handle_type type);

/* Handles of the type UV_TCP, if there are any. The functions say what the poll reports of a handle and what
 * it calls then. They also say what uv_close() and the closing phase do before the user's callback. */
struct loop_streams {
    unsigned (*events)(const uv_handle_t *h);
    void (*deliver)(uv_handle_t *h, unsigned events);
    void (*close)(uv_handle_t *h);
    void (*closed)(uv_handle_t *h);
};

void loop_use_streams(const struct loop_streams *calls);

/* How many handles of this type are active. */
unsigned loop_active(uv_handle_type type);

#endif
