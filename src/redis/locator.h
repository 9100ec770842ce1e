/*
 * Locator: says where Redis is. It queries servers that know it: Sentinels, or the nodes of a cluster.
 *
 * It has one connection, to one of these servers, which is queried every second. A node that is the master
 * itself is queried only while no other has an answer: it may not know that it was replaced. The differences
 * between Sentinels and a cluster are in a protocol: sentinel.c, cluster.c.
 */
#ifndef REDIS_LOCATOR_H
#define REDIS_LOCATOR_H

#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/reply.h"

#include <uv.h>

struct redis_connection;
struct redis_shared; /* connection.h */
struct wait_group;

enum { LOCATOR_INTERVAL_MS = 1000 };

/* The time limit of each answer. For the first one, with the connection, it may double twice. */
enum { LOCATOR_LIMIT_MS = 500, LOCATOR_LIMIT_MAX_MS = 2000 };

enum { LOCATOR_REPLICAS_MAX = 32, LOCATOR_NODES_MAX = 16 };

/* The answer of a server. */
struct locator_answer {
    struct redis_address master;
    struct redis_address replica[LOCATOR_REPLICAS_MAX]; /* up and linked to it, if replicas were queried */
    struct redis_address node[LOCATOR_NODES_MAX];       /* further servers that can be queried from now on */
    int replicas, nodes;
};

/* How servers of one kind are queried, and how their replies are parsed. */
struct locator_protocol {
    const char *name;        /* the name of one server in logs */
    const char *no_answer;   /* logged when one server fails */
    const char *unreachable; /* logged when all servers fail */
    const char *reachable;   /* logged when a server answers again */
    /* Appends command number `n` of a query, from 0 on. False: there are only `n`. */
    bool (*compose)(const struct redis_endpoint *endpoint, int n, struct buf *out);
    /* Reads the reply to it into the answer of `server`. Returns NULL, or why there is no answer; `node` is
     * valid even so. */
    const char *(*read)(const struct redis_endpoint *endpoint, const struct redis_endpoint *server, int n,
                        const struct redis_reply *reply, struct locator_answer *answer);
};

extern const struct locator_protocol sentinel_protocol, cluster_protocol;

/* That of the servers of an endpoint that must be discovered. */
const struct locator_protocol *locator_protocol_of(const struct redis_endpoint *endpoint);

struct locator_options {
    const struct redis_endpoint *endpoint; /* must be discovered; borrowed while it lives, as all pointers */
    struct redis_shared *shared;
    struct wait_group *open; /* of the owner, as in connection.h: the locator and its connections */
    struct redis_metrics *metrics;
    unsigned seed; /* selects the first server */
    /* There is an answer, or because of `why` no server has one: they are queried again after a pause. */
    void (*on_answer)(void *arg, const char *why);
    /* The name of the server that is queried leads elsewhere (connection.h). */
    void (*on_moved)(void *arg);
    void *arg;
};

struct locator {
    uv_loop_t *loop;
    struct locator_options options;
    const struct locator_protocol *protocol;
    _Atomic uint64_t *connected; /* the gauge */

    unsigned turn; /* of the server that is queried, and of the address of its name; see locator_connect */
    unsigned failures;          /* servers in a row that had no answer */
    struct log_reasons reasons; /* the reasons logged since a server last had an answer */
    unsigned queries_of_master; /* times in a row that the master was about to be queried itself */
    uv_timer_t timer;
    struct redis_address address;        /* of a server that an answer has named */
    struct redis_endpoint server;        /* borrows `address`, or the settings */
    struct redis_connection *connection; /* NULL: none during a pause */
    bool answered;                       /* the server of the connection has, and is counted in the gauge */
    int commands, replies;               /* of the last query */
    struct locator_answer answer;        /* the last one; all its addresses are valid */
};

/* It is all zero before. */
void locator_init(struct locator *l, uv_loop_t *loop, const struct locator_options *options);

/* No callback follows. */
void locator_close(struct locator *l);

/* The next answer is needed now: queries without a pause, unless a query is in progress. The first call. */
void locator_query(struct locator *l);

/* The answer was not of use: another server is queried next. */
void locator_rotate(struct locator *l);

#endif
