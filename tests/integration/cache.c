/* What is remembered, that it is true again as soon as Redis has changed, and what it may be used for without
 * Redis. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "support/fixture.h"
#include "support/proxy.h"

static const char *const ONE_WORKER[] = {"CHANNELD_WORKERS=1", NULL};
static const char *const NO_CACHE[] = {"CHANNELD_WORKERS=1", "CHANNELD_CACHE_SIZE=0", NULL};

static double commands(struct fixture *f)
{
    return server_metric(&f->server, "channeld_redis_commands_total");
}

/* Waits until an answer holds the text: what changed must show without any further cause. */
struct expectation {
    struct fixture *fixture;
    const char *path;
    const char *text;
    bool wanted;
};

static bool shows(void *arg)
{
    struct expectation *e = arg;
    struct http_response response;
    fixture_get(e->fixture, e->path, &response);
    bool found = response.body != NULL && strstr(response.body, e->text) != NULL;
    http_response_free(&response);
    return found == e->wanted;
}

static void await(struct fixture *f, const char *path, const char *text, bool wanted)
{
    struct expectation e = {f, path, text, wanted};
    if (!wait_until(shows, &e, 2000))
        fail_msg("%s: %s \"%s\"", path, wanted ? "never shows" : "still shows", text);
}

TEST_CASE(repeated_requests_cost_redis_nothing)
{
    static const char *const paths[] = {"channel/by-id/5/", "channel/by-link/?link=https://max.ru/five",
                                        "channel/by-link/?link=https://web.max.ru/five", "channels/",
                                        "channels/?page=9"};
    struct fixture *f = fixture_new(3, ONE_WORKER);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\",\"link\":\"https://max.ru/five\"}", 5);
    for (size_t i = 0; i < TEST_COUNT(paths); i++)
        assert_int_equal(fixture_status(f, paths[i]), 200);
    double before = commands(f);
    double hits = server_metric(&f->server, "channeld_cache_hits_total");
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < TEST_COUNT(paths); i++)
            assert_int_equal(fixture_status(f, paths[i]), 200);
    assert_true(commands(f) == before);
    assert_true(server_metric(&f->server, "channeld_cache_hits_total") == hits + 50);
    fixture_free(f);
}

TEST_CASE(wrong_keys_and_missing_channels_cost_redis_nothing)
{
    struct fixture *f = fixture_new(3, ONE_WORKER);
    struct http_response response;
    assert_int_equal(fixture_status(f, "channel/by-id/404/"), 404);
    assert_int_equal(fixture_status(f, "channel/by-link/?link=https://max.ru/nobody"), 404);
    double before = commands(f);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(fixture_status(f, "channel/by-id/404/"), 404);
        assert_int_equal(fixture_status(f, "channel/by-link/?link=https://max.ru/nobody"), 404);
        http_get(f->server.port, "/api/channels/", "X-Api-Key: wrong\r\n", &response);
        assert_int_equal(response.status, 401);
        http_response_free(&response);
    }
    assert_true(commands(f) == before);
    fixture_free(f);
}

TEST_CASE(without_a_cache_every_request_reads_redis)
{
    struct fixture *f = fixture_new(3, NO_CACHE);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\"}", 5);
    double before = commands(f);
    for (int i = 0; i < 10; i++)
        assert_int_equal(fixture_status(f, "channel/by-id/5/"), 200);
    assert_true(commands(f) == before + 20); /* key and card */
    redis_do(&f->redis, "HSET channels:card:5 title changed");
    char *body = fixture_body(f, "channel/by-id/5/"); /* at once, without waiting */
    assert_non_null(strstr(body, "changed"));
    free(body);
    fixture_free(f);
}

/* Its card comes along with the verdict on the key; it must neither be told nor kept for ever. */
TEST_CASE(a_wrong_key_gets_nothing_of_an_existing_card)
{
    struct fixture *f = fixture_new(3, NO_CACHE);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\"}", 5);
    for (int i = 0; i < 10; i++)
        assert_int_equal(http_get_status(f->server.port, "/api/channel/by-id/5/", "X-Api-Key: wrong\r\n"),
                         401);
    fixture_free(f); /* under AddressSanitizer a leak is an exit code other than 0 */
}

TEST_CASE(a_changed_card_shows_everywhere)
{
    struct fixture *f = fixture_new(3, ONE_WORKER);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\",\"link\":\"https://max.ru/five\"}", 5);
    for (int version = 0; version < 5; version++) {
        char title[32];
        (void)snprintf(title, sizeof title, "version-%d", version);
        await(f, "channels/", "\"max_channel_id\":5", true);
        redis_do(&f->redis, "HSET channels:card:5 title %s", title);
        await(f, "channel/by-id/5/", title, true);
        await(f, "channel/by-link/?link=https://max.ru/five", title, true);
        await(f, "channels/", title, true);
    }
    fixture_free(f);
}

