/*
 * Replies of Redis, step by step: headers, lines, lengths, counts, the content of bulk strings. The limit of
 * a line is lower, so that it is reached.
 */
#include "redis/resp.h"
#define RESP_LINE_MAX 5
#include "redis/resp.c"

#include "proof.h"

/* A header is taken at once only if it is what the line would say. */
void header(void)
{
    char bytes[10];
    struct span input = ANY_TEXT(bytes);
    size_t number = 0;
    size_t n = resp_short_header(input, &number);
    if (n == 0)
        return;
    int64_t expected = -1;
    assert(n > 3 && n <= input.len && input.data[n - 2] == '\r' && input.data[n - 1] == '\n');
    assert(parse_int64((struct span){input.data + 1, n - 3}, &expected) == 0);
    assert(number <= 99999 && expected == (int64_t)number);
}

/* A line in two pieces is the one that it is in one. */
void line(void)
{
    char bytes[8];
    char room[sizeof bytes];
    struct span text = ANY_TEXT(bytes);
    struct resp_parser whole;
    struct resp_parser pieces;
    struct span line_whole;
    struct span line_pieces;
    resp_init(&whole);
    resp_init(&pieces);
    pieces.line = BUF_IN(room);
    char room_whole[sizeof bytes];
    whole.line = BUF_IN(room_whole);
    struct span input = text;
    bool found = resp_take_line(&whole, &input, &line_whole);
    struct span first = {text.data, any_up_to(text.len)};
    struct span second = span_skip(text, first.len);
    size_t end = span_find(first, '\n');
    bool found_in_pieces = resp_take_line(&pieces, &first, &line_pieces);
    if (!found_in_pieces && pieces.result == RESP_INCOMPLETE) {
        assert(first.len == 0 && end == text.len - second.len);
        found_in_pieces = resp_take_line(&pieces, &second, &line_pieces);
    }
    assert(found == found_in_pieces && whole.result == pieces.result);
    if (!found)
        return;
    assert(span_equal(line_whole, line_pieces) && line_whole.len < RESP_LINE_MAX);
}

/*
 * The length of an array or a push is any number. Within a reply that is skipped or a push it is counted,
 * whatever was counted before: no count passes its end.
 */
void counted(void)
{
    static const enum reply_type types[] = {REPLY_ARRAY, REPLY_SET, REPLY_MAP, REPLY_PUSH};
    struct resp_parser p;
    resp_init(&p);
    uint64_t before = nondet_size();
    int64_t announced = nondet_int64();
    __CPROVER_assume(before > 0 && before <= ITEMS_MAX);
    p.kept = false;
    p.pushing = nondet_bool();
    p.kind_known = nondet_bool();
    p.left = before;
    if (!resp_begin_array(&p, types[any_up_to(3)], announced)) {
        assert(p.result == RESP_ERROR && p.left == before);
        return;
    }
    assert(announced >= -1 && p.count == 0);
    assert(p.left >= before - 1 && p.left <= ITEMS_MAX);
    assert(p.left > 0 || p.result != RESP_INCOMPLETE);
}

enum { ROOM = 96 };
static struct redis_reply items[2];
static char room[ROOM];

static struct resp_parser any_limits(void)
{
    struct resp_parser p;
    resp_init(&p);
    p.bytes_max = any_up_to(sizeof items[0] + ROOM);
    p.elements_max = any_up_to(RESP_ELEMENTS_MAX);
    p.item = items;
    p.capacity = sizeof items / sizeof items[0];
    p.text = BUF_IN(room);
    return p;
}

/* A bulk string of any length has its room, or is read without being kept. */
void bulk_length(void)
{
    struct resp_parser p = any_limits();
    int64_t len = nondet_int64();
    if (!resp_begin_bulk(&p, REPLY_VERB, len)) {
        assert(p.result == RESP_ERROR);
        return;
    }
    assert(len >= 0 && p.bulk_left == (uint64_t)len + LINE_END);
    assert(!p.kept || (p.count == 1 && p.item[0].len == (size_t)len));
    assert(!p.kept || (p.size <= p.bytes_max && (size_t)len <= p.text.cap - p.text.len));
}

/* An array of any length is within the limits, or is read without being kept. */
void array_length(void)
{
    struct resp_parser p = any_limits();
    int64_t announced = nondet_int64();
    if (!resp_begin_array(&p, REPLY_MAP, announced)) {
        assert(p.result == RESP_ERROR);
        return;
    }
    assert(announced >= 0 && p.left == (uint64_t)announced * 2);
    assert((p.left == 0) == (p.result == RESP_REPLY));
    assert(!p.kept || (p.count == 1 && p.item[0].elements == p.left));
    assert(!p.kept || (p.left <= p.elements_max && p.left * sizeof items[0] <= p.bytes_max));
}

/* The content of a bulk string of which any part has arrived, and then any bytes. */
void bulk(void)
{
    enum { LEN_MAX = 3 };
    char bytes[LEN_MAX + 3];
    struct resp_parser p = any_limits();
    struct span input = ANY_TEXT(bytes);
    struct span all = input;
    size_t len = any_up_to(LEN_MAX);
    items[0] = (struct redis_reply){.type = REPLY_STRING, .len = len};
    p.count = 1;
    p.bulk_left = 1 + any_up_to(len + 1);
    size_t left = p.bulk_left;
    size_t content = left > LINE_END ? left - LINE_END : 0;
    p.text.len = len - content;
    bool finished = resp_read_bulk(&p, &input);
    assert(is_within(input, all) && finished == (p.result == RESP_REPLY));
    assert(finished || p.result == RESP_ERROR || input.len == 0);
    if (!finished)
        return;
    assert(all.len - input.len == left && p.text.len == len);
    assert(memcmp(room + (len - content), all.data, content) == 0);
}
