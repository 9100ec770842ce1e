/*
 * One attempt at a connection: a non-blocking hiredis context, polled by the loop.
 *
 * It lives from the first SYN to the loss of the connection. rconn makes a new one for each attempt, so that
 * nothing of an old connection (half a reply, a queued command) can ever reach a new one.
 */
#ifndef STORE_SOCKET_H
#define STORE_SOCKET_H

#include "redis/target.h"

#include <hiredis/hiredis.h>
#include <uv.h>

struct ssl_ctx_st;

struct socket_events {
    void (*on_connected)(void *arg);
    void (*on_reply)(void *arg, const redisReply *reply); /* replies and pushes, in stream order; borrowed */
    void (*on_failed)(void *arg, const char *why); /* once; `why` is borrowed until the function returns */
    void *arg;
};

struct redis_socket {
    uv_poll_t poll;
    redisContext *context;
    struct socket_events events;
    bool tls;
    bool connected;
    bool polling_writable;
    bool closing;
};

/*
 * Opens a connection to `address` (a numeric address, or the socket path of the target). Returns 0, -ENOMEM,
 * or the negative errno with which the system refused at once.
 */
int redis_socket_open(uv_loop_t *loop, const struct redis_target *target, struct ssl_ctx_st *tls,
                      const char *address, const struct socket_events *events, struct redis_socket **out)
    __attribute__((warn_unused_result));

/* Closes and frees; no event comes after this, and it may be called from within one. */
void redis_socket_close(struct redis_socket *s);

/* Queues a command. Returns 0 or -ENOMEM. */
int redis_socket_send(struct redis_socket *s, int argc, const char **argv, const size_t *lengths)
    __attribute__((warn_unused_result));

/* Writes what is queued, as far as the kernel takes it; the rest goes when the socket is writable. */
void redis_socket_flush(struct redis_socket *s);

#endif
