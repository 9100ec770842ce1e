/*
 * Responses that are written together: heads in one buffer, bodies by reference. One output serves all
 * connections of a loop, one after the other. What the socket does not accept at once moves into a pending
 * write, which owns it until it is complete.
 */
#ifndef HTTP_OUTPUT_H
#define HTTP_OUTPUT_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/metrics.h"
#include "http/response.h"

#include <uv.h>

/* The limit of one write: responses, and the bytes after which no further response is added. */
enum { HTTP_OUTPUT_MAX = 32, HTTP_OUTPUT_BYTES = 64 * 1024 };

struct http_output {
    struct buf heads;
    unsigned count;
    size_t body_bytes;
    /* Bytes of the large bodies that pending writes hold; one that several hold counts once. Borrowed. */
    _Atomic uint64_t *unsent;
    size_t unsent_max;
    struct {
        size_t head_end;   /* in `heads`; the head begins where the previous one ends */
        struct blob *body; /* one reference, or NULL */
    } response[HTTP_OUTPUT_MAX];

    /* Used by http_output_flush. A local variable would be zeroed as a whole each time. */
    uv_buf_t piece[2 * HTTP_OUTPUT_MAX];
};

/* Drops the responses that were not flushed. */
void http_output_clear(struct http_output *o);

/* True when there is enough for one write, or not enough room for one more response and the "100 Continue"
 * before it. */
static inline bool http_output_full(const struct http_output *o)
{
    return o->count + 2 > HTTP_OUTPUT_MAX || o->heads.len + o->body_bytes >= HTTP_OUTPUT_BYTES;
}

/* True if `body` may be added: it is not large, counts already, or has room below unsent_max. A single one
 * always has room. */
bool http_output_has_room(const struct http_output *o, const struct blob *body);

/* Completes a response whose head was appended to o->heads. Takes a reference to `body`, which may be NULL.
 */
void http_output_add(struct http_output *o, struct blob *body);

/*
 * Writes everything to `stream` and empties the output. Returns 0 when the kernel has accepted everything; 1
 * when a write is pending, at whose end `written` is called, which calls http_output_end_write(); or a
 * negative errno (the rest is dropped).
 */
int http_output_flush(struct http_output *o, uv_stream_t *stream, uv_write_cb written)
    __attribute__((warn_unused_result));

/* Frees the pending write. */
void http_output_end_write(uv_write_t *request);

#endif
