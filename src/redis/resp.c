/*
 * RESP3; see resp.h.
 *
 * One number tells when a reply is complete: the items that are announced and have not ended. So neither a
 * stack nor a limit of depth is needed, and a reply that is not kept is read in the same way. Lengths are
 * announced before contents, so a bound is checked before anything is allocated.
 *
 * An item is added when it has arrived whole, but for an array, whose elements follow.
 */
#include "redis/resp.h"

#include "base/text.h"

#include <limits.h>
#include <stdlib.h>

enum { LINE_END = 2, VERBATIM_FORMAT = 4 }; /* "\r\n"; "txt:" before the text of a verbatim string */

static const uint64_t ITEMS_MAX = UINT64_MAX / 4;

const char resp_no_memory[] = "out of memory";

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

static void resp_drop_items(struct resp_parser *p)
{
    if (p->capacity * sizeof *p->item > RESP_KEPT) {
        free(p->item);
        p->item = NULL;
        p->capacity = 0;
    }
    p->count = p->size = 0;
}

static void resp_begin(struct resp_parser *p)
{
    resp_drop_items(p);
    p->kept = true;
    p->pushed = false;
    p->start = p->parsed;
    p->left = 1;
    p->begun++;
}

static void resp_skip_reply(struct resp_parser *p)
{
    resp_drop_items(p);
    p->kept = false;
}

/* The input moves, and the texts with it: meanwhile `integer` has their places. */
static void resp_move(struct resp_parser *p, size_t n)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->item[i].str != NULL)
            p->item[i].integer = p->item[i].str - p->input.data - (ptrdiff_t)p->start;
    buf_consume(&p->input, p->start);
    p->parsed -= p->start;
    p->start = 0;
    if (p->input.len == 0)
        buf_recycle(&p->input, RESP_KEPT);
    (void)buf_reserve(&p->input, n);
    for (size_t i = 0; i < p->count; i++) {
        if (p->item[i].str == NULL)
            continue;
        p->item[i].str = p->input.data + p->item[i].integer;
        p->item[i].integer = 0;
    }
}

char *resp_reserve(struct resp_parser *p, size_t n)
{
    if (p->start > 0 || n > p->input.cap - p->input.len)
        resp_move(p, n);
    return buf_error(&p->input) == 0 ? p->input.data + p->input.len : NULL;
}

void resp_received(struct resp_parser *p, size_t n)
{
    p->input.len += n;
}

/* Not inline: it is rarely called, and resp_add() must stay small. */
__attribute__((noinline)) static bool resp_grow(struct resp_parser *p)
{
    enum { FIRST = 64 };
    size_t capacity = p->capacity == 0 ? FIRST : 2 * p->capacity;
    struct redis_reply *item = realloc(p->item, capacity * sizeof *item);
    if (item == NULL)
        return resp_fail(p, resp_no_memory);
    p->item = item;
    p->capacity = capacity;
    return true;
}

/* Whether an item that takes `text` bytes for its text is kept. */
static inline bool resp_keeps(struct resp_parser *p, uint64_t text)
{
    if (p->kept && (text > p->bytes_max || sizeof *p->item + text > p->bytes_max - p->size))
        resp_skip_reply(p);
    return p->kept;
}

/* Adds such an item. NULL when the reply is skipped, and when parsing has failed. */
static inline struct redis_reply *resp_add(struct resp_parser *p, enum reply_type type, uint64_t text)
{
    if (!resp_keeps(p, text) || (p->count == p->capacity && !resp_grow(p)))
        return NULL;
    struct redis_reply *item = &p->item[p->count++];
    *item = (struct redis_reply){.type = type};
    p->size += sizeof *item + (size_t)text;
    return item;
}

/* --- items that have ended --- */

/* An item has ended, or an array has begun, whose elements are counted. False when parsing has failed. */
static inline bool resp_finish_item(struct resp_parser *p)
{
    if (p->result == RESP_ERROR)
        return false;
    if (--p->left == 0)
        p->result = p->pushed ? RESP_PUSH : RESP_REPLY;
    return true;
}

/* --- items as they begin --- */

