/*
 * Users of Redis: they have the rights that docs/redis.md lists and no others, or fewer; and passwords.
 */

#include <stdlib.h>
#include <string.h>

#include "support/cluster.h"
#include "support/fixture.h"
#include "support/sentinel.h"

enum { RULES_MAX = 64, CHANNELS = 250, HELD_KEYS = 200, MANY_KEYS = 100001 };

#define CARD "channel/by-id/-9223372036854775808/"

/* Gives the server the user that the documentation has on the line "user <name> ..."; `extra` rules follow.
 */
static void make_user(struct redis *redis, const char *name, const char *const *extra)
{
    const char *rules[RULES_MAX] = {"ACL", "SETUSER"};
    size_t count = 2;
    AUTOFREE char *text = text_read_file(process_require_env("REDIS_MD"));
    char *line = strstr(text, text_temp("\nuser %s ", name));
    char *rest = NULL;
    if (line == NULL)
        fail_msg("the documentation has no user %s", name);
    char *rule = strtok_r(strtok_r(line, "\n", &rest), " ", &rest); /* "user" */
    while (rule != NULL && (rule = strtok_r(NULL, " ", &rest)) != NULL && count < RULES_MAX)
        rules[count++] = rule;
    for (size_t i = 0; extra != NULL && extra[i] != NULL && count < RULES_MAX; i++)
        rules[count++] = extra[i];
    assert_in_range(count, 5, RULES_MAX - 1);
    redis_do_argv(redis, count, rules, NULL);
}

static const char *const *acl_rules; /* of the next fill() */
static const char *request_timeout = "CHANNELD_REQUEST_TIMEOUT=20s";

static void fill(struct redis *redis)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    catalogue_put_samples(redis, CHANNELS);
    make_user(redis, "channeld", acl_rules);
}

static void begin(struct fixture *f, const char *const *extra, enum server_wait wait)
{
    /* With very many keys a script keeps Redis busy for longer than the default timeout. */
    const char *const env[] = {"CHANNELD_WORKERS=1", request_timeout, NULL};
    acl_rules = extra;
    fixture_init(
        f, &(struct fixture_spec){.env = env, .fill = fill, .userinfo = "channeld:PASSWORD1@", .wait = wait});
}

static void ask_for_what_is_cached(struct fixture *f)
{
    AUTOFREE char *link = catalogue_link(1);
    AUTOFREE char *encoded = text_percent_encode(link);
    AUTOFREE char *by_link = text_printf("channel/by-link/?link=%s", encoded);
    const char *const paths[] = {CARD, by_link, "channels/", "channels/?page=3", "channels/?page=9"};
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        fixture_expect(f, paths[i], 200);
    assert_int_equal(http_get_status(f->server.port, "/api/" CARD, FIXTURE_WRONG), 401);
}

static void ask_for_everything(struct fixture *f)
{
    ask_for_what_is_cached(f);
    fixture_expect(f, "channel/by-id/424242/", 404);
    fixture_expect(f, "channel/by-link/?link=https://max.ru/none", 404);
}

TEST_CASE(documented_user_is_enough)
{
    AUTO(fixture_fini) struct fixture f;
    begin(&f, NULL, SERVER_WAIT_READY);
    ask_for_everything(&f);
    double before = fixture_commands(&f);
    ask_for_what_is_cached(&f);
    assert_true(fixture_commands(&f) == before);
    catalogue_issue_keys(&f.redis, MANY_KEYS); /* more than are held */
    ask_for_everything(&f);
    ask_for_everything(&f);
    fixture_expect_metric(&f, "channeld_redis_tracking_refused_total", 0);
    fixture_expect_metric(&f, "channeld_cache_untracked", 0);
    fixture_expect_metric(&f, "channeld_redis_error_replies_total", 0);
    AUTOFREE char *denials = redis_words(&f.redis, "ACL LOG");
    assert_string_equal(denials, "");
}

static const char *policy;

