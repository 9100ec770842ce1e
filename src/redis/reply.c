/* Replies to HELLO, ROLE, INFO replication and SENTINEL; see reply.h. */
#include "redis/reply.h"

#include "base/text.h"

enum { ROLE_OF_REPLICA_MIN = 4, VERSION_PARTS = 3 };

/* The first Redis that orders pushes and replies as the cache relies on. */
static const int64_t ORDERED_SINCE[VERSION_PARTS] = {7, 0, 5};

/* --- any reply --- */

/* Absent when it is no text. Borrowed, as is the next. */
static struct span text_of(const redisReply *reply)
{
    bool is_text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
    return is_text ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
}

/* A member of an object, which is a map or an array of names and values; absent when there is none. */
static struct span member_of(const redisReply *object, struct span name)
{
    if (object->type != REDIS_REPLY_ARRAY && object->type != REDIS_REPLY_MAP)
        return SPAN_ABSENT;
    for (size_t i = 0; i + 1 < object->elements; i += 2)
        if (span_equal(text_of(object->element[i]), name))
            return text_of(object->element[i + 1]);
    return SPAN_ABSENT;
}

bool reply_is_denied(const redisReply *error)
{
    return reply_is_error(error, SPAN("NOPERM ")) || reply_is_error(error, SPAN("ERR "));
}

/* --- HELLO --- */

/* "7.0.15": the number at the front of *text, which is moved on over it and the dot; -1 when there is none.
 */
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

/* False as well for a text that is no version. */
static bool is_ordered(struct span version)
{
    for (int i = 0; i < VERSION_PARTS; i++) {
        int64_t part = take_number(&version);
        if (part != ORDERED_SINCE[i])
            return part > ORDERED_SINCE[i];
    }
    return true;
}

const char *reply_check_hello(const redisReply *reply)
{
    struct span server = member_of(reply, SPAN("server"));
    if (server.data == NULL)
        return "HELLO does not name the server";
    if (!span_equal(server, SPAN("redis")))
        return NULL;
    struct span version = member_of(reply, SPAN("version"));
    return version.data != NULL && is_ordered(version)
               ? NULL
               : "Redis before 7.0.5 sends invalidations out of order with replies";
}

/* --- ROLE --- */

/* "slave", the master's host and port, the state of the link, an offset. */
static bool read_slave(const redisReply *reply, struct redis_role *out)
{
    if (reply->elements < ROLE_OF_REPLICA_MIN)
        return false;
    const redisReply *port = reply->element[2];
    out->kind = REDIS_ROLE_REPLICA;
    out->linked = span_equal(text_of(reply->element[3]), SPAN("connected"));
    if (port->type != REDIS_REPLY_INTEGER ||
        !redis_address_set(&out->master, text_of(reply->element[1]), port->integer))
        out->master = (struct redis_address){.port = 0};
    return true;
}

const char *reply_read_role(const redisReply *reply, struct redis_role *out)
{
    *out = (struct redis_role){.kind = REDIS_ROLE_UNKNOWN};
    bool list = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0;
    struct span role = list ? text_of(reply->element[0]) : SPAN_ABSENT;
    if (span_equal(role, SPAN("master"))) {
        out->kind = REDIS_ROLE_MASTER;
        return NULL;
    }
    if (span_equal(role, SPAN("slave")) && read_slave(reply, out))
        return NULL;
    return "it is neither a master nor a replica";
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

const char *reply_read_link(const redisReply *reply, int64_t *last_io_s)
{
    bool is_text = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_VERB;
    struct span info = is_text ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
    struct span status = info_value(info, SPAN("master_link_status"));
    if (status.data == NULL)
        return "INFO does not describe the link to its master";
    if (!span_equal(status, SPAN("up")) ||
        span_equal(info_value(info, SPAN("master_sync_in_progress")), SPAN("1")))
        return "its link to the master is down";
    if (parse_int64(info_value(info, SPAN("master_last_io_seconds_ago")), last_io_s) != 0 || *last_io_s < 0)
        return "INFO does not state when its master last sent something";
    return *last_io_s <= REDIS_MASTER_LAST_IO_MAX_S ? NULL : "its master has been silent for too long";
}

/* --- SENTINEL --- */

static bool read_address(struct span host, struct span port, struct redis_address *out)
{
    int64_t number = 0;
    return parse_int64(port, &number) == 0 && redis_address_set(out, host, number);
}

const char *reply_read_master(const redisReply *reply, struct redis_address *out)
{
    if (reply->type == REDIS_REPLY_NIL)
        return "it knows no master of that name";
    bool pair = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;
    if (pair && read_address(text_of(reply->element[0]), text_of(reply->element[1]), out))
        return NULL;
    return "its answer is no address";
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
    struct span flags = member_of(replica, SPAN("flags"));
    if (!has_flag(flags, SPAN("slave")) ||
        !read_address(member_of(replica, SPAN("ip")), member_of(replica, SPAN("port")), &address))
        return;
    if (is_down(flags))
        add_address(&address, out->down, &out->downs);
    else if (span_equal(member_of(replica, SPAN("master-link-status")), SPAN("ok")))
        add_address(&address, out->replica, &out->replicas);
}

const char *reply_read_replicas(const redisReply *reply, struct sentinel_answer *out)
{
    out->replicas = out->downs = 0;
    if (reply->type != REDIS_REPLY_ARRAY)
        return "its answer is no list of replicas";
    for (size_t i = 0; i < reply->elements; i++)
        read_replica(reply->element[i], out);
    return NULL;
}
