/*
 * Discovery: finds the Redis to connect to, and follows it. It queries servers that know this Redis:
 * Sentinels or the nodes of a cluster.
 *
 * There is one connection to one of these servers, which is queried every second. Sentinels publish failovers
 * as well, but published messages can be lost. After an error, a timeout or an answer without a master the
 * next server is queried. The server that answered last is tried first. The differences between Sentinels and
 * a cluster are in a protocol: sentinel.h, cluster.h.
 *
 * When another master is named than the one in use, on_failover is called at once. An old master that was
 * stalled would serve old data when it continues. A replica names the master that it follows in its reply to
 * ROLE, and a replica of the old master is left too (topology_check_replica).
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

/*
 * The time limit of the look-up of a server, and of its connection and answer, in milliseconds. It doubles
 * when it was reached as often as there are servers, and later once more.
 */
enum { DISCOVERY_TIMEOUT_MS = 500, DISCOVERY_TIMEOUT_MAX_MS = 2000 };

enum { DISCOVERY_NODES_MAX = 16 };

/* The answer of a server. */
struct discovery_answer {
    struct redis_address master;
    struct redis_address replica[TOPOLOGY_REPLICAS_MAX]; /* healthy replicas, if the protocol lists them */
    struct redis_address down[TOPOLOGY_REPLICAS_MAX];    /* replicas that are down or disconnected */
    struct redis_address node[DISCOVERY_NODES_MAX];      /* further servers that can be queried from now on */
    int replicas, downs, nodes;
    bool unnamed; /* the master or a replica has no host name, although the cluster prefers host names */
};

/* How servers of one kind are queried, and how their replies are parsed. */
struct discovery_protocol {
    const char *name;         /* the name of one server in logs */
    const char *no_answer;    /* logged when one server fails */
    const char *unreachable;  /* logged when all servers fail */
    const char *reachable;    /* logged when a server answers again */
    const char *unnamed;      /* logged when its answer has `unnamed` */
    const char *moved;        /* logged when another Redis is named than the one in use */
    const char *down;         /* logged when the replica in use is down */
    const char *other_master; /* logged when it follows another master */
    size_t bytes_max;         /* the limit of an answer in bytes */
    uint64_t elements_max;    /* the limit of an array in an answer */
    const char *channel;      /* the channel whose messages cause a query; NULL: none */
    bool lists_healthy;       /* a replica that is not in the answer is down */
    /* Appends the commands of a query. */
    void (*compose)(const struct redis_endpoint *endpoint, struct buf *out);
    /*
     * Reads reply number `n`, from 0 on, into the answer of `server`. Returns NULL, or why there is no
     * answer. *complete becomes true with the last reply.
     */
    const char *(*read)(const struct redis_endpoint *endpoint, const struct redis_endpoint *server, int n,
                        const struct redis_reply *reply, struct discovery_answer *answer, bool *complete);
};

/* The protocol of the servers in the endpoint, which must be discovered. */
const struct discovery_protocol *discovery_protocol_of(const struct redis_endpoint *endpoint);

struct discovery_options {
    const struct redis_endpoint *endpoint; /* borrowed while it lives, as all pointers here */
    struct ssl_ctx_st *tls;                /* NULL without TLS */
    const char *client_name;
    struct redis_metrics *metrics;
    uint64_t stale_limit_ms; /* as in connection.h */
    unsigned seed;           /* selects the first replica to be used */
    /* The Redis to connect to; borrowed until the next discovery. */
    void (*on_found)(void *arg, const struct redis_endpoint *endpoint);
    /* No server has given an address; `why` is borrowed until the function returns. */
    void (*on_not_found)(void *arg, const char *why);
    /* The Redis that was found must be left (topology_check_answer): call discovery_discover again. */
    void (*on_failover)(void *arg, const char *why);
    /* The name of the server that answered last, of those in the endpoint, leads elsewhere (name_watch.h). */
    void (*on_moved)(void *arg);
    void *arg;
};

/* Starts nothing before discovery_discover. Owned by the caller (discovery_close). Returns 0 or -ENOMEM. */
int discovery_new(uv_loop_t *loop, const struct discovery_options *options, struct discovery **out)
    __attribute__((warn_unused_result));

/* The only callback that follows is `closed`, from the loop, when the memory has been freed. */
void discovery_close(struct discovery *d, void (*closed)(void *arg), void *arg);

/* Starts a discovery, which ends with on_found or on_not_found, possibly before this returns. */
void discovery_discover(struct discovery *d);

/* The Redis that was found is in use (ready), or its connection was lost. */
void discovery_ready(struct discovery *d);
void discovery_lost(struct discovery *d);

/* An attempt to connect to that Redis has failed. After two such failures another server is queried. */
void discovery_failed(struct discovery *d);

/* Looks the name of the server up now. */
void discovery_look_up(struct discovery *d);

/* The state of the Redis that was found (topology.h); borrowed until discovery_close. */
struct topology *discovery_topology(struct discovery *d);

#endif