static void fill_with_policy(struct redis *redis)
{
    redis_do(redis, "CONFIG SET maxmemory-policy %s", policy);
    fill(redis);
}

static size_t eviction_warnings(const char *eviction_policy, const char *const *extra)
{
    static const char *const env[] = {"CHANNELD_WORKERS=3", NULL};
    AUTO(fixture_fini) struct fixture f;
    policy = eviction_policy;
    acl_rules = extra;
    fixture_init(&f, &(struct fixture_spec){.env = env,
                                            .fill = fill_with_policy,
                                            .userinfo = "channeld:PASSWORD1@",
                                            .wait = SERVER_WAIT_READY});
    ask_for_everything(&f);
    AUTOFREE char *log = fixture_stop_server(&f);
    return text_count(log,
                      text_temp("\"level\":\"warn\",\"msg\":\"redis may evict channels and API keys: set "
                                "maxmemory-policy to noeviction\",\"maxmemory_policy\":\"%s\"}",
                                eviction_policy));
}

/* By one of the workers, whose first connection asks before it is used. */
TEST_CASE(eviction_of_keys_without_ttl_is_warned_of_once)
{
    static const char *const less[] = {"-info", NULL};
    assert_int_equal(eviction_warnings("allkeys-lru", NULL), 1);
    assert_int_equal(eviction_warnings("volatile-lru", NULL), 0);
    assert_int_equal(eviction_warnings("allkeys-lru", less), 0);
}

static bool asks_nothing(void *arg)
{
    struct fixture *f = arg;
    double before = fixture_commands(f);
    fixture_expect(f, CARD, 200);
    return fixture_commands(f) == before;
}

/* The set is scanned in portions, or the command has been refused. */
static bool sscan_was_sent(void *arg)
{
    struct fixture *f = arg;
    AUTOFREE char *stats = redis_words(&f->redis, "INFO commandstats");
    return strstr(stats, "cmdstat_sscan") != NULL;
}

/* As many as are scanned in portions: no valid key is checked twice. */
static void begin_with_many_keys(struct fixture *f, const char *const *extra)
{
    begin(f, extra, SERVER_WAIT_READY);
    catalogue_issue_keys(&f->redis, HELD_KEYS);
    assert_true(wait_until(sscan_was_sent, f, WAIT_DEADLINE_MS));
    assert_true(wait_until(asks_nothing, f, WAIT_DEADLINE_MS));
    assert_int_equal(http_get_status(f->server.port, "/api/" CARD, FIXTURE_WRONG), 401);
    assert_true(wait_until(asks_nothing, f, WAIT_DEADLINE_MS));
}

TEST_CASE(documented_user_can_read_many_keys)
{
    AUTO(fixture_fini) struct fixture f;
    begin_with_many_keys(&f, NULL);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_error_replies_total"), 0);
}

TEST_CASE(without_sscan_each_of_many_keys_is_checked_once)
{
    static const char *const less[] = {"-sscan", NULL};
    AUTO(fixture_fini) struct fixture f;
    begin_with_many_keys(&f, less);
    AUTOFREE char *denials = redis_words(&f.redis, "ACL LOG");
    assert_non_null(strstr(denials, "sscan"));
}

/* How often Redis has denied the command. */
static long long denials(struct redis *redis, const char *command)
{
    AUTOFREE char *stats = redis_text(redis, "INFO commandstats");
    AUTOFREE char *name = text_printf("cmdstat_%s:", command);
    const char *at = stats != NULL ? strstr(stats, name) : NULL;
    const char *count = at != NULL ? strstr(at, "rejected_calls=") : NULL;
    return count != NULL ? strtoll(count + strlen("rejected_calls="), NULL, 10) : 0;
}

struct denied {
    struct redis *redis;
    const char *command;
    long long count;
};

static bool was_denied(void *arg)
{
    const struct denied *d = arg;
    return denials(d->redis, d->command) >= d->count;
}

static void await_denials(struct redis *redis, const char *command, long long count)
{
    struct denied d = {redis, command, count};
    if (!wait_until(was_denied, &d, WAIT_DEADLINE_MS))
        fail_msg("%s was not denied %lld times", command, count);
}

