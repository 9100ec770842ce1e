/* Sentinels: their configuration files, and a wait until they have found each other. */

#include "support/sentinel.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/net.h"
#include "support/test.h"
#include "support/text.h"
#include "support/wait.h"

/*
 * Sentinels announce themselves every two seconds and look for replicas every ten. A failover takes some
 * seconds, on a busy machine many. A Sentinel whose clock has jumped (it calls that TILT) does nothing for
 * half a minute.
 */
enum { ACQUAINTANCE_MS = 60000, ORDERS_MAX = 5 };

static void write_configuration(const struct redis *sentinel, const struct sentinel_spec *spec)
{
    AUTOFREE char *text = text_printf("port %d\nbind 127.0.0.1\ndir %s\n"
                                      "sentinel monitor %s 127.0.0.1 %d %d\n"
                                      "sentinel down-after-milliseconds %s 500\n"
                                      "sentinel failover-timeout %s 3000\n",
                                      sentinel->port, sentinel->dir.path, spec->master, spec->port,
                                      spec->quorum, spec->master, spec->master);
    if (spec->password != NULL) {
        AUTOFREE char *line = text_printf("requirepass %s\n", spec->password);
        text = text_append(text, line);
    }
    text = text_append(text, spec->extra != NULL ? spec->extra : "");
    assert_true(text_write_file(sentinel->args[1], text));
}

void sentinel_start(struct redis *sentinel, const struct sentinel_spec *spec)
{
    memset(sentinel, 0, sizeof *sentinel);
    tempdir_init(&sentinel->dir);
    (void)snprintf(sentinel->host, sizeof sentinel->host, "127.0.0.1");
    sentinel->port = net_reserve_port();
    sentinel->password = spec->password;
    const char *const args[] = {"redis-server", NULL, "--sentinel"};
    for (size_t i = 0; i < TEST_COUNT(args); i++) {
        if (args[i] != NULL)
            (void)snprintf(sentinel->args_text[i], sizeof sentinel->args_text[i], "%s", args[i]);
        sentinel->args[i] = sentinel->args_text[i];
    }
    size_t size = sizeof sentinel->args_text[1];
    int n = snprintf(sentinel->args_text[1], size, "%s/sentinel.conf", sentinel->dir.path);
    assert_in_range(n, 1, size - 1);
    write_configuration(sentinel, spec);
    redis_restart(sentinel);
}

/* ---- a cluster ---- */

struct sentinel_expectation {
    struct sentinel_cluster *cluster;
    int subject; /* a Redis or a Sentinel */
    int master;
};

static bool sentinel_is_linked(void *arg)
{
    struct sentinel_expectation *e = arg;
    AUTOFREE char *info = redis_text(&e->cluster->redis[e->subject], "INFO replication");
    return strstr(info, "master_link_status:up") != NULL;
}

/* Waits until the replica is linked to a master. */
static void sentinel_cluster_await_link(struct sentinel_cluster *cluster, int replica)
{
    struct sentinel_expectation e = {.cluster = cluster, .subject = replica};
    if (!wait_until(sentinel_is_linked, &e, WAIT_DEADLINE_MS))
        fail_msg("replica %d is not linked to its master", replica);
}

/* "master0:name=mymaster,status=ok,address=127.0.0.1:1234,slaves=2,sentinels=3" */
static bool sentinel_knows_all(void *arg)
{
    struct sentinel_expectation *e = arg;
    AUTOFREE char *info = redis_text(&e->cluster->sentinel[e->subject], "INFO sentinel");
    AUTOFREE char *wanted =
        text_printf("status=ok,address=127.0.0.1:%d,slaves=%d,sentinels=%d", e->cluster->redis[0].port,
                    e->cluster->redis_count - 1, e->cluster->sentinel_count);
    AUTOFREE char *replicas =
        redis_words(&e->cluster->sentinel[e->subject], "SENTINEL REPLICAS " SENTINEL_MASTER);
    size_t linked = text_count(replicas, "master-link-status ok");
    return strstr(info, wanted) != NULL && linked + 1 == (size_t)e->cluster->redis_count;
}

