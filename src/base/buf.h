/*
 * A growing byte buffer with a sticky error: the first allocation that fails marks the buffer, further
 * appends do nothing, and the writer checks once, at the end, with buf_error().
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/span.h"

#include <stdarg.h>
#include <stdint.h>

struct buf {
    char *data; /* owned; NULL until the first byte is appended */
    size_t len;
    size_t cap;
    int error; /* 0, or -ENOMEM from the first failed allocation on */
};

#define BUF_INIT ((struct buf){0})

void buf_fini(struct buf *b);

/* Empties the buffer and clears its error; the memory is kept for the next use. */
static inline void buf_clear(struct buf *b)
{
    b->len = 0;
    b->error = 0;
}

/* The same, but frees the memory if it is more than `keep` bytes: after a rare large use. */
static inline void buf_recycle(struct buf *b, size_t keep)
{
    if (b->cap > keep)
        buf_fini(b);
    buf_clear(b);
}

int buf_grow(struct buf *b, size_t extra);

/* Makes room for `extra` more bytes. Returns 0 or -ENOMEM (then also sticky). Always inline, as is
 * buf_append: calls would be a tenth of what an uncached page costs. */
__attribute__((always_inline)) static inline int buf_reserve(struct buf *b, size_t extra)
{
    return b->error == 0 && extra <= b->cap - b->len ? 0 : buf_grow(b, extra);
}

__attribute__((always_inline)) static inline void buf_append(struct buf *b, const void *bytes, size_t n)
{
    if (n == 0 || buf_reserve(b, n) != 0)
        return;
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): there is room, and so there is data */
    memcpy(b->data + b->len, bytes, n); /* ANALYZER(null-argument): likewise */
    b->len += n;
}

static inline void buf_append_span(struct buf *b, struct span s)
{
    buf_append(b, s.data, s.len);
}

static inline void buf_append_str(struct buf *b, const char *text)
{
    buf_append(b, text, strlen(text));
}

static inline void buf_append_char(struct buf *b, char c)
{
    buf_append(b, &c, 1);
}

/* Writes the decimal digits of `value`, without a NUL, and returns their number; the rest of `out` is
 * undefined.
 */
enum { INT64_DIGITS_MAX = 20 };
size_t format_int64(int64_t value, char out[INT64_DIGITS_MAX]);

static inline void buf_append_int(struct buf *b, int64_t value)
{
    char digits[INT64_DIGITS_MAX];
    size_t n = format_int64(value, digits);
    buf_append(b, digits, n);
}

void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces the content by a message, cut off after BUF_MESSAGE_MAX - 1 bytes. Arguments may point into it. */
enum { BUF_MESSAGE_MAX = 512 };
void buf_set_message(struct buf *b, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Removes the first `n` bytes (at most the length) and moves the rest to the start. */
void buf_consume(struct buf *b, size_t n);

/* Appends a NUL that the length does not count; returns the text, borrowed until the next change, or NULL. */
const char *buf_c_str(struct buf *b);

/* A message, borrowed until the next change; "out of memory" where there was none for it. */
static inline const char *buf_message(struct buf *b)
{
    const char *text = buf_c_str(b);
    return text != NULL ? text : "out of memory";
}

static inline int buf_error(const struct buf *b)
{
    return b->error;
}

static inline struct span buf_span(const struct buf *b)
{
    return (struct span){b->data == NULL ? "" : b->data, b->len};
}

#endif
