/*
 * Redis Cluster over TLS: the node of the slot is found at the TLS port that it announces, and followed there
 * when the slot migrates and when its replica takes over.
 */

#include <stdlib.h>
#include <string.h>

#include "support/certs.h"
#include "support/cluster.h"
#include "support/fixture.h"

enum { VALID = 30 };

static struct cluster cluster;
static struct tempdir dir;
static struct certs_pair authority;

static int start(void **state)
{
    struct certs_pair cert;
    (void)state;
    tempdir_init(&dir);
    certs_make_authority(&dir, "authority", &authority);
    certs_make(&dir, "node", &authority, "IP:127.0.0.1", VALID, &cert);
    cluster_start_tls(&cluster, &cert, authority.cert);
    catalogue_issue_key(&cluster.node[CLUSTER_OWNER], FIXTURE_KEY);
    for (int id = 1; id <= 3; id++) {
        AUTOFREE char *card = text_printf("{\"max_channel_id\":%d,\"title\":\"t\"}", id);
        catalogue_put(&cluster.node[CLUSTER_OWNER], card, id);
    }
    assert_int_equal(redis_integer(&cluster.node[CLUSTER_OWNER], "WAIT 1 %d", WAIT_DEADLINE_MS / 2), 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    cluster_stop(&cluster);
    tempdir_fini(&dir);
    return 0;
}

TEST_GROUP(start, stop)

/* How many connections channeld has to that node, at its TLS port; none may be at the plain one. */
static int connections_of(int node)
{
    AUTOFREE char *list = redis_text(&cluster.node[node], "CLIENT LIST TYPE normal");
    AUTOFREE char *plain = text_printf("laddr=127.0.0.1:%d ", cluster.node[node].port);
    AUTOFREE char *guarded = text_printf("laddr=127.0.0.1:%d ", cluster.tls_port[node]);
    int count = 0;
    for (char *rest = list, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        if (strstr(line, "name=channel") == NULL)
            continue;
        assert_null(strstr(line, plain));
        count += strstr(line, guarded) != NULL;
    }
    return count;
}

static void begin(struct fixture *fixture, const char *role)
{
    AUTOFREE char *ca = text_printf("CHANNELD_REDIS_CA_FILE=%s", authority.cert);
    const char *env[] = {"CHANNELD_REDIS_PREFIX=" CLUSTER_PREFIX, ca, NULL};
    fixture_serve(fixture, text_temp("%s/%s", cluster.url, role), env, SERVER_WAIT_READY);
    server_await_metric(&fixture->server, "channeld_redis_connected", 2);
    server_await_metric(&fixture->server, "channeld_cluster_nodes_connected", 2);
    assert_int_equal(fixture_status(fixture, "channel/by-id/1/"), 200);
    assert_int_equal(fixture_status(fixture, "channel/by-id/9/"), 404);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
    assert_int_equal((int)server_metric(&fixture->server, "channeld_redis_tracking_refused_total"), 0);
}

/* Those of both workers. */
static bool is_connected_to(void *arg)
{
    const int *node = arg;
    return connections_of(*node) >= 2;
}

static void change(struct fixture *fixture, int node, const char *title)
{
    redis_do(&cluster.node[node], "HSET " CLUSTER_PREFIX "card:1 title %s", title);
    fixture_await_text(fixture, "channel/by-id/1/", title, true);
    assert_true(wait_until(is_connected_to, &node, WAIT_DEADLINE_MS));
}

TEST_CASE(channelctl_finds_the_master)
{
    struct process tool;
    const char *args[] = {"--redis-url",     cluster.url,    "--redis-prefix", CLUSTER_PREFIX,
                          "--redis-ca-file", authority.cert, "verify",         NULL};
    assert_int_equal(server_run_tool(&tool, &dir, "CHANNELCTL_BIN", args, (const char *[]){NULL}), 0);
}

/* What has moved is read from the target by TLS, then the slot's new owner is, then the replica of that. */
TEST_CASE(slot_is_followed)
{
    struct fixture fixture;
    int target = (CLUSTER_OWNER + 1) % CLUSTER_MASTERS;
    begin(&fixture, "");
    change(&fixture, CLUSTER_OWNER, "owner");
    cluster_begin_migration(&cluster, CLUSTER_OWNER, target);
    cluster_migrate_key(&cluster, CLUSTER_OWNER, target, CLUSTER_PREFIX "card:2");
    fixture_await_text(&fixture, "channel/by-id/2/", "t", true);
    assert_true(server_metric(&fixture.server, "channeld_cluster_redirects_total") > 0);
    assert_true(connections_of(target) > 0);
    while (cluster_migrate(&cluster, CLUSTER_OWNER, target, 100) > 0)
        continue;
    cluster_end_migration(&cluster, CLUSTER_OWNER, target);
    change(&fixture, target, "target");
    cluster_fail_over(&cluster, target + CLUSTER_MASTERS);
    change(&fixture, target + CLUSTER_MASTERS, "replica");
    fixture_fini(&fixture);
}
