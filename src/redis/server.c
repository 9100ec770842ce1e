/* Parses HELLO and INFO, and draws the conclusions; see server.h. */
#include "redis/server.h"

#include "base/text.h"
#include "redis/resp.h"

#include <string.h>
#include <sys/param.h>

enum { MS_PER_S = 1000 };

static const char ORDERED_SINCE[] = "7.0.5";

/* --- HELLO --- */

const char *redis_server_check_hello(const struct redis_reply *reply)
{
    struct span server = reply_member(reply, SPAN("server"));
    if (server.data == NULL)
        return "HELLO does not name the server";
    if (!span_equal(server, SPAN("redis")))
        return NULL;
    struct span version = reply_member(reply, SPAN("version"));
    return version.len > 0 && ascii_is_digit(*version.data) && strverscmp(version.data, ORDERED_SINCE) >= 0
               ? NULL
               : "Redis before 7.0.5 sends invalidations out of order with replies";
}

const char *redis_server_check_mode(const struct redis_reply *reply, bool cluster)
{
    struct span mode = reply_member(reply, SPAN("mode"));
    bool is_node = span_equal(mode, SPAN("cluster"));
    if (mode.data == NULL || is_node == cluster)
        return NULL;
    return is_node ? "this server is a node of a Redis Cluster: use redis+cluster:// in its URL"
                   : "this server is not a node of a Redis Cluster: use redis:// in its URL";
}

bool redis_server_is_unavailable(struct span error)
{
    static const char *const codes[] = {"LOADING ",  "MASTERDOWN ", "CLUSTERDOWN ",
                                        "TRYAGAIN ", "BUSY ",       "ERR max number of clients "};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (span_starts_with(error, span_of(codes[i])))
            return true;
    return false;
}

/* --- INFO --- */

