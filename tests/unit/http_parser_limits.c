/* Every limit of a request from both sides, and floods that must end at one. */
#include "unit/fixtures/http_feed.h"

enum { HEAD_MAX = 200, BODY_MAX = 100 };

static const struct feed_limits LIMITS = {HEAD_MAX, BODY_MAX, true};

#define GET     "GET / HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

static void append_times(struct buf *b, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buf_append_str(b, text);
}

static void expect(struct buf *input, const struct feed_limits *limits, int status)
{
    SCOPED_FEED(f);
    feed_every_way(&f, limits, buf_span(input));
    assert_int_equal(f.progress, status == 200 ? HTTP_COMPLETE : HTTP_REJECTED);
    if (status == 200)
        assert_int_equal(f.used, input->len);
    else
        assert_int_equal(f.parser.status, status);
    buf_fini(input);
}

/* A complete head of `size` bytes, filled up in its target or in a field. */
static struct buf head_of(size_t size, bool in_target)
{
    struct buf b = BUF_INIT;
    const char *start = in_target ? "GET /" : GET "X: ";
    const char *end = in_target ? " HTTP/1.1\r\nHost: a\r\n\r\n" : "\r\n\r\n";
    buf_append_str(&b, start);
    append_times(&b, "x", size - strlen(start) - strlen(end));
    buf_append_str(&b, end);
    assert_int_equal(b.len, size);
    return b;
}

TEST_CASE(a_head_beyond_the_limit_is_431)
{
    struct buf exact = head_of(HEAD_MAX, false);
    struct buf more = head_of(HEAD_MAX + 1, false);
    expect(&exact, &LIMITS, 200);
    expect(&more, &LIMITS, 431);
}

TEST_CASE(a_target_beyond_the_limit_is_414)
{
    struct buf exact = head_of(HEAD_MAX, true);
    struct buf later = head_of(HEAD_MAX + 1, true);
    struct buf within = head_of(HEAD_MAX + 50, true);
    expect(&exact, &LIMITS, 200);
    expect(&later, &LIMITS, 431);
    expect(&within, &LIMITS, 414);
}

TEST_CASE(an_endless_target_is_414_at_the_limit)
{
    SCOPED_FEED(f);
    SCOPED_BUF(b);
    buf_append_str(&b, "HEAD /");
    append_times(&b, "x", HEAD_MAX - b.len);
    feed_every_way(&f, &LIMITS, buf_span(&b));
    assert_int_equal(f.progress, HTTP_NEED_MORE);
    buf_append_char(&b, 'x');
    feed_every_way(&f, &LIMITS, buf_span(&b));
    assert_int_equal(f.progress, HTTP_REJECTED);
    assert_int_equal(f.parser.status, 414);
    assert_int_equal(f.parser.request.method, METHOD_HEAD);
}

TEST_CASE(empty_lines_before_a_request_do_not_count)
{
    SCOPED_FEED(f);
    struct buf b = BUF_INIT;
    append_times(&b, "\r\n", HEAD_MAX);
    feed_whole(&f, &LIMITS, buf_span(&b));
    assert_int_equal(f.progress, HTTP_NEED_MORE);
    assert_int_equal(f.parser.state.head_len, 0);
    buf_append_str(&b, GET "\r\n");
    expect(&b, &LIMITS, 200);
}

TEST_CASE(many_short_fields_and_a_long_name_are_431)
{
    struct buf b = BUF_INIT;
    buf_append_str(&b, GET);
    append_times(&b, "a:b\r\n", HEAD_MAX / 5);
    expect(&b, &LIMITS, 431);
    b = BUF_INIT;
    buf_append_str(&b, GET);
    append_times(&b, "n", HEAD_MAX);
    expect(&b, &LIMITS, 431);
}