#define NOT_IN_MEMORY "the API key set is not in memory"

TEST_CASE(key_set_that_stays_denied_is_logged_once)
{
    enum { TRIES = 3 }; /* one with each heartbeat */
    static const char *const less[] = {"-sscan", NULL};
    AUTO(fixture_fini) struct fixture f;
    begin(&f, less, SERVER_WAIT_READY);
    await_denials(&f.redis, "sscan", TRIES);
    fixture_expect(&f, CARD, 200);
    server_expect_log(&f.server, NOT_IN_MEMORY, 1);
}

static void expect_denied(struct redis *redis, const char *user, const char *command)
{
    AUTOFREE char *result = redis_words(redis, text_temp("ACL DRYRUN %s %s", user, command));
    if (strstr(result, "no permissions") == NULL && strstr(result, "access") == NULL)
        fail_msg("%s may %s: %s", user, command, result);
}

/* Not a key beyond the prefix, not a command that writes. */
TEST_CASE(documented_user_can_do_nothing_else)
{
    static const char *const refused[] = {"get other:key",      "set channels:card:1 x",
                                          "del channels:index", "keys *",
                                          "flushall",           "config get port"};
    AUTO(fixture_fini) struct fixture f;
    begin(&f, NULL, SERVER_WAIT_READY);
    for (size_t i = 0; i < TEST_COUNT(refused); i++)
        expect_denied(&f.redis, "channeld", refused[i]);
}

/* Without the right to CLIENT CACHING it serves as before. */
TEST_CASE(without_client_caching_links_are_tracked)
{
    static const char *const less[] = {"-client|caching", NULL};
    AUTO(fixture_fini) struct fixture f;
    begin(&f, less, SERVER_WAIT_READY);
    ask_for_everything(&f);
    double before = fixture_commands(&f);
    ask_for_what_is_cached(&f);
    assert_true(fixture_commands(&f) == before);
    assert_true(redis_integer(&f.redis, "EXISTS channels:link:https://max.ru/none") == 0);
    redis_do(&f.redis, "SET channels:link:https://max.ru/none 0");
    server_await_metric(&f.server, "channeld_cache_invalidations_total", 1);
}

/* The user's Redis becomes a replica of another one with the same content; `denial` is logged, or NULL. */
static void expect_served_at_a_replica(const char *const *extra, const char *role, const char *denial)
{
    struct fixture f;
    struct redis master;
    static const char *const args[] = {"--repl-diskless-sync-delay", "0", NULL};
    redis_start(&master, args);
    catalogue_issue_key(&master, FIXTURE_KEY);
    catalogue_put_samples(&master, CHANNELS);
    begin(&f, extra, SERVER_WAIT_READY);
    redis_do(&f.redis, "REPLICAOF 127.0.0.1 %d", master.port);
    server_await_metric(&f.server, text_temp("channeld_redis_role{role=\"%s\"}", role), 1);
    ask_for_everything(&f);
    AUTOFREE char *denials = redis_words(&f.redis, "ACL LOG");
    if (denial == NULL)
        assert_string_equal(denials, "");
    else
        server_await_log(&f.server, denial);
    fixture_fini(&f);
    redis_stop(&master);
}

TEST_CASE(documented_user_is_enough_at_a_replica)
{
    static const char *const no_info[] = {"-info", NULL};
    expect_served_at_a_replica(NULL, "replica", NULL);
    expect_served_at_a_replica(no_info, "unknown", "redis denies INFO");
}

/* ---- mistakes, and their correction ---- */

/* What each of them is needed for; the last may read another catalogue. */
static const struct {
    const char *less[6];
    const char *what;
} missing[] = {
    {{"-hmget"}, "channels"},
    {{"-get"}, "links"},
    {{"-zrange"}, "pages"},
    {{"-zcard"}, "the size of the index"},
    {{"-scard"}, "the number of API keys"},
    {{"-smismember"}, "the API keys"},
    {{"resetkeys", "~channels:[cl]*", "~channels:index", "~channels:api_keys"},
     "the names and expiries of API keys"},
    {{"resetkeys", "~other:*"}, "channels"},
};

