/*
 * A growing byte buffer with a sticky error.
 *
 * Appending never reports failure by itself: the first allocation that fails marks the buffer, further
 * appends do nothing, and the writer asks once, at the end, with buf_error(). So code that composes a
 * document reads as the document does, and no allocation goes unchecked.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/span.h"

#include <stdint.h>

struct buf {
    char *data; /* owned; NULL until the first byte is appended */
    size_t len;
    size_t cap;
    int error; /* 0, or -ENOMEM for ever once an allocation failed */
};

#define BUF_INIT ((struct buf){0})

void buf_fini(struct buf *b);

/* Empties the buffer and forgives its error; the memory is kept for the next use. */
void buf_clear(struct buf *b);

/* The same, but gives the memory back where it is more than `keep` bytes: after a rare large use. */
void buf_recycle(struct buf *b, size_t keep);

/* What buf_reserve does when the room is not there. */
int buf_grow(struct buf *b, size_t extra);

/* Makes room for `extra` more bytes. Returns 0 or -ENOMEM (then also sticky). Always inline: beyond its own
 * limit for a whole program the compiler would call this and buf_append, a tenth of what a page costs. */
__attribute__((always_inline)) static inline int buf_reserve(struct buf *b, size_t extra)
{
    return b->error == 0 && extra <= b->cap - b->len ? 0 : buf_grow(b, extra);
}

/* Here, so that of a constant text no more is left than a few stores. */
__attribute__((always_inline)) static inline void buf_append(struct buf *b, const void *bytes, size_t n)
{
    if (n == 0 || buf_reserve(b, n) != 0)
        return;
    memcpy(b->data + b->len, bytes, n);
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

void buf_append_int(struct buf *b, int64_t value);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops the first `n` bytes (at most the length) and moves the rest to the front. */
void buf_consume(struct buf *b, size_t n);

/* Appends a NUL that the length does not count; returns the text, borrowed until the next change, or NULL. */
const char *buf_c_str(struct buf *b);

static inline int buf_error(const struct buf *b)
{
    return b->error;
}

static inline struct span buf_span(const struct buf *b)
{
    return (struct span){b->data == NULL ? "" : b->data, b->len};
}

/* The decimal digits of `value`, without a NUL. `out` takes INT64_DIGITS_MAX bytes; returns how many were
 * used. */
enum { INT64_DIGITS_MAX = 20 };
size_t format_int64(int64_t value, char out[INT64_DIGITS_MAX]);

#endif
