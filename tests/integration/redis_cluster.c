/* Redis Cluster: the node of the slot is found, a wrong URL is an error, channelctl writes to the master. */

#include <stdlib.h>
#include <string.h>

#include "support/cluster.h"
#include "support/fixture.h"
#include "support/net.h"

static struct cluster cluster;

static int start(void **state)
{
    (void)state;
    cluster_start(&cluster, NULL, NULL);
    catalogue_issue_key(&cluster.node[CLUSTER_OWNER], FIXTURE_KEY);
    catalogue_put(&cluster.node[CLUSTER_OWNER], "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    assert_int_equal(redis_integer(&cluster.node[CLUSTER_OWNER], "WAIT 1 %d", WAIT_DEADLINE_MS / 2), 1);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    cluster_stop(&cluster);
    return 0;
}

TEST_GROUP(start, stop)

static const char PREFIX[] = "CHANNELD_REDIS_PREFIX=" CLUSTER_PREFIX;

/* How many connections with tracking that node has: one per worker. */
static size_t connections_of(int node)
{
    AUTOFREE char *list = redis_text(&cluster.node[node], "CLIENT LIST TYPE normal");
    size_t count = 0;
    for (char *rest = list, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        const char *flags = strstr(line, " flags=");
        const char *tracking = flags != NULL ? strchr(flags + strlen(" flags="), 't') : NULL;
        count += tracking != NULL && tracking < strchr(flags + 1, ' ');
    }
    return count;
}

static void begin(struct fixture *fixture, const char *url)
{
    const char *env[] = {PREFIX, NULL};
    fixture_serve(fixture, url, env, SERVER_WAIT_READY);
    server_await_metric(&fixture->server, "channeld_redis_connected", 2);
    server_await_metric(&fixture->server, "channeld_cluster_nodes_connected", 2);
    assert_int_equal(fixture_status(fixture, "channel/by-id/1/"), 200);
    assert_int_equal(fixture_status(fixture, "channel/by-id/2/"), 404);
    assert_int_equal(fixture_status(fixture, "channels/"), 200);
}

static void expect_only(struct fixture *fixture, int node)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        assert_int_equal(connections_of(i), i == node ? 2 : 0);
    assert_int_equal((int)server_metric(&fixture->server, "channeld_redis_tracking_refused_total"), 0);
    fixture_fini(fixture);
}

TEST_CASE(master_of_the_slot_is_found)
{
    struct fixture fixture;
    begin(&fixture, cluster.url);
    expect_only(&fixture, CLUSTER_OWNER);
}

/* One node that answers is enough, and its name is one that is resolved. */
TEST_CASE(dead_nodes_are_skipped)
{
    struct fixture fixture;
    begin(&fixture,
          text_temp("redis+cluster://127.0.0.1:%d,localhost:%d/", net_reserve_port(), cluster.node[0].port));
    expect_only(&fixture, CLUSTER_OWNER);
}

/* ---- host names ---- */

static void set_at_all(const char *setting, const char *value)
{
    for (int i = 0; i < CLUSTER_NODES; i++)
        redis_do(&cluster.node[i], "CONFIG SET %s %s", setting, value);
}

struct announced {
    const char *host;
    size_t count;
};

/* Each node knows by gossip what the others announce. */
static bool is_announced(void *arg)
{
    const struct announced *a = arg;
    for (int i = 0; i < CLUSTER_NODES; i++) {
        AUTOFREE char *slots = redis_words(&cluster.node[i], "CLUSTER SLOTS");
        AUTOFREE char *words = text_printf(" %s ", slots);
        if (text_count(words, a->host) != a->count)
            return false;
    }
    return true;
}

static void await_announced(const char *host, size_t count)
{
    struct announced a = {host, count};
    if (!wait_until(is_announced, &a, WAIT_DEADLINE_MS))
        fail_msg("not all nodes announce '%s'", host);
}

