/*
 * Settings of Redis that change while channeld runs: which changes it moves to, and what wrong ones cost.
 * What that means for requests under load is in faults/rotation.c.
 */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/secret.h"
#include "support/sentinel.h"

static const char CARD[] = "{\"max_channel_id\":1,\"title\":\"t\"}";
static const char RELOADS[] = "channeld_redis_config_reloads_total{result=\"ok\"}";
static const char FAILURES[] = "channeld_redis_config_reloads_total{result=\"error\"}";
static const char PENDING[] = "channeld_redis_config_pending";

/* A Redis with a user whose passwords change, and a channeld that takes URL and password from a secret. */
struct bed {
    struct redis redis;
    struct secret secret;
    struct fixture fixture;
    const char *url;
};

static void fill(struct redis *redis, const char *card)
{
    catalogue_issue_key(redis, FIXTURE_KEY);
    catalogue_put(redis, card, 1);
}

static int begin(void **state)
{
    struct bed *bed = calloc(1, sizeof *bed);
    assert_non_null(bed);
    redis_start(&bed->redis, NULL);
    fill(&bed->redis, CARD);
    redis_do(&bed->redis, "ACL SETUSER channeld on >hush1 ~* +@all");
    bed->url = text_temp("redis://channeld@127.0.0.1:%d", bed->redis.port);
    secret_init(&bed->secret);
    SECRET(&bed->secret, {"url", bed->url}, {"password", "hush1\n"});
    fixture_serve(&bed->fixture, NULL,
                  ENV(text_temp("CHANNELD_REDIS_URL_FILE=%s", secret_path(&bed->secret, "url")),
                      text_temp("CHANNELD_REDIS_PASSWORD_FILE=%s", secret_path(&bed->secret, "password"))),
                  SERVER_WAIT_READY);
    server_await_metric_below(&bed->fixture.server, PENDING, 0);
    *state = bed;
    return 0;
}

/* No secret is in the log, whatever happened. */
static int end(void **state)
{
    struct bed *bed = *state;
    AUTOFREE char *log = fixture_stop_server(&bed->fixture);
    assert_null(strstr(log, "hush"));
    fixture_fini(&bed->fixture);
    secret_fini(&bed->secret);
    redis_stop(&bed->redis);
    free(bed);
    return 0;
}

static void hang_up(struct bed *bed)
{
    process_signal(&bed->fixture.server.process, SIGHUP);
}

static double metric(struct bed *bed, const char *name)
{
    return server_metric(&bed->fixture.server, name);
}

/* The value of a labelled sample, which server_metric() would sum up. */
static double sample(struct bed *bed, const char *name)
{
    AUTOFREE char *all = server_metrics(&bed->fixture.server);
    const char *found = strstr(all, text_temp("\n%s ", name));
    assert_non_null(found);
    return strtod(found + strlen(name) + 2, NULL);
}

struct expected {
    struct bed *bed;
    const char *name;
    double value;
};

static bool has_value(void *arg)
{
    const struct expected *e = arg;
    return sample(e->bed, e->name) >= e->value;
}

static void await_sample(struct bed *bed, const char *name, double at_least)
{
    struct expected e = {bed, name, at_least};
    if (!wait_until(has_value, &e, WAIT_DEADLINE_MS))
        fail_msg("%s is below %g", name, at_least);
}

/* All workers use the new values after that many reloads. */
static void await_moved(struct bed *bed, int reloads)
{
    await_sample(bed, RELOADS, reloads);
    server_await_metric_below(&bed->fixture.server, PENDING, 0);
}

/* Not one connection has been lost so far, and requests are served. */
static void expect_undisturbed(struct bed *bed)
{
    assert_int_equal((int)metric(bed, "channeld_redis_connected"), 2);
    assert_int_equal(server_admin_status(&bed->fixture.server, "/readyz"), 200);
    assert_int_equal(fixture_status(&bed->fixture, "channel/by-id/1/"), 200);
    AUTOFREE char *log = server_log(&bed->fixture.server);
    assert_null(strstr(log, "redis connection lost"));
}

TEST_CASE_WITH(password_that_redis_learns_later, begin, end)
{
    struct bed *bed = *state;
    SECRET(&bed->secret, {"url", bed->url}, {"password", "hush2"});
    await_sample(bed, RELOADS, 1);
    server_await_log(&bed->fixture.server, "WRONGPASS");
    assert_int_equal((int)metric(bed, PENDING), 2);
    expect_undisturbed(bed);
    redis_do(&bed->redis, "ACL SETUSER channeld >hush2");
    await_moved(bed, 1);
    redis_do(&bed->redis, "ACL SETUSER channeld <hush1");
    server_expect_log(&bed->fixture.server, "all workers use the reloaded redis settings", 1);
    expect_undisturbed(bed);
}