TEST_CASE(user_without_a_permission_never_makes_it_ready)
{
    for (size_t i = 0; i < TEST_COUNT(missing); i++) {
        AUTO(fixture_fini) struct fixture f;
        begin(&f, missing[i].less, SERVER_WAIT_LISTENING);
        server_await_log(&f.server,
                         text_temp("\"reason\":\"no permission to read %s: NOPERM ", missing[i].what));
        assert_int_equal(server_admin_status(&f.server, "/readyz"), 503);
        fixture_expect_metric(&f, "channeld_redis_connected", 0);
        make_user(&f.redis, "channeld", NULL);
        server_await_admin(&f.server, "/readyz", 200);
        ask_for_everything(&f);
    }
}

/* A command that is not there is no permission either. */
TEST_CASE(renamed_command_never_makes_it_ready)
{
    static const char *const args[] = {"--rename-command", "ZCARD", "", NULL};
    AUTO(fixture_fini) struct fixture f;
    fixture_init(
        &f, &(struct fixture_spec){.channels = CHANNELS, .redis_args = args, .wait = SERVER_WAIT_LISTENING});
    server_await_log(&f.server, "\"reason\":\"redis refuses to read the size of the index: ERR ");
    assert_int_equal(server_admin_status(&f.server, "/readyz"), 503);
    fixture_expect_metric(&f, "channeld_redis_connected", 0);
}

/* It goes on with what it may read, over a new connection, too. */
TEST_CASE(permission_that_is_taken_away_fails_only_what_needs_it)
{
    AUTO(fixture_fini) struct fixture f;
    begin(&f, NULL, SERVER_WAIT_READY);
    redis_do(&f.redis, "ACL SETUSER channeld -get");
    redis_do(&f.redis, "CLIENT KILL USER channeld");
    server_await_metric(&f.server, "channeld_redis_connects_total", 2);
    fixture_await(&f, CARD, 200);
    fixture_expect(&f, "channel/by-link/?link=https://max.ru/nobody", 500);
    fixture_expect(&f, "channels/", 200);
    assert_int_equal(server_admin_status(&f.server, "/readyz"), 200);
}

/* ---- channelctl, and Sentinels ---- */

static void expect_tool(struct redis *redis, const char *url, const char *a, const char *b, const char *c)
{
    const char *const args[] = {"--redis-url", url, "--wait=1m", a, b, c,
                                NULL}; /* it needs no further right */
    struct process tool;
    if (server_run_tool(&tool, &redis->dir, "CHANNELCTL_BIN", args, NULL) != 0) {
        char *errors = process_stderr(&tool);
        fail_msg("channelctl %s %s: %s", a, b, errors);
    }
}

static char *url_of(const struct redis *redis, const char *user, const char *password)
{
    return text_printf("redis://%s:%s@127.0.0.1:%d", user, password, redis->port);
}

static void work_as_loader(struct redis *redis)
{
    AUTOFREE char *url = url_of(redis, "loader", "PASSWORD4");
    AUTOFREE char *file = text_printf("%s/channels.ndjson", redis->dir.path);
    catalogue_write_file(file, 30);
    expect_tool(redis, url, "load", file, NULL);
    redis_do(redis, "EXPIRE channels:index 1000");
    catalogue_write_file(file, 20);
    expect_tool(redis, url, "load", file, "--replace");
    expect_tool(redis, url, "remove", "0", NULL);
    assert_int_equal(redis_integer(redis, "ZCARD channels:index"), 19);
    catalogue_write_file(file, 20);
    expect_tool(redis, url, "load", file, NULL);
}

