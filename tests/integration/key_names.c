/*
 * Names and expiries of API keys as they change and as time passes: issued by channelctl or written by any
 * program, they work at once. What shows them, and what does not: tests/integration/requests/keys.http.
 */

#include <stdlib.h>
#include <string.h>

#include "support/ctl.h"
#include "support/fixture.h"

#define CARD "channel/by-id/0/"

enum { CHANNELS = 3, MANY_KEYS = 100001 };

/* Keys above the number that is held are checked in Redis. */
static struct fixture *begin(const char *setting)
{
    return fixture_new(CHANNELS, ENV("CHANNELD_ACCESS_LOG=all", setting));
}

/* A new key, owned. */
static char *issue(struct fixture *f, const char *name, const char *expires)
{
    const char *args[7] = {"keys", "issue"};
    size_t count = 2;
    if (name != NULL) {
        args[count++] = "--name";
        args[count++] = name;
    }
    if (expires != NULL) {
        args[count++] = "--expires";
        args[count++] = expires;
    }
    struct ctl_run run = ctl_run_at(&f->redis, args);
    assert_int_equal(run.status, 0);
    free(run.err);
    run.out[strcspn(run.out, "\n")] = '\0';
    return run.out;
}

/* Writes the info of a key as any program may; NULL: removes it. */
static void set_info(struct fixture *f, const char *key, const char *info)
{
    char digest[65];
    catalogue_digest(key, digest);
    if (info != NULL)
        redis_do(&f->redis, "HSET channels:api_key_info %s %s", digest, info);
    else
        redis_do(&f->redis, "HDEL channels:api_key_info %s", digest);
}

static int status_of(struct fixture *f, const char *key, const char *path)
{
    AUTOFREE char *header = text_printf("X-Api-Key: %s\r\n", key);
    AUTOFREE char *target = text_printf("/api/%s", path);
    return http_get_status(f->server.port, target, header);
}

struct expected {
    struct fixture *fixture;
    const char *key;
    int status;
};

static bool is_as_expected(void *arg)
{
    const struct expected *e = arg;
    return status_of(e->fixture, e->key, CARD) == e->status;
}

static void await_status(struct fixture *f, const char *key, int status)
{
    struct expected e = {f, key, status};
    if (!wait_until(is_as_expected, &e, WAIT_DEADLINE_MS))
        fail_msg("%d expected, the last was %d", status, status_of(f, key, CARD));
}

/* A request by the key is logged with this name. */
struct logged {
    struct fixture *fixture;
    const char *key, *name;
};

static bool is_logged(void *arg)
{
    const struct logged *l = arg;
    AUTOFREE char *text = text_printf("\"key_name\":\"%s\"", l->name);
    (void)status_of(l->fixture, l->key, CARD);
    AUTOFREE char *log = server_log(&l->fixture->server);
    return strstr(log, text) != NULL;
}

static void await_name(struct fixture *f, const char *key, const char *name)
{
    struct logged l = {f, key, name};
    if (!wait_until(is_logged, &l, WAIT_DEADLINE_MS))
        fail_msg("%s is not in the log", name);
}

/* ---- expiries ---- */

TEST_CASE(a_key_works_until_its_expiry_and_then_no_more)
{
    AUTO(fixture_drop) struct fixture *f = begin(NULL);
    AUTOFREE char *lasting = issue(f, "lasting", "1d");
    AUTOFREE char *brief = issue(f, "brief", "5s");
    await_status(f, lasting, 200);
    await_status(f, brief, 200);
    await_status(f, brief, 401);
    assert_int_equal(status_of(f, brief, "channels/"), 401);
    assert_int_equal(status_of(f, brief, "channels/?page=0"), 401);
    assert_int_equal(status_of(f, lasting, CARD), 200);
    server_await_log(&f->server, "\"key_name\":\"brief\"");
}

/* Each key is checked in Redis, and the results are cached. */
SLOW_TEST(keys_of_a_set_that_is_too_large_to_be_held_expire)
{
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_WORKERS=1");
    catalogue_issue_keys(&f->redis, MANY_KEYS);
    AUTOFREE char *key = issue(f, "one-of-many", "3s");
    await_status(f, key, 200);
    await_status(f, key, 401);
    double commands = server_metric(&f->server, "channeld_redis_commands_total");
    assert_int_equal(status_of(f, key, CARD), 401);
    assert_true(server_metric(&f->server, "channeld_redis_commands_total") == commands);
    await_name(f, key, "one-of-many");
    set_info(f, key, "{\"name\":\"renewed\"}");
    await_status(f, key, 200);
    await_name(f, key, "renewed");
}