/* The host name of the owner is removed: Redis then lists "?", and the address in the metadata. */
TEST_CASE(owner_without_a_host_name_stays_in_use)
{
    struct fixture fixture;
    set_at_all("cluster-announce-hostname", "localhost");
    set_at_all("cluster-preferred-endpoint-type", "hostname");
    await_announced(" localhost ", CLUSTER_NODES);
    begin(&fixture, cluster.url);
    redis_do(&cluster.node[CLUSTER_OWNER], "CONFIG SET cluster-announce-hostname %s", "");
    await_announced(" ? ", 1);
    assert_int_equal(fixture_status(&fixture, "channel/by-id/1/"), 200);
    assert_false(server_has_lost_redis(&fixture.server));
    assert_int_equal((int)server_metric(&fixture.server, "channeld_redis_failovers_total"), 0);
    expect_only(&fixture, CLUSTER_OWNER);
    begin(&fixture, cluster.url); /* a process that starts now finds it, too */
    expect_only(&fixture, CLUSTER_OWNER);
    set_at_all("cluster-preferred-endpoint-type", "ip");
}

/* ---- wrong settings ---- */

static void expect_never_ready(const char *url, const char *prefix, const char *reason)
{
    struct server server;
    const char *env[] = {prefix, NULL};
    server_start(&server, &(struct server_spec){url, env, SERVER_WAIT_LISTENING});
    server_await_log(&server, reason);
    server_await_metric(&server, "channeld_redis_disconnects_total", 4);
    assert_int_equal(server_admin_status(&server, "/readyz"), 503);
    server_stop(&server);
}

TEST_CASE(node_behind_a_plain_url_is_an_error)
{
    expect_never_ready(cluster.node[CLUSTER_OWNER].url, PREFIX,
                       "this server is a node of a Redis Cluster: use redis+cluster://");
}

TEST_CASE(redis_behind_a_cluster_url_is_an_error)
{
    AUTO(redis_stop) struct redis plain;
    redis_start(&plain, NULL);
    expect_never_ready(text_temp("redis+cluster://127.0.0.1:%d", plain.port), PREFIX,
                       "this server is not a node of a Redis Cluster: use redis://");
}

static void expect_refused(const char *tool, const char *url, const char *prefix, const char *reason)
{
    struct process process;
    const char *check[] = {"--check", "--redis-url", url, "--redis-prefix", prefix, NULL};
    const char *verify[] = {"--redis-url", url, "--redis-prefix", prefix, "verify", NULL};
    bool service = strcmp(tool, "CHANNELD_BIN") == 0;
    int status = server_run_tool(&process, &cluster.node[0].dir, tool, service ? check : verify,
                                 (const char *[]){NULL});
    AUTOFREE char *errors = service ? process_stdout(&process) : process_stderr(&process);
    AUTOFREE char *others = service ? process_stderr(&process) : process_stdout(&process);
    assert_int_equal(status, 2);
    if (strstr(errors, reason) == NULL && strstr(others, reason) == NULL)
        fail_msg("no '%s' in: %s%s", reason, errors, others);
}

TEST_CASE(wrong_settings_are_named)
{
    static const char *const tools[] = {"CHANNELD_BIN", "CHANNELCTL_BIN"};
    AUTOFREE char *database = text_printf("%s/1", cluster.url);
    for (size_t i = 0; i < TEST_COUNT(tools); i++) {
        expect_refused(tools[i], cluster.url, "channels:", "redis-prefix: a Redis Cluster needs a hash tag");
        expect_refused(tools[i], database, CLUSTER_PREFIX, "redis-url: a Redis Cluster has database 0 only");
    }
}

/* ---- channelctl ---- */

