/* A Redis whose users may do what docs/operations.md says, and nothing else; and one whose users may do less.
 */

#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/sentinel.h"

enum { RULES_MAX = 64, CHANNELS = 250, HELD_KEYS = 20000, MANY_KEYS = 100001, RECOVERY_MS = 5000 };

#define CARD "channel/by-id/-9223372036854775808/"

/* Gives the server the user that the documentation has on the line "user <name> ..."; `extra` rules follow.
 */
static void make_user(struct redis *redis, const char *name, const char *const *extra)
{
    const char *rules[RULES_MAX] = {"ACL", "SETUSER"};
    size_t count = 2;
    char *text = text_read_file(process_require_env("OPERATIONS_MD"));
    char *start = text_printf("\nuser %s ", name);
    char *line = strstr(text, start);
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
    free(start);
    free(text);
}

static void begin(struct fixture *f, const char *const *extra, enum server_wait wait)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=1s", NULL};
    memset(f, 0, sizeof *f);
    redis_start(&f->redis, NULL);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    catalogue_put_samples(&f->redis, CHANNELS);
    make_user(&f->redis, "channeld", extra);
    char *url = text_printf("redis://channeld:SECRET@127.0.0.1:%d", f->redis.port);
    struct server_spec spec = {.redis_url = url, .env = env, .wait = wait};
    server_start(&f->server, &spec);
    free(url);
}

static void end(struct fixture *f)
{
    server_stop(&f->server);
    redis_stop(&f->redis);
}

static double commands(struct fixture *f)
{
    return server_metric(&f->server, "channeld_redis_commands_total");
}

static void ask_for_everything(struct fixture *f)
{
    char *link = catalogue_link(1);
    char *encoded = text_percent_encode(link);
    char *by_link = text_printf("channel/by-link/?link=%s", encoded);
    const char *const paths[] = {CARD, by_link, "channels/", "channels/?page=3", "channels/?page=9"};
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        assert_int_equal(fixture_status(f, paths[i]), 200);
    assert_int_equal(fixture_status(f, "channel/by-id/424242/"), 404);
    assert_int_equal(http_get_status(f->server.port, "/api/" CARD, "X-Api-Key: wrong\r\n"), 401);
    free(by_link);
    free(encoded);
    free(link);
}

TEST_CASE(documented_user_can_do_everything_with_the_cache_on)
{
    struct fixture f;
    begin(&f, NULL, SERVER_WAIT_READY);
    ask_for_everything(&f);
    double before = commands(&f);
    ask_for_everything(&f);
    assert_true(commands(&f) == before);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_tracking_refused_total"), 0);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_error_replies_total"), 0);
    char *denials = redis_words(&f.redis, "ACL LOG");
    assert_string_equal(denials, "");
    free(denials);
    end(&f);
}

TEST_CASE(documented_user_can_do_it_with_more_keys_than_are_held)
{
    struct fixture f;
    begin(&f, NULL, SERVER_WAIT_READY);
    catalogue_issue_keys(&f.redis, MANY_KEYS);
    ask_for_everything(&f);
    ask_for_everything(&f);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_error_replies_total"), 0);
    end(&f);
}

static bool asks_nothing(void *arg)
{
    struct fixture *f = arg;
    double before = commands(f);
    assert_int_equal(fixture_status(f, CARD), 200);
    return commands(f) == before;
}

/* As many as are read in portions: in the end no valid key is asked about. */
static void begin_with_many_keys(struct fixture *f, const char *const *extra)
{
    begin(f, extra, SERVER_WAIT_READY);
    catalogue_issue_keys(&f->redis, HELD_KEYS);
    assert_true(wait_until(asks_nothing, f, WAIT_DEADLINE_MS));
    assert_int_equal(http_get_status(f->server.port, "/api/" CARD, "X-Api-Key: wrong\r\n"), 401);
    assert_true(asks_nothing(f));
}

TEST_CASE(documented_user_can_read_many_keys)
{
    struct fixture f;
    begin_with_many_keys(&f, NULL);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_error_replies_total"), 0);
    end(&f);
}

TEST_CASE(without_sscan_each_of_many_keys_is_asked_about_once)
{
    static const char *const less[] = {"-sscan", NULL};
    struct fixture f;
    begin_with_many_keys(&f, less);
    char *denials = redis_words(&f.redis, "ACL LOG");
    assert_non_null(strstr(denials, "sscan"));
    free(denials);
    end(&f);
}

static void expect_denied(struct redis *redis, const char *user, const char *command)
{
    char *line = text_printf("ACL DRYRUN %s %s", user, command);
    char *verdict = redis_words(redis, line);
    if (strstr(verdict, "no permissions") == NULL && strstr(verdict, "access") == NULL)
        fail_msg("%s may %s: %s", user, command, verdict);
    free(verdict);
    free(line);
}

