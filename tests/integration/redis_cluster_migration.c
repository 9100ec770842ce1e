/*
 * A slot that moves to another node, key by key: what was cached, what moves, what comes to exist and what is
 * removed meanwhile; from masters and from replicas.
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

/* Commands to a node that imports the slot. */
static void asking(int node, const char *format, const char *argument)
{
    redis_do(&cluster.node[node], "ASKING");
    redis_do(&cluster.node[node], format, argument);
}

static void begin(struct fixture *fixture, const char *role)
{
    static const char *const env[] = {"CHANNELD_REDIS_PREFIX=" CLUSTER_PREFIX, "CHANNELD_WORKERS=1", NULL};
    catalogue_issue_key(&cluster.node[owner], FIXTURE_KEY);
    for (int id = 1; id <= 3; id++)
        put(owner, id, "old");
    assert_int_equal(redis_integer(&cluster.node[owner], "WAIT 1 %d", WAIT_DEADLINE_MS / 2), 1);
    fixture_serve(fixture, text_temp("%s/%s", cluster.url, role), env, SERVER_WAIT_READY);
    fixture_expect_text(fixture, "channel/by-id/1/", "old");
    fixture_expect_text(fixture, "channel/by-link/?link=https://max.ru/c2", "old");
    fixture_expect(fixture, "channel/by-id/9/", 404);
    fixture_expect(fixture, "channel/by-link/?link=https://max.ru/c9", 404);
    fixture_expect_text(fixture, "channels/", "\"count\":3");
}

static void end(struct fixture *fixture, int target)
{
    fixture_fini(fixture);
    owner = target;
    for (int i = 0; i < CLUSTER_MASTERS; i++)
        cluster_await_link(&cluster, CLUSTER_MASTERS + i);
    redis_do(&cluster.node[owner], "DEL " KEY("index"));
    redis_do(&cluster.node[owner], "DEL " KEY("card:9") " " KEY("link:https://max.ru/c9"));
}

static int other_master(void)
{
    return (owner + 1) % CLUSTER_MASTERS;
}

/* What is true while all keys are at the source, and what is new goes to the target. */
static void check_new_keys(struct fixture *fixture, int target)
{
    fixture_expect_text(fixture, "channel/by-id/3/", "old"); /* not cached before */
    fixture_expect(fixture, "channel/by-id/9/", 404);
    fixture_expect(fixture, "channel/by-id/10/", 404);
    asking(target, "HSET " KEY("card:9") " max_channel_id 9 title %s link https://max.ru/c9", "nine");
    fixture_await_text(fixture, "channel/by-id/9/", "nine", true);
    fixture_expect(fixture, "channel/by-link/?link=https://max.ru/c9", 404);
    asking(target, "SET " KEY("link:https://max.ru/c9") " %s", "9");
    fixture_expect_text(fixture, "channel/by-link/?link=https://max.ru/c9", "nine");
    asking(target, "HSET " KEY("card:9") " title %s", "niner");
    fixture_expect_text(fixture, "channel/by-id/9/", "niner");
    fixture_expect_text(fixture, "channel/by-link/?link=https://max.ru/c9", "niner");
    redis_do(&cluster.node[owner], "ZADD " KEY("index") " 9 9"); /* still at the source */
    fixture_await_text(fixture, "channels/", "niner", true);
    fixture_expect_text(fixture, "channels/", "\"count\":4");
    asking(target, "HSET " KEY("card:9") " title %s", "nine again");
    fixture_expect_text(fixture, "channels/", "nine again");
}

/* A cached card moves, is changed and is removed; then a link moves, and leads to another card. */
static void check_cards(struct fixture *fixture, int target)
{
    cluster_migrate_key(&cluster, owner, target, KEY("card:1"));
    fixture_expect_text(fixture, "channel/by-id/1/", "old");
    asking(target, "HSET " KEY("card:1") " title %s", "new");
    fixture_await_text(fixture, "channel/by-id/1/", "new", true);
    asking(target, "HSET " KEY("card:1") " title %s", "newer");
    fixture_expect_text(fixture, "channel/by-id/1/", "newer");
    fixture_expect_text(fixture, "channels/", "newer");
    fixture_expect_text(fixture, "channel/by-link/?link=https://max.ru/c1",
                        "newer"); /* the link is at the source */
    asking(target, "DEL %s", KEY("card:1"));
    fixture_expect(fixture, "channel/by-id/1/", 404);
    fixture_expect_text(fixture, "channels/", "\"count\":3");
    cluster_migrate_key(&cluster, owner, target, KEY("link:https://max.ru/c2"));
    fixture_expect_text(fixture, "channel/by-link/?link=https://max.ru/c2", "old");
    redis_do(&cluster.node[owner], "HSET " KEY("card:2") " link https://max.ru/c3");
    redis_do(&cluster.node[owner], "HSET " KEY("card:3") " link https://max.ru/c2");
    asking(target, "SET " KEY("link:https://max.ru/c2") " %s", "3");
    fixture_await_text(fixture, "channel/by-link/?link=https://max.ru/c2", "\"max_channel_id\":3", true);
}

