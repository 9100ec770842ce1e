/* Replies to HELLO, ROLE and INFO replication; see role.h. */
#include "redis/role.h"

#include "base/parse.h"

enum { ROLE_OF_REPLICA_MIN = 4, VERSION_PARTS = 3 };

/* The first Redis that orders pushes and replies as the cache relies on. */
static const int64_t ORDERED_SINCE[VERSION_PARTS] = {7, 0, 5};

/* --- HELLO --- */

/* "7.0.15": the number at the front of *text, which goes on behind the dot; -1 where there is none. */
static int64_t take_number(struct span *text)
{
    struct span digits = {text->data, 0};
    int64_t number = -1;
    while (digits.len < text->len && digits.data[digits.len] >= '0' && digits.data[digits.len] <= '9')
        digits.len++;
    *text = span_skip(*text, digits.len);
    if (text->len > 0 && text->data[0] == '.')
        *text = span_skip(*text, 1);
    return parse_int64(digits, &number) == 0 ? number : -1;
}

/* False as well when it is no version; it is not absent. */
static bool is_ordered(struct span version)
{
    for (int i = 0; i < VERSION_PARTS; i++) {
        int64_t part = take_number(&version);
        if (part != ORDERED_SINCE[i])
            return part > ORDERED_SINCE[i];
    }
    return true;
}

const char *redis_hello_check(const redisReply *reply)
{
    bool map = redis_is_object(reply);
    struct span server = map ? redis_member(reply, SPAN("server")) : SPAN_ABSENT;
    if (server.data == NULL)
        return "the server does not tell what it is";
    if (!span_equal(server, SPAN("redis")))
        return NULL;
    struct span version = redis_member(reply, SPAN("version"));
    return version.data != NULL && is_ordered(version)
               ? NULL
               : "Redis before 7.0.5 sends invalidations out of order with replies";
}

/* --- ROLE --- */

/* "slave", the master's host and port, the state of the link, an offset. */
static bool read_replica(const redisReply *reply, struct redis_role *out)
{
    if (reply->elements < ROLE_OF_REPLICA_MIN)
        return false;
    const redisReply *port = reply->element[2];
    out->kind = REDIS_ROLE_REPLICA;
    out->linked = span_equal(redis_text(reply->element[3]), SPAN("connected"));
    if (port->type != REDIS_REPLY_INTEGER ||
        !redis_address_set(&out->master, redis_text(reply->element[1]), port->integer))
        out->master = (struct redis_address){.port = 0};
    return true;
}

const char *redis_read_role(const redisReply *reply, struct redis_role *out)
{
    *out = (struct redis_role){.kind = REDIS_ROLE_UNKNOWN};
    bool list = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    struct span role = list ? redis_text(reply->element[0]) : SPAN_ABSENT;
    if (span_equal(role, SPAN("master"))) {
        out->kind = REDIS_ROLE_MASTER;
        return NULL;
    }
    if (span_equal(role, SPAN("slave")) && read_replica(reply, out))
        return NULL;
    return "it is neither a master nor a replica";
}

const char *redis_role_check(const redisReply *reply, bool replica)
{
    struct redis_role role;
    const char *objection = redis_read_role(reply, &role);
    if (objection != NULL)
        return objection;
    if (!replica)
        return role.kind == REDIS_ROLE_MASTER ? NULL : "it is not a master";
    if (role.kind != REDIS_ROLE_REPLICA)
        return "it is not a replica";
    return role.linked ? NULL : "its link to the master is down";
}

/* --- INFO replication --- */

/* The value of the line "name:value". */
static struct span info_value(struct span info, struct span name)
{
    while (info.len > 0) {
        struct span line = {info.data, span_find(info, '\n')};
        info = span_skip(info, line.len < info.len ? line.len + 1 : line.len);
        if (line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        if (line.len > name.len && line.data[name.len] == ':' && span_starts_with(line, name))
            return span_skip(line, name.len + 1);
    }
    return SPAN_ABSENT;
}

const char *redis_read_link(const redisReply *reply, struct redis_link *out)
{
    bool text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_VERB;
    struct span info = text ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
    struct span status = info_value(info, SPAN("master_link_status"));
    *out = (struct redis_link){.up = false};
    if (status.data == NULL)
        return "INFO tells nothing of its master";
    out->up = span_equal(status, SPAN("up")) &&
              !span_equal(info_value(info, SPAN("master_sync_in_progress")), SPAN("1"));
    struct span silent = info_value(info, SPAN("master_last_io_seconds_ago"));
    bool told = parse_int64(silent, &out->silent_s) == 0 && out->silent_s >= 0;
    return told || !out->up ? NULL : "INFO does not tell when its master last spoke";
}

const char *redis_link_check(const struct redis_link *link)
{
    if (!link->up)
        return "its link to the master is down";
    return link->silent_s <= REDIS_MASTER_SILENCE_MAX_S ? NULL : "its master has been silent for too long";
}

bool redis_is_denied(const redisReply *error)
{
    struct span text = {error->str, error->len};
    return span_starts_with(text, SPAN("NOPERM ")) || span_starts_with(text, SPAN("ERR "));
}
