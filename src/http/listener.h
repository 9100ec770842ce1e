/*
 * The listening socket of one server, polled by its loop. The accept of libuv is not used: it may stop for
 * good after a failure, and a drain has to accept everything that the kernel has queued before the socket is
 * closed.
 */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include "base/net.h"

#include <stdbool.h>
#include <uv.h>

/* The most connections that are accepted in an iteration of the loop. */
enum { HTTP_ACCEPTS = 32 };

/* Embedded in the server; private to listener.c. */
struct http_listener {
    int fd;           /* -1: not listening */
    bool shared;      /* other processes may have the socket, too: its queue stays */
    bool starved;     /* it was logged that accepting fails, and no connection was accepted since */
    uv_poll_t poll;   /* polls the socket */
    uv_timer_t pause; /* runs while no connection can be accepted */
    void (*accepted)(void *arg, int fd, const struct sockaddr_storage *peer);
    void *arg;
};

/* `accepted` gets the socket of each connection, and owns it. */
void http_listener_init(struct http_listener *l, uv_loop_t *loop,
                        void (*accepted)(void *arg, int fd, const struct sockaddr_storage *peer), void *arg);

/*
 * Listens on the address. No other process may listen there, and of this process `others`: further listeners
 * of the same address, which follow if this is the `first`. Or uses the TCP socket `passed`, which stays the
 * caller's; -1: there is none. Connections wait until http_listener_accept. Returns 0 or a negative errno
 * (-EADDRINUSE, -EACCES ...). Once per listener.
 */
int http_listener_open(struct http_listener *l, const struct addr *address, int passed, bool first,
                       bool others) __attribute__((warn_unused_result));
void http_listener_accept(struct http_listener *l);

/* Accepts what the kernel has queued, unless the socket is shared, and stops listening. */
void http_listener_finish(struct http_listener *l);

/* Stops listening, and closes the handles. */
void http_listener_close(struct http_listener *l);

#endif
