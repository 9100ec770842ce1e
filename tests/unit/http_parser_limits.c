/* The limits of chunked content, and floods that must end at one. The simulation has the others. */
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
    assert_true(http_parser_capacity(&f.parser) <= 4 * FEED_LIMITS.head_max);
}
