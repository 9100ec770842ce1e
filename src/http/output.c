/* Gathered writing; see output.h. */
#include "http/output.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* A write of the bytes that the kernel did not accept at once. */
struct pending_write {
    uv_write_t request;
    struct http_output output;
};

void http_output_add(struct http_output *o, struct blob *body)
{
    assert(o->count < HTTP_OUTPUT_MAX);
    o->response[o->count].head_end = o->heads.len;
    o->response[o->count].body = body == NULL ? NULL : blob_ref(body);
    o->body_bytes += body == NULL ? 0 : body->len;
    o->count++;
}

void http_output_clear(struct http_output *o)
{
    for (unsigned i = 0; i < o->count; i++)
        blob_unref(o->response[i].body);
    o->count = 0;
    o->body_bytes = 0;
    buf_clear(&o->heads);
}

/* Lists the pieces: head, body, head, body ... Not every response has a body. */
static unsigned http_output_gather(const struct http_output *o, uv_buf_t *pieces)
{
    unsigned n = 0;
    size_t start = 0;
    for (unsigned i = 0; i < o->count; i++) {
        size_t end = o->response[i].head_end;
        pieces[n++] = (uv_buf_t){.base = o->heads.data + start, .len = end - start};
        if (o->response[i].body != NULL)
            pieces[n++] = (uv_buf_t){.base = o->response[i].body->data, .len = o->response[i].body->len};
        start = end;
    }
    return n;
}

/* Removes the first `sent` bytes, which are not all, from the pieces. Returns the number of pieces that were
 * sent completely. */
static unsigned http_output_skip_sent(uv_buf_t *pieces, size_t sent)
{
    unsigned first = 0;
    while (sent >= pieces[first].len)
        sent -= pieces[first++].len;
    pieces[first].base += sent;
    pieces[first].len -= sent;
    return first;
}

static bool http_output_is_large(const struct blob *body)
{
    return body != NULL && body->len > HTTP_RESPONSE_LARGE;
}

bool http_output_has_room(const struct http_output *o, const struct blob *body)
{
    uint64_t unsent = metric_get(o->unsent);
    return !http_output_is_large(body) || body->writes > 0 || unsent == 0 ||
           (unsent < o->unsent_max && body->len <= o->unsent_max - unsent);
}

void http_output_end_write(uv_write_t *request)
{
    struct pending_write *w = request->data;
    for (unsigned i = 0; i < w->output.count; i++) {
        struct blob *body = w->output.response[i].body;
        if (http_output_is_large(body) && --body->writes == 0)
            metric_sub(w->output.unsent, body->len);
    }
    http_output_clear(&w->output);
    buf_fini(&w->output.heads);
    free(w);
}

/* Moves the responses: what the pieces point to stays where it is. */
static struct pending_write *http_output_detach(struct http_output *o)
{
    struct pending_write *w = malloc(sizeof *w);
    if (w == NULL)
        return NULL;
    w->output = *o;
    o->heads = BUF_INIT;
    o->count = 0;
    for (unsigned i = 0; i < w->output.count; i++) {
        struct blob *body = w->output.response[i].body;
        if (http_output_is_large(body) && body->writes++ == 0)
            metric_add(o->unsent, body->len);
    }
    return w;
}

static int http_output_write(struct http_output *o, uv_stream_t *stream, uv_write_cb written)
{
    uv_buf_t *pieces = o->piece;
    unsigned count = http_output_gather(o, pieces);
    int sent = uv_try_write(stream, pieces, count);
    if (sent < 0 && sent != UV_EAGAIN)
        return sent;
    size_t taken = sent < 0 ? 0 : (size_t)sent;
    if (taken == o->heads.len + o->body_bytes)
        return 0;
    unsigned first = http_output_skip_sent(pieces, taken);
    struct pending_write *w = http_output_detach(o);
    if (w == NULL)
        return -ENOMEM;
    w->request.data = w;
    int err = uv_write(&w->request, stream, pieces + first, count - first, written);
    if (err == 0)
        return 1;
    http_output_end_write(&w->request);
    return err;
}

int http_output_flush(struct http_output *o, uv_stream_t *stream, uv_write_cb written)
{
    if (o->count == 0)
        return 0;
    int result = buf_error(&o->heads) != 0 ? -ENOMEM : http_output_write(o, stream, written);
    http_output_clear(o);
    return result;
}
