/*
 * A connection to one address of a server, without blocking the loop: a hiredis context that the loop polls.
 *
 * hiredis opens, reads and writes the socket, with or without TLS. resp.h encodes commands and parses
 * replies, for two reasons. The allocations of hiredis were a third of the cost of an uncached request, and
 * its reader does not bound its memory.
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

/* Whether a failure may pass. */
enum redis_failure {
    REDIS_FAILURE_PASSING,  /* there is no connection, or no memory */
    REDIS_FAILURE_REFUSED,  /* an error reply, which is the reason */
    REDIS_FAILURE_REJECTED, /* one side rejects the other (a certificate, a permission), or the server is of
                               another kind */
    REDIS_FAILURE_INVALID   /* the input is not RESP3 */
};

struct redis_socket_options {
    void (*on_connected)(void *arg);
    /*
     * Replies and elements of pushes, in stream order, all borrowed; see resp.h. `read_ns` is when the end of
     * the reply was read, by the monotonic clock.
     */
    void (*on_reply)(void *arg, const struct redis_reply *reply, uint64_t read_ns);
    void (*on_push)(void *arg, struct span kind, const struct redis_reply *element);
    /*
     * So much input has waited that the server may have been blocked and hold back more. A drained socket
     * then does not prove that everything has arrived. Called once until the socket is drained; may be NULL.
     */
    void (*on_backlog)(void *arg);
    void (*on_failed)(void *arg, const char *why,
                      enum redis_failure failure); /* once; `why` is borrowed until the function returns */
    void *arg;
    /* The limits of a reply in place of those of resp.h; 0: those of resp.h. */
    size_t bytes_max;
    uint64_t elements_max;
};

/*
 * Opens a connection to `address`, which is numeric, or NULL for a local socket whose path is that of the
 * endpoint. `tls` and the endpoint's host are borrowed while it lives. Returns 0, -ENOMEM, or the negative
 * errno with which the system refused at once.
 */
int redis_socket_open(uv_loop_t *loop, const struct redis_endpoint *endpoint, struct ssl_ctx_st *tls,
                      const char *address, const struct redis_socket_options *options,
                      struct redis_socket **out) __attribute__((warn_unused_result));

/* Closes and frees the socket. No event follows, and it may be called from within one. */
void redis_socket_close(struct redis_socket *s);

/* Queues a command, as command_begin and command_add (resp.h) make it. Returns 0 or -ENOMEM. */
int redis_socket_send(struct redis_socket *s, struct span command) __attribute__((warn_unused_result));

/* Writes the queue as far as the kernel accepts it. The rest is written when the socket is writable. */
void redis_socket_flush(struct redis_socket *s);

/* True from on_backlog on, until the socket is drained. */
bool redis_socket_has_backlog(const struct redis_socket *s);

struct redis_socket_progress {
    /*
     * By the monotonic clock: when a read last continued a reply, or a push that neither began nor ended in
     * that read. Nothing behind it can arrive meanwhile.
     */
    uint64_t progress_ns;
    bool in_reply; /* a reply has begun and not ended */
    bool in_push;  /* a push has begun and not ended */
};

struct redis_socket_progress redis_socket_progress(const struct redis_socket *s);

/*
 * How long input may wait while the process runs normally, in milliseconds: ten loop iterations. Input that
 * waits longer is a backlog.
 */
enum { REDIS_SOCKET_BACKLOG_MS = 50 };

/*
 * When the socket was last drained (boot clock). Both the kernel and TLS were found empty, so everything that
 * had arrived by then has been delivered. Input may wait because the process was stopped, had no processor
 * time, or gets more than one loop iteration reads.
 *
 * Makes a system call if the socket was not drained after `since_ms`, but does not read. Within on_reply and
 * on_push it makes no system call, and more of them may follow.
 */
uint64_t redis_socket_drained_ms(struct redis_socket *s, uint64_t since_ms);

#endif