TEST_CASE(keys_expire_while_redis_is_lost)
{
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_WORKERS=1");
    AUTOFREE char *key = issue(f, "orphan", "6s");
    await_status(f, key, 200);
    await_status(f, FIXTURE_KEY, 200);
    redis_kill(&f->redis);
    server_await_metric_below(&f->server, "channeld_redis_connected", 0);
    await_status(f, key, 401);
    assert_int_equal(status_of(f, FIXTURE_KEY, CARD), 200); /* from the cache */
}

TEST_CASE(an_expiry_that_cannot_be_read_refuses_the_key_and_is_logged_once)
{
    static const char *const infos[] = {"{\"name\":\"x\",\"expires\":\"tomorrow\"}", "tomorrow"};
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_WORKERS=1");
    await_status(f, FIXTURE_KEY, 200);
    for (size_t i = 0; i < TEST_COUNT(infos); i++) {
        set_info(f, FIXTURE_KEY, infos[i]);
        await_status(f, FIXTURE_KEY, 401);
        set_info(f, FIXTURE_KEY, "{\"name\":\"not a name\"}");
        await_status(f, FIXTURE_KEY, 200);
    }
    assert_true(server_metric(&f->server, "channeld_invalid_values_total") > 0);
    server_await_log(&f->server, "invalid API key info in redis");
    AUTOFREE char *log = fixture_stop_server(f);
    assert_in_range(text_count(log, "invalid API key info in redis"), 1, 2); /* alone, and of the set */
}

/* ---- names ---- */

TEST_CASE(a_new_name_is_used_at_once_and_revocation_removes_it)
{
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_WORKERS=1");
    AUTOFREE char *key = issue(f, "before", NULL);
    await_name(f, key, "before");
    set_info(f, key, "{\"name\":\"after\"}");
    await_name(f, key, "after");
    struct ctl_run run = ctl_run_at(&f->redis, (const char *const[]){"keys", "revoke", key, NULL});
    ctl_expect(run, 0, "revoked\n", NULL);
    await_status(f, key, 401);
    assert_int_equal(redis_integer(&f->redis, "EXISTS channels:api_key_info"), 0);
}

/* ---- metrics ---- */

#define SERIES(name, status_class) \
    "channeld_key_requests_total{name=\"" name "\",status_class=\"" status_class "\"}"

/* The value of a series, or -1. */
static double value_of(const char *metrics, const char *series)
{
    const char *at = strstr(metrics, series);
    return at == NULL ? -1 : strtod(at + strlen(series), NULL);
}

/* Whether they have names or not, and whichever workers know them. */
TEST_CASE(next_expiry_of_a_key_is_shown)
{
    const char *metric = "channeld_api_key_next_expiry_timestamp_seconds";
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_WORKERS=2");
    fixture_expect_metric(f, metric, 0);
    AUTOFREE char *last = issue(f, NULL, "2100-01-01T00:00:01Z");
    await_status(f, last, 200);
    server_await_metric(&f->server, metric, 4102444801);
    AUTOFREE char *soon = issue(f, "soon", "7s");
    server_await_metric_below(&f->server, metric, 4102444800);
    assert_true(server_metric(&f->server, metric) > 0);
    server_await_metric(&f->server, metric, 4102444801);
    assert_int_equal(status_of(f, soon, CARD), 401);
    set_info(f, last, NULL);
    server_await_metric_below(&f->server, metric, 0);
}

/* Both sides of the limit. */
TEST_CASE(two_hundred_names_are_counted_and_the_others_together)
{
    enum { NAMES = 200 };
    AUTO(fixture_drop)
    struct fixture *f = fixture_new(CHANNELS, ENV("CHANNELD_WORKERS=1", "CHANNELD_KEY_METRICS=on"));
    for (int i = 0; i <= NAMES; i++) {
        AUTOFREE char *info = text_printf("{\"name\":\"client-%d\"}", i);
        AUTOFREE char *key = text_printf("key %d", i);
        catalogue_issue_key(&f->redis, key);
        set_info(f, key, info);
    }
    AUTOFREE char *last = text_printf("key %d", NAMES);
    await_status(f, last, 200); /* all are known, and this one has a place */
    for (int i = 0; i <= NAMES; i++) {
        AUTOFREE char *key = text_printf("key %d", i);
        assert_int_equal(status_of(f, key, CARD), 200);
    }
    AUTOFREE char *metrics = server_metrics(&f->server);
    assert_int_equal(text_count(metrics, "\nchanneld_key_requests_total{name=\"client-"), NAMES);
    assert_true(value_of(metrics, SERIES("client-198", "2xx")) == 1);
    assert_true(value_of(metrics, SERIES("client-199", "2xx")) == -1);
    assert_true(value_of(metrics, SERIES("other", "2xx")) == 1);
}
