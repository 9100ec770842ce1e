/*
 * A listening socket, polled by the loop.
 *
 * libuv's own accept is not used: after a failed accept it may stop for good, and a drain must be able to
 * take all that the kernel has queued before the socket is closed.
 */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include "base/addr.h"

#include <uv.h>

struct http_listener {
    uv_poll_t poll;
    uv_timer_t pause; /* runs while the system has no descriptor or memory for another connection */
    int fd;
    bool starved;                             /* nothing could be accepted since that was logged */
    void (*on_connection)(void *arg, int fd); /* takes over the descriptor */
    void *arg;
    int open_handles;
    void (*closed)(void *arg);
};

/* Returns 0 or a negative errno; then nothing is to be closed. */
int http_listener_open(struct http_listener *l, uv_loop_t *loop, const struct addr *address, bool reuse_port,
                       void (*on_connection)(void *arg, int fd), void *arg)
    __attribute__((warn_unused_result));

/* Accepts until the queue is empty. */
void http_listener_accept_all(struct http_listener *l);

/* `closed` is called from the loop, with the listener's arg. */
void http_listener_close(struct http_listener *l, void (*closed)(void *arg));

#endif
