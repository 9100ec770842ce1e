/* What connections to Redis count; one table for the struct, the exposition and the documentation. */
#ifndef REDIS_METRICS_H
#define REDIS_METRICS_H

#include "base/metrics.h"

/* X(name, type, help): exposed as channeld_<name>. */
#define REDIS_METRICS(X)                                                                              \
    X(redis_connected, gauge, "Ready Redis connections, one per worker.")                             \
    X(redis_connects_total, counter, "Redis connections that became ready.")                          \
    X(redis_disconnects_total, counter, "Redis connections lost or refused.")                         \
    X(redis_oversize_replies_total, counter,                                                          \
      "Replies of Redis that were too large to be read, or did not end in time.")                     \
    X(redis_tracking_refused_total, counter,                                                          \
      "Redis connections on which tracking was refused, so that nothing is cached.")                  \
    X(redis_failovers_total, counter, "Times that Sentinel named another Redis than the one in use.") \
    X(sentinels_connected, gauge, "Connections to a Sentinel that answers, one per worker.")

/* The same for gauges of which the largest counts, not the sum, where those of several workers are added up.
 */
#define REDIS_METRICS_LARGEST(X)        \
    X(redis_replica_lag_seconds, gauge, \
      "Seconds since the replica in use heard its master; the largest of all workers, 0 at a master.")

/* What the server of a connection says it is. */
enum redis_role_kind { REDIS_ROLE_UNKNOWN, REDIS_ROLE_MASTER, REDIS_ROLE_REPLICA, REDIS_ROLE_KINDS };

struct redis_metrics {
#define REDIS_METRICS_FIELD(name, type, help) _Atomic uint64_t name;
    REDIS_METRICS(REDIS_METRICS_FIELD)
    REDIS_METRICS_LARGEST(REDIS_METRICS_FIELD)
#undef REDIS_METRICS_FIELD
    _Atomic uint64_t redis_role[REDIS_ROLE_KINDS]; /* ready connections, by the role of the server */
    struct histogram redis_command_duration;
};

/* Adds `from` to `to`, metric by metric (of REDIS_METRICS_LARGEST the larger). `to` belongs to the caller. */
void redis_metrics_accumulate(struct redis_metrics *to, const struct redis_metrics *from);

/* Writes all of them in the Prometheus text format. */
void redis_metrics_write(struct buf *out, const struct redis_metrics *m);

#endif
