/* A queue of bytes that grows, for the simulated network and its servers. All zero: empty. */
#ifndef SIMULATION_BYTES_H
#define SIMULATION_BYTES_H

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the memory of the process is simulated, this is not of it. */
#ifdef BYTES_REALLOC
void *BYTES_REALLOC(void *memory, size_t size);
void BYTES_FREE(void *memory);
#else
#define BYTES_REALLOC realloc
#define BYTES_FREE    free
#endif

struct bytes {
    char *data; /* owned, and kept from one run to the next */
    size_t begin, end, capacity;
};

static inline size_t bytes_count(const struct bytes *b)
{
    return b->end - b->begin;
}

static inline const char *bytes_front(const struct bytes *b)
{
    return b->data + b->begin;
}

static inline void bytes_clear(struct bytes *b)
{
    b->begin = b->end = 0;
}

static inline void bytes_add(struct bytes *b, const char *data, size_t n)
{
    if (n == 0)
        return;
    if (b->end + n > b->capacity && b->begin > 0) {
        memmove(b->data, b->data + b->begin, bytes_count(b));
        b->end -= b->begin;
        b->begin = 0;
    }
    if (b->end + n > b->capacity) {
        b->capacity = 2 * (b->end + n);
        b->data =
            BYTES_REALLOC(b->data, b->capacity); /* ANALYZER(malloc-leak): kept as long as the process */
        assert(b->data != NULL); /* ANALYZER(malloc-leak): it is kept, and ends with the process */
    }
    memcpy(b->data + b->end, data, n);
    b->end += n;
}

/* At most 511 bytes. */
__attribute__((format(printf, 2, 3))) static inline void bytes_printf(struct bytes *b, const char *format,
                                                                      ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(n >= 0 && (size_t)n < sizeof text);
    bytes_add(b, text, (size_t)n);
}

static inline void bytes_drop(struct bytes *b, size_t n)
{
    assert(n <= bytes_count(b));
    b->begin += n;
    if (b->begin == b->end)
        bytes_clear(b);
}

/* The number that the first digits of `n` bytes make; strtol would read on until a NUL. */
static inline uint64_t number_at(const char *at, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n && at[i] >= '0' && at[i] <= '9'; i++)
        value = value * 10 + (uint64_t)(at[i] - '0');
    return value;
}

#endif
