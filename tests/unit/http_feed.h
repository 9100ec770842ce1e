/* Feeding a parser in every way that a network may cut its input; the outcome must be the same. */
#ifndef TEST_UNIT_HTTP_FEED_H
#define TEST_UNIT_HTTP_FEED_H

#include <stdlib.h>

#include "http/parser.h"
#include "unit/check.h"

static const struct http_limits FEED_LIMITS = {16384, 65536, true};

/* What a parser made of some input. */
struct fed {
    enum http_progress progress;
    size_t used;
    bool half_line;
    struct http_parser parser;
};

/* Bytes are handed over in copies of exactly their size, so that AddressSanitizer sees what is read beyond.
 */
static inline void feed_piece(struct fed *f, struct span bytes)
{
    if (!f->parser.now.line_begun) {
        size_t empty = http_skip_empty_lines(bytes, &f->half_line);
        f->used += empty;
        bytes = span_skip(bytes, empty);
        if (bytes.len == 0)
            return;
        if (f->half_line) { /* as the connection does */
            f->progress = HTTP_REFUSED;
            f->parser.refusal = 400;
            return;
        }
    }
    char *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    size_t used = 0;
    assert_non_null(copy);
    if (bytes.len > 0)
        memcpy(copy, bytes.data, bytes.len);
    f->progress = http_parser_feed(&f->parser, (struct span){copy, bytes.len}, &used);
    assert_true(used <= bytes.len);
    if (f->progress == HTTP_NEED_MORE)
        assert_int_equal(used, bytes.len);
    f->used += used;
    free(copy);
}

static inline void feed_begin(struct fed *f, const struct http_limits *limits)
{
    f->progress = HTTP_NEED_MORE;
    f->used = 0;
    f->half_line = false;
    http_parser_init(&f->parser, limits);
}

/* Feeds pieces of `size` bytes; `f` is zeroed before its first use, and ended with feed_fini. */
static inline void feed_pieces(struct fed *f, const struct http_limits *limits, struct span input,
                               size_t size)
{
    feed_begin(f, limits);
    while (input.len > 0 && f->progress == HTTP_NEED_MORE) {
        size_t n = input.len < size ? input.len : size;
        feed_piece(f, (struct span){input.data, n});
        input = span_skip(input, n);
    }
}

static inline void feed_whole(struct fed *f, const struct http_limits *limits, struct span input)
{
    feed_pieces(f, limits, input, input.len);
}

static inline void feed_split(struct fed *f, const struct http_limits *limits, struct span input, size_t at)
{
    feed_begin(f, limits);
    feed_piece(f, (struct span){input.data, at});
    if (f->progress == HTTP_NEED_MORE)
        feed_piece(f, span_skip(input, at));
}

static inline void feed_fini(struct fed *f)
{
    http_parser_fini(&f->parser);
}

static inline void check_same_span(struct span a, struct span b, const char *what)
{
    if (!span_equal(a, b) || (a.data == NULL) != (b.data == NULL))
        fail_msg("%s: \"%.*s\", not \"%.*s\"", what, (int)a.len, a.len > 0 ? a.data : "", (int)b.len,
                 b.len > 0 ? b.data : "");
}

static inline void check_same_outcome(const struct fed *a, const struct fed *b)
{
    const struct http_request *x = &a->parser.request;
    const struct http_request *y = &b->parser.request;
    assert_int_equal(a->progress, b->progress);
    assert_int_equal(x->method, y->method);
    if (a->progress == HTTP_REFUSED)
        assert_int_equal(a->parser.refusal, b->parser.refusal);
    if (a->progress != HTTP_COMPLETE)
        return;
    assert_int_equal(a->used, b->used);
    assert_int_equal(x->minor_version, y->minor_version);
    assert_int_equal(x->keep_alive, y->keep_alive);
    check_same_span(x->path, y->path, "path");
    check_same_span(x->query, y->query, "query");
    for (int i = 0; i < HTTP_FIELD_COUNT; i++)
        check_same_span(x->field[i], y->field[i], "field");
}

/* Feeds the input whole into `f`, then byte by byte and cut in two at every point: all must end alike. */
static inline void feed_every_way(struct fed *f, const struct http_limits *limits, struct span input)
{
    struct fed other = {0};
    feed_whole(f, limits, input);
    feed_pieces(&other, limits, input, 1);
    check_same_outcome(&other, f);
    for (size_t at = 0; at <= input.len; at++) {
        feed_split(&other, limits, input, at);
        check_same_outcome(&other, f);
    }
    feed_fini(&other);
}

#endif