static int run_tool(struct process *process, const char *url, const char *const *words)
{
    const char *args[16] = {"--redis-url", url, "--redis-prefix", CLUSTER_PREFIX};
    size_t used = 4;
    for (size_t i = 0; words[i] != NULL; i++)
        args[used++] = words[i];
    return server_run_tool(process, &cluster.node[0].dir, "CHANNELCTL_BIN", args, (const char *[]){NULL});
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST_CASE(channelctl_works_on_the_master)
{
    struct process tool;
    struct fixture fixture;
    AUTOFREE char *url = text_printf("redis+cluster://127.0.0.1:%d,127.0.0.1:%d/", net_reserve_port(),
                                     cluster.node[CLUSTER_MASTERS].port);
    begin(&fixture, cluster.url);
    assert_int_equal(run_tool(&tool, url, WORDS("load", "--sample", "500", "--replace")), 0);
    assert_int_equal(run_tool(&tool, url, WORDS("verify")), 0);
    fixture_await_text(&fixture, "channels/?page=5", "\"count\":100", true);
    assert_int_equal(run_tool(&tool, url, WORDS("keys", "issue")), 0);
    AUTOFREE char *id = redis_words(&cluster.node[CLUSTER_OWNER], "ZRANGE " CLUSTER_PREFIX "index 0 0");
    assert_int_equal(run_tool(&tool, url, WORDS("show", id)), 0);
    assert_int_equal(run_tool(&tool, url, WORDS("remove", id)), 0);
    assert_int_equal(run_tool(&tool, url, WORDS("show", id)), 1);
    assert_int_equal(redis_integer(&cluster.node[CLUSTER_OWNER], "SCARD " CLUSTER_PREFIX "api_keys"), 2);
    fixture_fini(&fixture);
}

TEST_CASE(channelctl_says_what_is_wrong)
{
    struct process tool;
    assert_int_equal(run_tool(&tool, cluster.node[0].url, WORDS("verify")), 1);
    AUTOFREE char *errors = process_stderr(&tool);
    assert_non_null(strstr(errors, "use redis+cluster://"));
}

/*
 * ---- programs that start while a slot moves to another node ----
 * How responses follow the keys that move is shown by the simulation and by coherence.
 */

#define KEY(name) CLUSTER_PREFIX name

static int owner = CLUSTER_OWNER;

/* Of a catalogue of one channel. Returns the master to which it begins to move. */
static int begin_migration(void)
{
    int target = (owner + 1) % CLUSTER_MASTERS;
    redis_do(&cluster.node[owner], "FLUSHALL");
    catalogue_issue_key(&cluster.node[owner], FIXTURE_KEY);
    catalogue_put(&cluster.node[owner],
                  "{\"max_channel_id\":1,\"title\":\"old\",\"link\":\"https://max.ru/c1\"}", 1);
    cluster_begin_migration(&cluster, owner, target);
    cluster_migrate_key(&cluster, owner, target, KEY("api_keys"));
    return target;
}

static void end_migration(int target)
{
    while (cluster_migrate(&cluster, owner, target, 1000) > 0)
        ;
    cluster_end_migration(&cluster, owner, target);
    owner = target;
}

/* channeld starts while the slot migrates; and the catalogue is on the target already. */
TEST_CASE(start_during_a_migration)
{
    struct fixture fixture;
    static const char *const env[] = {"CHANNELD_REDIS_PREFIX=" CLUSTER_PREFIX, NULL};
    int target = begin_migration();
    cluster_migrate_key(&cluster, owner, target, KEY("index"));
    fixture_serve(&fixture, cluster.url, env, SERVER_WAIT_READY);
    fixture_expect_text(&fixture, "channel/by-id/1/", "old");
    fixture_expect_text(&fixture, "channels/", "old");
    end_migration(target);
    fixture_expect_text(&fixture, "channel/by-id/1/", "old");
    fixture_fini(&fixture);
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        cluster_await_link(&cluster, CLUSTER_MASTERS + i);
}

/* What channelctl has not got on one node makes it stop, with the reason. */
TEST_CASE(channelctl_does_not_work_on_half_a_catalogue)
{
    static const char *const commands[][4] = {
        {"verify", NULL}, {"load", "--sample", "3", NULL}, {"keys", "issue", NULL}};
    int target = begin_migration();
    for (size_t i = 0; i < TEST_COUNT(commands); i++) {
        struct process tool;
        assert_int_equal(run_tool(&tool, cluster.url, commands[i]), 1);
        AUTOFREE char *errors = process_stderr(&tool);
        if (strstr(errors, "the keys are migrating to another node of the cluster") == NULL)
            fail_msg("%s: %s", commands[i][0], errors);
    }
    end_migration(target);
}
