/* Replies of Sentinel; see sentinel.h. */
#include "redis/sentinel.h"

#include "base/parse.h"

#include <ctype.h>

enum { PORT_MAX = 65535 };

struct span redis_text(const redisReply *reply)
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

bool redis_address_set(struct redis_address *out, struct span host, int64_t port)
{
    if (!is_host(host) || port < 1 || port > PORT_MAX)
        return false;
    *span_put(host, out->host) = '\0';
    out->port = (int)port;
    return true;
}

static bool read_address(struct span host, struct span port, struct redis_address *out)
{
    int64_t number = 0;
    return parse_int64(port, &number) == 0 && redis_address_set(out, host, number);
}

const char *sentinel_read_master(const redisReply *reply, struct redis_address *out)
{
    if (reply->type == REDIS_REPLY_NIL)
        return "it knows no master of that name";
    bool pair = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
    if (pair && read_address(redis_text(reply->element[0]), redis_text(reply->element[1]), out))
        return NULL;
    return "its answer is no address";
}

struct span redis_member(const redisReply *object, struct span name)
{
    for (size_t i = 0; i + 1 < object->elements; i += 2)
        if (span_equal(redis_text(object->element[i]), name))
            return redis_text(object->element[i + 1]);
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

static bool is_down(struct span flags)
{
    return has_flag(flags, SPAN("s_down")) || has_flag(flags, SPAN("o_down")) ||
           has_flag(flags, SPAN("disconnected"));
}

static void add_address(const struct redis_address *address, struct redis_address *list, int *count)
{
    if (*count < SENTINEL_REPLICAS_MAX)
        list[(*count)++] = *address;
}

static void read_replica(const redisReply *replica, struct sentinel_answer *out)
{
    struct redis_address address;
    struct span flags = redis_member(replica, SPAN("flags"));
    if (!has_flag(flags, SPAN("slave")) ||
        !read_address(redis_member(replica, SPAN("ip")), redis_member(replica, SPAN("port")), &address))
        return;
    if (is_down(flags))
        add_address(&address, out->down, &out->downs);
    else if (span_equal(redis_member(replica, SPAN("master-link-status")), SPAN("ok")))
        add_address(&address, out->replica, &out->replicas);
}

bool redis_is_object(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY || reply->type == REDIS_REPLY_MAP;
}

const char *sentinel_read_replicas(const redisReply *reply, struct sentinel_answer *out)
{
    out->replicas = out->downs = 0;
    if (reply->type != REDIS_REPLY_ARRAY)
        return "its answer is no list of replicas";
    for (size_t i = 0; i < reply->elements; i++)
        if (redis_is_object(reply->element[i]))
            read_replica(reply->element[i], out);
    return NULL;
}
