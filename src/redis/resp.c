/*
 * RESP3; see resp.h.
 *
 * A reply is built level by level. If a part of it exceeds a bound, the parts that were built are released.
 * The rest is skipped by counting items: an array adds as many as it announces, so no stack is needed. The
 * elements of a push are counted in the same way. Lengths are announced before contents. So a bound is
 * checked before anything is allocated, and a bulk string is written to its final place.
 *
 * A bulk string that is whole in the input is not copied as long as the reply may end in that input. Memory
 * is reserved for it all the same. So the memory of a reply does not depend on the pieces in which it
 * arrives.
 */
#include "redis/resp.h"

#include "base/text.h"

#include <assert.h>
#include <limits.h>
#include <stdalign.h>
#include <stdlib.h>

struct resp_chunk {
    struct resp_chunk *older;
    size_t size;
    alignas(struct redis_reply) char bytes[];
};

/* A string or a line. */
struct resp_text {
    struct redis_reply reply;
    struct resp_text *next; /* see resp_parser.in_input */
    char text[];
};

enum { LINE_END = 2, VERBATIM_FORMAT = 4 }; /* "\r\n"; "txt:" before the text of a verbatim string */

static const uint64_t ITEMS_MAX = UINT64_MAX / 4;

static char oversize_text[] = "a reply that is too large";
const struct redis_reply resp_oversize = {
    .type = REPLY_ERROR, .str = oversize_text, .len = sizeof oversize_text - 1};

static bool resp_fail(struct resp_parser *p, const char *why)
{
    p->error = why;
    p->result = RESP_ERROR;
    return false;
}

/* --- memory --- */

/* Not inline: it is rarely called, and `take` must stay small. */
__attribute__((noinline)) static bool resp_add_chunk(struct resp_parser *p, size_t needed)
{
    size_t size = needed > RESP_CHUNK ? needed : RESP_CHUNK;
    p->exceeded = size > p->bytes_max - p->pool_size;
    struct resp_chunk *chunk = p->exceeded ? NULL : malloc(sizeof *chunk + size);
    if (chunk == NULL)
        return false;
    chunk->older = p->chunk;
    chunk->size = size;
    p->chunk = chunk;
    p->pool_size += size;
    p->pool_left = size;
    return true;
}

/* The memory is aligned for every part of a reply. NULL when `exceeded`, or when out of memory. */
static void *resp_take(struct resp_parser *p, size_t size)
{
    size_t align = alignof(struct redis_reply);
    size = (size + align - 1) / align * align;
    if (size > p->pool_left && !resp_add_chunk(p, size))
        return NULL;
    char *at = p->chunk->bytes + (p->chunk->size - p->pool_left);
    p->pool_left -= size;
    return at;
}

static void resp_drop_newest(struct resp_parser *p)
{
    struct resp_chunk *chunk = p->chunk;
    p->chunk = chunk->older;
    p->pool_size -= chunk->size;
    free(chunk);
}

/* Releases everything that was built. */
static void resp_clear_pool(struct resp_parser *p)
{
    while (p->chunk != NULL && (p->chunk->older != NULL || p->chunk->size > RESP_CHUNK))
        resp_drop_newest(p);
    p->pool_left = p->pool_size;
    p->in_input = NULL;
}

/* The reply is oversize: it is not kept, and skipped from the current item to its end. */
static void resp_begin_skipping(struct resp_parser *p)
{
    p->items_left = 1;
    for (int i = 0; i < p->depth; i++)
        p->items_left += p->level[i].array->elements - p->level[i].filled - 1;
    p->depth = 0;
    p->mode = RESP_SKIPPING;
    resp_clear_pool(p);
}

static struct redis_reply *resp_refuse(struct resp_parser *p)
{
    if (p->mode == RESP_BUILDING)
        resp_begin_skipping(p);
    return (struct redis_reply *)(uintptr_t)&resp_oversize;
}

/*
 * A reply at the start of `size` bytes and `extra` more; resp_oversize if nothing is kept; NULL when parsing
 * has failed.
 */
static inline struct redis_reply *resp_make(struct resp_parser *p, enum reply_type type, size_t size,
                                            uint64_t extra)
{
    if (p->mode == RESP_SKIPPING || extra > p->bytes_max)
        return resp_refuse(p);
    struct redis_reply *reply = resp_take(p, size + (size_t)extra);
    if (reply == NULL && p->exceeded)
        return resp_refuse(p);
    if (reply == NULL)
        (void)resp_fail(p, "out of memory");
    else
        *reply = (struct redis_reply){.type = type};
    return reply;
}

