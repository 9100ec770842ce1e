/*
 * A Redis with neither an index nor API keys: emptied, or started without its data. It is as one that is
 * still loading: memory answers for the stale limit, then 500; never a 401 for a good key, a 404 or a page
 * with holes.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/proxy.h"

#define CARD "channel/by-id/-9223372036854775808/"

enum { CHANNELS = 3, CLIENTS = 4, RECOVERY_MS = 2000 };

static const char GAUGE[] = "channeld_catalogue_missing";
static const char CONNECTED[] = "channeld_redis_connected";

static const char *const CACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms", NULL};
static const char *const UNCACHED[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms",
                                       "CHANNELD_CACHE_SIZE=0", NULL};

static char *readiness(struct fixture *f)
{
    struct http_response response;
    http_get(f->server.admin_port, "/readyz?verbose", NULL, &response);
    char *text = text_printf("%d %s", response.status, response.body);
    http_response_free(&response);
    return text;
}

static void expect_readiness(struct fixture *f, const char *first, const char *second)
{
    char *text = readiness(f);
    if (strstr(text, first) == NULL || strstr(text, second) == NULL)
        fail_msg("%s", text);
    free(text);
}

/* The whole catalogue comes back at once. */
static void put_catalogue(struct fixture *f)
{
    redis_do(&f->redis, "MULTI");
    catalogue_put_samples(&f->redis, CHANNELS);
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    redis_do(&f->redis, "EXEC");
}

static bool is_served(void *arg)
{
    return fixture_status(arg, CARD) == 200;
}

static void await_recovery(struct fixture *f)
{
    int64_t began = wait_now_ms();
    assert_true(wait_until(is_served, f, WAIT_DEADLINE_MS));
    server_await_metric_below(&f->server, GAUGE, 0);
    assert_in_range(wait_now_ms() - began, 0, RECOVERY_MS + wait_slack_ms());
    server_await_admin(&f->server, "/readyz", 200);
}

static void await_missing(struct fixture *f)
{
    server_await_metric(&f->server, GAUGE, 1);
    server_await_metric_below(&f->server, CONNECTED, 0);
}

/* ---- from the start ---- */

static void begin_empty(struct fixture *f, const char *const *env)
{
    memset(f, 0, sizeof *f);
    redis_start(&f->redis, NULL);
    server_start(&f->server, &(struct server_spec){f->redis.url, env, SERVER_WAIT_LISTENING});
    await_missing(f);
}

static void end(struct fixture *f)
{
    server_stop(&f->server);
    redis_stop(&f->redis);
}

TEST_CASE(it_is_not_ready_before_there_is_one)
{
    const char *const *const envs[] = {CACHED, UNCACHED};
    for (size_t i = 0; i < TEST_COUNT(envs); i++) {
        struct fixture f;
        begin_empty(&f, envs[i]);
        expect_readiness(&f, "503 ", "\n[-]redis not connected yet\n[-]catalogue missing\n");
        assert_int_equal(fixture_status(&f, CARD), 500);
        assert_int_equal(fixture_status(&f, "channels/"), 500);
        assert_int_equal(server_admin_status(&f.server, "/livez"), 200);
        server_await_log(&f.server, "no catalogue");
        put_catalogue(&f);
        await_recovery(&f);
        assert_int_equal(fixture_status(&f, "channel/by-id/424242/"), 404);
        expect_readiness(&f, "200 ", "\n[+]redis ok\n[+]catalogue ok\n");
        end(&f);
    }
}

