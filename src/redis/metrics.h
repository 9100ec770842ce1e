/* The metrics of the Redis client, one line each; see base/metrics.h. */
#ifndef REDIS_METRICS_H
#define REDIS_METRICS_H

#include "base/metrics.h"

/* The values of labels are in the order of the enums below. */
#define REDIS_METRICS(X)                                                                                    \
    X(redis_connected, gauge, "Ready Redis connections, one per worker.")                                   \
    X(redis_connects_total, counter, "Redis connections that became ready.")                                \
    X(redis_disconnects_total, counter, "Redis connections lost, and failed attempts to connect.")          \
    X(redis_oversize_replies_total, counter,                                                                \
      "Redis replies discarded because they were too large or did not end in time.")                        \
    X(redis_tracking_refused_total, counter,                                                                \
      "Redis connections without a cache: change notifications refused, or not reliable.")                  \
    X(redis_stand_ins, gauge, "Ready connections to the master in place of a replica (?role=replica).")     \
    X(sentinels_connected, gauge, "Connections to a responsive Sentinel, one per worker.")                  \
    X(cluster_nodes_connected, gauge,                                                                       \
      "Connections to a responsive cluster node that is queried for the slot, one per worker.")             \
    X(cluster_redirects_total, counter, "Commands sent to another cluster node while the slot migrates.")   \
    X(redis_replica_lag_seconds, gauge_max,                                                                 \
      "Seconds since the replica in use received data from its master, the largest of all workers; 0 on a " \
      "master.")                                                                                            \
    X(redis_command_duration_seconds, histogram, "Time from queueing a Redis command to its reply.")        \
    X(redis_role, gauge, "Ready Redis connections by role of the server.", "role", "unknown", "master",     \
      "replica")                                                                                            \
    X(redis_failovers_total, counter, "Changes to another Redis, by reason.", "reason", "master", "role",   \
      "slot", "replicas")

/* The role of the server in its reply to INFO. */
enum redis_role_kind { REDIS_ROLE_UNKNOWN, REDIS_ROLE_MASTER, REDIS_ROLE_REPLICA, REDIS_ROLE_KINDS };

/* Why a worker uses another Redis. */
enum redis_failover {
    REDIS_FAILOVER_MASTER,   /* another master is named */
    REDIS_FAILOVER_ROLE,     /* the server has another role */
    REDIS_FAILOVER_SLOT,     /* the slot has migrated in the cluster */
    REDIS_FAILOVER_REPLICAS, /* a replica takes over from the master, which stood in for it */
    REDIS_FAILOVER_KINDS
};

struct redis_metrics {
    REDIS_METRICS(METRIC_MEMBER)
};

#endif
