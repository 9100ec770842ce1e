/*
 * Growing byte buffer; see buf.h. The capacity doubles, so that appending takes amortised constant time. A
 * large first request is allocated exactly, since its caller knows the size.
 */
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

static int buf_fail(struct buf *b)
{
    b->error = -ENOMEM;
    return b->error;
}

int buf_grow(struct buf *b, size_t extra)
{
    if (b->error != 0)
        return b->error;
    if (extra > (size_t)PTRDIFF_MAX - b->len) /* no object is larger */
        return buf_fail(b);
    size_t first = extra < EXACT_FROM ? FIRST_CAPACITY : extra;
    size_t cap = b->cap == 0 ? first : b->cap;
    while (cap < b->len + extra)
        cap *= 2;
    char *data = realloc(b->data, cap);
    if (data == NULL)
        return buf_fail(b);
    b->data = data;
    b->cap = cap;
    return 0;
}

#define THREE_FROM(n) (n), (n)*10, (n)*100
/* Powers of ten. */
static const uint64_t POWERS[] = {THREE_FROM(UINT64_C(1)),
                                  THREE_FROM(UINT64_C(1000)),
                                  THREE_FROM(UINT64_C(1000000)),
                                  THREE_FROM(UINT64_C(1000000000)),
                                  THREE_FROM(UINT64_C(1000000000000)),
                                  THREE_FROM(UINT64_C(1000000000000000)),
                                  UINT64_C(1000000000000000000),
                                  UINT64_C(10000000000000000000)};
#undef THREE_FROM

/* 1233/4096 is a little more than the logarithm of 2: the estimate is one too few at most. */
static size_t buf_count_digits(uint64_t value)
{
    size_t bits = 64 - (size_t)__builtin_clzll(value | 1);
    size_t n = bits * 1233 / 4096;
    return n + (value >= POWERS[n] || n == 0);
}

/* 00 to 99 */
static const char PAIRS[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

size_t format_int64(int64_t value, char out[INT64_DIGITS_MAX])
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t n = buf_count_digits(rest) + (value < 0);
    char *at = out + n;
    out[0] = '-'; /* overwritten by the first digit if there is no sign */
    for (; rest >= 10; rest /= 100) {
        at -= 2;
        memcpy(at, PAIRS + rest % 100 * 2, 2);
    }
    if (rest > 0 || value == 0)
        *--at = (char)('0' + rest);
    return n;
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
