/*
 * Shared by the fuzz targets. A target is one function that takes bytes and aborts when a property does not
 * hold. In the preset "fuzz" libFuzzer calls it, in all others replay.c does with files.
 */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Noreturn static inline void fuzz_fail(const char *what, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

/* A property. Unlike assert() it is always checked. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))

static inline struct span fuzz_input(const uint8_t *data, size_t size)
{
    return (struct span){size == 0 ? "" : (const char *)data, size};
}

/* Removes the bytes up to the first `end` and `end` itself from the front of `input`; returns the former. */
static inline struct span fuzz_take(struct span *input, char end)
{
    struct span taken = {input->data, span_find(*input, end)};
    *input = span_skip(*input, taken.len < input->len ? taken.len + 1 : taken.len);
    return taken;
}

/* An owned copy of exactly its length, so that AddressSanitizer notices reads beyond it. */
static inline char *fuzz_copy(struct span s)
{
    char *copy = malloc(s.len == 0 ? 1 : s.len);
    FUZZ_CHECK(copy != NULL);
    (void)span_put(s, copy);
    return copy;
}

/* An owned, NUL-terminated copy up to the first NUL. */
static inline char *fuzz_text(struct span s)
{
    size_t len = span_find(s, '\0');
    char *text = malloc(len + 1);
    FUZZ_CHECK(text != NULL);
    *span_put((struct span){s.data, len}, text) = '\0';
    return text;
}

#endif
