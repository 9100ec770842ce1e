/* Responses are written in order and complete, whatever the kernel takes at once; references are dropped. */
#include "http/output.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/check.h"

/* A loop with one end of a socket pair, of which the test reads the other one; an output, and what it wrote.
 */
static struct wire {
    uv_loop_t loop;
    uv_pipe_t stream;
    int peer;
    int done_calls;
    int done_status;
    struct http_output output;
    struct buf written, received;
} w;

static void on_done(uv_stream_t *stream, int status)
{
    assert_ptr_equal(stream->data, &w);
    w.done_calls++;
    w.done_status = status;
}

static int begin(void **state)
{
    int pair[2];
    (void)state;
    w = (struct wire){.received = BUF_INIT, .written = BUF_INIT};
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
    assert_int_equal(uv_loop_init(&w.loop), 0);
    assert_int_equal(uv_pipe_init(&w.loop, &w.stream, 0), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(uv_pipe_open(&w.stream, pair[0]), 0);
    w.stream.data = &w;
    w.peer = pair[1];
    return 0;
}

/* The kernel takes little at once. */
static void shrink_send_buffer(void)
{
    const int size = 4096;
    uv_os_fd_t fd = -1;
    assert_int_equal(uv_fileno((uv_handle_t *)&w.stream, &fd), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
}

static void receive(void)
{
    char chunk[4096];
    ssize_t n = 0;
    while ((n = read(w.peer, chunk, sizeof chunk)) > 0)
        buf_append(&w.received, chunk, (size_t)n);
}

static void run_until_done(int calls)
{
    while (w.done_calls < calls) {
        receive();
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
    }
    receive();
}

static void close_peer(void)
{
    close(w.peer);
    w.peer = -1;
}

static int end(void **state)
{
    (void)state;
    http_output_fini(&w.output);
    if (!uv_is_closing((uv_handle_t *)&w.stream))
        uv_close((uv_handle_t *)&w.stream, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    close(w.peer);
    buf_fini(&w.received);
    buf_fini(&w.written);
    return 0;
}

#define OUTPUT_TEST(name) TEST_CASE_WITH(name, begin, end)

/* All that was written has arrived. */
static void expect_received(void)
{
    receive();
    check_bytes(buf_span(&w.received), buf_span(&w.written), __FILE__, __LINE__);
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

static void add(const char *head, struct blob *body)
{
    buf_append_str(&w.output.heads, head);
    http_output_add(&w.output, body);
    buf_append_str(&w.written, head);
    if (body != NULL)
        buf_append(&w.written, body->data, body->len);
}

static int flush(void)
{
    return http_output_flush(&w.output, (uv_stream_t *)&w.stream, on_done);
}

OUTPUT_TEST(an_empty_output_writes_nothing)
{
    assert_int_equal(flush(), 0);
    receive();
    assert_int_equal(w.received.len, 0);
}

OUTPUT_TEST(an_output_that_is_taken_at_once_needs_no_write)
{
    struct blob *body = blob_of('b', 100);
    struct blob *empty = blob_of('-', 0);
    add("one\r\n\r\n", body);
    add("two\r\n\r\n", NULL);
    add("three\r\n\r\n", empty);
    add("four\r\n\r\n", body);
    assert_int_equal(body->refs, 3);
    assert_int_equal(flush(), 0);
    assert_int_equal(body->refs, 1);
    assert_int_equal(empty->refs, 1);
    assert_int_equal(w.output.count, 0);
    expect_received();
    assert_int_equal(w.done_calls, 0);
    blob_unref(body);
    blob_unref(empty);
}

OUTPUT_TEST(an_output_is_full_one_response_before_the_end)
{
    for (int i = 0; i < HTTP_OUTPUT_MAX - 1; i++) {
        assert_false(http_output_full(&w.output));
        http_output_add(&w.output, NULL);
    }
    assert_true(http_output_full(&w.output));
    http_output_add(&w.output, NULL);
}

/* Bodies of many sizes against a tiny buffer, so that the kernel stops inside of heads and of bodies. */
static void write_cut(size_t size)
{
    (void)end(NULL);
    (void)begin(NULL);
    struct blob *a = blob_of('a', size);
    struct blob *b = blob_of('b', 3);
    shrink_send_buffer();
    add("first\r\n\r\n", a);
    add("a head that is somewhat longer\r\n\r\n", b);
    add("bodiless\r\n\r\n", NULL);
    add("last\r\n\r\n", a);
    int result = flush();
    assert_int_equal(w.output.count, 0);
    assert_int_equal(w.output.heads.len, 0);
    if (result == 1) {
        buf_append_str(&w.output.heads,
                       "what is written meanwhile goes into the same memory, and must not show");
        run_until_done(1);
        assert_int_equal(w.done_status, 0);
    }
    assert_int_equal(b->refs, 1);
    expect_received();
    blob_unref(a);
    blob_unref(b);
}

OUTPUT_TEST(the_rest_follows_without_a_byte_lost_or_doubled)
{
    for (size_t size = 1500; size < 5500; size += 37)
        write_cut(size);
    for (size_t size = 4000; size < 4700; size++)
        write_cut(size);
    write_cut(3000000);
}

OUTPUT_TEST(writes_are_queued_in_order)
{
    struct blob *big = blob_of('x', 500000);
    shrink_send_buffer();
    for (int i = 0; i < 3; i++) {
        add(i == 0 ? "one\r\n" : i == 1 ? "two\r\n" : "three\r\n", big);
        assert_int_equal(flush(), 1);
    }
    run_until_done(3);
    assert_int_equal(w.done_status, 0);
    assert_int_equal(big->refs, 1);
    expect_received();
    blob_unref(big);
}

OUTPUT_TEST(as_many_responses_as_fit_are_written_together)
{
    struct blob *body = blob_of('y', 10000);
    shrink_send_buffer();
    for (int i = 0; i < HTTP_OUTPUT_MAX; i++)
        add("head\r\n\r\n", body);
    assert_int_equal(flush(), 1);
    run_until_done(1);
    assert_int_equal(body->refs, 1);
    expect_received();
    blob_unref(body);
}

OUTPUT_TEST(a_closed_peer_is_an_error_and_empties_the_output)
{
    struct blob *body = blob_of('z', 10);
    close_peer();
    add("head\r\n\r\n", body);
    assert_int_equal(flush(), -EPIPE);
    assert_int_equal(w.output.count, 0);
    assert_int_equal(body->refs, 1);
    blob_unref(body);
}

OUTPUT_TEST(a_peer_that_closes_during_a_write_fails_it)
{
    struct blob *body = blob_of('z', 500000);
    shrink_send_buffer();
    add("head\r\n\r\n", body);
    assert_int_equal(flush(), 1);
    close_peer();
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.done_calls, 1);
    assert_true(w.done_status < 0);
    assert_int_equal(body->refs, 1);
    blob_unref(body);
}

OUTPUT_TEST(closing_the_stream_cancels_its_writes)
{
    struct blob *body = blob_of('z', 500000);
    shrink_send_buffer();
    for (int i = 0; i < 2; i++) {
        add("head\r\n\r\n", body);
        assert_int_equal(flush(), 1);
    }
    uv_close((uv_handle_t *)&w.stream, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.done_calls, 2);
    assert_int_equal(w.done_status, UV_ECANCELED);
    assert_int_equal(body->refs, 1);
    blob_unref(body);
}

OUTPUT_TEST(clearing_drops_all_references)
{
    struct blob *body = blob_of('z', 10);
    add("head", body);
    add("head", body);
    http_output_clear(&w.output);
    assert_int_equal(body->refs, 1);
    assert_int_equal(w.output.count, 0);
    assert_int_equal(w.output.heads.len, 0);
    add("head", body);
    http_output_fini(&w.output); /* as does ending it */
    assert_int_equal(body->refs, 1);
    blob_unref(body);
}

/* ---- large bodies that are unsent ---- */

OUTPUT_TEST(a_large_body_is_unsent_once_however_many_writes_hold_it)
{
    struct blob *one = blob_of('1', 500000);
    struct blob *other = blob_of('2', 400000);
    struct blob *small = blob_of('s', HTTP_RESPONSE_LARGE);
    struct blob *const bodies[] = {one, one, other, small, one};
    static const size_t unsent[] = {500000, 500000, 900000, 900000, 900000};
    shrink_send_buffer();
    for (size_t i = 0; i < TEST_COUNT(bodies); i++) {
        add("head\r\n\r\n", bodies[i]);
        assert_int_equal(flush(), 1);
        assert_int_equal(w.output.unsent, unsent[i]);
    }
    run_until_done(TEST_COUNT(bodies));
    assert_int_equal(w.output.unsent, 0);
    assert_int_equal(one->writes + other->writes + small->writes, 0);
    expect_received();
    blob_unref(one);
    blob_unref(other);
    blob_unref(small);
}

OUTPUT_TEST(what_the_kernel_takes_is_not_unsent)
{
    struct blob *body = blob_of('b', HTTP_RESPONSE_LARGE + 1);
    add("head\r\n\r\n", body);
    assert_int_equal(flush(), 0);
    assert_int_equal(w.output.unsent, 0);
    blob_unref(body);
}

OUTPUT_TEST(closing_the_stream_makes_room)
{
    struct blob *body = blob_of('b', 500000);
    shrink_send_buffer();
    add("head\r\n\r\n", body);
    assert_int_equal(flush(), 1);
    assert_int_equal(w.output.unsent, 500000);
    uv_close((uv_handle_t *)&w.stream, NULL);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(w.output.unsent, 0);
    blob_unref(body);
}

OUTPUT_TEST(there_is_room_up_to_the_limit)
{
    enum { UNSENT = 500000 };
    struct blob *held = blob_of('h', UNSENT);
    struct blob *small = blob_of('s', HTTP_RESPONSE_LARGE);
    struct blob *large = blob_of('l', HTTP_RESPONSE_LARGE + 1);
    assert_true(http_output_has_room(&w.output, held, 1)); /* it would be the only one */
    shrink_send_buffer();
    add("head\r\n\r\n", held);
    assert_int_equal(flush(), 1);
    assert_true(http_output_has_room(&w.output, held, 1));
    assert_true(http_output_has_room(&w.output, small, 1));
    assert_true(http_output_has_room(&w.output, large, UNSENT + HTTP_RESPONSE_LARGE + 1));
    assert_false(http_output_has_room(&w.output, large, UNSENT + HTTP_RESPONSE_LARGE));
    assert_false(http_output_has_room(&w.output, large, UNSENT));
    assert_false(http_output_has_room(&w.output, large, 1));
    run_until_done(1);
    assert_true(http_output_has_room(&w.output, large, 1));
    blob_unref(held);
    blob_unref(small);
    blob_unref(large);
}
