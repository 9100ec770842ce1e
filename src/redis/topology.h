/*
 * Topology: selects the Redis of the Sentinels or of a cluster, and determines since when the one in use is
 * no longer the right one.
 *
 * Discovery passes every answer of a server to this module, and the connection every ROLE and every error of
 * the Redis in use. The address is that of the Redis selected last. Evidence against that Redis counts from
 * the last moment at which it was known to be the right one. The next connection clears it
 * (topology_connected).
 *
 * This module sends nothing, but it looks names up: a replica may name its master differently.
 */
#ifndef REDIS_TOPOLOGY_H
#define REDIS_TOPOLOGY_H

#include "redis/endpoint.h"
#include "redis/metrics.h"
#include "redis/resolver.h"

/* See discovery.h. */
struct discovery_answer;
struct discovery_options;
struct discovery_protocol;

/* The healthy replicas that are taken from an answer, at most; and as many that are down. */
enum { TOPOLOGY_REPLICAS_MAX = 32, TOPOLOGY_CANDIDATES_MAX = TOPOLOGY_REPLICAS_MAX + 1 };

/* The meaning of an error reply of the Redis in use. */
enum discovery_error {
    DISCOVERY_ERROR_OTHER,
    DISCOVERY_ERROR_MOVED, /* its data is at another server */
    DISCOVERY_ERROR_DOWN   /* it does not know which server has its data */
};

/* Whether two names have a common address. */
struct topology_comparison {
    struct resolver side[2];
    struct redis_address of[2];
    int lookups_due; /* look-ups that have not ended */
    bool failed;     /* one of them found nothing */
    bool equal;
    uint64_t made_ms; /* by the boot clock; 0: never */
};

/* While Sentinels follow a failover the same address may be listed as a replica and named as the master. */
struct topology_candidate {
    struct redis_address address;
    bool is_master;
};

/* Embedded in the discovery; private to topology.c and the functions below. */
struct topology {
    uv_loop_t *loop;
    const struct redis_endpoint *settings; /* the address of the servers, and how to connect */
    const struct discovery_protocol *protocol;
    struct redis_metrics *metrics;
    uint64_t stale_limit_ms;

    struct redis_endpoint endpoint; /* borrows `address` */
    struct redis_address address;
    struct redis_address master;        /* the master that is named */
    bool is_master;                     /* the address is the master's, also in place of a replica */
    struct topology_comparison masters; /* `master`, and the master that the replica follows */
    unsigned first_replica;             /* the replica with which the selection begins */
    unsigned candidates;                /* servers among which it was selected */
    /* Those that failed since a Redis has last answered. They are tried again when all of an answer have. */
    struct topology_candidate failed[TOPOLOGY_CANDIDATES_MAX];
    unsigned failed_count;
    struct redis_address followed; /* the master when a Redis was last in use; port 0: none was */
    struct redis_address successor[TOPOLOGY_REPLICAS_MAX]; /* the replicas of that master */
    int successors;                                        /* -1: they are not known */
    unsigned trials;   /* times that the master was left for the replicas, since it last was no stand-in */
    uint64_t ready_ms; /* when it came into use, by the monotonic clock */
    struct redis_address owner; /* the master that the Redis before has named */
    uint64_t owner_ms;          /* when it was named, by the monotonic clock; 0: never, or it was wrong */
    bool owner_next;            /* the connection to `owner` is made without a query */
    /* The following times are by the boot clock; 0: not so. */
    uint64_t confirmed_ms; /* when this master was last named, or the replica last followed it */
    uint64_t mismatch_ms;  /* since when the replica follows another or an unknown master */
    uint64_t down_ms;      /* since when the replica is reported as down */
    uint64_t failover_ms;  /* until when the Redis was the right one, if another is named now */
};

/* The settings of `options` are borrowed while it lives. */
void topology_init(struct topology *t, uv_loop_t *loop, const struct discovery_protocol *protocol,
                   const struct discovery_options *options);

/* Cancels the look-ups of names. */
void topology_close(struct topology *t);

/* --- the choice --- */

/* Selects a Redis by the answer of a server. */
void topology_select(struct topology *t, const struct discovery_answer *answer);

/* Selects the Redis that its predecessor has named, without a query. False when it has named none. */
bool topology_select_next(struct topology *t);

/* The selected Redis; borrowed until the next selection. */
static inline const struct redis_endpoint *topology_endpoint(const struct topology *t)
{
    return &t->endpoint;
}

/* The number of servers that are tried in turn while attempts to connect fail; at least 1. */
static inline unsigned topology_candidates(const struct topology *t)
{
    return t->candidates;
}

/* The role that the selected Redis must have. */
enum redis_role_kind topology_wanted_role(const struct topology *t);

/* True for the master in place of a replica. */
bool topology_stands_in(const struct topology *t);

/* True for a replica that only names its master until it gets READONLY. */
bool topology_wants_readonly(const struct topology *t);

/* --- is it still the right one? --- */

/*
 * Checks the selected Redis, which may be in use, by the answer of a server. Returns NULL, or the reason to
 * leave it: another one is named, or a replica should be used again. One in use must be left then.
 */
const char *topology_check_answer(struct topology *t, const struct discovery_answer *answer, bool in_use);

/*
 * Takes an error reply of the Redis in use. Unless it is DISCOVERY_ERROR_OTHER the connection must be closed,
 * and the next selection takes it into account.
 */
enum discovery_error topology_handle_error(struct topology *t, const struct redis_reply *error);

/*
 * Checks whether a replica may be used. `master` is its master in the reply to a ROLE that was sent at
 * `role_sent_ms` by the boot clock (clock.h). Returns NULL, or the reason against it.
 */
const char *topology_check_replica(struct topology *t, const struct redis_address *master,
                                   uint64_t role_sent_ms);

/*
 * Until when the selected Redis is known to have been the right one, by the boot clock; UINT64_MAX while it
 * is.
 */
uint64_t topology_trusted_until_ms(const struct topology *t);

/* See redis_connection_elsewhere. */
bool topology_elsewhere(const struct topology *t, const struct redis_reply *reply,
                        struct redis_address *node);

/* --- the connection to it --- */

/* The handshake begins. */
void topology_connected(struct topology *t);

/* The selected Redis is in use. */
void topology_ready(struct topology *t);

/* It has answered a heartbeat. */
void topology_answered(struct topology *t);

/* It was lost before it answered a heartbeat. Another one is next, if there is one. */
void topology_lost_early(struct topology *t);

/* The same, as an attempt to use it has failed. */
void topology_failed(struct topology *t);

#endif
