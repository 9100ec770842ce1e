/*
 * A listening socket, polled by the loop.
 *
 * The accept of libuv is not used: it may stop for good after a failure, and a drain must be able to accept
 * everything that the kernel has queued before the socket is closed.
 */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include "base/net.h"
#include "base/wait_group.h"

#include <uv.h>

struct http_listener_owner {
    /* How many connections may be accepted now, before all other sockets are polled. At least one. */
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
    bool starved; /* it was logged that nothing can be accepted, and nothing was since */
    struct http_listener_owner owner;
    struct wait_group handles;
};

/* Returns 0 or a negative errno. After an error nothing has to be closed. */
int http_listener_open(struct http_listener *l, uv_loop_t *loop, const struct addr *address, bool reuse_port,
                       const struct http_listener_owner *owner) __attribute__((warn_unused_result));

/* `closed` is called from the loop. `drain`: the connections that the kernel has queued are accepted first.
 */
void http_listener_close(struct http_listener *l, bool drain);

#endif
