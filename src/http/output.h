/*
 * Answers collected to be written together: heads in one buffer, bodies by reference.
 *
 * One output serves all connections of a loop: it is filled while the input of one connection is worked on,
 * and emptied into that connection before the next one's turn. What the socket does not take at once moves
 * into a write of its own, which owns it until it is done.
 */
#ifndef HTTP_OUTPUT_H
#define HTTP_OUTPUT_H

#include "base/blob.h"
#include "base/buf.h"

#include <uv.h>

/* What one write is made of at most: so many answers, and no further one after so many bytes. */
enum { HTTP_OUTPUT_MAX = 32, HTTP_OUTPUT_BYTES = 64 * 1024 };

struct http_output {
    struct buf heads;
    unsigned count;
    size_t body_bytes;
    struct {
        size_t head_end;   /* in `heads`; the head begins where the one before ends */
        struct blob *body; /* one reference, or NULL */
    } answer[HTTP_OUTPUT_MAX];
    /* Used by a flush; on its stack, all of it would be zeroed each time. */
    uv_buf_t piece[2 * HTTP_OUTPUT_MAX];
};

void http_output_fini(struct http_output *o);

/* Empties it unwritten. */
void http_output_clear(struct http_output *o);

/* True when it is enough for one write, or there may be no room for one more request's answer and the
 * "100 Continue" before it. */
static inline bool http_output_full(const struct http_output *o)
{
    return o->count + 2 > HTTP_OUTPUT_MAX || o->heads.len + o->body_bytes >= HTTP_OUTPUT_BYTES;
}

/* Ends an answer whose head was appended to o->heads. Takes a reference of `body`, which may be NULL. Not
 * when full. */
void http_output_add(struct http_output *o, struct blob *body);

/*
 * Writes everything to `stream` and empties the output. Returns 0 when all of it is with the kernel, 1 when a
 * write is under way: then `done` is called with its status once it ended; or a negative errno (the rest is
 * dropped).
 */
int http_output_flush(struct http_output *o, uv_stream_t *stream,
                      void (*done)(uv_stream_t *stream, int status)) __attribute__((warn_unused_result));

#endif