static struct resp_text *resp_text_of(struct redis_reply *reply)
{
    return (struct resp_text *)(void *)reply;
}

/* Makes a reply with room for its text and a NUL; the caller writes them. */
static inline struct redis_reply *resp_make_text(struct resp_parser *p, enum reply_type type, uint64_t len)
{
    struct redis_reply *reply = resp_make(p, type, sizeof(struct resp_text), len + 1);
    if (reply == NULL || resp_is_oversize(reply))
        return reply;
    reply->str = resp_text_of(reply)->text;
    reply->len = (size_t)len;
    return reply;
}

static void resp_leave_in_input(struct resp_parser *p, struct redis_reply *reply, const char *text)
{
    reply->str = (char *)(uintptr_t)text;
    resp_text_of(reply)->next = p->in_input;
    p->in_input = resp_text_of(reply);
}

/* Called when the input ends before the reply does. */
static void resp_copy_from_input(struct resp_parser *p)
{
    for (struct resp_text *t = p->in_input; t != NULL; t = t->next) {
        memcpy(t->text, t->reply.str, t->reply.len);
        t->reply.str = t->text;
    }
    p->in_input = NULL;
}

/* Makes an array; the caller fills in the elements. */
static struct redis_reply *resp_make_array(struct resp_parser *p, enum reply_type type, uint64_t elements)
{
    if (elements > p->elements_max || p->depth == RESP_DEPTH_MAX)
        return resp_refuse(p);
    struct redis_reply *reply = resp_make(p, type, sizeof *reply, elements * sizeof(struct redis_reply *));
    if (reply == NULL || resp_is_oversize(reply))
        return reply;
    reply->elements = (size_t)elements;
    reply->element = elements == 0 ? NULL : (struct redis_reply **)(void *)(reply + 1);
    return reply;
}

/* --- items that are complete --- */

static void resp_emit(struct resp_parser *p, enum resp_result result, const struct redis_reply *item)
{
    p->result = result;
    p->item = item;
}

/* An item of a reply that is skipped, or of a push, has ended. */
static void resp_count_item(struct resp_parser *p)
{
    assert(p->items_left > 0);
    if (--p->items_left > 0)
        return;
    if (p->mode == RESP_SKIPPING)
        resp_emit(p, RESP_REPLY, &resp_oversize);
    p->mode = RESP_BUILDING;
}

/* The item is the last element of its array, so the array is complete, too. */
static void resp_complete_arrays(struct resp_parser *p, struct redis_reply *item)
{
    for (; p->depth > 0; p->depth--) {
        struct resp_level *level = &p->level[p->depth - 1];
        level->array->element[level->filled++] = item;
        if (level->filled < level->array->elements)
            return;
        item = level->array;
    }
    resp_emit(p, RESP_REPLY, item);
}

static inline void resp_place_item(struct resp_parser *p, struct redis_reply *item)
{
    struct resp_level *level = p->depth > 0 ? &p->level[p->depth - 1] : NULL;
    if (level != NULL && level->filled + 1 < level->array->elements)
        level->array->element[level->filled++] = item;
    else
        resp_complete_arrays(p, item);
}

static void resp_set_kind(struct resp_parser *p, const struct redis_reply *item)
{
    p->kind_known = true;
    if (item->type == REPLY_STRING) {
        p->kind_len = item->len < RESP_KIND_MAX ? item->len : RESP_KIND_MAX;
        memcpy(p->kind, item->str, p->kind_len);
    }
    resp_clear_pool(p); /* a push may end here, without a result */
}

/* An element of a push, or of a reply that is skipped, has ended. */
static void resp_finish_counted(struct resp_parser *p, struct redis_reply *item)
{
    if (p->mode == RESP_PUSHING && p->kind_known)
        resp_emit(p, RESP_PUSH_ELEMENT, item);
    else if (p->mode == RESP_PUSHING)
        resp_set_kind(p, item);
    resp_count_item(p);
}

/* An item of any type but an array with elements has ended. */
static inline void resp_finish_item(struct resp_parser *p, struct redis_reply *item)
{
    if (p->mode == RESP_BUILDING)
        resp_place_item(p, item);
    else
        resp_finish_counted(p, item);
}

/* --- items as they begin --- */

