/* Replies of Sentinel and ROLE; see sentinel.h. */
#include "redis/sentinel.h"

#include "base/parse.h"

#include <ctype.h>

enum { PORT_MAX = 65535 };

static struct span text_of(const redisReply *reply)
{
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
    return text ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
}

bool redis_address_equal(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static bool is_host(struct span host)
{
    if (host.len == 0 || host.len >= REDIS_HOST_SIZE)
        return false;
    for (size_t i = 0; i < host.len; i++)
        if (!isalnum((unsigned char)host.data[i]) && memchr(".:_-", host.data[i], 4) == NULL)
            return false;
    return true;
}

static bool read_address(struct span host, struct span port, struct redis_address *out)
{
    int64_t number = 0;
    if (!is_host(host) || parse_int64(port, &number) != 0 || number < 1 || number > PORT_MAX)
        return false;
    *span_put(host, out->host) = '\0';
    out->port = (int)number;
    return true;
}

const char *sentinel_read_master(const redisReply *reply, struct redis_address *out)
{
    if (reply->type == REDIS_REPLY_NIL)
        return "it knows no master of that name";
    bool pair = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
    if (pair && read_address(text_of(reply->element[0]), text_of(reply->element[1]), out))
        return NULL;
    return "its answer is no address";
}

/* A member of an object, which comes as a map or as an array of names and values. */
static struct span member(const redisReply *object, struct span name)
{
    for (size_t i = 0; i + 1 < object->elements; i += 2)
        if (span_equal(text_of(object->element[i]), name))
            return text_of(object->element[i + 1]);
    return SPAN_ABSENT;
}

static bool has_flag(struct span flags, struct span flag)
{
    while (flags.len > 0) {
        struct span one = {flags.data, span_find(flags, ',')};
        if (span_equal(one, flag))
            return true;
        flags = span_skip(flags, one.len < flags.len ? one.len + 1 : one.len);
    }
    return false;
}

static bool is_healthy(const redisReply *replica)
{
    struct span flags = member(replica, SPAN("flags"));
    return has_flag(flags, SPAN("slave")) && !has_flag(flags, SPAN("s_down")) &&
           !has_flag(flags, SPAN("o_down")) && !has_flag(flags, SPAN("disconnected")) &&
           span_equal(member(replica, SPAN("master-link-status")), SPAN("ok"));
}

static bool is_object(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY || reply->type == REDIS_REPLY_MAP;
}

const char *sentinel_read_replicas(const redisReply *reply, struct sentinel_answer *out)
{
    out->replicas = 0;
    if (reply->type != REDIS_REPLY_ARRAY)
        return "its answer is no list of replicas";
    for (size_t i = 0; i < reply->elements && out->replicas < SENTINEL_REPLICAS_MAX; i++) {
        const redisReply *one = reply->element[i];
        if (is_object(one) && is_healthy(one) &&
            read_address(member(one, SPAN("ip")), member(one, SPAN("port")), &out->replica[out->replicas]))
            out->replicas++;
    }
    return NULL;
}

const char *redis_role_objection(const redisReply *reply, bool replica)
{
    bool list = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    struct span role = list ? text_of(reply->element[0]) : SPAN_ABSENT;
    if (!replica)
        return span_equal(role, SPAN("master")) ? NULL : "it is not a master";
    if (!span_equal(role, SPAN("slave")) || reply->elements < 4)
        return "it is not a replica";
    return span_equal(text_of(reply->element[3]), SPAN("connected")) ? NULL
                                                                     : "its link to the master is down";
}
