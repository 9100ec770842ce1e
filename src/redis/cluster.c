/* The commands, replies and errors of the nodes of a cluster; see cluster.h. */
#include "redis/cluster.h"

#include "base/text.h"
#include "redis/resp.h"

enum { NODE_FIELDS = 4 };

/* --- the reply to CLUSTER SLOTS: [first slot, last slot, master, replica...] of each range --- */

/* An empty host, or nil, is the one at which the cluster was queried. */
static struct span cluster_host_of(struct span announced, struct span asked)
{
    return announced.len == 0 ? asked : announced;
}

/*
 * [host, port, id, metadata]. Where host names are preferred, the host of a node without one is "?", and the
 * metadata has its address.
 */
static struct span cluster_read_host(const struct redis_reply *node)
{
    struct span host = reply_text(reply_first(node));
    if (!span_equal(host, SPAN("?")) || node->elements < NODE_FIELDS)
        return host;
    struct span ip = reply_member(reply_element(node, 3), SPAN("ip"));
    return ip.data != NULL ? ip : host;
}

static bool cluster_read_node(const struct redis_reply *node, struct span asked, struct redis_address *out)
{
    if (node->type != REPLY_ARRAY || node->elements < 2)
        return false;
    const struct redis_reply *host = reply_first(node);
    const struct redis_reply *port = reply_next(host);
    if ((host->type != REPLY_STRING && host->type != REPLY_NIL) || port->type != REPLY_INTEGER ||
        !redis_address_set(out, cluster_host_of(cluster_read_host(node), asked), port->integer))
        return false;
    struct span id = node->elements > 2 ? reply_text(reply_next(port)) : SPAN_ABSENT;
    if (id.len < sizeof out->id)
        *span_put(id, out->id) = '\0';
    return true;
}

static void cluster_add_node(struct locator_answer *out, const struct redis_address *node)
{
    for (int i = 0; i < out->nodes; i++)
        if (redis_address_equal(&out->node[i], node))
            return;
    if (out->nodes < LOCATOR_NODES_MAX)
        out->node[out->nodes++] = *node;
}

/* A range of slots. Its nodes can be queried, too. `problem` is why there is no master so far. */
static const char *cluster_read_range(const struct redis_reply *range, int slot, struct span asked,
                                      struct locator_answer *out, const char *problem)
{
    const struct redis_reply *bound = reply_first(range);
    if (range->type != REPLY_ARRAY || range->elements < 3 || bound[0].type != REPLY_INTEGER ||
        bound[1].type != REPLY_INTEGER)
        return problem;
    bool holds = bound[0].integer <= slot && slot <= bound[1].integer;
    const struct redis_reply *node = bound + 2;
    for (size_t n = 2; n < range->elements; n++, node = reply_next(node)) {
        struct redis_address address;
        bool is_node = cluster_read_node(node, asked, &address);
        if (is_node)
            cluster_add_node(out, &address);
        if (n > 2 || !holds)
            continue;
        problem = is_node ? NULL : "its answer is not an address";
        if (is_node)
            out->master = address;
    }
    return problem;
}

/* --- errors --- */

/* "CODE slot host:port", where the host may be empty. The host "?" is not known here. */
bool cluster_read_redirection(const struct redis_reply *error, struct span code,
                              const struct redis_address *from, struct redis_address *out)
{
    if (!reply_is_error(error, code))
        return false;
    int64_t port = 0;
    struct span rest = span_skip((struct span){error->str, error->len}, code.len);
    (void)span_cut(&rest, ' ');
    const char *colon = rest.len > 0 ? memrchr(rest.data, ':', rest.len) : NULL;
    if (colon == NULL)
        return false;
    struct span host = {rest.data, (size_t)(colon - rest.data)};
    return parse_int64(span_skip(rest, host.len + 1), &port) == 0 &&
           redis_address_set(out, cluster_host_of(host, span_of(from->host)), port);
}

bool cluster_is_migrating(const struct redis_reply *error)
{
    return reply_is_error(error, SPAN("ASK ")) || reply_is_error(error, SPAN("TRYAGAIN "));
}

bool cluster_is_left(const struct redis_reply *error)
{
    return reply_is_error(error, SPAN("MOVED ")) || reply_is_error(error, SPAN("CLUSTERDOWN "));
}

/* --- the protocol --- */

static bool cluster_compose(const struct redis_endpoint *endpoint, int n, struct buf *out)
{
    (void)endpoint;
    if (n == 0)
        command_write(out, 2, (const char *[]){"CLUSTER", "SLOTS"});
    return n == 0;
}

static const char *cluster_read_answer(const struct redis_endpoint *endpoint,
                                       const struct redis_endpoint *server, int n,
                                       const struct redis_reply *reply, struct locator_answer *answer)
{
    const struct span asked = span_of(server->host);
    (void)n;
    if (reply->type != REPLY_ARRAY)
        return "its answer is not a list of slots";
    const char *problem = "it knows no node that has the slot";
    const struct redis_reply *range = reply_first(reply);
    if (reply->elements > 0) /* a node that was reset knows no other */
        answer->nodes = 0;
    for (size_t i = 0; i < reply->elements; i++, range = reply_next(range))
        problem = cluster_read_range(range, endpoint->discovery.slot, asked, answer, problem);
    return problem;
}

const struct locator_protocol cluster_protocol = {
    .name = "node",
    .no_answer = "cluster node has no answer",
    .unreachable = "no cluster node has the address of redis",
    .reachable = "cluster node answers again",
    .compose = cluster_compose,
    .read = cluster_read_answer,
};
