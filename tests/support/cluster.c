/* A cluster of real nodes: its creation, and changes of the slot of the prefix. */

#include "support/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/net.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

/* A node that is silent for this time is replaced within some seconds. */
enum { NODE_TIMEOUT_MS = 2000, AGREEMENT_MS = 60000, FAILOVER_MS = 6000, FAILOVERS_MAX = 5, ARGS_MAX = 32 };

struct expectation {
    struct cluster *cluster;
    int node; /* that is asked */
    int owner;
};

/* ---- making it ---- */

static void launch(struct redis *node, const char *program, const char *const *extra)
{
    char timeout[16];
    char bus[16];
    (void)snprintf(timeout, sizeof timeout, "%d", NODE_TIMEOUT_MS);
    (void)snprintf(bus, sizeof bus, "%d", net_reserve_port());
    /* A replica is not listed before it has received something: the first PING of its master. */
    const char *args[ARGS_MAX + 1] = {
        "--cluster-enabled",          "yes", "--cluster-node-timeout",     timeout, "--cluster-port", bus,
        "--repl-diskless-sync-delay", "0",   "--repl-ping-replica-period", "1"};
    size_t used = 10;
    for (size_t i = 0; extra != NULL && extra[i] != NULL && used < ARGS_MAX; i++)
        args[used++] = extra[i];
    redis_prepare(node, args);
    if (program != NULL)
        node->args[0] = program;
    node->prefix = CLUSTER_PREFIX;
    redis_launch(node);
}

/* The bus is not at the usual distance from the port, as both are reserved. */
static void meet(struct cluster *cluster, int node)
{
    struct redis *met = &cluster->node[node];
    const char *bus = "";
    for (size_t i = 0; met->args[i] != NULL; i++)
        if (strcmp(met->args[i], "--cluster-port") == 0)
            bus = met->args[i + 1];
    redis_do(&cluster->node[0], "CLUSTER MEET 127.0.0.1 %d %s", met->port, bus);
}

static bool knows_all(void *arg)
{
    AUTOFREE char *nodes = redis_text(arg, "CLUSTER NODES");
    return text_count(nodes, "connected") == CLUSTER_NODES && strstr(nodes, "handshake") == NULL &&
           strstr(nodes, "disconnected") == NULL;
}

static void assign_slots(struct cluster *cluster)
{
    enum { SLOTS = 16384, EACH = (SLOTS + CLUSTER_MASTERS - 1) / CLUSTER_MASTERS };
    for (int i = 0; i < CLUSTER_MASTERS; i++) {
        int last = (i + 1) * EACH - 1;
        redis_do(&cluster->node[i], "CLUSTER ADDSLOTSRANGE %d %d", i * EACH, last < SLOTS ? last : SLOTS - 1);
        redis_do(&cluster->node[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    }
}

static bool is_linked(void *arg)
{
    AUTOFREE char *info = redis_text(arg, "INFO replication");
    return strstr(info, "role:slave") != NULL && strstr(info, "master_link_status:up") != NULL;
}

void cluster_await_link(struct cluster *cluster, int replica)
{
    if (!wait_until(is_linked, &cluster->node[replica], AGREEMENT_MS))
        fail_msg("node %d is no replica that is linked to its master", replica);
}

/* Every range has a master and a replica. */
static bool is_complete(void *arg)
{
    AUTOFREE char *info = redis_text(arg, "CLUSTER INFO");
    AUTOFREE char *slots = redis_words(arg, "CLUSTER SLOTS");
    return strstr(info, "cluster_state:ok") != NULL && text_count(slots, "127.0.0.1") == CLUSTER_NODES;
}

static void await_all(struct cluster *cluster, bool (*condition)(void *arg), const char *what)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        if (wait_until(condition, &cluster->node[i], AGREEMENT_MS))
            continue;
        AUTOFREE char *nodes = redis_text(&cluster->node[i], "CLUSTER NODES");
        print_error("%s", nodes);
        fail_msg("node %d of the cluster %s", i, what);
    }
}

/* All nodes run: makes a cluster of them. */
static void join_nodes(struct cluster *cluster)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        redis_await(&cluster->node[i]);
    assign_slots(cluster);
    for (int i = 1; i < CLUSTER_NODES; i++)
        meet(cluster, i);
    await_all(cluster, knows_all, "does not know the others");
    for (int i = CLUSTER_MASTERS; i < CLUSTER_NODES; i++) {
        AUTOFREE char *id = redis_text(&cluster->node[i - CLUSTER_MASTERS], "CLUSTER MYID");
        redis_do(&cluster->node[i], "CLUSTER REPLICATE %s", id);
    }
    for (int i = CLUSTER_MASTERS; i < CLUSTER_NODES; i++)
        cluster_await_link(cluster, i);
    await_all(cluster, is_complete, "does not know all masters and replicas");
}

void cluster_start(struct cluster *cluster, const char *program, const char *const *extra)
{
    memset(cluster, 0, sizeof *cluster);
    for (int i = 0; i < CLUSTER_NODES; i++)
        launch(&cluster->node[i], program, extra);
    join_nodes(cluster);
    (void)snprintf(cluster->url, sizeof cluster->url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d",
                   cluster->node[0].port, cluster->node[CLUSTER_NODES - 1].port);
}

