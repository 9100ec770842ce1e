/* The client connections of one server, and the exchanges on them (see exchange.h). */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "base/hash.h"
#include "base/wait_group.h"
#include "http/server.h"

/* The size of one read, and the most input that a connection keeps for requests that have to wait. */
enum { HTTP_READ_BUFFER = 16 * 1024 };

/* How long input is read and dropped after the last response. */
enum { HTTP_LINGER_MS = 2000 };

/* How long a new connection may take to begin its first request while the server drains. A client does not
 * retry that request as it would on a persistent connection. */
enum { HTTP_GRACE_MS = 1000 };

struct http_connections;

/* Each connection is one of `clients`, and one of `handles`, until its memory was freed. All pointers, also
 * those of `options`, are borrowed. Owned by the caller (http_connections_free). Returns 0 or -ENOMEM. */
int http_connections_new(uv_loop_t *loop, const struct http_server_options *options,
                         struct wait_group *clients, struct wait_group *handles,
                         struct http_connections **out) __attribute__((warn_unused_result));

/* All connections must be closed. */
void http_connections_free(struct http_connections *conns);

/* Takes ownership of the accepted socket; within the limit the balancer has counted it, until it is closed.
 * `over_limit`: the client gets a 503 and the connection ends. */
void http_connections_open(struct http_connections *conns, const struct http_accepted *accepted,
                           bool over_limit);

/*
 * Closes the connection that has waited longest for a request, if no byte of a request was read from it or is
 * in the kernel. Connections of trusted proxies are closed after all others. If no connection waits, another
 * one is closed if the options say so (evict_any). Returns false if nothing was closed.
 */
bool http_connections_evict(struct http_connections *conns);

/* Returns the number of requests handled since the last call. */
unsigned http_connections_reset_requests(struct http_connections *conns);

/* From now on every response contains "Connection: close". */
void http_connections_announce_close(struct http_connections *conns);

/* Closes connections between two requests at once, and the others after their next response. */
void http_connections_finish(struct http_connections *conns);

/* Closes all connections. */
void http_connections_close(struct http_connections *conns);

/*
 * The age that a connection may reach: a fifth of `max_ms` is random, so that connections that were opened
 * together, as after a restart, do not end together. *random is a state of random_next.
 */
static inline uint64_t http_connection_age_ms(uint64_t max_ms, uint64_t *random)
{
    return max_ms - max_ms / 10 + random_next(random) % (max_ms / 5 + 1);
}

#endif
