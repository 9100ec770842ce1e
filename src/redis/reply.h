/*
 * A reply of Redis, of any type of RESP3, and what its readers ask of it.
 *
 * It is borrowed from whatever received it (resp.h, client.h say until when); reply_copy() makes one to keep.
 */
#ifndef REDIS_REPLY_H
#define REDIS_REPLY_H

#include "base/span.h"

#include <hiredis/hiredis.h>

/* Until every file names the types so. */
#define redis_reply redisReply
enum reply_type {
    REPLY_STRING = REDIS_REPLY_STRING,
    REPLY_ARRAY = REDIS_REPLY_ARRAY,
    REPLY_INTEGER = REDIS_REPLY_INTEGER,
    REPLY_NIL = REDIS_REPLY_NIL,
    REPLY_STATUS = REDIS_REPLY_STATUS,
    REPLY_ERROR = REDIS_REPLY_ERROR,
    REPLY_DOUBLE = REDIS_REPLY_DOUBLE,
    REPLY_SET = REDIS_REPLY_SET
};

/* A copy in one block, owned (free); its texts are NUL-terminated. NULL when out of memory. */
struct redis_reply *reply_copy(const struct redis_reply *reply) __attribute__((warn_unused_result));

/* A string's content; absent when it is none. Borrowed. */
static inline struct span reply_text(const struct redis_reply *reply)
{
    bool is_text = reply->type == REPLY_STRING || reply->type == REPLY_STATUS;
    return is_text ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
}

/* True for an error reply that begins with `code`, such as "WRONGTYPE ". */
static inline bool reply_is_error(const struct redis_reply *reply, struct span code)
{
    return reply->type == REPLY_ERROR && span_starts_with((struct span){reply->str, reply->len}, code);
}

#endif
