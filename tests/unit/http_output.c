/* Responses are written in order and complete, whatever the kernel takes at once; references are dropped. */
#include "http/output.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/check.h"

/* A loop with one end of a socket pair; the test reads the other one. */
struct wire {
    uv_loop_t loop;
    uv_pipe_t stream;
    int peer;
    int done_calls;
    int done_status;
    struct buf received;
};

static void on_done(uv_stream_t *stream, int status)
{
    struct wire *w = stream->data;
    w->done_calls++;
    w->done_status = status;
}

static void wire_open(struct wire *w, int send_buffer)
{
    int pair[2];
    *w = (struct wire){.received = BUF_INIT};
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
    assert_int_equal(uv_loop_init(&w->loop), 0);
    assert_int_equal(uv_pipe_init(&w->loop, &w->stream, 0), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    if (send_buffer > 0)
        assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer), 0);
    assert_int_equal(uv_pipe_open(&w->stream, pair[0]), 0);
    w->stream.data = w;
    w->peer = pair[1];
}

static void receive(struct wire *w)
{
    char chunk[4096];
    ssize_t n = 0;
    while ((n = read(w->peer, chunk, sizeof chunk)) > 0)
        buf_append(&w->received, chunk, (size_t)n);
}

static void run_until_done(struct wire *w, int calls)
{
    while (w->done_calls < calls) {
        receive(w);
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    receive(w);
}

static void wire_close(struct wire *w)
{
    if (!uv_is_closing((uv_handle_t *)&w->stream))
        uv_close((uv_handle_t *)&w->stream, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    close(w->peer);
    buf_fini(&w->received);
}

static struct blob *blob_of(char c, size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, c, size);
    struct blob *b = blob_new((struct span){text, size});
    assert_non_null(b);
    free(text);
    return b;
}

static void add(struct http_output *o, struct buf *pending, const char *head, struct blob *body)
{
    buf_append_str(&o->heads, head);
    http_output_add(o, body);
    buf_append_str(pending, head);
    if (body != NULL)
        buf_append(pending, body->data, body->len);
}

static int flush(struct http_output *o, struct wire *w)
{
    return http_output_flush(o, (uv_stream_t *)&w->stream, on_done);
}

TEST_CASE(an_empty_output_writes_nothing)
{
    struct wire w;
    struct http_output o = {0};
    wire_open(&w, 0);
    assert_int_equal(flush(&o, &w), 0);
    receive(&w);
    assert_int_equal(w.received.len, 0);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(an_output_that_is_taken_at_once_needs_no_write)
{
    struct wire w;
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *body = blob_of('b', 100);
    struct blob *empty = blob_of('-', 0);
    wire_open(&w, 0);
    add(&o, &pending, "one\r\n\r\n", body);
    add(&o, &pending, "two\r\n\r\n", NULL);
    add(&o, &pending, "three\r\n\r\n", empty);
    add(&o, &pending, "four\r\n\r\n", body);
    assert_int_equal(body->refs, 3);
    assert_int_equal(flush(&o, &w), 0);
    assert_int_equal(body->refs, 1);
    assert_int_equal(empty->refs, 1);
    assert_int_equal(o.count, 0);
    receive(&w);
    check_bytes(buf_span(&w.received), buf_span(&pending), __FILE__, __LINE__);
    assert_int_equal(w.done_calls, 0);
    blob_unref(body);
    blob_unref(empty);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(an_output_is_full_one_response_before_the_end)
{
    struct http_output o = {0};
    for (int i = 0; i < HTTP_OUTPUT_MAX - 1; i++) {
        assert_false(http_output_full(&o));
        http_output_add(&o, NULL);
    }
    assert_true(http_output_full(&o));
    http_output_add(&o, NULL);
    http_output_fini(&o);
}

/* Bodies of many sizes against a tiny buffer, so that the kernel stops inside of heads and of bodies. */
static void write_cut(size_t size)
{
    struct wire w;
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *a = blob_of('a', size);
    struct blob *b = blob_of('b', 3);
    wire_open(&w, 4096);
    add(&o, &pending, "first\r\n\r\n", a);
    add(&o, &pending, "a head that is somewhat longer\r\n\r\n", b);
    add(&o, &pending, "bodiless\r\n\r\n", NULL);
    add(&o, &pending, "last\r\n\r\n", a);
    int result = flush(&o, &w);
    assert_int_equal(o.count, 0);
    assert_int_equal(o.heads.len, 0);
    if (result == 1) {
        buf_append_str(&o.heads, "what is written meanwhile goes into the same memory, and must not show");
        run_until_done(&w, 1);
        assert_int_equal(w.done_status, 0);
    }
    receive(&w);
    assert_int_equal(a->refs, 1);
    assert_int_equal(b->refs, 1);
    check_bytes(buf_span(&w.received), buf_span(&pending), __FILE__, __LINE__);
    blob_unref(a);
    blob_unref(b);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(the_rest_follows_without_a_byte_lost_or_doubled)
{
    for (size_t size = 1500; size < 5500; size += 37)
        write_cut(size);
    for (size_t size = 4000; size < 4700; size++)
        write_cut(size);
    write_cut(3000000);
}

TEST_CASE(writes_are_queued_in_order)
{
    struct wire w;
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *big = blob_of('x', 500000);
    wire_open(&w, 4096);
    for (int i = 0; i < 3; i++) {
        add(&o, &pending, i == 0 ? "one\r\n" : i == 1 ? "two\r\n" : "three\r\n", big);
        assert_int_equal(flush(&o, &w), 1);
    }
    run_until_done(&w, 3);
    assert_int_equal(w.done_status, 0);
    assert_int_equal(big->refs, 1);
    check_bytes(buf_span(&w.received), buf_span(&pending), __FILE__, __LINE__);
    blob_unref(big);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(as_many_responses_as_fit_are_written_together)
{
    struct wire w;
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *body = blob_of('y', 10000);
    wire_open(&w, 4096);
    for (int i = 0; i < HTTP_OUTPUT_MAX; i++)
        add(&o, &pending, "head\r\n\r\n", body);
    assert_int_equal(flush(&o, &w), 1);
    run_until_done(&w, 1);
    assert_int_equal(body->refs, 1);
    check_bytes(buf_span(&w.received), buf_span(&pending), __FILE__, __LINE__);
    blob_unref(body);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(a_closed_peer_is_an_error_and_empties_the_output)
{
    struct wire w;
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *body = blob_of('z', 10);
    wire_open(&w, 0);
    close(w.peer);
    w.peer = -1;
    add(&o, &pending, "head\r\n\r\n", body);
    assert_int_equal(flush(&o, &w), -EPIPE);
    assert_int_equal(o.count, 0);
    assert_int_equal(body->refs, 1);
    blob_unref(body);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(a_peer_that_closes_during_a_write_fails_it)
{
    struct wire w;
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *body = blob_of('z', 500000);
    wire_open(&w, 4096);
    add(&o, &pending, "head\r\n\r\n", body);
    assert_int_equal(flush(&o, &w), 1);
    close(w.peer);
    w.peer = -1;
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.done_calls, 1);
    assert_true(w.done_status < 0);
    assert_int_equal(body->refs, 1);
    blob_unref(body);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(closing_the_stream_cancels_its_writes)
{
    struct wire w;
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *body = blob_of('z', 500000);
    wire_open(&w, 4096);
    for (int i = 0; i < 2; i++) {
        add(&o, &pending, "head\r\n\r\n", body);
        assert_int_equal(flush(&o, &w), 1);
    }
    uv_close((uv_handle_t *)&w.stream, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.done_calls, 2);
    assert_int_equal(w.done_status, UV_ECANCELED);
    assert_int_equal(body->refs, 1);
    blob_unref(body);
    http_output_fini(&o);
    wire_close(&w);
}

TEST_CASE(clearing_drops_all_references)
{
    struct http_output o = {0};
    SCOPED_BUF(pending);
    struct blob *body = blob_of('z', 10);
    add(&o, &pending, "head", body);
    add(&o, &pending, "head", body);
    http_output_clear(&o);
    assert_int_equal(body->refs, 1);
    assert_int_equal(o.count, 0);
    assert_int_equal(o.heads.len, 0);
    add(&o, &pending, "head", body);
    http_output_fini(&o); /* as does ending it */
    assert_int_equal(body->refs, 1);
    blob_unref(body);
}
