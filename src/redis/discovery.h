/*
 * Discovery: finds the Redis to connect to by servers that know it, Sentinels or the nodes of a cluster, and
 * follows it.
 *
 * One connection to one of these servers, which is queried every second. Sentinels publish failovers as well,
 * but published messages can be lost. After an error, a timeout or an answer without a master the next server
 * is tried; the one that answered last is tried first. What differs between Sentinels and a cluster is a
 * protocol: sentinel.h, cluster.h.
 *
 * When another master is named than the one in use, on_failover is called at once: an old master that was
 * stalled would serve old data when it continues. For a replica, its ROLE names the master that it follows: a
 * replica of the old master is left too (topology_check_replica).
 *
 * Everything happens on the loop's thread.
 */
#ifndef REDIS_DISCOVERY_H
#define REDIS_DISCOVERY_H

#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/reply.h"
#include "redis/topology.h"

#include <uv.h>

struct discovery;
struct ssl_ctx_st;

/* The interval of queries, in milliseconds. */
enum { DISCOVERY_INTERVAL_MS = 1000 };

/* The timeout of the look-up of a server, and of its connection and answer, in milliseconds. */
enum { DISCOVERY_TIMEOUT_MS = 500 };

enum { DISCOVERY_REPLICAS_MAX = 32, DISCOVERY_NODES_MAX = 16 };

/* The answer of a server. */
struct discovery_answer {
    struct redis_address master;
    struct redis_address replica[DISCOVERY_REPLICAS_MAX]; /* healthy ones */
    struct redis_address down[DISCOVERY_REPLICAS_MAX];    /* those that are down or disconnected */
    struct redis_address node[DISCOVERY_NODES_MAX];       /* servers that can be queried from now on, too */
    int replicas, downs, nodes;
};

/* How servers of one kind are queried, and what they answer. */
struct discovery_protocol {
    const char *name;         /* one server, in logs */
    const char *no_answer;    /* logged when one server fails, */
    const char *unreachable;  /* all servers do, */
    const char *reachable;    /* one answers again, */
    const char *moved;        /* another Redis is named than the one in use, */
    const char *down;         /* the replica in use is down, */
    const char *other_master; /* or follows another master */
    size_t bytes_max;         /* the largest answer */
    uint64_t elements_max;    /* the longest array in it */
    const char *channel;      /* whose messages cause a query; NULL: none */
    bool lists_healthy;       /* a replica that is not in the answer is down */
    /* Appends the commands of a query. */
    void (*compose)(const struct redis_endpoint *endpoint, struct buf *out);
    /*
     * Reads reply number `n`, from 0 on, into the answer of `server`. Returns NULL, or why there is no
     * answer. *complete becomes true with the last one.
     */
    const char *(*read)(const struct redis_endpoint *endpoint, const struct redis_endpoint *server, int n,
                        const struct redis_reply *reply, struct discovery_answer *answer, bool *complete);
};

/* The protocol of the servers in the endpoint, which has to be discovered. */
const struct discovery_protocol *discovery_protocol_of(const struct redis_endpoint *endpoint);

struct discovery_options {
    const struct redis_endpoint *endpoint; /* borrowed while it lives, as all pointers here */
    struct ssl_ctx_st *tls;                /* NULL without TLS */
    const char *client_name;
    struct redis_metrics *metrics;
    uint64_t stale_limit_ms; /* how long a replica may be used that follows another master */
    unsigned seed;           /* selects the first replica to be used */
    /* This is where to connect to; borrowed until the next discovery. */
    void (*on_found)(void *arg, const struct redis_endpoint *endpoint);
    /* No server has given an address; `why` is borrowed until the function returns. */
    void (*on_not_found)(void *arg, const char *why);
    /* Another Redis is named than the one that was found: call discovery_discover again. */
    void (*on_failover)(void *arg, const char *why);
    void *arg;
};

/* Starts nothing before discovery_discover. Owned by the caller (discovery_close). Returns 0 or -ENOMEM. */
int discovery_new(uv_loop_t *loop, const struct discovery_options *options, struct discovery **out)
    __attribute__((warn_unused_result));

/* No callback follows but `closed`, from the loop, when the memory has been freed. */
void discovery_close(struct discovery *d, void (*closed)(void *arg), void *arg);

/* Starts a discovery, which ends with on_found or on_not_found, perhaps before this returns. */
void discovery_discover(struct discovery *d);

/* The Redis that was found is in use; its connection was lost. */
void discovery_ready(struct discovery *d);
void discovery_lost(struct discovery *d);

/* An attempt to connect to it has failed; after two of these another server is queried. */
void discovery_failed(struct discovery *d);

/* Which Redis was found, and whether it is still the right one; borrowed until discovery_close. */
struct topology *discovery_topology(struct discovery *d);

#endif