static void work_as_issuer(struct redis *redis)
{
    AUTOFREE char *url = url_of(redis, "issuer", "PASSWORD5");
    expect_tool(redis, url, "keys", "issue", NULL);
    expect_tool(redis, url, "keys", "issue", NULL);
    expect_tool(redis, url, "keys", "list", NULL);
    AUTOFREE char *key = redis_text(redis, "SRANDMEMBER channels:api_keys");
    expect_tool(redis, url, "keys", "revoke", key);
    assert_int_equal(redis_integer(redis, "SCARD channels:api_keys"), 1);
}

/* A card that needs a closer look is among them. */
static void work_as_verifier(struct redis *redis)
{
    AUTOFREE char *url = url_of(redis, "verifier", "PASSWORD6");
    redis_do(redis, "EVAL %s 0", "redis.call('HSET', 'channels:card:0', 'title', string.rep('x', 2000000))");
    expect_tool(redis, url, "verify", NULL, NULL);
    expect_tool(redis, url, "show", "0", NULL);
}

TEST_CASE(documented_users_of_channelctl_can_do_their_work_and_no_other)
{
    static const char *const denied[][2] = {{"loader", "sadd channels:api_keys x"},
                                            {"loader", "smembers channels:api_keys"},
                                            {"loader", "set other:key x"},
                                            {"loader", "flushall"},
                                            {"issuer", "hmget channels:card:0 x"},
                                            {"issuer", "del channels:api_keys"},
                                            {"issuer", "sadd channels:index x"},
                                            {"verifier", "sadd channels:api_keys x"},
                                            {"verifier", "hset channels:card:0 a b"},
                                            {"verifier", "get other:key"},
                                            {"verifier", "del channels:index"}};
    AUTO(redis_stop) struct redis redis;
    redis_start(&redis, NULL);
    make_user(&redis, "loader", NULL);
    make_user(&redis, "issuer", NULL);
    make_user(&redis, "verifier", NULL);
    work_as_loader(&redis);
    work_as_issuer(&redis);
    work_as_verifier(&redis);
    AUTOFREE char *denials = redis_words(&redis, "ACL LOG");
    assert_string_equal(denials, "");
    for (size_t i = 0; i < TEST_COUNT(denied); i++)
        expect_denied(&redis, denied[i][0], denied[i][1]);
}

