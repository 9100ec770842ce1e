#ifndef TEST_SUPPORT_SENTINEL_H
#define TEST_SUPPORT_SENTINEL_H

#include "support/redis.h"

/*
 * Sentinels, and a master with replicas that they monitor. A Sentinel is a redis-server too, so all of
 * redis.h works with it: commands, pausing, killing, restarting. Every function fails the test when it cannot
 * do its work.
 */

#define SENTINEL_MASTER "mymaster" /* the name of the master */

enum { SENTINEL_REDIS_MAX = 3, SENTINEL_COUNT_MAX = 3 };

struct sentinel_spec {
    const char *master; /* the name */
    int port;           /* of the master, on 127.0.0.1 */
    int quorum;
    const char *password; /* that its clients need, or NULL */
    const char *extra;    /* further lines of its configuration, or NULL */
};

/* Starts one and waits until it answers. */
void sentinel_start(struct redis *sentinel, const struct sentinel_spec *spec);

struct sentinel_cluster {
    struct redis redis[SENTINEL_REDIS_MAX]; /* the first is the master at first */
    struct redis sentinel[SENTINEL_COUNT_MAX];
    int redis_count, sentinel_count;
    char url[192]; /* redis+sentinel://... of all Sentinels, without a role */
};

/*
 * Starts them and waits until the replicas are linked and each Sentinel knows the others and the replicas. A
 * master that is down for half a second is replaced.
 */
void sentinel_cluster_start(struct sentinel_cluster *cluster, int replicas, int sentinels);

/* Ends them all. */
void sentinel_cluster_stop(struct sentinel_cluster *cluster);

/* Waits until all running Sentinels name another master than that one; returns it. */
int sentinel_cluster_await_other(struct sentinel_cluster *cluster, int old_master);

/* Orders a failover and waits for it likewise; repeats the order when a Sentinel gives up. */
int sentinel_cluster_fail_over(struct sentinel_cluster *cluster, int old_master);

#endif