static void send_content(size_t size, int status)
{
    struct buf b = BUF_INIT;
    buf_printf(&b, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    if (status == 200)
        append_times(&b, "x", size);
    expect(&b, &LIMITS, status);
    b = BUF_INIT;
    buf_printf(&b, CHUNKED "%zx\r\n", size);
    append_times(&b, "x", size);
    buf_append_str(&b, "\r\n0\r\n\r\n");
    expect(&b, &LIMITS, status);
}

TEST_CASE(content_beyond_the_limit_is_413)
{
    send_content(BODY_MAX, 200);
    send_content(BODY_MAX + 1, 413);
    send_content(10 * (size_t)BODY_MAX, 413);
}

TEST_CASE(content_in_many_chunks_counts_together)
{
    struct buf b = BUF_INIT;
    buf_append_str(&b, CHUNKED);
    append_times(&b, "32\r\n12345678901234567890123456789012345678901234567890\r\n", 2);
    buf_append_str(&b, "0\r\n\r\n");
    expect(&b, &LIMITS, 200);
    b = BUF_INIT;
    buf_append_str(&b, CHUNKED);
    append_times(&b, "32\r\n12345678901234567890123456789012345678901234567890\r\n", 2);
    buf_append_str(&b, "1\r\nx\r\n0\r\n\r\n");
    expect(&b, &LIMITS, 413);
}

TEST_CASE(a_content_limit_of_0_allows_empty_content)
{
    static const struct feed_limits none = {HEAD_MAX, 0, true};
    struct buf b = BUF_INIT;
    buf_append_str(&b, CHUNKED "0\r\n\r\n");
    expect(&b, &none, 200);
    b = BUF_INIT;
    buf_append_str(&b, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    expect(&b, &none, 200);
    b = BUF_INIT;
    buf_append_str(&b, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n");
    expect(&b, &none, 413);
    b = BUF_INIT;
    buf_append_str(&b, CHUNKED "1\r\nx\r\n0\r\n\r\n");
    expect(&b, &none, 413);
}

/* The framing around `content` bytes may be as long as head and content together, and no byte longer. */
static void check_framing(const char *start, char filler, const char *end, size_t content)
{
    size_t room = HEAD_MAX + BODY_MAX + content - strlen(start) - strlen(end);
    for (size_t more = 0; more <= 1; more++) {
        struct buf b = BUF_INIT;
        buf_append_str(&b, CHUNKED);
        buf_append_str(&b, start);
        append_times(&b, (const char[]){filler, '\0'}, room + more);
        buf_append_str(&b, end);
        expect(&b, &LIMITS, more == 0 ? 200 : 413);
    }
}

TEST_CASE(chunk_sizes_extensions_and_trailers_are_bounded)
{
    check_framing("", '0', "1\r\nx\r\n0\r\n\r\n", 1);
    check_framing("1;", 'e', "\r\nx\r\n0\r\n\r\n", 1);
    check_framing("0\r\nT: ", 't', "\r\n\r\n", 0);
}

TEST_CASE(endless_chunks_and_trailers_are_413)
{
    EACH_TEXT (text, "1;extension\r\nx\r\n", "1\r\nx\r\n", "0000000000000000") {
        struct buf b = BUF_INIT;
        buf_append_str(&b, CHUNKED);
        append_times(&b, text, HEAD_MAX);
        expect(&b, &LIMITS, 413);
    }
    struct buf b = BUF_INIT;
    buf_append_str(&b, CHUNKED "0\r\n");
    append_times(&b, "Trailer: value\r\n", HEAD_MAX);
    expect(&b, &LIMITS, 413);
}

TEST_CASE(repeated_fields_take_no_more_memory_than_the_head)
{
    SCOPED_FEED(f);
    SCOPED_BUF(b);
    buf_append_str(&b, GET "If-None-Match: \"");
    append_times(&b, "x", FEED_LIMITS.head_max / 2);
    buf_append_str(&b, "\"\r\nX-Api-Key: k\r\n");
    while (b.len + 32 < FEED_LIMITS.head_max)
        buf_append_str(&b, "If-None-Match:\r\n");
    buf_append_str(&b, "\r\n");
    feed_whole(&f, &FEED_LIMITS, buf_span(&b));
    assert_int_equal(f.progress, HTTP_COMPLETE);
    assert_true(f.parser.text.cap <= 4 * FEED_LIMITS.head_max);
}
