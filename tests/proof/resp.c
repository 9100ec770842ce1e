/*
 * Replies of Redis, step by step: headers, lines, lengths, counts, the content of bulk strings. The size of
 * chunks and the limit of a line are lower, so that both are reached.
 */
#include "redis/resp.h"
#define RESP_CHUNK    96
#define RESP_LINE_MAX 5
#include "redis/resp.c"

#include "proof.h"

/* One chunk at a time is enough here: its size is the same for all, and there may be no memory for it. */
static alignas(struct redis_reply) char memory[sizeof(struct resp_chunk) + RESP_CHUNK];
static bool is_allocated;

void *malloc(size_t size)
{
    assert(size == sizeof memory && !is_allocated);
    is_allocated = nondet_bool();
    return is_allocated ? memory : NULL;
}

void free(void *chunk)
{
    assert(chunk == memory && is_allocated);
    is_allocated = false;
}

static bool is_in_chunk(const struct resp_parser *p, const char *at, size_t size)
{
    return is_within((struct span){at, size}, (struct span){p->chunk->bytes, p->chunk->size});
}

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
    p.mode = nondet_bool() ? RESP_SKIPPING : RESP_PUSHING;
    p.kind_known = nondet_bool();
    p.items_left = before;
    p.bytes_max = 0;
    if (!resp_begin_array(&p, types[any_up_to(3)], announced)) {
        assert(p.result == RESP_ERROR && p.items_left == before);
        return;
    }
    assert(announced >= -1 && p.depth == 0);
    assert(p.items_left >= before - 1 && p.items_left <= ITEMS_MAX);
    assert((p.items_left == 0) == (p.mode == RESP_BUILDING));
}

static struct resp_parser any_limits(void)
{
    struct resp_parser p;
    resp_init(&p);
    p.bytes_max = any_up_to(RESP_CHUNK);
    p.elements_max = any_up_to(RESP_ELEMENTS_MAX);
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
    assert(resp_is_oversize(p.bulk) || is_in_chunk(&p, p.bulk->str, (size_t)len + 1));
}

/* So has an array. */
void array_length(void)
{
    struct resp_parser p = any_limits();
    int64_t announced = nondet_int64();
    if (!resp_begin_array(&p, REPLY_MAP, announced)) {
        assert(p.result == RESP_ERROR);
        return;
    }
    assert(announced >= 0);
    assert(p.depth == 0 ||
           is_in_chunk(&p, (char *)p.level[0].array->element, (size_t)announced * 2 * sizeof(void *)));
    assert(p.depth == 1 || announced == 0 || p.mode == RESP_SKIPPING || resp_is_oversize(p.item));
}

/* The content of a bulk string of which any part has arrived, and then any bytes. */
void bulk(void)
{
    enum { LEN_MAX = 3 };
    char bytes[LEN_MAX + 3];
    char room[LEN_MAX];
    struct resp_parser p;
    struct redis_reply reply = {.type = REPLY_STRING, .len = any_up_to(LEN_MAX)};
    struct span input = ANY_TEXT(bytes);
    struct span all = input;
    resp_init(&p);
    reply.str = room + (LEN_MAX - reply.len);
    p.bulk = &reply;
    p.bulk_left = 1 + any_up_to(reply.len + 1);
    size_t left = p.bulk_left;
    size_t content = left > LINE_END ? left - LINE_END : 0;
    bool finished = resp_read_bulk(&p, &input);
    assert(is_within(input, all) && finished == (p.result == RESP_REPLY));
    assert(finished || p.result == RESP_ERROR || input.len == 0);
    if (!finished)
        return;
    assert(all.len - input.len == left && p.item == &reply);
    assert(memcmp(reply.str + (reply.len - content), all.data, content) == 0);
}