static bool resp_read_text(struct resp_parser *p, enum reply_type type, struct span text)
{
    if (span_find(text, '\r') < text.len)
        return resp_fail(p, "a line that does not end with CR LF");
    struct redis_reply *item = resp_make_text(p, type, text.len);
    if (item == NULL)
        return false;
    if (!resp_is_oversize(item)) {
        *span_put(text, item->str) = '\0';
        if (type == REPLY_DOUBLE)
            item->number = strtod(item->str, NULL);
    }
    resp_finish_item(p, item);
    return true;
}

static bool resp_read_number(struct resp_parser *p, enum reply_type type, int64_t value)
{
    struct redis_reply *item = resp_make(p, type, sizeof *item, 0);
    if (item == NULL)
        return false;
    if (!resp_is_oversize(item))
        item->integer = value;
    resp_finish_item(p, item);
    return true;
}

static bool resp_begin_bulk(struct resp_parser *p, enum reply_type type, int64_t len)
{
    if (len < -1 || (len == -1 && type != REPLY_STRING))
        return resp_fail(p, "a bulk string of a negative length");
    if (len == -1)
        return resp_read_number(p, REPLY_NIL, 0);
    p->bulk = resp_make_text(p, type, (uint64_t)len);
    p->bulk_left = (uint64_t)len + LINE_END;
    return p->bulk != NULL;
}

static bool resp_begin_push(struct resp_parser *p, int64_t elements)
{
    p->pushes++;
    p->kind_known = false;
    p->kind_len = 0;
    p->items_left = (uint64_t)elements;
    p->mode = elements > 0 ? RESP_PUSHING : RESP_BUILDING;
    return true;
}

/* An array has begun in a push, or in a reply that is skipped. */
static bool resp_count_elements(struct resp_parser *p, uint64_t elements)
{
    if (elements > ITEMS_MAX - p->items_left)
        return resp_fail(p, "more elements than can be counted");
    p->items_left += elements;
    p->kind_known = true;
    resp_count_item(p);
    return true;
}

static bool resp_begin_array(struct resp_parser *p, enum reply_type type, int64_t announced)
{
    if (announced == -1 && type == REPLY_ARRAY)
        return resp_read_number(p, REPLY_NIL, 0);
    if (announced < 0)
        return resp_fail(p, "an array of a negative length");
    if (type == REPLY_PUSH && p->mode == RESP_BUILDING && p->depth == 0)
        return resp_begin_push(p, announced);
    uint64_t elements = (uint64_t)announced * (type == REPLY_MAP ? 2 : 1);
    if (p->mode != RESP_BUILDING)
        return resp_count_elements(p, elements);
    struct redis_reply *array = resp_make_array(p, type, elements);
    if (array == NULL)
        return false;
    if (resp_is_oversize(array))
        return resp_count_elements(p, elements);
    if (elements == 0)
        resp_finish_item(p, array);
    else
        p->level[p->depth++] = (struct resp_level){.array = array};
    return true;
}

/* Returns 0 for an unknown type. */
static enum reply_type resp_type_of(char c)
{
    static const unsigned char types[UCHAR_MAX + 1] = {
        ['$'] = REPLY_STRING,  ['='] = REPLY_VERB,   ['+'] = REPLY_STATUS, ['-'] = REPLY_ERROR,
        [':'] = REPLY_INTEGER, [','] = REPLY_DOUBLE, ['('] = REPLY_BIGNUM, ['#'] = REPLY_BOOL,
        ['_'] = REPLY_NIL,     ['*'] = REPLY_ARRAY,  ['~'] = REPLY_SET,    ['%'] = REPLY_MAP,
        ['>'] = REPLY_PUSH};
    return (enum reply_type)types[(unsigned char)c];
}

/* The first line of an item is the whole item, except for bulk strings and arrays. */
static bool resp_begin_item(struct resp_parser *p, struct span line)
{
    enum reply_type type = line.len > 0 ? resp_type_of(line.data[0]) : 0;
    if (type == 0)
        return resp_fail(p, "a reply of an unknown type");
    struct span text = span_skip(line, 1);
    if (type == REPLY_STATUS || type == REPLY_ERROR || type == REPLY_DOUBLE || type == REPLY_BIGNUM)
        return resp_read_text(p, type, text);
    if (type == REPLY_NIL)
        return text.len == 0 ? resp_read_number(p, type, 0) : resp_fail(p, "a null with a value");
    if (type == REPLY_BOOL) {
        bool is_true = span_equal_nocase(text, SPAN("t"));
        return is_true || span_equal_nocase(text, SPAN("f")) ? resp_read_number(p, type, is_true)
                                                             : resp_fail(p, "an invalid boolean");
    }
    int64_t number = 0;
    if (parse_int64(text, &number) != 0)
        return resp_fail(p, "an invalid number");
    if (type == REPLY_INTEGER)
        return resp_read_number(p, type, number);
    if (type == REPLY_STRING || type == REPLY_VERB)
        return resp_begin_bulk(p, type, number);
    return resp_begin_array(p, type, number);
}