static void check_index_and_keys(struct fixture *fixture, int target)
{
    char digest[65];
    cluster_migrate_key(&cluster, owner, target, KEY("index"));
    fixture_expect_text(fixture, "channels/", "\"count\":3");
    asking(target, "ZREM " KEY("index") " %s", "3");
    fixture_await_text(fixture, "channels/", "\"count\":2", true);
    asking(target, "ZADD " KEY("index") " 3 %s", "3");
    fixture_expect_text(fixture, "channels/", "\"count\":3");
    cluster_migrate_key(&cluster, owner, target, KEY("api_keys"));
    fixture_expect_text(fixture, "channels/", "\"count\":3");
    fixture_expect(fixture, "channel/by-id/77/", 404);
    catalogue_digest(FIXTURE_KEY, digest);
    asking(target, "SADD " KEY("api_keys") " %s", "f00d");
    asking(target, "SREM " KEY("api_keys") " %s", digest);
    struct http_response response;
    fixture_get(fixture, "channels/", &response);
    for (int64_t until = wait_deadline(WAIT_DEADLINE_MS);
         response.status != 401 && wait_left_ms(until) > 0;) {
        http_response_free(&response);
        fixture_get(fixture, "channels/", &response);
    }
    assert_int_equal(response.status, 401);
    http_response_free(&response);
    asking(target, "SADD " KEY("api_keys") " %s", digest);
    fixture_expect_text(fixture, "channels/", "\"count\":3");
}

/* The rest moves, and then the slot. */
static void check_end(struct fixture *fixture, int target)
{
    while (cluster_migrate(&cluster, owner, target, 1000) > 0)
        ;
    fixture_expect_text(fixture, "channel/by-id/3/", "old");
    fixture_expect_text(fixture, "channels/", "\"count\":3");
    cluster_end_migration(&cluster, owner, target);
    fixture_expect_text(fixture, "channel/by-id/3/",
                        "old"); /* whoever has to move does so within the request */
    fixture_expect_text(fixture, "channel/by-id/9/", "nine again");
    redis_do(&cluster.node[target], "HSET " KEY("card:3") " title moved");
    fixture_await_text(fixture, "channel/by-id/3/", "moved", true);
    server_await_metric(&fixture->server, "channeld_redis_connected", 1);
    assert_int_equal((int)server_metric(&fixture->server, "channeld_cache_audit_failures_total"), 0);
    assert_int_equal((int)server_metric(&fixture->server, "channeld_cache_suspended"), 0);
    assert_true(server_metric(&fixture->server, "channeld_cluster_redirects_total") > 10);
}

static void check_all(const char *role)
{
    struct fixture fixture;
    int target = other_master();
    begin(&fixture, role);
    cluster_begin_migration(&cluster, owner, target);
    check_new_keys(&fixture, target);
    check_cards(&fixture, target);
    check_index_and_keys(&fixture, target);
    check_end(&fixture, target);
    end(&fixture, target);
}

TEST_CASE(migration_served_from_masters)
{
    check_all("");
}

TEST_CASE(migration_served_from_replicas)
{
    check_all("?role=replica");
}

/* A key gets an expiry that has passed, in a hash that did not exist: nothing is announced at the source. */
static void check_expiry(const char *role)
{
    struct fixture fixture;
    char digest[65];
    int target = other_master();
    begin(&fixture, role);
    cluster_begin_migration(&cluster, owner, target);
    fixture_expect(&fixture, "channel/by-id/1/", 200);
    catalogue_digest(FIXTURE_KEY, digest);
    asking(target, text_temp("HSET " KEY("api_key_info") " %s %%s", digest),
           "{\"expires\":\"2020-01-01T00:00:00Z\"}");
    fixture_expect(&fixture, "channel/by-id/1/", 401);
    while (cluster_migrate(&cluster, owner, target, 1000) > 0)
        ;
    cluster_end_migration(&cluster, owner, target);
    fixture_expect(&fixture, "channel/by-id/1/", 401);
    redis_do(&cluster.node[target], "DEL " KEY("api_key_info"));
    fixture_await(&fixture, "channel/by-id/1/", 200);
    end(&fixture, target);
}

TEST_CASE(key_that_expires_on_the_target_is_refused_at_the_source)
{
    check_expiry("");
    check_expiry("?role=replica");
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
