/* Event loops that do not abort the process when memory runs out. */
#ifndef APP_LOOP_H
#define APP_LOOP_H

#include "base/metrics.h"

#include <uv.h>

/* To be called once, before anything else of libuv and before threads are started. Returns 0 or a negative
 * errno. */
int loop_prepare(void) __attribute__((warn_unused_result));

/*
 * uv_loop_init with room for the descriptors 0 to `descriptors` - 1, the limit of the process. Returns 0, or
 * a negative errno and nothing to close.
 */
int loop_open(uv_loop_t *loop, int descriptors) __attribute__((warn_unused_result));

/* Observes each iteration of a loop on this thread from now on: the time between two polls. NULL: none. */
void loop_measure(struct histogram *iterations);

/* Closes the handles that are left and the loop. */
void loop_close(uv_loop_t *loop);

#endif
