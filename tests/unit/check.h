/* What the unit tests share: loops over texts, and assertions on bytes. */
#ifndef TEST_UNIT_CHECK_H
#define TEST_UNIT_CHECK_H

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "support/test.h"

/* A loop over pairs of texts, {"a", "b"}. */
#define EACH_PAIR(one, other, ...)                                                           \
    for (const char *const(*each_)[2] = (const char *const[][2]){__VA_ARGS__, {NULL, NULL}}, \
                    *one = (*each_)[0], *other = (*each_)[1];                                \
         one != NULL; one = (*++each_)[0], other = (*each_)[1])

/* A loop over the texts that follow. */
#define EACH_TEXT(text, ...)                                                                                \
    for (const char *const *each_ = (const char *const[]){__VA_ARGS__, NULL}, *text = *each_; text != NULL; \
         text = *++each_)

static inline void check_bytes(struct span actual, struct span expected, const char *file, int line)
{
    if (span_equal(actual, expected) && (actual.data == NULL) == (expected.data == NULL))
        return;
    struct span shown[2] = {actual, expected};
    for (int i = 0; i < 2; i++)
        if (shown[i].data == NULL)
            shown[i] = SPAN("(absent)");
    print_error("\"%.*s\", not \"%.*s\"\n", (int)shown[0].len, shown[0].data, (int)shown[1].len,
                shown[1].data);
    _fail(file, line);
}

static inline void check_text(struct span actual, const char *expected, const char *file, int line)
{
    check_bytes(actual, expected == NULL ? SPAN_ABSENT : span_of(expected), file, line);
}

/* Declares an empty buffer that ends with its block. */
#define SCOPED_BUF(name) __attribute__((cleanup(buf_fini))) struct buf name = BUF_INIT

/* The span holds the text, and is absent only when the text is NULL. */
#define assert_span(actual, text) check_text((actual), (text), __FILE__, __LINE__)

/* The buffer holds the text and no error. */
#define assert_buf(buffer, text)                                          \
    do {                                                                  \
        assert_int_equal(buf_error(buffer), 0);                           \
        check_bytes(buf_span(buffer), span_of(text), __FILE__, __LINE__); \
    } while (0)

/* A small generator with a fixed seed (xorshift64*): every run sees the same bytes. */
static inline uint32_t check_random(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return (uint32_t)((*seed * UINT64_C(0x2545F4914F6CDD1D)) >> 32);
}

#endif
