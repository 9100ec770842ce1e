#ifndef TEST_SUPPORT_CLUSTER_H
#define TEST_SUPPORT_CLUSTER_H

#include "support/certs.h"
#include "support/redis.h"

/*
 * A Redis Cluster of three masters with a replica each. Its nodes are redis-servers, so all of redis.h works
 * with them. Every function fails the test when it cannot do its work.
 */

#define CLUSTER_PREFIX "{channels}:"

enum { CLUSTER_MASTERS = 3, CLUSTER_NODES = 6, CLUSTER_SLOT = 8726 };

struct cluster {
    struct redis node[CLUSTER_NODES]; /* the masters at first, then the replica of each */
    int tls_port[CLUSTER_NODES];      /* 0 without TLS */
    char url[192];                    /* redis+cluster://... of two nodes, without a role */
};

/* The masters, their slots being equal parts, by the order of nodes: this one has the prefix's slot at first.
 */
enum { CLUSTER_OWNER = CLUSTER_SLOT / ((16384 + CLUSTER_MASTERS - 1) / CLUSTER_MASTERS) };

/* Starts it and waits until all nodes agree. `program` and `extra` as in redis_start_program(). */
void cluster_start(struct cluster *cluster, const char *program, const char *const *extra);

/*
 * The same with TLS among the nodes and for clients, for which it announces its TLS ports: rediss+cluster://.
 * The plain ports are for the commands of the test.
 */
void cluster_start_tls(struct cluster *cluster, const struct certs_pair *cert, const char *authority);

/* Ends all nodes. */
void cluster_stop(struct cluster *cluster);

/* Which node has the prefix's slot as node `by` knows it; -1: none. */
int cluster_owner(struct cluster *cluster, int by);

/* Waits until that node is a replica that is linked to its master. */
void cluster_await_link(struct cluster *cluster, int replica);

/* Makes a replica of the owner the owner, and waits until all nodes know. */
void cluster_fail_over(struct cluster *cluster, int replica);

/* The steps of moving the prefix's slot from its owner to another master. */
void cluster_begin_migration(struct cluster *cluster, int from, int to);
/* Moves up to `count` keys; returns how many there were to move. */
int cluster_migrate(struct cluster *cluster, int from, int to, int count);
void cluster_migrate_key(struct cluster *cluster, int from, int to, const char *key);
void cluster_end_migration(struct cluster *cluster, int from, int to);

#endif
