/*
 * One client connection, and what the connections of a server share. Internal to http/.
 *
 *     READING --request complete--> HANDLING --answered--> READING
 *        |                              \--answered, and it was the last--> ENDING --written--> LINGERING -->
 * CLOSING
 *
 * In HANDLING one more read is taken and kept for later, then none: asking the kernel not to tell, and then
 * to tell again, would cost two system calls a request. So a reset is seen at once; the end of the client's
 * input is not the end of its interest, and it gets its answer.
 *
 * `writing` runs beside these states: an answer the client does not take. While it lasts, nothing is read and
 * no further request begins. In LINGERING our side is shut and what still comes is thrown away, for a while:
 * closing at once would reset the connection under an answer that the client has not read yet (RFC 9112
 * section 9.6). An answer that the client does not take by then has the write timeout, as any other.
 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include "base/list.h"
#include "http/date.h"
#include "http/deadlines.h"
#include "http/listener.h"
#include "http/output.h"
#include "http/parser.h"
#include "http/server.h"

enum {
    HTTP_READ_BUFFER = 16 * 1024
}; /* also what a connection keeps at most of requests that have to wait */
enum { HTTP_LINGER_MS = 2000 };

/* While the server finishes, a connection on which nothing has come yet may begin a request for so long: its
 * client may be one that has just connected, and would not try again as it does on a connection that was
 * kept. */
enum { HTTP_LAST_CALL_MS = 1000 };

struct http_exchange {
    struct http_parser parser;
    struct http_connection *conn;
    struct http_exchange *next_spare;
    uint64_t began_ns;
    bool close;     /* the connection ends with this answer, whatever the client asks for */
    bool followed;  /* more input of the client stands behind this request */
    bool continued; /* "100 Continue" was sent */
    max_align_t state[];
};

struct http_server {
    struct http_server_options options;
    struct http_limits limits;
    uv_loop_t *loop;
    struct http_listener listener;
    bool listening;
    bool announcing_close;
    uv_timer_t tick;
    uint64_t ticked_ms;  /* when the loop was at the last tick */
    uint64_t overdue_ms; /* and at the one before: what should have been done by then is due */
    struct http_date date;
    struct http_deadlines deadlines;
    struct list conns;
    struct list waiting;         /* connections that have sent more than they may have answered in one turn */
    uv_idle_t turn;              /* runs while there are any, or deadlines that are due */
    unsigned requests;           /* since connections were accepted */
    uint64_t random;             /* state of the generator by which the ages of connections differ */
    int refusals;                /* open connections that are over the limit */
    struct http_exchange *spare; /* exchanges for reuse */
    int spares;
    struct http_output output;
    int open_parts; /* listener, tick, turns and connections that are not closed yet */
    void (*finished)(void *arg);
    void *finished_arg;
    void (*closed)(void *arg);
    void *closed_arg;
    char read_buffer[HTTP_READ_BUFFER];
};

enum http_connection_state {
    HTTP_CONNECTION_READING,
    HTTP_CONNECTION_HANDLING,
    HTTP_CONNECTION_ENDING,
    HTTP_CONNECTION_LINGERING,
    HTTP_CONNECTION_CLOSING
};

struct http_connection {
    uv_tcp_t tcp;
    struct http_server *server;
    struct list link;
    struct list turn; /* among those that wait for their turn, or in no list */
    struct http_deadline deadline;
    struct http_exchange *exchange; /* the request that is being read or handled; NULL between two */
    uint64_t retire_ms;             /* of the loop's clock: from then on the next answer is the last */
    struct ip client;               /* the other end, or whom a PROXY protocol header names */
    struct buf
        pending_input; /* input that waits: for an answer, a write, a turn, or the rest of a PROXY header */
    enum http_connection_state state;
    bool reading;
    bool has_read;         /* as much as one read takes: then it is the others' turn */
    unsigned writing;      /* writes under way: an answer that came later may queue behind one */
    bool proxy_header_due; /* a trusted proxy may begin with one, and nothing else has come yet */
    bool half_line;        /* the CR of an empty line between two requests has come, and not its LF */
    bool processing; /* http_connection is at work on input: an answer given now is written when it is through
                      */
    bool served;     /* has had an answer */
    bool over_limit;
};

/* An exchange for the next request of the connection; NULL when there is no memory. */
struct http_exchange *http_exchange_take(struct http_connection *c);

/* The connection's exchange has ended. */
void http_exchange_give_back(struct http_connection *c);

void http_exchange_free_spares(struct http_server *s);

/* Takes over `fd`, whose other end is `peer`; on any failure it is closed. `over_limit`: the client is told
 * so and sent away. */
void http_connection_open(struct http_server *s, int fd, struct ip peer, bool over_limit);

/* Goes on after an answer that came later, after a write, or when its turn has come. */
void http_connection_resume(struct http_connection *c);

/* The server finishes: ends a connection that is between two requests, hurries one that never began any. */
void http_connection_finish(struct http_connection *c);

/* A deadline has passed. */
void http_connection_expire(struct http_connection *c);

/* Closes at once. The memory goes in the loop. */
void http_connection_close(struct http_connection *c);

/* The server's: when a connection that is opened now is old enough to end. */
uint64_t http_server_retire_ms(struct http_server *s);

/* The server's: there is something to do that may wait until all sockets have been looked at. */
void http_server_schedule(struct http_server *s);

/* The server's: a connection's memory is about to go. */
void http_server_conn_closed(struct http_server *s, struct http_connection *c);

#endif