TEST_CASE(half_of_it_is_a_catalogue)
{
    const char *const *const envs[] = {CACHED, UNCACHED};
    for (size_t i = 0; i < TEST_COUNT(envs); i++) {
        struct fixture f;
        begin_empty(&f, envs[i]);
        catalogue_put_samples(&f.redis, 2);
        server_await_metric(&f.server, CONNECTED, 1);
        assert_int_equal(fixture_status(&f, CARD), 401); /* an index without keys */
        redis_do(&f.redis, "MULTI");
        redis_do(&f.redis, "DEL channels:index");
        catalogue_issue_key(&f.redis, FIXTURE_KEY);
        redis_do(&f.redis, "EXEC");
        assert_true(wait_until(is_served, &f, WAIT_DEADLINE_MS));
        char *body = fixture_body(&f, "channels/"); /* keys without an index */
        assert_non_null(strstr(body, "\"count\":0"));
        free(body);
        assert_int_equal(fixture_status(&f, "channel/by-id/424242/"), 404);
        assert_true(server_metric(&f.server, "channeld_redis_connects_total") < 2);
        end(&f);
    }
}

/* ---- lost meanwhile ---- */

static void flush(struct redis *redis)
{
    redis_do(redis, "FLUSHALL");
}

static void flush_the_database(struct redis *redis)
{
    redis_do(redis, "FLUSHDB");
}

static void delete_both(struct redis *redis)
{
    redis_do(redis, "DEL channels:index channels:api_keys");
}

static void delete_one_by_one(struct redis *redis)
{
    redis_do(redis, "DEL channels:index");
    redis_do(redis, "DEL channels:api_keys");
}

static void start_without_data(struct redis *redis)
{
    redis_kill(redis);
    redis_restart(redis);
}

static void remember_everything(struct fixture *f, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(fixture_status(f, paths[i]), 200);
    double before = server_metric(&f->server, "channeld_redis_commands_total");
    for (size_t i = 0; i < count; i++)
        assert_int_equal(fixture_status(f, paths[i]), 200);
    assert_true(server_metric(&f->server, "channeld_redis_commands_total") == before);
}

TEST_CASE(memory_goes_on_without_it)
{
    static void (*const losses[])(struct redis * redis) = {flush, flush_the_database, delete_both,
                                                           delete_one_by_one, start_without_data};
    static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms",
                                      "CHANNELD_STALE_LIMIT=60s", NULL};
    for (size_t i = 0; i < TEST_COUNT(losses); i++) {
        struct fixture *f = fixture_new(CHANNELS, env);
        char *link = catalogue_link(1);
        char *by_link = text_printf("channel/by-link/?link=%s", link);
        const char *const paths[] = {CARD, by_link, "channels/", "channels/?page=9"};
        size_t count =
            losses[i] == delete_one_by_one ? 2 : TEST_COUNT(paths); /* the list was empty for a moment */
        remember_everything(f, paths, TEST_COUNT(paths));
        losses[i](&f->redis);
        await_missing(f);
        for (size_t n = 0; n < 2 * count; n++)
            assert_int_equal(fixture_status(f, paths[n % count]), 200);
        assert_int_equal(fixture_status(f, "channel/by-id/424242/"), 500);
        assert_int_equal(http_get_status(f->server.port, "/api/" CARD, "X-Api-Key: wrong\r\n"), 401);
        expect_readiness(f, "\n[+]redis lost ", " ago, serving from memory\n");
        expect_readiness(f, "200 ", "\n[+]catalogue missing\n");
        put_catalogue(f);
        await_recovery(f);
        assert_int_equal(fixture_status(f, "channel/by-id/424242/"), 404);
        fixture_free(f);
        free(by_link);
        free(link);
    }
}

static bool is_unavailable(void *arg)
{
    int status = fixture_status(arg, CARD);
    assert_true(status == 200 || status == 500);
    return status == 500;
}

TEST_CASE(memory_ends_with_the_stale_limit)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_REQUEST_TIMEOUT=300ms",
                                      "CHANNELD_STALE_LIMIT=1s", NULL};
    struct fixture *f = fixture_new(CHANNELS, env);
    assert_int_equal(fixture_status(f, CARD), 200);
    redis_do(&f->redis, "FLUSHALL");
    assert_true(wait_until(is_unavailable, f, WAIT_DEADLINE_MS));
    server_await_admin(&f->server, "/readyz", 503);
    expect_readiness(f, "\n[-]redis lost ", " s ago, longer than the stale limit\n");
    expect_readiness(f, "503 ", "\n[-]catalogue missing\n");
    put_catalogue(f);
    await_recovery(f);
    fixture_free(f);
}

