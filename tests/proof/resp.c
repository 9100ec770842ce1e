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

/* A line is what is before the first CR LF, which has no line feed, or it is not complete, or invalid. */
void line(void)
{
    char bytes[8];
    struct span input = ANY_TEXT(bytes);
    struct span found = SPAN_ABSENT;
    struct resp_parser p;
    resp_init(&p);
    size_t end = span_find(input, '\n');
    if (!resp_take_line(&p, input, &found)) {
        assert(p.result == RESP_ERROR || (end == input.len && end <= RESP_LINE_MAX));
        return;
    }
    assert(found.data == input.data && found.len + LINE_END <= input.len && found.len < RESP_LINE_MAX);
    assert(found.len == end - 1 && input.data[end - 1] == '\r');
}

/*
 * The length of an array or a push is any number. Within a reply that is skipped it is counted, whatever was
 * counted before: no count passes its end.
 */
void counted(void)
{
    static const enum reply_type types[] = {REPLY_ARRAY, REPLY_SET, REPLY_MAP, REPLY_PUSH};
    struct resp_parser p;
    resp_init(&p);
    uint64_t before = nondet_size();
    uint64_t announced = nondet_size() & INT64_MAX;
    __CPROVER_assume(before > 0 && before <= ITEMS_MAX);
    p.kept = false;
    p.pushed = nondet_bool();
    p.left = before;
    if (!resp_begin_array(&p, types[any_up_to(3)], announced)) {
        assert(p.result == RESP_ERROR && p.left == before);
        return;
    }
    assert(p.count == 0);
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
    p.item = items;
    p.capacity = sizeof items / sizeof items[0];
    p.input = BUF_IN(room);
    return p;
}

/* A bulk string of any length is whole in the input, waits for more of it, or is read without being kept. */
void bulk_length(void)
{
    enum { HEADER = 5 };
    struct resp_parser p = any_limits();
    uint64_t len = nondet_size() & INT64_MAX;
    p.input.len = HEADER + any_up_to(ROOM - HEADER);
    bool went_on = resp_read_bulk(&p, REPLY_VERB, HEADER, len);
    assert(p.parsed <= p.input.len && p.start <= p.parsed);
    if (!p.kept)
        assert(went_on && p.skip_left == len + LINE_END && p.parsed == HEADER);
    else if (p.result == RESP_INCOMPLETE)
        assert(!went_on && p.parsed == 0 && p.input.len - HEADER < len + LINE_END && len < p.bytes_max);
    else if (p.result == RESP_REPLY)
        assert(went_on && p.count == 1 && p.size <= p.bytes_max && p.item[0].len + VERBATIM_FORMAT == len &&
               p.item[0].str[p.item[0].len] == '\0' && p.parsed == HEADER + len + LINE_END);
}

/* An array of any length is within the limits, or is read without being kept. */
void array_length(void)
{
    struct resp_parser p = any_limits();
    uint64_t announced = nondet_size() & INT64_MAX;
    if (!resp_begin_array(&p, REPLY_MAP, announced)) {
        assert(p.result == RESP_ERROR);
        return;
    }
    assert(p.left == announced * 2);
    assert((p.left == 0) == (p.result == RESP_REPLY));
    assert(!p.kept || (p.count == 1 && p.item[0].elements == p.left));
    assert(!p.kept || p.left <= p.bytes_max / sizeof items[0]);
}

/* A bulk string that is skipped, of which any part has arrived. */
void skipped(void)
{
    enum { LEN_MAX = 3 };
    struct resp_parser p = any_limits();
    p.kept = false;
    p.input.len = any_up_to(LEN_MAX + 3);
    for (size_t i = 0; i < p.input.len; i++)
        room[i] = (char)any_up_to(127);
    p.skip_left = LINE_END + any_up_to(LEN_MAX);
    size_t left = p.skip_left;
    bool finished = resp_skip_bulk(&p);
    assert(p.parsed <= p.input.len && finished == (p.result == RESP_REPLY));
    if (finished)
        assert(p.parsed == left && p.skip_left == 0 && room[left - 2] == '\r' && room[left - 1] == '\n');
    else if (p.result != RESP_ERROR)
        assert(p.parsed + p.skip_left == left && p.skip_left >= LINE_END && p.input.len < left);
}
