/*
 * The listening socket of one server, polled by its loop. The accept of libuv is not used: it may stop for
 * good after a failure, and a drain has to accept everything that the kernel has queued before the socket is
 * closed.
 */
#ifndef HTTP_LISTENER_H
#define HTTP_LISTENER_H

#include "http/balancer.h"

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
    void (*accepted)(void *arg, const struct http_accepted *accepted);
    void *arg;
};

/* `accepted` gets the socket of each connection, and owns it. */
void http_listener_init(struct http_listener *l, uv_loop_t *loop,
                        void (*accepted)(void *arg, const struct http_accepted *accepted), void *arg);

/* As http_server_listen. Listeners of this process may follow the `first` on the same address. */
int http_listener_open(struct http_listener *l, const struct addr *address, int passed, bool first)
    __attribute__((warn_unused_result));
void http_listener_accept(struct http_listener *l);

/* Accepts what the kernel has queued, unless the socket is shared, and stops listening. */
void http_listener_finish(struct http_listener *l);

/* Stops listening, and closes the handles. */
void http_listener_close(struct http_listener *l);

#endif
