/*
 * Programs that start while a slot moves to another node. How responses follow the keys that move is shown by
 * the simulation and by coherence.
 */

#include <stdlib.h>
#include <string.h>

#include "support/cluster.h"
#include "support/fixture.h"

static struct cluster cluster;
static int owner = CLUSTER_OWNER;

static int start(void **state)
{
    (void)state;
    cluster_start(&cluster, NULL, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    cluster_stop(&cluster);
    return 0;
}

TEST_GROUP(start, stop)

/* ---- a catalogue of a few channels ---- */

#define KEY(name) CLUSTER_PREFIX name

static void put(int node, int id, const char *title)
{
    AUTOFREE char *card = text_printf(
        "{\"max_channel_id\":%d,\"title\":\"%s\",\"link\":\"https://max.ru/c%d\"}", id, title, id);
    catalogue_put(&cluster.node[node], card, id);
}

static void end(struct fixture *fixture, int target)
{
    fixture_fini(fixture);
    owner = target;
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        cluster_await_link(&cluster, CLUSTER_MASTERS + i);
    redis_do(&cluster.node[owner], "DEL " KEY("index"));
}

static int other_master(void)
{
    return (owner + 1) % CLUSTER_MASTERS;
}

/* channeld starts while the slot migrates; and the catalogue is on the target already. */
TEST_CASE(start_during_a_migration)
{
    struct fixture fixture;
    static const char *const env[] = {"CHANNELD_REDIS_PREFIX=" CLUSTER_PREFIX, NULL};
    int target = other_master();
    catalogue_issue_key(&cluster.node[owner], FIXTURE_KEY);
    put(owner, 1, "old");
    cluster_begin_migration(&cluster, owner, target);
    cluster_migrate_key(&cluster, owner, target, KEY("index"));
    cluster_migrate_key(&cluster, owner, target, KEY("api_keys"));
    fixture_serve(&fixture, cluster.url, env, SERVER_WAIT_READY);
    fixture_expect_text(&fixture, "channel/by-id/1/", "old");
    fixture_expect_text(&fixture, "channels/", "old");
    while (cluster_migrate(&cluster, owner, target, 1000) > 0)
        ;
    cluster_end_migration(&cluster, owner, target);
    fixture_expect_text(&fixture, "channel/by-id/1/", "old");
    end(&fixture, target);
}

/* What channelctl has not got on one node makes it stop, with the reason. */
TEST_CASE(channelctl_does_not_work_on_half_a_catalogue)
{
    static const char *const commands[][3] = {
        {"verify", NULL}, {"load", "--sample", "3"}, {"keys", "issue", NULL}};
    int target = other_master();
    catalogue_issue_key(&cluster.node[owner], FIXTURE_KEY);
    put(owner, 1, "old");
    cluster_begin_migration(&cluster, owner, target);
    cluster_migrate_key(&cluster, owner, target, KEY("api_keys"));
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct process tool;
        const char *args[] = {"--redis-url",  cluster.url,    "--redis-prefix", CLUSTER_PREFIX,
                              commands[i][0], commands[i][1], commands[i][2],   NULL};
        assert_int_equal(
            server_run_tool(&tool, &cluster.node[0].dir, "CHANNELCTL_BIN", args, (const char *[]){NULL}), 1);
        AUTOFREE char *errors = process_stderr(&tool);
        if (strstr(errors, "the keys are migrating to another node of the cluster") == NULL)
            fail_msg("%s: %s", commands[i][0], errors);
    }
    while (cluster_migrate(&cluster, owner, target, 1000) > 0)
        ;
    cluster_end_migration(&cluster, owner, target);
    owner = target;
}
