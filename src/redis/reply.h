/*
 * A reply of Redis, of any type of RESP3, and the functions that read it.
 *
 * A reply is an array of items in the order in which they arrive: a text or a number is one item, and an
 * array is one item with its elements behind it, which may be arrays themselves. reply_next() leads from one
 * element to the next. A reply is borrowed from the module that received it (resp.h says until when).
 */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "base/span.h"

/* Numbered as in hiredis, since tests compare our parser with the parser of hiredis. */
enum reply_type {
    REPLY_STRING = 1, /* a bulk string */
    REPLY_ARRAY,
    REPLY_INTEGER,
    REPLY_NIL,
    REPLY_STATUS, /* a simple string */
    REPLY_ERROR,
    REPLY_DOUBLE,
    REPLY_BOOL,
    REPLY_MAP,
    REPLY_SET,
    REPLY_PUSH = 12,
    REPLY_BIGNUM,
    REPLY_VERB /* a verbatim string, without its format */
};

/* A member that the type does not have is 0 or NULL. */
struct redis_reply {
    enum reply_type type;
    int64_t integer; /* also a boolean's 0 or 1 */
    double number;   /* only in a REPLY_DOUBLE */
    char *str;       /* the text, also of an error or a number, with a NUL behind it */
    size_t len;      /* bytes in str */
    size_t elements; /* the length of an array, set or map, in which a name and its value are two */
};

static inline const struct redis_reply *reply_first(const struct redis_reply *array)
{
    return array + 1;
}

/* The item behind this one and all that it contains: the next element, if there is one. */
static inline const struct redis_reply *reply_next(const struct redis_reply *reply)
{
    for (size_t left = 1; left > 0; left--, reply++)
        left += reply->elements;
    return reply;
}

/* The element `index`, counted from 0, which exists. */
const struct redis_reply *reply_element(const struct redis_reply *array, size_t index);

/* A copy in one block, owned (free); its texts are NUL-terminated. NULL when out of memory. */
struct redis_reply *reply_copy(const struct redis_reply *reply) __attribute__((warn_unused_result));

/*
 * True when a reply says that a key, or a part that the command names, does not exist. Such a reply is nil,
 * 0, or a list that is empty or has only nil.
 */
bool reply_is_absent(const struct redis_reply *reply);

/* True for an error reply that begins with `code`, such as "WRONGTYPE ". */
static inline bool reply_is_error(const struct redis_reply *reply, struct span code)
{
    return reply->type == REPLY_ERROR && span_starts_with((struct span){reply->str, reply->len}, code);
}

/* The content of a string; absent for any other type. Borrowed, as is reply_member. */
static inline struct span reply_text(const struct redis_reply *reply)
{
    bool is_text = reply->type == REPLY_STRING || reply->type == REPLY_STATUS;
    return is_text ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
}

/* The text of a member of a map, or of an array of names and values; absent when there is none. */
struct span reply_member(const struct redis_reply *map, struct span name);

#endif