/* What memory says is absent was absent before; what Redis says to be absent now is not. */
TEST_CASE(what_was_not_found_before_stays_so_and_nothing_else)
{
    struct fixture *f = fixture_new(CHANNELS, CACHED);
    assert_int_equal(fixture_status(f, "channel/by-id/424242/"), 404);
    assert_int_equal(fixture_status(f, "channel/by-id/424242/"), 404);
    redis_do(&f->redis, "FLUSHALL");
    await_missing(f);
    assert_int_equal(fixture_status(f, "channel/by-id/424242/"), 404);
    assert_int_equal(fixture_status(f, "channel/by-id/424243/"), 500);
    fixture_free(f);
}

TEST_CASE(an_idle_uncached_worker_notices_too)
{
    struct fixture *f = fixture_new(CHANNELS, UNCACHED);
    redis_do(&f->redis, "FLUSHALL");
    await_missing(f);
    assert_int_equal(fixture_status(f, CARD), 500);
    fixture_free(f);
}

/* ---- what is no loss ---- */

TEST_CASE(a_flush_of_another_database_costs_the_memory_alone)
{
    struct fixture *f = fixture_new(CHANNELS, CACHED);
    assert_int_equal(fixture_status(f, CARD), 200);
    double flushes = server_metric(&f->server, "channeld_cache_flushes_total");
    redis_do(&f->redis, "SELECT 1");
    redis_do(&f->redis, "FLUSHDB");
    server_await_metric(&f->server, "channeld_cache_flushes_total", flushes + 1);
    assert_int_equal(fixture_status(f, CARD), 200);
    assert_int_equal(fixture_status(f, "channel/by-id/424242/"), 404);
    assert_true(server_metric(&f->server, "channeld_redis_disconnects_total") < 1);
    assert_true(server_metric(&f->server, GAUGE) < 1);
    fixture_free(f);
}

/* Then nothing can be done but to believe Redis; the log says so once. */
TEST_CASE(without_the_right_to_look_it_is_not_noticed)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    redis_start(&f.redis, NULL);
    redis_do(&f.redis, "ACL SETUSER default -scard -zcard");
    server_start(&f.server, &(struct server_spec){f.redis.url, CACHED, SERVER_WAIT_READY});
    assert_int_equal(fixture_status(&f, CARD), 401);
    put_catalogue(&f);
    assert_true(wait_until(is_served, &f, WAIT_DEADLINE_MS));
    assert_int_equal(fixture_status(&f, "channel/by-id/424242/"), 404);
    char *log = server_log(&f.server);
    assert_int_equal(text_count(log, "a missing catalogue cannot be noticed"), 1);
    free(log);
    end(&f);
}

