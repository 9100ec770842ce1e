/*
 * A connection to one address of a server, without blocking the loop: a hiredis context that the loop polls.
 *
 * hiredis opens, reads and writes the socket, with TLS or without. Commands are encoded and replies parsed by
 * resp.h: the allocations of hiredis for each were a third of the cost of an uncached request, and its reader
 * does not bound its memory.
 *
 * Each attempt has a new socket, so that nothing of an old connection (half a reply, a queued command)
 * reaches a new one.
 */
#ifndef REDIS_SOCKET_H
#define REDIS_SOCKET_H

#include "redis/endpoint.h"
#include "redis/resp.h"

#include <uv.h>

struct redis_socket;
struct ssl_ctx_st;

struct redis_socket_options {
    void (*on_connected)(void *arg);
    /*
     * Replies and the elements of pushes, in stream order, all borrowed; see resp.h. `read_ns` is when the
     * end of the reply was read, by the monotonic clock.
     */
    void (*on_reply)(void *arg, const struct redis_reply *reply, uint64_t read_ns);
    void (*on_push)(void *arg, struct span kind, const struct redis_reply *element);
    /*
     * Input has waited, so much that the server may have been blocked and hold back more: a drained socket
     * does not prove that all has come. Once until the socket is drained; may be NULL.
     */
    void (*on_backlog)(void *arg);
    void (*on_failed)(void *arg, const char *why); /* once; `why` is borrowed until the function returns */
    void *arg;
    /* Stricter limits than those of every reply (resp.h); 0: those. */
    size_t bytes_max;
    uint64_t elements_max;
};

/*
 * Opens a connection to `address` (numeric; NULL for a local socket, whose path is the endpoint's). `tls` and
 * the endpoint's host are borrowed while it lives. Returns 0, -ENOMEM, or the negative errno with which the
 * system refused at once.
 */
int redis_socket_open(uv_loop_t *loop, const struct redis_endpoint *endpoint, struct ssl_ctx_st *tls,
                      const char *address, const struct redis_socket_options *options,
                      struct redis_socket **out) __attribute__((warn_unused_result));

/* Closes and frees; no event comes after this, and it may be called from within one. */
void redis_socket_close(struct redis_socket *s);

/* Queues a command, as command_begin and command_add (resp.h) make it. Returns 0 or -ENOMEM. */
int redis_socket_send(struct redis_socket *s, struct span command) __attribute__((warn_unused_result));

/* Writes what is queued, as far as the kernel takes it; the rest is written when the socket is writable. */
void redis_socket_flush(struct redis_socket *s);

struct redis_socket_progress {
    /*
     * When more was last read of a reply that had begun before, or of a push that neither began nor ended in
     * that read: nothing behind it can arrive meanwhile. By the monotonic clock.
     */
    uint64_t progress_ns;
    bool in_reply; /* a reply has begun and not ended */
    bool in_push;  /* the same of a push */
};

struct redis_socket_progress redis_socket_progress(const struct redis_socket *s);

/*
 * For how long input may wait while the process runs as it should, in milliseconds: ten turns of the loop.
 * What waits for longer is a backlog.
 */
enum { REDIS_SOCKET_BACKLOG_MS = 50 };

/*
 * When the socket was last drained (boot clock): both the kernel and TLS were found empty, so everything that
 * had arrived by then has been delivered. Input may wait because the process was stopped, had no processor
 * time, or gets more than one turn of the loop reads. Makes a system call if the socket was not drained after
 * `since_ms`, and does not read; within on_reply and on_push it makes none, and more may follow them.
 */
uint64_t redis_socket_drained_ms(struct redis_socket *s, uint64_t since_ms);

#endif