/* --- input --- */

static void resp_skip(struct span *input, size_t n)
{
    *input = span_skip(*input, n);
}

/* *line is borrowed until the next call. False when the line is not complete, or invalid. */
static bool resp_take_line(struct resp_parser *p, struct span *input, struct span *line)
{
    size_t n = span_find(*input, '\n');
    bool ended = n < input->len;
    *line = (struct span){input->data, n};
    if (p->line.len + n > RESP_LINE_MAX)
        return resp_fail(p, "a line that does not end");
    if (!ended || p->line.len > 0) {
        buf_append(&p->line, input->data, n);
        if (buf_error(&p->line) != 0)
            return resp_fail(p, "out of memory");
        *line = buf_span(&p->line);
    }
    resp_skip(input, ended ? n + 1 : n);
    if (!ended)
        return false;
    if (line->len == 0 || line->data[line->len - 1] != '\r')
        return resp_fail(p, "a line that does not end with CR LF");
    line->len--;
    return true;
}

static bool resp_read_line(struct resp_parser *p, struct span *input)
{
    struct span line;
    if (!resp_take_line(p, input, &line))
        return false;
    bool went_on = resp_begin_item(p, line);
    if (p->line.len > 0)
        buf_recycle(&p->line, RESP_CHUNK);
    return went_on;
}

/* The prefix "txt:" is not a part of the text. */
static bool resp_finish_verbatim(struct resp_parser *p, struct redis_reply *item)
{
    if (item->len < VERBATIM_FORMAT || item->str[VERBATIM_FORMAT - 1] != ':')
        return resp_fail(p, "a verbatim string without a format");
    item->str += VERBATIM_FORMAT;
    item->len -= VERBATIM_FORMAT;
    return true;
}

static bool resp_finish_bulk(struct resp_parser *p)
{
    struct redis_reply *item = p->bulk;
    p->bulk = NULL;
    if (item->type == REPLY_VERB && !resp_finish_verbatim(p, item))
        return false;
    resp_finish_item(p, item);
    return true;
}

/* Reads more of `bulk`. False when the string is not complete, or invalid. */
static bool resp_read_bulk(struct resp_parser *p, struct span *input)
{
    if (p->bulk_left > LINE_END) {
        uint64_t content = p->bulk_left - LINE_END;
        size_t n = input->len < content ? input->len : (size_t)content;
        if (!resp_is_oversize(p->bulk))
            (void)span_put((struct span){input->data, n}, p->bulk->str + (p->bulk->len - content));
        p->bulk_left -= n;
        resp_skip(input, n);
    }
    for (; p->bulk_left > 0 && p->bulk_left <= LINE_END && input->len > 0; p->bulk_left--) {
        if (input->data[0] != (p->bulk_left == LINE_END ? '\r' : '\n'))
            return resp_fail(p, "a bulk string that does not end with CR LF");
        resp_skip(input, 1);
    }
    return p->bulk_left == 0 && resp_finish_bulk(p);
}

/*
 * The number in a header of up to five digits at the start of `input`, and the length of that header. The
 * length is 0 when the header has another form or is not complete.
 */
static inline size_t resp_short_header(struct span input, size_t *number)
{
    static const size_t HEADER_MAX = sizeof "$99999\r\n" - 1;
    size_t n = 1;
    size_t value = 0;
    if (input.len < HEADER_MAX)
        return 0;
    for (; n < HEADER_MAX - LINE_END && ascii_is_digit(input.data[n]); n++)
        value = value * 10 + (size_t)(input.data[n] - '0');
    bool canonical = n == 2 || (n > 2 && input.data[1] != '0');
    if (!canonical || input.data[n] != '\r' || input.data[n + 1] != '\n')
        return 0;
    *number = value;
    return n + LINE_END;
}

/*
 * Reads a bulk string whose header is known. False when it is not complete in the input, or when parsing has
 * failed.
 */