static bool costs_nothing(void *arg)
{
    struct fixture *f = arg;
    double before = commands(f);
    assert_int_equal(fixture_status(f, "channels/"), 200);
    return commands(f) == before;
}

/* Of the other channels of the page nothing is read again. */
TEST_CASE(a_changed_card_costs_its_page_one_read)
{
    struct fixture *f = fixture_new(100, ONE_WORKER);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\"}", -1);
    await(f, "channels/", "\"five\"", true);
    assert_true(wait_until(costs_nothing, f, WAIT_DEADLINE_MS));
    double before = commands(f);
    redis_do(&f->redis, "HSET channels:card:5 title changed");
    await(f, "channels/", "\"changed\"", true);
    assert_true(commands(f) == before + 1);
    fixture_free(f);
}

/*
 * What a page is made of changes while Redis is asked for it, and what is read then is the new value: only
 * the page as a whole is not remembered. The next one is put together without Redis.
 */
TEST_CASE(a_page_that_was_overtaken_is_made_of_what_was_read)
{
    static const char invalidations[] = "channeld_cache_invalidations_total";
    struct fixture f;
    struct http_conn conn;
    struct http_response response;
    redis_start(&f.redis, NULL);
    catalogue_issue_key(&f.redis, FIXTURE_KEY);
    catalogue_put_samples(&f.redis, 3);
    struct proxy *line = proxy_new(f.redis.port);
    char *url = text_printf("redis://127.0.0.1:%d", proxy_port(line));
    server_start(&f.server, &(struct server_spec){url, ONE_WORKER, SERVER_WAIT_READY});
    assert_int_equal(fixture_status(&f, "channels/"), 200);
    double told = server_metric(&f.server, invalidations);
    redis_do(&f.redis, "HSET channels:card:%lld title first", (long long)catalogue_id(1));
    server_await_metric(&f.server, invalidations, told + 1);
    double asked = commands(&f);
    proxy_set_blackhole(line, PROXY_UP);
    http_start_get(&conn, f.server.port, "/api/channels/", FIXTURE_AUTH);
    server_await_metric(&f.server, "channeld_redis_commands_total", asked + 1);
    redis_do(&f.redis, "HSET channels:card:%lld title second", (long long)catalogue_id(1));
    server_await_metric(&f.server, invalidations, told + 2);
    proxy_restore(line);
    assert_int_equal(http_read(&conn, false, &response), 0);
    assert_non_null(strstr(response.body, "\"second\""));
    char *again = fixture_body(&f, "channels/");
    assert_string_equal(again, response.body);
    assert_true(commands(&f) == asked + 1);
    http_response_free(&response);
    http_close(&conn);
    server_stop(&f.server);
    proxy_free(line);
    redis_stop(&f.redis);
    free(again);
    free(url);
}

TEST_CASE(a_changed_index_keeps_the_summaries)
{
    struct fixture *f = fixture_new(100, ONE_WORKER);
    assert_int_equal(fixture_status(f, "channels/"), 200);
    double before = commands(f);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"first\"}", -1);
    await(f, "channels/", "\"first\"", true);
    assert_true(commands(f) <=
                before + 2 * 3); /* size, ids, the new one; twice if the card came in between */
    redis_do(&f->redis, "ZREM channels:index 5");
    await(f, "channels/", "\"first\"", false);
    fixture_free(f);
}

TEST_CASE(what_did_not_exist_appears)
{
    struct fixture *f = fixture_new(1, ONE_WORKER);
    assert_int_equal(fixture_status(f, "channel/by-id/5/"), 404);
    assert_int_equal(fixture_status(f, "channel/by-link/?link=https://max.ru/five"), 404);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\",\"link\":\"https://max.ru/five\"}", 5);
    await(f, "channel/by-id/5/", "five", true);
    await(f, "channel/by-link/?link=https://max.ru/five", "five", true);
    redis_do(&f->redis, "DEL channels:card:5");
    await(f, "channel/by-id/5/", "not found", true);
    await(f, "channel/by-link/?link=https://max.ru/five", "not found", true);
    fixture_free(f);
}

/* A channel that the index names before it has a card shows on its page as soon as it has one. */
TEST_CASE(a_card_that_comes_after_the_index_joins_its_page)
{
    struct fixture *f = fixture_new(3, ONE_WORKER);
    redis_do(&f->redis, "ZADD channels:index -1 5");
    await(f, "channels/", "\"count\":3", true);
    redis_do(&f->redis, "HSET channels:card:5 max_channel_id 5 title late");
    await(f, "channels/", "\"late\"", true);
    fixture_free(f);
}

