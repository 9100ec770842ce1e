/* Growing byte buffer; see buf.h. A large first request is allocated exactly: its caller knows the size. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 256, EXACT_FROM = 32 * 1024 };

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = BUF_INIT;
}

int buf_grow(struct buf *b, size_t extra)
{
    if (b->error != 0)
        return b->error;
    bool is_possible = extra <= (size_t)PTRDIFF_MAX - b->len; /* no object is larger */
    size_t first = extra < EXACT_FROM ? FIRST_CAPACITY : extra;
    size_t cap = b->cap == 0 ? first : b->cap;
    while (is_possible && cap < b->len + extra)
        cap *= 2;
    char *data = is_possible ? realloc(b->data, cap) : NULL;
    if (data == NULL)
        return b->error = -ENOMEM;
    b->data = data;
    b->cap = cap;
    return 0;
}

/* A copy of constant size is two moves. */
size_t format_int64(int64_t value, char out[INT64_DIGITS_MAX])
{
    char text[2 * INT64_DIGITS_MAX] = "";
    char *const end = text + INT64_DIGITS_MAX;
    char *at = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (; rest >= 10; rest /= 10)
        *--at = (char)('0' + rest % 10);
    *--at = (char)('0' + rest);
    if (value < 0)
        *--at = '-';
    memcpy(out, at, INT64_DIGITS_MAX);
    return (size_t)(end - at);
}

/* vsnprintf needs one byte more than the text, for a NUL that is not counted. */
void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    va_list again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0)
        b->error = -ENOMEM;
    else if (buf_reserve(b, (size_t)n + 1) == 0) {
        (void)vsnprintf(b->data + b->len, (size_t)n + 1, format, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void buf_consume(struct buf *b, size_t n)
{
    b->len -= n;
    if (n > 0 && b->len > 0)
        memmove(b->data, b->data + n, b->len);
}

const char *buf_c_str(struct buf *b)
{
    if (buf_reserve(b, 1) != 0)
        return NULL;
    b->data[b->len] = '\0';
    return b->data;
}

void buf_set_message(struct buf *b, const char *format, va_list args)
{
    char text[BUF_MESSAGE_MAX];
    (void)vsnprintf(text, sizeof text, format, args);
    buf_clear(b);
    buf_append_str(b, text);
}
