/*
 * One attempt at a connection: a non-blocking hiredis context, polled by the loop.
 *
 * Of hiredis this uses how a socket is opened, read and written (with TLS or without). Commands are composed
 * here, and replies are parsed by redis/resp: what hiredis allocates for each of them was a third of what a
 * request without cache costs, and it keeps whatever it is sent.
 *
 * It lives from the first SYN to the loss of the connection. redis_connection makes a new one for each
 * attempt, so that nothing of an old connection (half a reply, a queued command) can ever reach a new one.
 */
#ifndef REDIS_SOCKET_H
#define REDIS_SOCKET_H

#include "base/buf.h"
#include "redis/endpoint.h"
#include "redis/resp.h"

#include <hiredis/hiredis.h>
#include <uv.h>

struct ssl_ctx_st;

struct socket_events {
    void (*on_connected)(void *arg);
    /* Replies and the elements of pushes, in stream order, all borrowed; see resp.h. */
    void (*on_reply)(void *arg, const redisReply *reply);
    void (*on_push)(void *arg, struct span kind, const redisReply *element);
    void (*on_failed)(void *arg, const char *why); /* once; `why` is borrowed until the function returns */
    void *arg;
};

enum { SOCKET_READ = 16 * 1024 }; /* bytes taken from the kernel at a time */

struct redis_socket {
    uv_poll_t poll;
    redisContext *context;
    struct resp_parser parser;
    struct buf queued; /* commands that wait for the next flush */
    struct socket_events events;
    uint64_t read_ns;       /* when something was last read, by the monotonic clock */
    uint64_t progress_ns;   /* when more was last read of a reply that had begun before */
    bool more;              /* the last turn did not read all there was */
    struct ssl_ctx_st *tls; /* borrowed, as is the host that it is for; NULL without TLS */
    const char *host;
    bool connected;
    bool polling_writable;
    bool closing;
    char input[SOCKET_READ];
};

/*
 * Opens a connection to `address` (a numeric address, or the socket path of the target). `tls` and the
 * target's host are borrowed while it lives. Returns 0, -ENOMEM, or the negative errno with which the system
 * refused at once.
 */
int redis_socket_open(uv_loop_t *loop, const struct redis_endpoint *target, struct ssl_ctx_st *tls,
                      const char *address, const struct socket_events *events, struct redis_socket **out)
    __attribute__((warn_unused_result));

/* Stricter limits than those of every reply (resp.h), for one that answers no more than a few lines. */
void redis_socket_limit(struct redis_socket *s, size_t bytes_max, uint64_t elements_max);

/* Closes and frees; no event comes after this, and it may be called from within one. */
void redis_socket_close(struct redis_socket *s);

/* Queues a command, as command_begin and command_add make it. Returns 0 or -ENOMEM. */
int redis_socket_send(struct redis_socket *s, struct span command) __attribute__((warn_unused_result));

/* Writes what is queued, as far as the kernel takes it; the rest goes when the socket is writable. */
void redis_socket_flush(struct redis_socket *s);

#endif