TEST_CASE(documented_users_are_enough_with_sentinels)
{
    static const char *const env[] = {"CHANNELD_REDIS_SENTINEL_USER=watcher",
                                      "CHANNELD_REDIS_SENTINEL_PASSWORD=PASSWORD7", NULL};
    AUTO(redis_stop) struct redis redis;
    AUTO(redis_stop) struct redis sentinel;
    struct fixture f;
    memset(&f, 0, sizeof f);
    redis_start(&redis, NULL);
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put(&redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    make_user(&redis, "channeld", NULL);
    sentinel_start(&sentinel, &(struct sentinel_spec){SENTINEL_MASTER, redis.port, 1, NULL, NULL});
    make_user(&sentinel, "watcher", NULL);
    AUTOFREE char *url = text_printf(
        "redis+sentinel://channeld:PASSWORD1@127.0.0.1:%d/" SENTINEL_MASTER "/0?role=replica", sentinel.port);
    server_start(&f.server, &(struct server_spec){.redis_url = url, .env = env, .wait = SERVER_WAIT_READY});
    fixture_expect(&f, "channel/by-id/1/", 200);
    fixture_expect(&f, "channels/", 200);
    server_stop(&f.server);
}

/* ---- clusters ---- */

/* With what the documentation adds for them, while the slot migrates, too. */
static void serve_cluster(struct cluster *cluster)
{
    static const char *const env[] = {"CHANNELD_REDIS_PREFIX=" CLUSTER_PREFIX, NULL};
    struct fixture f;
    memset(&f, 0, sizeof f);
    AUTOFREE char *url =
        text_printf("redis+cluster://channeld:PASSWORD1@127.0.0.1:%d/", cluster->node[0].port);
    server_start(&f.server, &(struct server_spec){.redis_url = url, .env = env, .wait = SERVER_WAIT_READY});
    fixture_expect(&f, "channel/by-id/1/", 200);
    fixture_expect(&f, "channel/by-id/2/", 404);
    fixture_expect(&f, "channels/", 200);
    server_stop(&f.server);
}

TEST_CASE(documented_users_are_enough_in_a_cluster)
{
    static const char *const extra[] = {"+cluster|slots", "+asking", "~{channels}:*", NULL};
    AUTO(cluster_stop) struct cluster cluster;
    cluster_start(&cluster, NULL, NULL);
    catalogue_issue_key(&cluster.node[CLUSTER_OWNER], FIXTURE_KEY);
    catalogue_put(&cluster.node[CLUSTER_OWNER], "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    for (int i = 0; i < CLUSTER_NODES; i++)
        make_user(&cluster.node[i], "channeld", extra);
    cluster_begin_migration(&cluster, CLUSTER_OWNER, 0);
    cluster_migrate_key(&cluster, CLUSTER_OWNER, 0, CLUSTER_PREFIX "card:1");
    serve_cluster(&cluster);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        AUTOFREE char *denials = redis_words(&cluster.node[i], "ACL LOG");
        assert_string_equal(denials, "");
    }
}

/* ---- passwords ---- */

#define PASSWORD "s3cret/pass"

static void begin_with_password(struct fixture *f, const char *userinfo, const char *setting,
                                enum server_wait wait)
{
    static const char *const args[] = {"--requirepass", PASSWORD, NULL};
    const char *env[] = {"CHANNELD_REQUEST_TIMEOUT=500ms", setting, NULL};
    fixture_init(f, &(struct fixture_spec){
                        .channels = 2, .env = env, .redis_args = args, .userinfo = userinfo, .wait = wait});
}

TEST_CASE(password_can_be_in_the_url_or_in_a_file)
{
    AUTO(tempdir_fini) struct tempdir dir;
    tempdir_init(&dir);
    AUTOFREE char *path = text_printf("%s/password", dir.path);
    AUTOFREE char *setting = text_printf("CHANNELD_REDIS_PASSWORD_FILE=%s", path);
    const char *const ways[][2] = {
        {":s3cret%2Fpass@", NULL}, {"default:s3cret%2Fpass@", NULL}, {NULL, setting}};
    assert_true(text_write_file(path, PASSWORD "\n"));
    for (size_t i = 0; i < TEST_COUNT(ways); i++) {
        AUTO(fixture_fini) struct fixture f;
        begin_with_password(&f, ways[i][0], ways[i][1], SERVER_WAIT_READY);
        fixture_expect_in_the_end(&f, CARD, 200);
        fixture_expect_in_the_end(&f, "channels/", 200);
    }
}

/* A Redis without HELLO (before 6) repeats its arguments in the error, the password among them. */
TEST_CASE(password_is_not_logged_when_redis_quotes_it)
{
    static const char *const args[] = {"--rename-command", "HELLO", "", NULL};
    static const char *const env[] = {"CHANNELD_REDIS_PASSWORD=hUsH", NULL};
    static const char *const command[] = {"keys", "list", NULL};
    AUTO(redis_stop) struct redis redis;
    struct server server;
    struct process tool;
    redis_start(&redis, args);
    server_start(&server,
                 &(struct server_spec){.redis_url = redis.url, .env = env, .wait = SERVER_WAIT_LISTENING});
    server_await_metric(&server, "channeld_redis_disconnects_total", 2);
    server_await_log(&server, "redis connection failed");
    AUTOFREE char *log = server_log(&server);
    assert_null(strstr(log, "hUsH"));
    server_stop(&server);
    const char *const tool_env[] = {env[0], text_temp("CHANNELD_REDIS_URL=%s", redis.url), NULL};
    assert_int_equal(server_run_tool(&tool, &redis.dir, "CHANNELCTL_BIN", command, tool_env), 1);
    AUTOFREE char *errors = process_stderr(&tool);
    assert_non_null(strstr(errors, "Redis refused"));
    assert_null(strstr(errors, "hUsH"));
}