/* The file is not looked at in time, and the connections are closed: the attempts that follow use it. */
TEST_CASE_WITH(connections_that_are_lost_come_back_with_the_new_password, begin, end)
{
    struct bed *bed = *state;
    for (int i = 1; i <= 5; i++) {
        redis_do(&bed->redis, "ACL SETUSER channeld <hush%d >hush%d", i, i + 1);
        SECRET(&bed->secret, {"url", bed->url}, {"password", text_temp("hush%d", i + 1)});
        redis_do(&bed->redis, "CLIENT KILL USER channeld");
        server_await_metric(&bed->fixture.server, "channeld_redis_connects_total", 2 + 2 * i);
        assert_int_equal((int)sample(bed, RELOADS), i);
        assert_int_equal(fixture_status(&bed->fixture, "channel/by-id/1/"), 200);
    }
    AUTOFREE char *log = server_log(&bed->fixture.server);
    assert_null(strstr(log, "\"level\":\"error\""));
}

TEST_CASE_WITH(bad_values_are_logged_once_and_change_nothing, begin, end)
{
    struct bed *bed = *state;
    const struct {
        const char *url, *password, *reason;
    } rows[] = {
        {bed->url, "", "CHANNELD_REDIS_PASSWORD_FILE: the file is empty"},
        {"", "hush1", "CHANNELD_REDIS_URL_FILE: the file is empty"},
        {"redis://channeld:hush1@", "hush1", "CHANNELD_REDIS_URL_FILE: the host is missing"},
        {"rediss+sentinel://h", "hush1", "CHANNELD_REDIS_URL_FILE: the name of the master is missing"}};
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        SECRET(&bed->secret, {"url", rows[i].url}, {"password", rows[i].password});
        await_sample(bed, FAILURES, (double)i + 1);
        server_expect_log(&bed->fixture.server, rows[i].reason, 1);
    }
    assert_int_equal((int)metric(bed, "channeld_redis_config_last_reload_successful"), 0);
    assert_int_equal((int)metric(bed, PENDING), 0);
    expect_undisturbed(bed);
    SECRET(&bed->secret, {"url", bed->url}, {"password", "hush1\n"});
    server_await_metric(&bed->fixture.server, "channeld_redis_config_last_reload_successful", 1);
    assert_int_equal((int)sample(bed, FAILURES), (int)TEST_COUNT(rows));
    assert_int_equal((int)metric(bed, "channeld_redis_connects_total"), 2); /* nothing has changed */
}

TEST_CASE_WITH(sighup_reads_all_at_once, begin, end)
{
    struct bed *bed = *state;
    hang_up(bed);
    server_await_log(&bed->fixture.server, "\"reloaded\":\"redis-url redis-password\"");
    server_await_log(&bed->fixture.server,
                     "\"msg\":\"settings reloaded\",\"read\":\"redis-url redis-password\"");
    redis_do(&bed->redis, "ACL SETUSER channeld >hush2");
    SECRET(&bed->secret, {"url", bed->url}, {"password", "hush2"});
    hang_up(bed);
    await_moved(bed, 2);
    expect_undisturbed(bed);
}

TEST_CASE_WITH(another_redis_by_another_user, begin, end)
{
    struct bed *bed = *state;
    struct redis other;
    redis_start(&other, NULL);
    redis_do(&other, "ACL SETUSER reader on >hush9 ~* +@all");
    SECRET(&bed->secret, {"url", text_temp("redis://reader@127.0.0.1:%d/1", other.port)},
           {"password", "hush9"});
    server_await_log(&bed->fixture.server, "neither the index nor the set of API keys exists");
    expect_undisturbed(bed); /* by the Redis that has a catalogue */
    redis_do(&other, "SELECT 1");
    fill(&other, "{\"max_channel_id\":1,\"title\":\"other\"}");
    await_moved(bed, 1);
    AUTOFREE char *card = fixture_body(&bed->fixture, "channel/by-id/1/");
    json_assert_at(card, "data.title", "\"other\"");
    redis_kill(&bed->redis); /* nothing of it is needed any more */
    expect_undisturbed(bed);
    redis_do(&other, "HSET channels:card:1 title changed");
    fixture_await_text(&bed->fixture, "channel/by-id/1/", "changed", true);
    redis_stop(&other);
}

/* To the same Redis by its Sentinels, whose own password changes then, and back. */
TEST_CASE_WITH(sentinels_come_and_go, begin, end)
{
    struct bed *bed = *state;
    struct redis sentinel;
    sentinel_start(&sentinel, &(struct sentinel_spec){SENTINEL_MASTER, bed->redis.port, 1, NULL, NULL});
    const char *by_sentinel =
        text_temp("redis+sentinel://channeld@127.0.0.1:%d/" SENTINEL_MASTER, sentinel.port);
    SECRET(&bed->secret, {"url", by_sentinel}, {"password", "hush1"});
    await_moved(bed, 1);
    server_await_metric(&bed->fixture.server, "channeld_sentinels_connected", 2);
    expect_undisturbed(bed);
    SECRET(&bed->secret, {"url", bed->url}, {"password", "hush1"});
    await_moved(bed, 2);
    server_await_metric_below(&bed->fixture.server, "channeld_sentinels_connected", 0);
    expect_undisturbed(bed);
    redis_stop(&sentinel);
}