/* Without the pause of five seconds in which further replicas could join. */
static void sentinel_cluster_start_redis(struct sentinel_cluster *cluster, int replicas)
{
    static const char *const master_args[] = {"--repl-diskless-sync-delay", "0", NULL};
    redis_start(&cluster->redis[0], master_args);
    cluster->redis_count = 1;
    char port[16];
    (void)snprintf(port, sizeof port, "%d", cluster->redis[0].port);
    const char *const args[] = {"--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.1", port, NULL};
    for (int i = 0; i < replicas; i++)
        redis_start(&cluster->redis[cluster->redis_count++], args);
    for (int i = 1; i < cluster->redis_count; i++)
        sentinel_cluster_await_link(cluster, i);
}

void sentinel_cluster_start(struct sentinel_cluster *cluster, int replicas, int sentinels)
{
    memset(cluster, 0, sizeof *cluster);
    sentinel_cluster_start_redis(cluster, replicas);
    struct sentinel_spec spec = {
        .master = SENTINEL_MASTER, .port = cluster->redis[0].port, .quorum = sentinels / 2 + 1};
    size_t used = (size_t)snprintf(cluster->url, sizeof cluster->url, "redis+sentinel://");
    for (int i = 0; i < sentinels; i++) {
        sentinel_start(&cluster->sentinel[i], &spec);
        cluster->sentinel_count++;
        used += (size_t)snprintf(cluster->url + used, sizeof cluster->url - used, "%s127.0.0.1:%d",
                                 i == 0 ? "" : ",", cluster->sentinel[i].port);
    }
    (void)snprintf(cluster->url + used, sizeof cluster->url - used, "/" SENTINEL_MASTER "/0");
    for (int i = 0; i < sentinels; i++) {
        struct sentinel_expectation e = {.cluster = cluster, .subject = i};
        if (!wait_until(sentinel_knows_all, &e, ACQUAINTANCE_MS))
            fail_msg("Sentinel %d does not find everybody", i);
    }
}

void sentinel_cluster_stop(struct sentinel_cluster *cluster)
{
    for (int i = 0; i < cluster->sentinel_count; i++)
        redis_stop(&cluster->sentinel[i]);
    for (int i = 0; i < cluster->redis_count; i++)
        redis_stop(&cluster->redis[i]);
    cluster->sentinel_count = cluster->redis_count = 0;
}

/* Which Redis is the master according to that Sentinel; -1: none of the cluster. */
static int sentinel_cluster_master(struct sentinel_cluster *cluster, int sentinel)
{
    int master = -1;
    AUTOFREE char *info = redis_text(&cluster->sentinel[sentinel], "INFO sentinel");
    for (int i = 0; i < cluster->redis_count; i++) {
        AUTOFREE char *wanted = text_printf("address=127.0.0.1:%d,", cluster->redis[i].port);
        if (strstr(info, wanted) != NULL)
            master = i;
    }
    return master;
}

static bool sentinel_has_switched(void *arg)
{
    struct sentinel_expectation *e = arg;
    for (int i = 0; i < e->cluster->sentinel_count; i++) {
        if (!process_is_running(&e->cluster->sentinel[i].process))
            continue;
        int master = sentinel_cluster_master(e->cluster, i);
        if (master < 0 || master == e->subject)
            return false;
        e->master = master;
    }
    return true;
}

int sentinel_cluster_fail_over(struct sentinel_cluster *cluster, int old_master)
{
    struct sentinel_expectation e = {.cluster = cluster, .subject = old_master, .master = -1};
    for (int i = 0; i < ORDERS_MAX; i++) {
        AUTOFREE char *state = redis_words(&cluster->sentinel[0], "SENTINEL MASTER " SENTINEL_MASTER);
        if (strstr(state, "failover_in_progress") == NULL)
            redis_do(&cluster->sentinel[0], "SENTINEL FAILOVER " SENTINEL_MASTER);
        if (wait_until(sentinel_has_switched, &e, WAIT_DEADLINE_MS))
            return e.master;
    }
    fail_msg("the Sentinels do not replace master %d when told to", old_master);
    return -1;
}

int sentinel_cluster_await_other(struct sentinel_cluster *cluster, int old_master)
{
    struct sentinel_expectation e = {.cluster = cluster, .subject = old_master, .master = -1};
    if (!wait_until(sentinel_has_switched, &e, ACQUAINTANCE_MS))
        fail_msg("the Sentinels do not replace master %d", old_master);
    return e.master;
}