void cluster_start_tls(struct cluster *cluster, const struct certs_pair *cert, const char *authority)
{
    memset(cluster, 0, sizeof *cluster);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        char port[16];
        cluster->tls_port[i] = net_reserve_port();
        (void)snprintf(port, sizeof port, "%d", cluster->tls_port[i]);
        const char *const args[] = {"--tls-port",
                                    port,
                                    "--tls-cluster",
                                    "yes",
                                    "--tls-replication",
                                    "yes",
                                    "--tls-auth-clients",
                                    "no",
                                    "--tls-cert-file",
                                    cert->cert,
                                    "--tls-key-file",
                                    cert->key,
                                    "--tls-ca-cert-file",
                                    authority,
                                    NULL};
        launch(&cluster->node[i], NULL, args);
    }
    join_nodes(cluster);
    (void)snprintf(cluster->url, sizeof cluster->url, "rediss+cluster://127.0.0.1:%d,127.0.0.1:%d",
                   cluster->tls_port[0], cluster->tls_port[CLUSTER_NODES - 1]);
}

void cluster_stop(struct cluster *cluster)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        redis_stop(&cluster->node[i]);
}

/* ---- the owner of the slot ---- */

static int node_of(const struct cluster *cluster, long port)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        if (cluster->node[i].port == port)
            return i;
    return -1;
}

/* A line: "<id> 127.0.0.1:<port>@<bus> myself,master - 0 0 2 connected 5462-10923 [8726->-<id>]" */
static bool owns(const char *line)
{
    const char *slots = strstr(line, " connected ");
    bool master = strstr(line, "master ") != NULL && strstr(line, "fail ") == NULL;
    for (const char *at = master && slots != NULL ? slots + strlen(" connected") : ""; *at == ' ';) {
        char *end = NULL;
        long first = strtol(at, &end, 10);
        long last = end > at && *end == '-' ? strtol(end + 1, &end, 10) : first;
        if (end == at)
            return false;
        if (first <= CLUSTER_SLOT && CLUSTER_SLOT <= last)
            return true;
        at = end;
    }
    return false;
}

int cluster_owner(struct cluster *cluster, int by)
{
    AUTOFREE char *nodes = redis_text(&cluster->node[by], "CLUSTER NODES");
    for (char *rest = nodes, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        const char *port = strchr(line, ':');
        if (port != NULL && owns(line))
            return node_of(cluster, strtol(port + 1, NULL, 10));
    }
    return -1;
}

static bool names_owner(void *arg)
{
    const struct expectation *e = arg;
    return cluster_owner(e->cluster, e->node) == e->owner;
}

/* Waits until all running nodes name that one as the owner. */
static void cluster_await_owner(struct cluster *cluster, int owner)
{
    struct expectation e = {.cluster = cluster, .owner = owner};
    for (e.node = 0; e.node < CLUSTER_NODES; e.node++) {
        if (!process_is_running(&cluster->node[e.node].process))
            continue;
        if (!wait_until(names_owner, &e, AGREEMENT_MS))
            fail_msg("node %d does not name the new owner of the slot", e.node);
    }
}

void cluster_fail_over(struct cluster *cluster, int replica)
{
    struct expectation e = {.cluster = cluster, .node = replica, .owner = replica};
    bool done = false;
    cluster_await_link(cluster, replica);
    for (int i = 0; i < FAILOVERS_MAX && !done; i++) { /* an attempt ends after five seconds */
        redis_do(&cluster->node[replica], "CLUSTER FAILOVER");
        done = wait_until(names_owner, &e, FAILOVER_MS);
    }
    cluster_await_owner(cluster, replica);
}

/* ---- moving the slot ---- */

void cluster_begin_migration(struct cluster *cluster, int from, int to)
{
    AUTOFREE char *source = redis_text(&cluster->node[from], "CLUSTER MYID");
    AUTOFREE char *target = redis_text(&cluster->node[to], "CLUSTER MYID");
    redis_do(&cluster->node[to], "CLUSTER SETSLOT %d IMPORTING %s", CLUSTER_SLOT, source);
    redis_do(&cluster->node[from], "CLUSTER SETSLOT %d MIGRATING %s", CLUSTER_SLOT, target);
}

void cluster_migrate_key(struct cluster *cluster, int from, int to, const char *key)
{
    int port = cluster->tls_port[to] != 0 ? cluster->tls_port[to] : cluster->node[to].port;
    redis_do(&cluster->node[from], "MIGRATE 127.0.0.1 %d %s 0 %d", port, key, WAIT_DEADLINE_MS);
}

int cluster_migrate(struct cluster *cluster, int from, int to, int count)
{
    AUTOFREE char *keys =
        redis_words(&cluster->node[from], "CLUSTER GETKEYSINSLOT %d %d", CLUSTER_SLOT, count);
    int moved = 0;
    for (char *rest = keys, *key; (key = strtok_r(rest, " ", &rest)) != NULL; moved++)
        cluster_migrate_key(cluster, from, to, key);
    return moved;
}

/* The target first, as redis-cli does: then the slot has an owner all the time. */
void cluster_end_migration(struct cluster *cluster, int from, int to)
{
    AUTOFREE char *target = redis_text(&cluster->node[to], "CLUSTER MYID");
    redis_do(&cluster->node[to], "CLUSTER SETSLOT %d NODE %s", CLUSTER_SLOT, target);
    redis_do(&cluster->node[from], "CLUSTER SETSLOT %d NODE %s", CLUSTER_SLOT, target);
    cluster_await_owner(cluster, to);
}
