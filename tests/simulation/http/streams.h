/*
 * The sockets of a server in a simulation: the system calls and the functions of libuv by which src/http uses
 * listeners, connections and pipes. They follow the rules of Linux and libuv. Reads and writes may be
 * partial, and the send buffer is bounded. No callback is called from within a call. A socket that is closed
 * with unread input is reset.
 *
 * The test controls the client's end.
 */
#ifndef SIMULATION_HTTP_STREAMS_H
#define SIMULATION_HTTP_STREAMS_H

#include "base/buf.h"

#include <uv.h>

enum { STREAMS_MAX = 200, STREAM_WRITES_MAX = 16 };

struct stream_write {
    uv_write_t *request;
    struct buf rest; /* what the kernel has not taken */
    int status;
    bool done;
};

struct tcp {
    uint8_t ip[4]; /* of the client */
    bool accepted;
    bool opened;         /* by the server that is to have it */
    bool closed;         /* by the server */
    bool reset;          /* by the client: the server gets ECONNRESET */
    bool in_end;         /* the client has ended its side */
    bool gone;           /* the client has closed both: what the server sends is answered with a reset */
    bool lost;           /* the client gets a reset in place of the rest */
    bool out_end;        /* the server has ended its side */
    bool linger_at_once; /* close() drops what was not sent */
    bool ended_read;     /* the server has read the end, or an error */
    struct buf in;       /* sent by the client, in the kernel */
    size_t in_at;
    struct buf out; /* sent by the server, and not taken by the client */
    size_t window;  /* bytes that the client's kernel takes by itself */
    size_t unsent_max;
    size_t arrived, read; /* bytes altogether */

    /* By the monotonic clock; 0: never. */
    uint64_t accepted_ns, opened_ns, closed_ns, shutdown_ns, read_ns;
    uint64_t write_since_ns; /* there are writes that wait */
    uint64_t written_ns;     /* the last of them was complete */
    uv_stream_t *handle;
    struct stream_write write[STREAM_WRITES_MAX];
    unsigned writes;
    unsigned flushes; /* calls of uv_try_write() */
};

extern struct tcp streams[STREAMS_MAX];
extern unsigned streams_count;
extern uint64_t streams_inbox_full_ns; /* when an inbox was full last, by the monotonic clock; 0: never */

/* Called when the server closes a connection, before anything of it is dropped. */
extern void (*streams_on_close)(struct tcp *s);

/* Called when the server accepts. */
extern void (*streams_on_accept)(struct tcp *s);

void streams_begin(void);

/* A connection arrives in the queue of a listener (from 0). NULL: nobody listens. */
struct tcp *streams_connect(unsigned listener, const uint8_t ip[4]);
unsigned streams_listeners(void);
bool streams_has_queue(void); /* a connection waits to be accepted */

void stream_send(struct tcp *s, const char *data, size_t n);
void stream_end(struct tcp *s);   /* half-closes */
void stream_close(struct tcp *s); /* the client takes nothing any more */
void stream_reset(struct tcp *s);

/* Appends at most `most` bytes to *to. */
void stream_take(struct tcp *s, struct buf *to, size_t most);

/* The client has taken everything, and the server has ended its side. */
bool stream_at_end(const struct tcp *s);

/* Bytes for the client that its kernel does not take. */
size_t stream_unsent(const struct tcp *s);

/* Frees all memory. Returns false if the server has left a descriptor open. */
bool streams_finish(void);

#endif
