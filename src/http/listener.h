/*
 * A listening socket, polled by the loop.
 *
 * libuv's own accept is not used: after a failed accept it may stop for good, and a drain must be able to
 * take all that the kernel has queued before the socket is closed.
 */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include "base/net.h"

#include <uv.h>

struct http_listener_owner {
    /* How many connections may be accepted now, before all other sockets have their turn. At least one. */
    int (*accept_budget)(void *arg);
    /* Takes over the descriptor; `peer` is the other end. */
    void (*connection)(void *arg, int fd, const struct sockaddr_storage *peer);
    void (*closed)(void *arg); /* after http_listener_close() */
    void *arg;
};

struct http_listener {
    uv_poll_t poll;
    uv_timer_t pause; /* runs while the system has no descriptor or memory for another connection */
    int fd;
    bool starved; /* nothing could be accepted since that was logged */
    struct http_listener_owner owner;
    int open_handles;
};

/* Returns 0 or a negative errno; then nothing is to be closed. */
int http_listener_open(struct http_listener *l, uv_loop_t *loop, const struct addr *address, bool reuse_port,
                       const struct http_listener_owner *owner) __attribute__((warn_unused_result));

/* Accepts all that the queue can hold, and not what comes into it meanwhile without end. */
void http_listener_accept_all(struct http_listener *l);

/* The owner is told from the loop when it is over. */
void http_listener_close(struct http_listener *l);

#endif
