/* Replies of Redis, made from their bytes. For one file of a program. */
#ifndef TEST_UNIT_REPLY_H
#define TEST_UNIT_REPLY_H

#include "redis/resp.h"
#include "unit/check.h"

/* The reply that `bytes` are, borrowed until the next call. */
static inline const struct redis_reply *reply_parse(struct span bytes)
{
    static struct resp_parser parser;
    const struct redis_reply *reply = NULL;
    struct span left = bytes;
    resp_fini(&parser);
    resp_init(&parser);
    if (resp_parse(&parser, &left, &reply) != RESP_REPLY)
        fail_msg("no reply: %.*s", (int)bytes.len, bytes.data);
    return reply;
}

static inline const struct redis_reply *reply_of(const char *text)
{
    return reply_parse(span_of(text));
}

#endif
