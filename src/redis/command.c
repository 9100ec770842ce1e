/* Commands for Redis; see command.h. */
#include "redis/command.h"

static void add_head(struct buf *out, char mark, size_t number)
{
    char head[1 + INT64_DIGITS_MAX + 2];
    head[0] = mark;
    size_t digits = format_int64((int64_t)number, head + 1);
    head[1 + digits] = '\r';
    head[2 + digits] = '\n';
    buf_append(out, head, digits + 3);
}

void command_begin(struct buf *out, size_t count)
{
    add_head(out, '*', count);
}

void command_add(struct buf *out, struct span word)
{
    add_head(out, '$', word.len);
    buf_append_span(out, word);
    buf_append(out, "\r\n", 2);
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

void command_write(struct buf *out, int argc, const char **argv, const size_t *lengths)
{
    command_begin(out, (size_t)argc);
    for (int i = 0; i < argc; i++)
        command_add(out, lengths == NULL ? span_of(argv[i]) : (struct span){argv[i], lengths[i]});
}