TEST_CASE(a_revoked_key_stops_and_a_new_one_works)
{
    struct fixture *f = fixture_new(1, ONE_WORKER);
    char digest[65];
    assert_int_equal(fixture_status(f, "channels/"), 200);
    catalogue_digest(FIXTURE_KEY, digest);
    redis_do(&f->redis, "SREM channels:api_keys %s", digest);
    await(f, "channels/", "Invalid or missing API key", true);
    redis_do(&f->redis, "SADD channels:api_keys %s", digest);
    await(f, "channels/", "\"success\":true", true);
    fixture_free(f);
}

/* Where it leaves a catalogue; where it does not: no_catalogue.c. */
TEST_CASE(flushall_empties_the_memory_too)
{
    struct fixture *f = fixture_new(3, ONE_WORKER);
    assert_int_equal(fixture_status(f, "channels/"), 200);
    redis_do(&f->redis, "MULTI");
    redis_do(&f->redis, "FLUSHALL");
    catalogue_issue_key(&f->redis, FIXTURE_KEY);
    redis_do(&f->redis, "EXEC");
    await(f, "channels/", "\"count\":0", true);
    fixture_free(f);
}

/* Its first replies come when nobody waits for it any more: what was read by then is not the page. */
TEST_CASE(a_page_that_was_given_up_half_way_is_not_remembered)
{
    struct fixture *f = fixture_new(3, ONE_WORKER);
    struct http_conn conn;
    assert_int_equal(fixture_status(f, "channel/by-id/0/"), 200); /* the keys are known */
    double asked = commands(f);
    redis_pause(&f->redis);
    assert_int_equal(http_open(&conn, f->server.port), 0);
    assert_int_equal(http_send_text(&conn, "GET /api/channels/ HTTP/1.1\r\nHost: a\r\n" FIXTURE_AUTH "\r\n"),
                     0);
    server_await_metric(&f->server, "channeld_redis_commands_total", asked + 1);
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(conn.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    http_close(&conn);
    server_await_metric_below(&f->server, "channeld_requests_in_flight", 0);
    redis_resume(&f->redis);
    assert_int_equal(fixture_status(f, "channel/by-id/777/"), 404); /* this reply stands behind those */
    char *body = fixture_body(f, "channels/");
    assert_non_null(strstr(body, "\"count\":3"));
    free(body);
    fixture_free(f);
}

/* A new connection knows nothing of what was written meanwhile, so nothing of before may be answered. */
TEST_CASE(a_new_connection_begins_with_nothing)
{
    struct fixture *f = fixture_new(3, ONE_WORKER);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"old\"}", 5);
    await(f, "channel/by-id/5/", "\"old\"", true);
    redis_do_argv(&f->redis, 4, (const char *const[]){"CLIENT", "KILL", "TYPE", "normal"}, NULL);
    redis_do(&f->redis, "HSET channels:card:5 title new");
    await(f, "channel/by-id/5/", "\"new\"", true);
    fixture_free(f);
}

TEST_CASE(memory_answers_while_redis_is_away_but_not_for_ever)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_STALE_LIMIT=1s",
                                      "CHANNELD_REQUEST_TIMEOUT=300ms", NULL};
    struct fixture *f = fixture_new(3, env);
    catalogue_put(&f->redis, "{\"max_channel_id\":5,\"title\":\"five\"}", 5);
    assert_int_equal(fixture_status(f, "channel/by-id/5/"), 200);
    redis_kill(&f->redis);
    server_await_metric_below(&f->server, "channeld_redis_connected", 0);
    assert_int_equal(fixture_status(f, "channel/by-id/5/"), 200);
    assert_true(server_metric(&f->server, "channeld_cache_stale_hits_total") >= 1);
    assert_int_equal(fixture_status(f, "channel/by-id/6/"), 500); /* not in memory */
    await(f, "channel/by-id/5/", "Internal server error", true);
    fixture_free(f);
}

TEST_CASE(keys_may_be_trusted_for_less_time_than_data)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", "CHANNELD_STALE_KEYS_LIMIT=0",
                                      "CHANNELD_REQUEST_TIMEOUT=300ms", NULL};
    struct fixture *f = fixture_new(3, env);
    assert_int_equal(fixture_status(f, "channels/"), 200);
    redis_kill(&f->redis);
    server_await_metric_below(&f->server, "channeld_redis_connected", 0);
    await(f, "channels/", "Internal server error", true);
    fixture_free(f);
}