/* The value of the line "name:value". */
static struct span redis_server_info_value(struct span info, struct span name)
{
    while (info.len > 0) {
        struct span line = span_cut(&info, '\n');
        if (line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        if (line.len > name.len && line.data[name.len] == ':' && span_starts_with(line, name))
            return span_skip(line, name.len + 1);
    }
    return SPAN_ABSENT;
}

/* The text of INFO; absent if the reply is not a text. Borrowed. */
static struct span redis_server_info_of(const struct redis_reply *reply)
{
    bool is_text = reply->type == REPLY_STRING || reply->type == REPLY_VERB;
    return is_text ? (struct span){reply->str, reply->len} : SPAN_ABSENT;
}

struct span redis_server_eviction_policy(const struct redis_reply *reply)
{
    struct span policy = redis_server_info_value(redis_server_info_of(reply), SPAN("maxmemory_policy"));
    return span_starts_with(policy, SPAN("allkeys-")) ? policy : SPAN_ABSENT;
}

/* The role, and the master of a replica: its port is 0 if its address is invalid. */
static struct redis_role redis_server_read_role(struct span info)
{
    struct redis_role role = {.kind = REDIS_ROLE_UNKNOWN};
    int64_t port = 0;
    struct span kind = redis_server_info_value(info, SPAN("role"));
    if (span_equal(kind, SPAN("master")))
        role.kind = REDIS_ROLE_MASTER;
    if (!span_equal(kind, SPAN("slave")))
        return role;
    role.kind = REDIS_ROLE_REPLICA;
    if (parse_int64(redis_server_info_value(info, SPAN("master_port")), &port) == 0)
        (void)redis_address_set(&role.master, redis_server_info_value(info, SPAN("master_host")), port);
    return role;
}

/* Returns NULL when the link of a replica to its master is up, or the reason why it is not. */
static const char *redis_server_read_link(struct span info, int64_t *last_io_s)
{
    struct span status = redis_server_info_value(info, SPAN("master_link_status"));
    if (status.data == NULL)
        return "INFO does not describe the link to its master";
    if (!span_equal(status, SPAN("up")) ||
        span_equal(redis_server_info_value(info, SPAN("master_sync_in_progress")), SPAN("1")))
        return "its link to the master is down";
    if (parse_int64(redis_server_info_value(info, SPAN("master_last_io_seconds_ago")), last_io_s) != 0 ||
        *last_io_s < 0)
        return "INFO does not state when its master last sent something";
    return *last_io_s > REDIS_MASTER_SILENCE_MAX_S ? "its master has been silent for too long" : NULL;
}

/* --- the server of a connection --- */

void redis_server_init(struct redis_server *s, struct redis_replication *replication, const char *host,
                       int port)
{
    *s = (struct redis_server){
        .role.kind = REDIS_ROLE_UNKNOWN, .valid_until_ms = UINT64_MAX, .replication = replication};
    (void)redis_address_set(&s->address, span_of(host), port);
}

/* The place of this replica; without one, that of the replica that was settled the longest ago. */
static struct redis_cut_off *redis_server_find_cut_off(const struct redis_server *s)
{
    struct redis_cut_off *all = s->replication->cut_off;
    struct redis_cut_off *oldest = all;
    for (int i = 0; i < REDIS_CUT_OFFS_MAX; i++) {
        if (redis_address_equal(&all[i].address, &s->address))
            return &all[i];
        if (all[i].settled_ms < oldest->settled_ms)
            oldest = &all[i];
    }
    return oldest;
}

/* Returns NULL, or why a replica with this link (NULL: it is up) cannot be used. */
static const char *redis_server_check_link(const struct redis_server *s, const char *link, uint64_t sent_ms)
{
    struct redis_cut_off *c = redis_server_find_cut_off(s);
    if (link != NULL)
        *c = (struct redis_cut_off){s->address, UINT64_MAX};
    if (link != NULL || !redis_address_equal(&c->address, &s->address))
        return link;
    c->settled_ms = MIN(c->settled_ms, sent_ms + REDIS_REPLICA_SETTLE_MS);
    return sent_ms < c->settled_ms ? "its link to the master was down a moment ago" : NULL;
}

static const char *redis_server_check_role(const struct redis_server *s, enum redis_role_kind kind,
                                           enum redis_role_kind wanted)
{
    if (kind == REDIS_ROLE_UNKNOWN)
        return "it is neither a master nor a replica";
    if (wanted != REDIS_ROLE_UNKNOWN && kind != wanted)
        return wanted == REDIS_ROLE_MASTER ? "it is not a master" : "it is not a replica";
    if (s->role.kind != REDIS_ROLE_UNKNOWN && kind != s->role.kind)
        return kind == REDIS_ROLE_MASTER ? "it was a replica and is a master now"
                                         : "it was a master and is a replica now";
    return NULL;
}

const char *redis_server_take_info(struct redis_server *s, const struct redis_reply *reply,
                                   enum redis_role_kind wanted, uint64_t sent_ms)
{
    int64_t last_io_s = 0;
    if (reply->type == REPLY_ERROR) {
        bool is_needed = wanted != REDIS_ROLE_UNKNOWN || s->role.kind != REDIS_ROLE_UNKNOWN;
        /* an ACL forbids it, or the server lacks it */
        s->info_denied =
            !is_needed && (reply_is_error(reply, SPAN("NOPERM ")) || reply_is_error(reply, SPAN("ERR ")));
        return s->info_denied ? NULL : reply->str;
    }
    const struct span info = redis_server_info_of(reply);
    const struct redis_role role = redis_server_read_role(info);
    const char *problem = redis_server_check_role(s, role.kind, wanted);
    if (role.kind == REDIS_ROLE_REPLICA) {
        const char *link = redis_server_check_link(s, redis_server_read_link(info, &last_io_s), sent_ms);
        problem = problem != NULL ? problem : link;
    }
    if (problem != NULL)
        return problem;
    s->role = role;
    if (role.kind == REDIS_ROLE_REPLICA) {
        uint64_t heard_ms = (uint64_t)(last_io_s + 1) * MS_PER_S; /* how long ago; INFO rounds down */
        s->valid_until_ms = sent_ms > heard_ms ? sent_ms - heard_ms : 0;
        s->lag_s = (uint64_t)last_io_s;
    }
    return NULL;
}
