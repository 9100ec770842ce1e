#ifndef TEST_SUPPORT_PROXY_PIPE_H
#define TEST_SUPPORT_PROXY_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One way of one connection through the proxy: bytes that were read, and when each may go on. */

struct proxy_chunk;

struct proxy_pipe {
    int from, to;
    struct proxy_chunk *first, *last;
    int64_t last_due; /* milliseconds, monotonic */
    bool ended;       /* nothing more is read */
    bool finished;    /* and all of it has gone on, with the end of the stream */
};

/* Reads once; what was read may go on after `delay_ms` and at that rate. False on an error of the socket. */
bool proxy_pipe_fill(struct proxy_pipe *pipe, int delay_ms, size_t rate);

/* Bytes that may go on now, of the first chunk; 0 when there are none. */
size_t proxy_pipe_due(const struct proxy_pipe *pipe);

/* Sends the first `length` bytes of what is due, as far as the socket takes them; *sent says how far. False
 * on an error of the socket. */
bool proxy_pipe_send(struct proxy_pipe *pipe, size_t length, size_t *sent);

/* Passes the end of the stream on when it has come and nothing is left. */
void proxy_pipe_finish(struct proxy_pipe *pipe);

/* Milliseconds until something more is due, at most `ms`. */
int proxy_pipe_wait(const struct proxy_pipe *pipe, int ms);

void proxy_pipe_fini(struct proxy_pipe *pipe);

#endif
