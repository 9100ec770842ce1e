/* The protocol of Sentinels: the master of a name, and its replicas; see locator.h. */
#include "redis/locator.h"

#include "base/text.h"
#include "redis/resp.h"

static bool sentinel_has_flag(struct span flags, struct span flag)
{
    while (flags.len > 0)
        if (span_equal(span_cut(&flags, ','), flag))
            return true;
    return false;
}

/* One that is up and linked to its master; entries that cannot be parsed are left out. */
static void sentinel_add_replica(const struct redis_reply *replica, struct locator_answer *out)
{
    int64_t port = 0;
    struct span flags = reply_member(replica, SPAN("flags"));
    bool is_up = sentinel_has_flag(flags, SPAN("slave")) && !sentinel_has_flag(flags, SPAN("s_down")) &&
                 !sentinel_has_flag(flags, SPAN("disconnected"));
    if (is_up && span_equal(reply_member(replica, SPAN("master-link-status")), SPAN("ok")) &&
        parse_int64(reply_member(replica, SPAN("port")), &port) == 0 &&
        redis_address_set(&out->replica[out->replicas], reply_member(replica, SPAN("ip")), port))
        out->replicas++;
}

/* The reply to SENTINEL GET-MASTER-ADDR-BY-NAME. */
static const char *sentinel_read_master(const struct redis_reply *reply, struct redis_address *out)
{
    if (reply->type == REPLY_NIL)
        return "it knows no master of that name";
    int64_t port = 0;
    bool pair = reply->type == REPLY_ARRAY && reply->elements == 2;
    if (pair && parse_int64(reply_text(reply_element(reply, 1)), &port) == 0 &&
        redis_address_set(out, reply_text(reply_first(reply)), port))
        return NULL;
    return "its answer is not an address";
}

/* The reply to SENTINEL REPLICAS. */
static const char *sentinel_read_replicas(const struct redis_reply *reply, struct locator_answer *out)
{
    out->replicas = 0;
    if (reply->type != REPLY_ARRAY)
        return "its answer is not a list of replicas";
    const struct redis_reply *replica = reply_first(reply);
    for (size_t i = 0; i < reply->elements && out->replicas < LOCATOR_REPLICAS_MAX;
         i++, replica = reply_next(replica))
        sentinel_add_replica(replica, out);
    return NULL;
}

static bool sentinel_compose(const struct redis_endpoint *endpoint, int n, struct buf *out)
{
    const char *command = n == 0 ? "GET-MASTER-ADDR-BY-NAME" : "REPLICAS";
    if (n == (endpoint->discovery.replica ? 2 : 1))
        return false;
    command_write(out, 3, (const char *[]){"SENTINEL", command, endpoint->discovery.master});
    return true;
}

static const char *sentinel_read_answer(const struct redis_endpoint *endpoint,
                                        const struct redis_endpoint *server, int n,
                                        const struct redis_reply *reply, struct locator_answer *answer)
{
    (void)endpoint;
    (void)server;
    return n == 0 ? sentinel_read_master(reply, &answer->master) : sentinel_read_replicas(reply, answer);
}

const struct locator_protocol sentinel_protocol = {
    .name = "sentinel",
    .no_answer = "sentinel has no answer",
    .unreachable = "no sentinel has the address of redis",
    .reachable = "sentinel answers again",
    .compose = sentinel_compose,
    .read = sentinel_read_answer,
};
