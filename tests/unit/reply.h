/* Replies of Redis, made from their bytes. For one file of a program. */
#ifndef TEST_UNIT_REPLY_H
#define TEST_UNIT_REPLY_H

#include "redis/resp.h"
#include "unit/check.h"

/* Parses what was fed before and *input, which is then empty. */
static inline enum resp_result reply_feed(struct resp_parser *p, struct span *input,
                                          const struct redis_reply **reply)
{
    char *room = resp_reserve(p, input->len + 1);
    assert_non_null(room);
    (void)span_put(*input, room);
    resp_received(p, input->len);
    input->len = 0;
    return resp_parse(p, reply);
}

/* The reply that `bytes` are, borrowed until the next call. */
static inline const struct redis_reply *reply_parse(struct span bytes)
{
    static struct resp_parser parser;
    const struct redis_reply *reply = NULL;
    struct span left = bytes;
    resp_fini(&parser);
    resp_init(&parser);
    if (reply_feed(&parser, &left, &reply) != RESP_REPLY)
        fail_msg("no reply: %.*s", (int)bytes.len, bytes.data);
    return reply;
}

static inline const struct redis_reply *reply_of(const char *text)
{
    return reply_parse(span_of(text));
}

#endif
