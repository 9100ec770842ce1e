/* Borrowed bytes, not necessarily NUL-terminated. `data == NULL` means absent, which differs from empty. */
#ifndef BASE_SPAN_H
#define BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *data;
    size_t len;
};

/* A span over a string literal (or any array whose last byte is not part of the text). */
#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})
#define SPAN_ABSENT   ((struct span){NULL, 0})

static inline struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Compares ASCII letters without case. */
static inline bool span_equal_nocase(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.data, b.data, a.len) == 0);
}

static inline bool span_starts_with(struct span s, struct span start)
{
    return s.len >= start.len && (start.len == 0 || memcmp(s.data, start.data, start.len) == 0);
}

/* The rest of `s` after its first `n` bytes; `n` is at most `s.len`. */
static inline struct span span_skip(struct span s, size_t n)
{
    return (struct span){s.data + n, s.len - n};
}

/* Eight bytes, in the byte order of the machine. */
static inline uint64_t span_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Copies `s` to `at`, which has room for it; returns the end of the copy. */
static inline char *span_put(struct span s, char *at)
{
    if (s.len > 0)
        memcpy(at, s.data, s.len);
    return at + s.len;
}

/* The position of `byte` in `s`, or `s.len` when it is not there. */
static inline size_t span_find(struct span s, char byte)
{
    const char *at = s.len == 0 ? NULL : memchr(s.data, byte, s.len);
    return at == NULL ? s.len : (size_t)(at - s.data);
}

static inline bool span_all(struct span s, bool (*is_one)(char c))
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_one(s.data[i]))
            return false;
    return true;
}

/* Removes the text before the first `separator` and the separator from *s, and returns that text. Without a
 * separator it returns all of *s, and *s becomes absent. */
static inline struct span span_cut(struct span *s, char separator)
{
    struct span one = {s->data, span_find(*s, separator)};
    *s = one.len < s->len ? span_skip(*s, one.len + 1) : SPAN_ABSENT;
    return one;
}

/* `s` without the spaces and tabs at both ends (optional whitespace, RFC 9110 section 5.6.3). */
static inline struct span span_trim(struct span s)
{
    while (s.len > 0 && (*s.data == ' ' || *s.data == '\t'))
        s = span_skip(s, 1);
    while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
        s.len--;
    return s;
}

#endif
