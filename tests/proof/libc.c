/*
 * Functions of the C library in plain C: cbmc has no body for some, and its own copy arrays of unknown size.
 * Each checks its arguments as a whole, and not each byte again.
 */
#include <assert.h>
#include <string.h>
#include <strings.h>

#define IS_READABLE(at, n) ((at) != NULL && __CPROVER_r_ok((at), (n)))
#define IS_WRITABLE(at, n) ((at) != NULL && __CPROVER_w_ok((at), (n)))

#pragma CPROVER check push
#pragma CPROVER check disable "bounds"
#pragma CPROVER check disable "pointer"
#pragma CPROVER check disable "pointer-overflow"
#pragma CPROVER check disable "pointer-primitive"
#pragma CPROVER check disable "signed-overflow"

void *memchr(const void *in, int c, size_t n)
{
    assert(IS_READABLE(in, n));
    const unsigned char *bytes = in;
    for (size_t i = 0; i < n; i++)
        if (bytes[i] == (c & 0xFF))
            return (void *)(bytes + i);
    return NULL;
}

int memcmp(const void *a, const void *b, size_t n)
{
    assert(IS_READABLE(a, n) && IS_READABLE(b, n));
    const unsigned char *left = a;
    const unsigned char *right = b;
    for (size_t i = 0; i < n; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    unsigned char *out = to;
    const unsigned char *in = from;
    assert(IS_WRITABLE(to, n) && IS_READABLE(from, n));
    assert(n == 0 || !__CPROVER_same_object(to, from) || out + n <= in || in + n <= out);
    for (size_t i = 0; i < n; i++)
        out[i] = in[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    unsigned char *out = to;
    const unsigned char *in = from;
    assert(IS_WRITABLE(to, n) && IS_READABLE(from, n));
    if (__CPROVER_same_object(to, from) && out > in) {
        for (size_t i = n; i > 0; i--)
            out[i - 1] = in[i - 1];
        return to;
    }
    for (size_t i = 0; i < n; i++)
        out[i] = in[i];
    return to;
}

void *memset(void *at, int c, size_t n)
{
    unsigned char *out = at;
    assert(IS_WRITABLE(at, n));
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned char)(c & 0xFF);
    return at;
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

int strncasecmp(const char *a, const char *b, size_t n)
{
    assert(IS_READABLE(a, n) && IS_READABLE(b, n));
    for (size_t i = 0; i < n; i++) {
        int difference = lower(a[i]) - lower(b[i]);
        if (difference != 0 || a[i] == '\0')
            return difference;
    }
    return 0;
}

#pragma CPROVER check pop
