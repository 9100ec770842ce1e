/* Event loops that do not end the process when memory runs out. */
#ifndef APP_LOOP_H
#define APP_LOOP_H

#include <uv.h>

/* To be called once, before anything else of libuv and before threads are started. Returns 0 or a negative
 * errno. */
int loop_prepare(void) __attribute__((warn_unused_result));

/*
 * As uv_loop_init, with room for as many descriptors as the process may ever have open. Returns 0 or a
 * negative errno; then there is nothing to be closed.
 */
int loop_open(uv_loop_t *loop, int descriptors) __attribute__((warn_unused_result));

#endif