static inline bool resp_read_whole_bulk(struct resp_parser *p, struct span *input, size_t header, size_t len)
{
    if (input->len - header < len + LINE_END)
        return false;
    const char *text = input->data + header;
    if (text[len] != '\r' || text[len + 1] != '\n')
        return false;
    struct redis_reply *item = resp_make_text(p, REPLY_STRING, len);
    if (item == NULL)
        return false;
    if (!resp_is_oversize(item))
        resp_leave_in_input(p, item, text);
    resp_finish_item(p, item);
    resp_skip(input, header + len + LINE_END);
    return true;
}

/*
 * Reads the most frequent input at once: whole bulk strings and the headers of arrays. False for any other
 * input, or when parsing has failed.
 */
static inline bool resp_read_common(struct resp_parser *p, struct span *input)
{
    size_t number = 0;
    size_t header = p->line.len == 0 ? resp_short_header(*input, &number) : 0;
    if (header == 0)
        return false;
    if (input->data[0] == '$')
        return resp_read_whole_bulk(p, input, header, number);
    if (input->data[0] != '*')
        return false;
    resp_skip(input, header);
    return resp_begin_array(p, REPLY_ARRAY, (int64_t)number);
}

static inline bool resp_read_item(struct resp_parser *p, struct span *input)
{
    if (p->bulk != NULL)
        return resp_read_bulk(p, input);
    return resp_read_common(p, input) || (p->result == RESP_INCOMPLETE && resp_read_line(p, input));
}

enum resp_result resp_parse(struct resp_parser *p, struct span *input, const struct redis_reply **reply)
{
    if (p->result == RESP_ERROR)
        return RESP_ERROR;
    if (p->result != RESP_INCOMPLETE)
        resp_clear_pool(p);
    p->result = RESP_INCOMPLETE;
    while (p->result == RESP_INCOMPLETE && input->len > 0 && resp_read_item(p, input)) {
    }
    if (p->result == RESP_INCOMPLETE)
        resp_copy_from_input(p);
    *reply = p->item;
    return p->result;
}

struct span resp_push_kind(const struct resp_parser *p)
{
    return (struct span){p->kind, p->kind_len};
}

bool resp_in_reply(const struct resp_parser *p)
{
    if (p->mode != RESP_BUILDING)
        return p->mode == RESP_SKIPPING;
    return p->depth > 0 || p->bulk != NULL || (p->line.len > 0 && p->line.data[0] != '>');
}

uint64_t resp_in_push(const struct resp_parser *p)
{
    return p->mode == RESP_PUSHING ? p->pushes : 0;
}

void resp_init(struct resp_parser *p)
{
    *p = (struct resp_parser){.bytes_max = RESP_BYTES_MAX, .elements_max = RESP_ELEMENTS_MAX};
}

void resp_fini(struct resp_parser *p)
{
    while (p->chunk != NULL)
        resp_drop_newest(p);
    buf_fini(&p->line);
    resp_init(p);
}

/* --- commands --- */

enum { HEAD_MAX = 1 + INT64_DIGITS_MAX + LINE_END };

/* Returns the end of the bytes written. */
static char *resp_put_head(char *at, char mark, size_t number)
{
    *at++ = mark;
    at += format_int64((int64_t)number, at);
    return span_put(SPAN("\r\n"), at);
}

void command_begin(struct buf *out, size_t count)
{
    if (buf_reserve(out, HEAD_MAX) != 0)
        return;
    char *end = resp_put_head(out->data + out->len, '*', count);
    out->len = (size_t)(end - out->data);
}

void command_add(struct buf *out, struct span word)
{
    if (buf_reserve(out, HEAD_MAX + word.len + LINE_END) != 0)
        return;
    char *text = resp_put_head(out->data + out->len, '$', word.len);
    char *end = span_put(SPAN("\r\n"), span_put(word, text));
    out->len = (size_t)(end - out->data);
}

void command_add_int(struct buf *out, int64_t number)
{
    char digits[INT64_DIGITS_MAX];
    command_add(out, (struct span){digits, format_int64(number, digits)});
}

void command_add_buf(struct buf *out, const struct buf *word)
{
    command_add(out, buf_span(word));
    if (buf_error(word) != 0)
        out->error = buf_error(word);
}

void command_write(struct buf *out, int argc, const char **argv)
{
    command_begin(out, (size_t)argc);
    for (int i = 0; i < argc; i++)
        command_add(out, span_of(argv[i]));
}