/* Not a key beyond the prefix, not a command that writes. */
TEST_CASE(documented_user_can_do_nothing_else)
{
    static const char *const refused[] = {"get other:key",      "set channels:card:1 x",
                                          "del channels:index", "keys *",
                                          "flushall",           "config get port"};
    struct fixture f;
    begin(&f, NULL, SERVER_WAIT_READY);
    for (size_t i = 0; i < TEST_COUNT(refused); i++)
        expect_denied(&f.redis, "channeld", refused[i]);
    end(&f);
}

TEST_CASE(without_tracking_it_works_without_cache)
{
    static const char *const less[] = {"-client|tracking", NULL};
    struct fixture f;
    begin(&f, less, SERVER_WAIT_READY);
    ask_for_everything(&f);
    double before = commands(&f);
    ask_for_everything(&f);
    assert_true(commands(&f) > before);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_tracking_refused_total"), 1);
    end(&f);
}

/* Who may not ask what Redis is serves without knowing it, and says so. */
TEST_CASE(without_role_it_works_and_the_role_is_unknown)
{
    static const char *const less[] = {"-role", NULL};
    struct fixture f;
    begin(&f, less, SERVER_WAIT_READY);
    ask_for_everything(&f);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_role{role=\"unknown\"}"), 1);
    assert_int_equal((int)server_metric(&f.server, "channeld_redis_role{role=\"master\"}"), 0);
    server_await_log(&f.server, "redis denies ROLE");
    end(&f);
}

static bool is_at_replica(void *arg)
{
    struct fixture *f = arg;
    return server_metric(&f->server, "channeld_redis_role{role=\"replica\"}") == 1;
}

/* The user's Redis becomes a replica of another one with the same content; `denial` is logged, or NULL. */
static void expect_served_at_a_replica(const char *const *extra, const char *denial)
{
    struct fixture f;
    struct redis master;
    static const char *const args[] = {"--repl-diskless-sync-delay", "0", NULL};
    redis_start(&master, args);
    catalogue_issue_key(&master, FIXTURE_KEY);
    catalogue_put_samples(&master, CHANNELS);
    begin(&f, extra, SERVER_WAIT_READY);
    redis_do(&f.redis, "REPLICAOF 127.0.0.1 %d", master.port);
    assert_true(wait_until(is_at_replica, &f, WAIT_DEADLINE_MS));
    ask_for_everything(&f);
    char *denials = redis_words(&f.redis, "ACL LOG");
    if (denial == NULL)
        assert_string_equal(denials, "");
    else
        server_await_log(&f.server, denial);
    free(denials);
    end(&f);
    redis_stop(&master);
}

TEST_CASE(documented_user_is_enough_at_a_replica)
{
    expect_served_at_a_replica(NULL, NULL);
}

TEST_CASE(without_info_a_replica_serves)
{
    static const char *const less[] = {"-info", NULL};
    expect_served_at_a_replica(less, "redis denies INFO");
}

/* ---- mistakes, and what mends them ---- */

static bool is_served(void *arg)
{
    return fixture_status(arg, CARD) == 200;
}

static void expect_500s(struct fixture *f)
{
    char *link = catalogue_link(7);
    char *by_link = text_printf("channel/by-link/?link=%s", link);
    const char *const paths[] = {"channels/?page=2", by_link};
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        assert_int_equal(fixture_status(f, paths[i]), 500);
    free(by_link);
    free(link);
}

TEST_CASE(wrong_password_is_500_until_it_is_mended)
{
    static const char *const another[] = {"<SECRET", ">ANOTHER", NULL};
    struct fixture f;
    begin(&f, another, SERVER_WAIT_LISTENING);
    expect_500s(&f);
    assert_int_equal(fixture_status(&f, CARD), 500);
    assert_int_equal(http_get_status(f.server.port, "/api/" CARD, "X-Api-Key: wrong\r\n"), 500);
    assert_int_equal(server_admin_status(&f.server, "/readyz"), 503);
    make_user(&f.redis, "channeld", NULL);
    assert_true(wait_until(is_served, &f, RECOVERY_MS));
    server_await_admin(&f.server, "/readyz", 200);
    end(&f);
}

/* Redis ends the connections of a user that is deleted. */
TEST_CASE(deleted_user_is_500_for_what_is_not_cached_until_it_is_back)
{
    struct fixture f;
    begin(&f, NULL, SERVER_WAIT_READY);
    assert_int_equal(fixture_status(&f, CARD), 200);
    redis_do(&f.redis, "ACL DELUSER channeld");
    server_await_metric_below(&f.server, "channeld_redis_connected", 0);
    expect_500s(&f);
    assert_int_equal(fixture_status(&f, CARD), 200);
    make_user(&f.redis, "channeld", NULL);
    server_await_metric(&f.server, "channeld_redis_connected", 1);
    assert_int_equal(fixture_status(&f, "channel/by-id/424242/"), 404);
    end(&f);
}