static bool resp_read_number(struct resp_parser *p, enum reply_type type, int64_t value)
{
    struct redis_reply *item = resp_add(p, type, 0);
    if (item != NULL)
        item->integer = value;
    return resp_finish_item(p);
}

/* The text has a line end behind it. */
static void resp_set_text(struct redis_reply *item, struct span text)
{
    item->str = (char *)(uintptr_t)text.data; /* in the buffer of the parser */
    item->len = text.len;
    item->str[text.len] = '\0';
}

static bool resp_read_text(struct resp_parser *p, enum reply_type type, struct span text)
{
    if (span_find(text, '\r') < text.len)
        return resp_fail(p, "a line that does not end with CR LF");
    struct redis_reply *item = resp_add(p, type, text.len + 1);
    if (item != NULL) {
        resp_set_text(item, text);
        if (type == REPLY_DOUBLE)
            item->number = strtod(item->str, NULL);
    }
    return resp_finish_item(p);
}

/* The prefix "txt:" is not a part of the text. */
static bool resp_cut_format(struct resp_parser *p, struct redis_reply *item)
{
    if (item->len < VERBATIM_FORMAT || item->str[VERBATIM_FORMAT - 1] != ':')
        return resp_fail(p, "a verbatim string without a format");
    item->str += VERBATIM_FORMAT;
    item->len -= VERBATIM_FORMAT;
    return true;
}

/* Takes the end of a bulk string, which has arrived. */
static inline bool resp_end_bulk(struct resp_parser *p)
{
    const char *end = p->input.data + p->parsed;
    if (end[0] != '\r' || end[1] != '\n')
        return resp_fail(p, "a bulk string that does not end with CR LF");
    p->parsed += LINE_END;
    return true;
}

/* Skips more of a bulk string. False when it is not complete, or invalid. */
static bool resp_skip_bulk(struct resp_parser *p)
{
    size_t there = p->input.len - p->parsed;
    uint64_t content = p->skip_left - LINE_END;
    if (there < p->skip_left) {
        size_t n = there < content ? there : (size_t)content;
        p->parsed += n;
        p->skip_left -= n;
        return false;
    }
    p->parsed += (size_t)content;
    p->skip_left = 0;
    return resp_end_bulk(p) && resp_finish_item(p);
}

/* Reads a bulk string behind its header. False when it is not complete, or parsing has failed. */
static inline bool resp_read_bulk(struct resp_parser *p, enum reply_type type, size_t header, uint64_t len)
{
    if (!resp_keeps(p, len + 1)) {
        p->parsed += header;
        p->skip_left = len + LINE_END;
        return true;
    }
    if (p->input.len - p->parsed - header < len + LINE_END)
        return false;
    const struct span text = {p->input.data + p->parsed + header, (size_t)len};
    p->parsed += header + text.len;
    struct redis_reply *item = resp_end_bulk(p) ? resp_add(p, type, len + 1) : NULL;
    if (item == NULL)
        return false;
    resp_set_text(item, text);
    return (type != REPLY_VERB || resp_cut_format(p, item)) && resp_finish_item(p);
}