/* Redis is asked while it is empty, and is not any more when its answer is looked at. */
TEST_CASE(what_comes_back_meanwhile_is_read_again)
{
    static const struct {
        const char *const *env;
        const char *path, *command;
    } cases[] = {{CACHED, CARD, "hmget"},
                 {CACHED, "channels/", "zcard"},
                 {UNCACHED, CARD, "sismember"},
                 {UNCACHED, "channels/", "sismember"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct fixture f;
        struct http_conn conn;
        struct http_response response;
        memset(&f, 0, sizeof f);
        redis_start(&f.redis, NULL);
        put_catalogue(&f);
        struct proxy *line = proxy_new(f.redis.port);
        char *url = text_printf("redis://127.0.0.1:%d", proxy_port(line));
        const char *const env[] = {"CHANNELD_WORKERS=1",
                                   cases[i].env == UNCACHED ? "CHANNELD_CACHE_SIZE=0" : NULL, NULL};
        server_start(&f.server, &(struct server_spec){url, env, SERVER_WAIT_READY});
        assert_int_equal(fixture_status(&f, "channel/by-id/0/"), 200); /* the key is known */
        long long asked = redis_calls(&f.redis, cases[i].command);
        char *target = text_printf("/api/%s", cases[i].path);
        char *request = http_format("GET", target, FIXTURE_AUTH);
        proxy_set_blackhole(line, PROXY_DOWN);
        redis_do(&f.redis, "FLUSHALL");
        assert_int_equal(http_open(&conn, f.server.port), 0);
        assert_int_equal(http_send_text(&conn, request), 0);
        while (redis_calls(&f.redis, cases[i].command) == asked)
            assert_false(http_is_readable(&conn, 1));
        put_catalogue(&f);
        proxy_restore(line);
        assert_int_equal(http_read(&conn, false, &response), 0);
        if (response.status != 200 || strstr(response.body, "\"count\":0") != NULL)
            fail_msg("%zu: %d %s", i, response.status, response.body);
        assert_true(server_metric(&f.server, "channeld_redis_disconnects_total") < 1);
        http_response_free(&response);
        http_close(&conn);
        server_stop(&f.server);
        proxy_free(line);
        redis_stop(&f.redis);
        free(request);
        free(target);
        free(url);
    }
}

/* ---- under load ---- */

struct clients {
    int port;
    atomic_bool stopping;
    atomic_int answers[600]; /* by status */
    atomic_int holes;        /* pages without all of their channels */
};

static void judge(struct clients *clients, const struct http_response *response, bool page)
{
    atomic_fetch_add(&clients->answers[response->status], 1);
    if (page && response->status == 200 && strstr(response->body, "\"count\":3,") == NULL)
        atomic_fetch_add(&clients->holes, 1);
}

static void *run_client(void *arg)
{
    static const char *const paths[] = {"/api/" CARD, "/api/channels/"};
    struct clients *clients = arg;
    for (size_t i = 0; !atomic_load(&clients->stopping); i++) {
        struct http_conn conn;
        struct http_response response;
        char *request = http_format("GET", paths[i % 2], FIXTURE_AUTH);
        if (http_open(&conn, clients->port) == 0) {
            if (http_send_text(&conn, request) == 0 && http_read(&conn, false, &response) == 0) {
                judge(clients, &response, i % 2 == 1);
                http_response_free(&response);
            }
            http_close(&conn);
        }
        free(request);
    }
    return NULL;
}

/* Whatever is under way when it goes and comes back. */
TEST_CASE(nobody_is_told_that_nothing_exists)
{
    enum { ROUNDS = 15 };
    const char *const *const envs[] = {CACHED, UNCACHED};
    for (size_t i = 0; i < TEST_COUNT(envs); i++) {
        struct fixture *f = fixture_new(CHANNELS, envs[i]);
        struct clients clients = {.port = f->server.port};
        pthread_t thread[CLIENTS];
        for (size_t n = 0; n < CLIENTS; n++)
            assert_int_equal(pthread_create(&thread[n], NULL, run_client, &clients), 0);
        for (int round = 0; round < ROUNDS; round++) {
            assert_true(wait_until(is_served, f, WAIT_DEADLINE_MS));
            redis_do(&f->redis, round % 2 == 0 ? "FLUSHALL" : "DEL channels:index channels:api_keys");
            if (round % 3 > 0)
                await_missing(f);
            put_catalogue(f);
        }
        atomic_store(&clients.stopping, true);
        for (size_t n = 0; n < CLIENTS; n++)
            assert_int_equal(pthread_join(thread[n], NULL), 0);
        assert_int_equal(atomic_load(&clients.answers[401]), 0);
        assert_int_equal(atomic_load(&clients.answers[404]), 0);
        assert_int_equal(atomic_load(&clients.holes), 0);
        assert_true(atomic_load(&clients.answers[200]) > 0);
        fixture_free(f);
    }
}