/* ---- channelctl, and Sentinels ---- */

static void expect_tool(struct redis *redis, const char *url, const char *a, const char *b, const char *c)
{
    const char *const args[] = {"--redis-url", url, a, b, c, NULL};
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
    char *url = url_of(redis, "loader", "OTHER");
    char *file = text_printf("%s/channels.ndjson", redis->dir.path);
    catalogue_write_file(file, 30);
    expect_tool(redis, url, "load", file, NULL);
    redis_do(redis, "EXPIRE channels:index 1000");
    catalogue_write_file(file, 20);
    expect_tool(redis, url, "load", file, "--replace");
    assert_int_equal(redis_integer(redis, "ZCARD channels:index"), 20);
    free(file);
    free(url);
}

static void work_as_issuer(struct redis *redis)
{
    char *url = url_of(redis, "issuer", "FOURTH");
    expect_tool(redis, url, "keys", "issue", NULL);
    expect_tool(redis, url, "keys", "issue", NULL);
    expect_tool(redis, url, "keys", "list", NULL);
    char *key = redis_text(redis, "SRANDMEMBER channels:api_keys");
    expect_tool(redis, url, "keys", "revoke", key);
    assert_int_equal(redis_integer(redis, "SCARD channels:api_keys"), 1);
    free(key);
    free(url);
}

/* A card that needs a closer look is among them. */
static void work_as_verifier(struct redis *redis)
{
    char *url = url_of(redis, "verifier", "FIFTH");
    redis_do(redis, "EVAL %s 0", "redis.call('HSET', 'channels:card:0', 'title', string.rep('x', 2000000))");
    expect_tool(redis, url, "verify", NULL, NULL);
    free(url);
}

TEST_CASE(each_documented_user_of_channelctl_can_do_its_work_and_no_other)
{
    static const char *const denied[][2] = {
        {"loader", "sadd channels:api_keys x"},
        {"loader", "smembers channels:api_keys"},
        {"loader", "set other:key x"},
        {"loader", "flushall"},
        {"issuer", "hmget channels:card:0 x"},
        {"issuer", "del channels:api_keys"},
        {"issuer", "sadd channels:index x"},
        {"verifier", "sadd channels:api_keys x"},
        {"verifier", "hset channels:card:0 a b"},
        {"verifier", "get other:key"},
        {"verifier", "del channels:index"},
    };
    struct redis redis;
    redis_start(&redis, NULL);
    make_user(&redis, "loader", NULL);
    make_user(&redis, "issuer", NULL);
    make_user(&redis, "verifier", NULL);
    work_as_loader(&redis);
    work_as_issuer(&redis);
    work_as_verifier(&redis);
    char *denials = redis_words(&redis, "ACL LOG");
    assert_string_equal(denials, "");
    for (size_t i = 0; i < TEST_COUNT(denied); i++)
        expect_denied(&redis, denied[i][0], denied[i][1]);
    free(denials);
    redis_stop(&redis);
}

TEST_CASE(documented_users_are_enough_with_sentinels)
{
    static const char *const env[] = {"CHANNELD_REDIS_SENTINEL_USER=watcher",
                                      "CHANNELD_REDIS_SENTINEL_PASSWORD=THIRD", NULL};
    struct redis redis;
    struct redis sentinel;
    struct fixture f;
    memset(&f, 0, sizeof f);
    redis_start(&redis, NULL);
    catalogue_issue_key(&redis, FIXTURE_KEY);
    catalogue_put(&redis, "{\"max_channel_id\":1,\"title\":\"t\"}", 1);
    make_user(&redis, "channeld", NULL);
    sentinel_start(&sentinel, &(struct sentinel_spec){SENTINEL_MASTER, redis.port, 1, NULL, NULL});
    make_user(&sentinel, "watcher", NULL);
    char *url = text_printf(
        "redis+sentinel://channeld:SECRET@127.0.0.1:%d/" SENTINEL_MASTER "/0?role=replica", sentinel.port);
    struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&f.server, &spec);
    assert_int_equal(fixture_status(&f, "channel/by-id/1/"), 200);
    assert_int_equal(fixture_status(&f, "channels/"), 200);
    char *list = redis_text(&sentinel, "CLIENT LIST");
    assert_int_equal(text_count(list, "sub=1 "), 2); /* a worker each: they are told of switches */
    free(list);
    server_stop(&f.server);
    free(url);
    redis_stop(&sentinel);
    redis_stop(&redis);
}
