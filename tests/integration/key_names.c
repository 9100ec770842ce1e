/*
 * Names and expiries of API keys: issued by channelctl or written by any program, they work at once, show in
 * the access log and in the metrics, and in no response.
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
    set_info(f, brief, "{\"expires\":\"2999-01-01T00:00:00Z\"}"); /* renewed */
    await_status(f, brief, 200);
    set_info(f, brief, "{\"expires\":\"2020-01-01T00:00:00Z\"}");
    await_status(f, brief, 401);
    set_info(f, brief, NULL);
    await_status(f, brief, 200);
}

static void expect_expiry_in_time(const char *setting)
{
    AUTO(fixture_drop) struct fixture *f = begin(setting);
    AUTOFREE char *key = issue(f, "x", "4s");
    await_status(f, key, 200);
    await_status(f, key, 401);
}

TEST_CASE(keys_expire_without_a_cache)
{
    expect_expiry_in_time("CHANNELD_CACHE_SIZE=0");
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

/* An error is never a permission: what the ACL hides may be an expiry. */
TEST_CASE(a_hidden_or_misplaced_info_is_an_error_until_it_is_corrected)
{
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_WORKERS=1");
    await_status(f, FIXTURE_KEY, 200);
    redis_do(&f->redis, "SET channels:api_key_info text");
    await_status(f, FIXTURE_KEY, 500);
    redis_do(&f->redis, "DEL channels:api_key_info");
    await_status(f, FIXTURE_KEY, 200);
    redis_do(&f->redis, "ACL SETUSER default -hget -hlen");
    redis_do(&f->redis, "SADD channels:api_keys another");
    await_status(f, FIXTURE_KEY, 500);
    redis_do(&f->redis, "ACL SETUSER default +hget");
    await_status(f, FIXTURE_KEY, 200);
}

/* ---- names ---- */

TEST_CASE(the_access_log_has_the_name_of_a_key_and_of_no_other)
{
    AUTO(fixture_drop) struct fixture *f = begin(NULL);
    AUTOFREE char *key = issue(f, "dashboards", NULL);
    await_status(f, key, 200);
    assert_int_equal(status_of(f, FIXTURE_KEY, CARD), 200);
    assert_int_equal(status_of(f, "wrong", CARD), 401);
    char *log = fixture_stop_server(f);
    char *rest = NULL;
    char digest[65];
    catalogue_digest(key, digest);
    AUTOFREE char *of_key = text_printf("\"key\":\"%.8s\"", digest);
    int named = 0;
    for (char *line = strtok_r(log, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        bool accepted = strstr(line, "\"status\":200") != NULL && strstr(line, of_key) != NULL;
        assert_int_equal(strstr(line, "\"key_name\":\"dashboards\"") != NULL, accepted);
        named += accepted;
    }
    free(log);
    assert_true(named > 0);
}

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

/* In 13 portions at least; the cards are read by HMGET as well, but only one of them. */
static bool infos_are_read(void *arg)
{
    return redis_calls(arg, "hmget") > 13;
}

/* Many thousands are read in portions. */
SLOW_TEST(every_key_of_a_large_set_has_its_own_name)
{
    enum { KEYS = 12000, STEP = 3999 };
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_WORKERS=1");
    catalogue_issue_keys(&f->redis, KEYS);
    for (int i = 1; i < KEYS; i += STEP) {
        AUTOFREE char *name = text_printf("name-%d", i);
        AUTOFREE char *key = issue(f, name, NULL);
        await_name(f, key, name);
    }
    assert_true(wait_until(infos_are_read, &f->redis, WAIT_DEADLINE_MS));
}

static void expect_nowhere(struct fixture *f, const char *key, const char *path)
{
    AUTO(http_response_free) struct http_response response;
    AUTOFREE char *header = text_printf("X-Api-Key: %s\r\nOrigin: http://a\r\n", key);
    AUTOFREE char *target = text_printf("/api/%s", path);
    http_get(f->server.port, target, header, &response);
    for (size_t i = 0; i < response.header_count; i++)
        assert_null(strstr(response.headers[i].value, "the-secret-name"));
    assert_null(strstr(response.body, "the-secret-name"));
}

TEST_CASE(no_response_has_the_name_of_a_key)
{
    static const char *const paths[] = {CARD,
                                        "channels/",
                                        "channels/?page=0",
                                        "channels/?page=9",
                                        "channel/by-id/424242/",
                                        "channel/by-link/?link=https%3A%2F%2Fmax.ru%2Fsample_2",
                                        "nothing/"};
    AUTO(fixture_drop)
    struct fixture *f = fixture_new(
        CHANNELS, ENV("CHANNELD_ACCESS_LOG=all", "CHANNELD_KEY_METRICS=on", "CHANNELD_CORS_ORIGINS=*"));
    AUTOFREE char *key = issue(f, "the-secret-name", "1d");
    await_name(f, key, "the-secret-name");
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        expect_nowhere(f, key, paths[i]);
    set_info(f, key, "{\"name\":\"the-secret-name\",\"expires\":\"2020-01-01T00:00:00Z\"}");
    await_status(f, key, 401);
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        expect_nowhere(f, key, paths[i]);
}

/* ---- metrics ---- */

#define SERIES(name, status_class) \
    "channeld_key_requests_total{name=\"" name "\",status_class=\"" status_class "\"}"

#define REFUSED(name, reason) "channeld_key_refused_total{name=\"" name "\",reason=\"" reason "\"}"

/* The value of a series, or -1. */
static double value_of(const char *metrics, const char *series)
{
    const char *at = strstr(metrics, series);
    return at == NULL ? -1 : strtod(at + strlen(series), NULL);
}

TEST_CASE(requests_are_counted_by_the_name_of_their_key)
{
    AUTO(fixture_drop) struct fixture *f = begin("CHANNELD_KEY_METRICS=on");
    AUTOFREE char *key = issue(f, "counted", NULL);
    AUTOFREE char *expiring = issue(f, "late", "2s");
    await_status(f, key, 200);
    await_status(f, expiring, 401);
    AUTOFREE char *before = server_metrics(&f->server);
    for (int i = 0; i < 5; i++)
        assert_int_equal(status_of(f, key, CARD), 200);
    assert_int_equal(status_of(f, key, "channels/?page=0"), 400);
    assert_int_equal(status_of(f, FIXTURE_KEY, CARD), 200);
    assert_int_equal(status_of(f, expiring, CARD), 401);
    assert_int_equal(status_of(f, "wrong", CARD), 401);
    AUTOFREE char *after = server_metrics(&f->server);
    assert_true(value_of(after, SERIES("counted", "2xx")) == value_of(before, SERIES("counted", "2xx")) + 5);
    assert_true(value_of(after, SERIES("counted", "4xx")) == 1);
    assert_true(value_of(after, SERIES("", "2xx")) == value_of(before, SERIES("", "2xx")) + 1);
    assert_true(value_of(after, SERIES("", "4xx")) == -1);
    assert_true(value_of(after, SERIES("late", "4xx")) == value_of(before, SERIES("late", "4xx")) + 1);
    assert_true(value_of(after, SERIES("other", "2xx")) == 0);
    assert_true(value_of(after, REFUSED("late", "expired")) == value_of(after, SERIES("late", "4xx")));
    assert_true(value_of(after, REFUSED("late", "rate")) == 0);
    assert_true(value_of(after, REFUSED("counted", "expired")) == 0);
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

/* They are answered before the key is looked at. */
TEST_CASE(requests_over_the_rate_are_counted_and_logged_by_name)
{
    AUTO(fixture_drop)
    struct fixture *f =
        fixture_new(CHANNELS, ENV("CHANNELD_WORKERS=1", "CHANNELD_KEY_METRICS=on", "CHANNELD_KEY_RATE=2/m"));
    AUTOFREE char *key = issue(f, "eager", NULL);
    await_status(f, key, 429);
    server_await_log(&f->server, "\"key_name\":\"eager\"");
    AUTOFREE char *metrics = server_metrics(&f->server);
    assert_true(value_of(metrics, SERIES("eager", "4xx")) >= 1);
    assert_true(value_of(metrics, REFUSED("eager", "rate")) == value_of(metrics, SERIES("eager", "4xx")));
}

TEST_CASE(names_are_in_no_metric_unless_they_are_wanted)
{
    AUTO(fixture_drop) struct fixture *f = begin(NULL);
    AUTOFREE char *key = issue(f, "sampled-client", NULL);
    await_name(f, key, "sampled-client");
    AUTOFREE char *metrics = server_metrics(&f->server);
    assert_null(strstr(metrics, "channeld_key_requests_total"));
    assert_null(strstr(metrics, "channeld_key_refused_total"));
    assert_null(strstr(metrics, "sampled-client"));
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
