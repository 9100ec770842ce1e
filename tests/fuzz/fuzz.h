/*
 * What the fuzz targets share. A target is one function that takes bytes and aborts when a promise does not
 * hold; libFuzzer drives it in the preset "fuzz", replay.c with files everywhere else.
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

/* A promise. Unlike assert() it is always looked at. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(#condition, __FILE__, __LINE__))

static inline struct span fuzz_input(const uint8_t *data, size_t size)
{
    return (struct span){size == 0 ? "" : (const char *)data, size};
}

/* Takes what stands before the first `end` off the front of `input`, and `end` with it. */
static inline struct span fuzz_take(struct span *input, char end)
{
    struct span taken = {input->data, span_find(*input, end)};
    *input = span_skip(*input, taken.len < input->len ? taken.len + 1 : taken.len);
    return taken;
}

/* An owned copy with exactly its length, so that reading beyond it is seen. */
static inline char *fuzz_copy(struct span s)
{
    char *copy = malloc(s.len == 0 ? 1 : s.len);
    FUZZ_CHECK(copy != NULL);
    (void)span_put(s, copy);
    return copy;
}

/* The same as a text that ends; what follows a NUL is cut off. */
static inline char *fuzz_text(struct span s)
{
    size_t len = span_find(s, '\0');
    char *text = malloc(len + 1);
    FUZZ_CHECK(text != NULL);
    *span_put((struct span){s.data, len}, text) = '\0';
    return text;
}

#endif
