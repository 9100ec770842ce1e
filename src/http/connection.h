/* The client connections of one server, and the exchanges on them (see exchange.h). */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "base/hash.h"
#include "base/list.h"
#include "http/output.h"
#include "http/parser.h"
#include "http/server.h"

/* The size of one read, and the most input that a connection keeps for requests that have to wait. */
enum { HTTP_READ_BUFFER = 16 * 1024 };

/* How long input is read and dropped after the last response. */
enum { HTTP_LINGER_MS = 2000 };

/* How long a new connection may take to begin its first request while the server drains. A client does not
 * retry that request as it would on a persistent connection. */
enum { HTTP_GRACE_MS = 1000 };

/* The first three in the order in which connections are closed for new ones; see http_connections_evict. */
enum http_deadline {
    HTTP_OPENING_TIME,
    HTTP_IDLE_TIME,
    HTTP_HEAD_TIME,
    HTTP_WRITE_TIME,
    HTTP_LINGER_TIME,
    HTTP_GRACE_TIME,
    HTTP_DEADLINES,
    HTTP_NO_DEADLINE
};

struct http_connections {
    struct http_server_options options;
    struct http_parser_config parser_config;
    uv_loop_t *loop;
    uv_timer_t tick;
    uv_idle_t turn;      /* active while there is something to do: then polling does not wait */
    uint64_t tick_ms;    /* the loop's time at the last tick */
    uint64_t overdue_ms; /* and at the one before */
    uint64_t timeout_ms[HTTP_DEADLINES];
    struct list deadlines[HTTP_DEADLINES];
    struct list run_queue;
    char date[HTTP_DATE_LEN + 1];
    struct list open;
    int rejections; /* connections over the limit */
    bool announcing_close;
    bool finishing;
    uint64_t random; /* state of the generator for ages */

    /* Responses to the requests of the connection whose input is being processed. Empty between two callbacks
     * of the loop. */
    struct http_output output;
    char read_buffer[HTTP_READ_BUFFER];
};

/* `conns` is zeroed. All pointers of `options` are borrowed. */
void http_connections_init(struct http_connections *conns, uv_loop_t *loop,
                           const struct http_server_options *options);

/* When the loop has closed all connections. */
void http_connections_fini(struct http_connections *conns);

/* Takes ownership of the accepted socket; within the limit the balancer has counted it, until it is closed.
 * `over_limit`: the client gets a 503 and the connection ends. */
void http_connections_open(struct http_connections *conns, const struct http_accepted *accepted,
                           bool over_limit);

/*
 * Closes the connection that has waited longest for a request, those of trusted proxies after all others. If
 * none waits, another one is closed if the server is for checks, even one over the limit. Returns false if
 * nothing was closed.
 */
bool http_connections_evict(struct http_connections *conns);

/* Closes connections between two requests at once, and the others after their next response. */
void http_connections_finish(struct http_connections *conns);

/* Closes all connections and handles. */
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