static bool resp_begin_array(struct resp_parser *p, enum reply_type type, uint64_t announced)
{
    uint64_t elements = announced * (type == REPLY_MAP ? 2 : 1);
    if (elements > ITEMS_MAX - p->left)
        return resp_fail(p, "more elements than can be counted");
    if (type == REPLY_PUSH && p->kept && p->count == 0)
        p->pushed = true;
    if (elements > p->bytes_max / sizeof *p->item)
        resp_skip_reply(p);
    struct redis_reply *item = resp_add(p, type, 0);
    if (item != NULL)
        item->elements = (size_t)elements;
    p->left += elements;
    return resp_finish_item(p);
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
static bool resp_read_line(struct resp_parser *p, struct span line)
{
    enum reply_type type = line.len > 0 ? resp_type_of(line.data[0]) : 0;
    if (type == 0)
        return resp_fail(p, "a reply of an unknown type");
    struct span text = span_skip(line, 1);
    bool is_bulk = type == REPLY_STRING || type == REPLY_VERB;
    int64_t number = 0;
    int err = parse_int64(text, &number);
    if (err == 0 && is_bulk && number >= 0)
        return resp_read_bulk(p, type, line.len + LINE_END, (uint64_t)number);
    p->parsed += line.len + LINE_END;
    if (type == REPLY_STATUS || type == REPLY_ERROR || type == REPLY_DOUBLE || type == REPLY_BIGNUM)
        return resp_read_text(p, type, text);
    if (type == REPLY_NIL)
        return text.len == 0 ? resp_read_number(p, type, 0) : resp_fail(p, "a null with a value");
    if (type == REPLY_BOOL) {
        bool is_true = span_equal_nocase(text, SPAN("t"));
        return is_true || span_equal_nocase(text, SPAN("f")) ? resp_read_number(p, type, is_true)
                                                             : resp_fail(p, "an invalid boolean");
    }
    if (err != 0)
        return resp_fail(p, "an invalid number");
    if (type == REPLY_INTEGER)
        return resp_read_number(p, type, number);
    if (number == -1 && (type == REPLY_STRING || type == REPLY_ARRAY))
        return resp_read_number(p, REPLY_NIL, 0);
    if (number < 0)
        return resp_fail(p, "a negative length");
    return resp_begin_array(p, type, (uint64_t)number);
}

/* --- input --- */

/* The line at the start of `input`, without its end. False when it is not complete, or invalid. */
static bool resp_take_line(struct resp_parser *p, struct span input, struct span *line)
{
    size_t n = span_find(input, '\n');
    if (n > RESP_LINE_MAX)
        return resp_fail(p, "a line that does not end");
    if (n == input.len)
        return false;
    if (n == 0 || input.data[n - 1] != '\r')
        return resp_fail(p, "a line that does not end with CR LF");
    *line = (struct span){input.data, n - 1};
    return true;
}

/* The length of a header of up to five digits at the start of `input`; 0: another form, or not complete. */
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

/* Bulk strings and arrays with short headers are the most frequent input. */
static inline bool resp_read_item(struct resp_parser *p)
{
    struct span line;
    size_t number = 0;
    if (p->skip_left > 0)
        return resp_skip_bulk(p);
    const struct span input = {p->input.data + p->parsed, p->input.len - p->parsed};
    size_t header = resp_short_header(input, &number);
    if (header > 0 && input.data[0] == '$')
        return resp_read_bulk(p, REPLY_STRING, header, number);
    if (header > 0 && input.data[0] == '*') {
        p->parsed += header;
        return resp_begin_array(p, REPLY_ARRAY, number);
    }
    return resp_take_line(p, input, &line) && resp_read_line(p, line);
}

enum resp_result resp_parse(struct resp_parser *p, const struct redis_reply **reply)
{
    if (p->result == RESP_ERROR)
        return RESP_ERROR;
    if (p->result != RESP_INCOMPLETE)
        resp_begin(p);
    p->result = RESP_INCOMPLETE;
    while (p->result == RESP_INCOMPLETE && p->parsed < p->input.len && resp_read_item(p)) {
    }
    if (p->count == 0)
        p->start = p->parsed;
    *reply = p->kept ? p->item : &resp_oversize;
    return p->result;
}

uint64_t resp_arriving(const struct resp_parser *p)
{
    return !p->kept || p->start < p->input.len ? p->begun : 0;
}

void resp_init(struct resp_parser *p)
{
    *p = (struct resp_parser){.bytes_max = RESP_BYTES_MAX, .kept = true, .left = 1, .begun = 1};
}

void resp_fini(struct resp_parser *p)
{
    free(p->item);
    buf_fini(&p->input);
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

void command_begin_with_key(struct buf *out, struct span name, const struct buf *key, size_t words)
{
    buf_clear(out);
    command_begin(out, 2 + words);
    command_add(out, name);
    command_add_buf(out, key);
}

void command_write(struct buf *out, int argc, const char **argv)
{
    command_begin(out, (size_t)argc);
    for (int i = 0; i < argc; i++)
        command_add(out, span_of(argv[i]));
}
