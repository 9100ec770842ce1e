/*
 * The cache through its door, on a connection to Redis that the test plays: what is served from the cache,
 * what is fetched, and what the coming and going of connections mean for requests.
 */
#include "cache/cache.h"

#include "cache/key_reader.h"
#define ENTRIES_CHECK_WRAP
#include "unit/entries_check.h"
#include "unit/fixtures/cache_connection.h"
#include "unit/fixtures/redis_config.h"

enum { BUDGET = 1 << 20, STALE_LIMIT_MS = 30000, STALE_KEYS_LIMIT_MS = 10000, TIMEOUT_MS = 500 };

static struct redis_connection *const connection = &connections[0];

/* With all that was sent on it. */
static void lose(void)
{
    connection_lose(connection);
    fake_redis_fail_all(connection);
    fake_redis_fail_all(&redirects);
}

/* --- the cache, and requests --- */

enum { REQUESTS = 8 };

static uv_loop_t loop;
static struct keyspace keyspace;
static struct cache_metrics metrics;
static struct redis_metrics redis_metrics;
static struct loop_lag loop_lag;
static struct cache *cache;
static bool closed;

static struct asked {
    struct cache_request request;
    bool done;
    struct cache_result result; /* without its body */
    struct api_key_name name;   /* of its key */
    char body[2048];
} asked[REQUESTS];

static void take(struct asked *a, const struct cache_result *result)
{
    a->done = true;
    a->result = *result;
    a->name = *result->key_name;
    a->body[0] = '\0';
    if (result->body != NULL)
        (void)snprintf(a->body, sizeof a->body, "%.*s", (int)result->body->len, result->body->data);
    blob_unref(result->body);
    a->result.body = NULL;
}

static void on_done(void *arg, const struct cache_result *result)
{
    struct asked *a = arg;
    assert_false(a->done);
    take(a, result);
}

static const struct span LINK = {"https://max.ru/x", 16};
static const char GET_LINK[] = "UNTRACKED GET test:link:https://max.ru/x";

/* Of the card that has the link. */
static const struct redis_reply *reply_linked(const char *id, const char *title)
{
    return reply_linked_card(id, title, LINK.data);
}

/* Request number `i`, on behalf of the valid key. */
static const struct asked *get_as(int i, char key, enum cache_query_type type, int64_t number)
{
    struct asked *a = &asked[i];
    struct cache_query q = {.type = type, .number = number};
    struct cache_result result;
    if (type == QUERY_CARD_BY_LINK)
        q.link = LINK;
    memset(&q.key, key, sizeof q.key);
    *a = (struct asked){.request = {.done = on_done, .arg = a}};
    if (cache_get(cache, &a->request, &q, &result))
        take(a, &result);
    return a;
}

static const struct asked *get(int i, enum cache_query_type type, int64_t number)
{
    return get_as(i, 'k', type, number);
}

static void expect(const struct asked *a, enum cache_status status, enum cache_source source)
{
    assert_true(a->done);
    assert_int_equal(a->result.status, status);
    assert_int_equal(a->result.source, source);
}

/* It comes from the cache. */
static void expect_hit(const struct asked *a, enum cache_status status)
{
    expect(a, status, CACHE_SOURCE_HIT);
}

static void on_connection(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

static void on_closed(void *arg)
{
    (void)arg;
    closed = true;
}

static void answer_check(int64_t keys)
{
    answer("SCARD test:api_keys", reply_integer(keys));
}

/* The digest of 32 times 'k', in hex. */
#define KEY_HEX "6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b"

static bool in_cluster; /* the next one */

static void expect_idle(void)
{
    if (fake_redis.count > 0)
        fail_msg("%s", fake_redis_next());
}

#define PORTION(key) "*2\r\n$1\r\n0\r\n*1\r\n$64\r\n" key "\r\n"

/* Of one key. In a cluster some key has an info: otherwise they are checked one by one. */
static void answer_infos(void)
{
    answer("HLEN test:api_key_info", reply_integer(in_cluster));
    answer("HMGET test:api_key_info ", reply_of("*1\r\n_\r\n"));
}

/* Whether the one key is a member. */
static void answer_key_check(int member)
{
    answer_infos();
    answer("SMISMEMBER test:api_keys ", reply_of(member ? "*1\r\n:1\r\n" : "*1\r\n:0\r\n"));
}

static void answer_portion(void)
{
    answer("SSCAN test:api_keys 0 COUNT 24", reply_of(PORTION(KEY_HEX)));
}

static void answer_api_keys(void)
{
    answer_portion();
    answer_infos();
    answer_check(1);
}

static void finish_handshake(void)
{
    connection_shake_hands(connection);
    if (!connection->was_ready)
        answer_permissions();
}

/* The handshake is over; the catalogue is there. */
static void connect_redis(void)
{
    connection->last_pong_ms = clock_ms;
    finish_handshake();
    answer_check(1);
    assert_true(connection->ready);
}

static void push(const char *key)
{
    const struct redis_reply *reply = key == NULL ? reply_of("_\r\n") : reply_string(key);
    connection->options.on_push(connection->options.arg, SPAN("invalidate"), reply);
}

static void heartbeat(void)
{
    connection->last_pong_ms = clock_ms;
    connection->options.on_heartbeat(connection->options.arg);
}

static void reconnect(void)
{
    lose();
    connect_redis();
    answer_api_keys();
}

static int set_up_with(size_t cache_size)
{
    connections_init();
    clock_ms = 1000000;
    metrics = (struct cache_metrics){0};
    closed = false;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(keyspace_init(&keyspace, SPAN("test:")), 0);
    struct redis_config *config = config_numbered(1);
    config->endpoint.discovery.kind = in_cluster ? REDIS_DISCOVERY_CLUSTER : REDIS_DISCOVERY_NONE;
    const struct cache_options options = {.redis = config,
                                          .keyspace = &keyspace,
                                          .metrics = &metrics,
                                          .redis_metrics = &redis_metrics,
                                          .loop_lag = &loop_lag,
                                          .request_timeout_ms = TIMEOUT_MS,
                                          .cache_size = cache_size,
                                          .stale_limit_ms = STALE_LIMIT_MS,
                                          .stale_keys_limit_ms = STALE_KEYS_LIMIT_MS,
                                          .on_connection = on_connection};
    int err = cache_new(&loop, &options, &cache);
    redis_config_unref(config);
    return err;
}

static int set_up_uncached(void **state)
{
    (void)state;
    assert_int_equal(set_up_with(0), 0);
    connection->untracked = true;
    connect_redis();
    return 0;
}

/* Connected, and the API keys are known. */
static int set_up(void **state)
{
    (void)state;
    assert_int_equal(set_up_with(BUDGET), 0);
    connect_redis();
    answer_api_keys();
    assert_int_equal(fake_redis.count, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    entries_check(cache_entries);
    cache_close(cache, on_closed, NULL);
    connection_finish_closing();
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
    in_cluster = false;
    return 0;
}

static int set_up_in_cluster(void **state)
{
    in_cluster = true;
    return set_up(state);
}

static void answer_no_info(void)
{
    answer("HGET test:api_key_info ", reply_of("_\r\n"));
}

static void answer_auth(int64_t member)
{
    answer_no_info();
    answer("SISMEMBER test:api_keys ", reply_integer(member));
}

/* Redis replies that the key is valid, where it was asked, and with card 7. */
static void expect_fetched(const struct asked *a, bool with_key, const char *title)
{
    if (with_key)
        answer_auth(1);
    answer("HMGET test:card:7 ", reply_linked("7", title));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
}

/* Puts card 7 into the cache. */
static void cache_card(const char *title)
{
    const struct asked *a = get(0, QUERY_CARD, 7);
    assert_false(a->done);
    expect_fetched(a, false, title);
}

static void cache_page(void)
{
    const struct asked *a = get(0, QUERY_PAGE, 1);
    answer("ZCARD", reply_integer(2));
    answer("ZRANGE", reply_words("1 2"));
    answer("HMGET test:card:1 ", reply_summary("1", "one"));
    answer("HMGET test:card:2 ", reply_summary("2", "two"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
}

/* --- hits and misses --- */

TEST_CASE_WITH(a_card_is_fetched_once_and_then_a_hit, set_up, tear_down)
{
    cache_card("seven");
    const struct asked *a = get(1, QUERY_CARD, 7);
    expect_hit(a, CACHE_FOUND);
    assert_string_equal(a->body, asked[0].body);
    assert_int_equal(metrics.cache_hits_total, 1);
    assert_int_equal(metrics.cache_misses_total, 1);
    expect_hit(get(1, QUERY_AUTH_ONLY, 0), CACHE_FOUND);
    expect_hit(get_as(1, 'x', QUERY_CARD, 7), CACHE_KEY_INVALID);
    expect_hit(get_as(1, 'x', QUERY_CARD, 8), CACHE_KEY_INVALID);
    assert_int_equal(fake_redis.count, 0);
}

TEST_CASE_WITH(requests_for_the_same_share_one_fetch, set_up, tear_down)
{
    const struct asked *first = get(0, QUERY_CARD, 7);
    const struct asked *second = get(1, QUERY_CARD, 7);
    const struct asked *third = get(2, QUERY_CARD, 7);
    assert_int_equal(fake_redis.count, 1);
    assert_int_equal(metrics.cache_coalesced_total, 2);
    cache_cancel(&asked[2].request);
    expect_fetched(first, false, "seven");
    expect(second, CACHE_FOUND, CACHE_SOURCE_COALESCED);
    assert_false(third->done);
    assert_string_equal(first->body, second->body);
}

/* Later the link may lead elsewhere, which nothing would tell. */
TEST_CASE_WITH(requests_for_a_link_share_its_fetch_until_the_link_is_read, set_up, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD_BY_LINK, 0);
    const struct asked *b = get(1, QUERY_CARD_BY_LINK, 0);
    assert_int_equal(metrics.cache_coalesced_total, 1);
    answer(GET_LINK, reply_string("7"));
    const struct asked *c = get(2, QUERY_CARD_BY_LINK, 0);
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    const struct asked *d = get(3, QUERY_CARD_BY_LINK, 0); /* which joins the one before */
    assert_int_equal(metrics.cache_coalesced_total, 2);
    answer(GET_LINK, reply_string("8"));
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    const struct asked *e = get(4, QUERY_CARD_BY_LINK, 0); /* nor during a second look */
    assert_int_equal(metrics.cache_coalesced_total, 2);
    answer(GET_LINK, reply_string("7"));
    answer("HMGET test:card:8 ", reply_linked("8", "eight"));
    expect(c, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect(d, CACHE_FOUND, CACHE_SOURCE_COALESCED);
    answer(GET_LINK, reply_string("8"));
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    answer(GET_LINK, reply_string("7"));
    answer("HMGET test:card:8 ", reply_linked("8", "eight"));
    expect(e, CACHE_FOUND, CACHE_SOURCE_MISS);
    answer_check(1);
    expect(a, CACHE_NOT_FOUND, CACHE_SOURCE_MISS);
    expect(b, CACHE_NOT_FOUND, CACHE_SOURCE_COALESCED);
}

TEST_CASE_WITH(a_page_is_composed_again_when_one_summary_has_changed, set_up, tear_down)
{
    cache_page();
    expect_hit(get(1, QUERY_PAGE, 1), CACHE_FOUND);
    assert_int_equal(asked[1].result.last_page, 1);
    push("test:card:2");
    const struct asked *a = get(1, QUERY_PAGE, 1);
    answer("HMGET test:card:2 ", reply_summary("2", "new"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    assert_non_null(strstr(a->body, "new"));
    expect_hit(get(1, QUERY_PAGE, 1), CACHE_FOUND);
    assert_non_null(strstr(asked[1].body, "new"));
}

/* A page that was in flight when its channel changed leaves the new summary behind, and the page without
 * body. */
TEST_CASE_WITH(a_page_whose_summaries_are_all_cached_needs_no_redis, set_up, tear_down)
{
    cache_page();
    push("test:card:2");
    (void)get(1, QUERY_PAGE, 1);
    push("test:card:1");
    answer("HMGET test:card:2 ", reply_summary("2", "new"));
    const struct asked *a = get(2, QUERY_PAGE, 1);
    answer("HMGET test:card:1 ", reply_summary("1", "newer"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_hit(get(2, QUERY_PAGE, 1), CACHE_FOUND);
    assert_int_equal(fake_redis.count, 0);
}

TEST_CASE_WITH(a_page_beyond_the_last_is_a_hit_where_the_index_is_known, set_up, tear_down)
{
    cache_page();
    const struct asked *a = get(1, QUERY_PAGE, 2);
    expect_hit(a, CACHE_FOUND);
    assert_int_equal(a->result.last_page, 1);
    assert_non_null(strstr(a->body, "\"data\":[]"));
    push("test:index");
    (void)get(1, QUERY_PAGE, 2); /* and not while its change is deferred */
    assert_false(asked[1].done);
    answer_check(1);
    answer("ZCARD", reply_integer(2));
    answer("ZRANGE", reply_words(""));
    assert_true(asked[1].done);
    lose();
}

/* --- freshness --- */

/* Of a process that was stopped, for example: invalidations may wait there. */
static void leave_socket_undrained(void)
{
    connection->drained_ms = clock_ms;
    clock_ms += BACKLOG_MS + 1;
}

/* One turn of the loop. */
static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

/* Redis need not be asked: it may be busy. */
TEST_CASE_WITH(what_is_cached_is_served_once_the_socket_is_read, set_up, tear_down)
{
    cache_card("seven");
    cache_page();
    leave_socket_undrained();
    (void)get(0, QUERY_CARD, 7);
    (void)get(1, QUERY_CARD_BY_LINK, 0);
    (void)get(2, QUERY_PAGE, 1);
    (void)get_as(3, 'x', QUERY_CARD, 7);
    (void)get(4, QUERY_CARD, 7);
    cache_cancel(&asked[4].request);
    turn(); /* its input came after this poll, for example */
    clock_ms += BACKLOG_MS + 1;
    for (int i = 0; i <= 4; i++)
        assert_false(asked[i].done);
    connection->drained_ms = clock_ms; /* more waits already; that came later than these requests */
    clock_ms += BACKLOG_MS + 1;
    turn();
    for (int i = 0; i <= 2; i++)
        expect_hit(&asked[i], CACHE_FOUND);
    expect_hit(&asked[3], CACHE_KEY_INVALID);
    assert_false(asked[4].done);
    assert_non_null(strstr(asked[1].body, "seven"));
    assert_int_equal(asked[2].result.last_page, 1);
    assert_int_equal(fake_redis.count, 0);
}

/* --- invalidations --- */

static void expect_name(const struct asked *a, const char *name)
{
    assert_int_equal(a->name.len, strlen(name));
    assert_memory_equal(a->name.text, name, strlen(name));
}

/* The set is read again, and this is the info of its key. */
static void answer_info(const char *info)
{
    static char text[256];
    answer_portion();
    answer("HLEN test:api_key_info", reply_integer(1));
    (void)snprintf(text, sizeof text, "*1\r\n$%zu\r\n%s\r\n", strlen(info), info);
    answer("HMGET test:api_key_info ", reply_of(text));
    answer_check(1);
}

#define NAMED_INFO "{\"name\":\"dash\",\"expires\":\"2026-01-01T00:00:01Z\"}"

TEST_CASE_WITH(a_key_has_its_name_on_hits_and_misses_until_it_expires, set_up, tear_down)
{
    wall_s = 1767225600; /* 2026-01-01T00:00:00Z */
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_key_info");
    answer_check(1);
    answer_info(NAMED_INFO);
    cache_card("seven");
    expect_name(&asked[0], "dash");
    const struct asked *a = get(1, QUERY_CARD, 7);
    expect_hit(a, CACHE_FOUND);
    expect_name(a, "dash");
    a = get_as(1, 'x', QUERY_CARD, 7);
    expect_hit(a, CACHE_KEY_INVALID);
    assert_int_equal(a->name.len, -1);
    wall_s++;
    a = get(1, QUERY_CARD, 7);
    expect_hit(a, CACHE_KEY_INVALID);
    expect_name(a, "dash");
    lose();
    a = get(1, QUERY_CARD, 7);
    expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_STALE);
    wall_s--;
    expect(get(1, QUERY_CARD, 7), CACHE_FOUND, CACHE_SOURCE_STALE);
    wall_s = 0;
}

TEST_CASE_WITH(without_a_cache_the_info_is_read_with_each_request, set_up_uncached, tear_down)
{
    wall_s = 1767225600;
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_CARD, 7);
        answer("HGET test:api_key_info ", reply_string(NAMED_INFO));
        answer("SISMEMBER", reply_integer(1));
        answer("HMGET test:card:7 ", reply_card("7", "seven"));
        if (i > 0) { /* as after any absence, it is read again */
            answer_check(1);
            answer("HGET test:api_key_info ", reply_string(NAMED_INFO));
            answer("SISMEMBER", reply_integer(1));
            answer("HMGET test:card:7 ", reply_card("7", "seven"));
            answer_check(1);
        }
        expect(a, i == 0 ? CACHE_FOUND : CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
        expect_name(a, "dash");
        wall_s++;
    }
    wall_s = 0;
}

/* Redis may evict them from its tracking table, which is an invalidation as well, hundreds of times per
 * second. */
TEST_CASE_WITH(keys_that_change_again_and_again_are_not_read_each_time, set_up, tear_down)
{
    cache_card("seven");
    push("test:api_keys");
    answer_check(1);
    for (int i = 0; i < 5; i++) {
        push("test:api_keys");
        assert_int_equal(fake_redis.count, 0);
        clock_ms += 2;
        (void)get(0, QUERY_CARD, 7);
        (void)get(1, QUERY_CARD, 7); /* which waits for the next check, and need not */
        answer_key_check(1);
        expect_hit(&asked[0], CACHE_FOUND);
        expect_hit(&asked[1], CACHE_FOUND);
        expect_hit(get(1, QUERY_CARD, 7), CACHE_FOUND);
        assert_int_equal(fake_redis.count, 0);
    }
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    heartbeat();
    if (strncmp(fake_redis_next(), "HMGET test:card", 15) == 0) /* the audit */
        answer("HMGET", reply_card("7", "seven"));
    answer_check(1);
    answer_portion(); /* of a key that is confirmed */
    answer_check(1);
    expect_hit(get(0, QUERY_CARD, 7), CACHE_FOUND);
    expect_hit(get_as(1, 'x', QUERY_CARD, 7), CACHE_KEY_INVALID);
}

/* --- the audit --- */

/* A heartbeat at which the audit reads card 7, and finds another title. */
static void suspect_card(void)
{
    cache_card("seven");
    for (int i = 0; fake_redis.count == 0 && i < 100; i++) {
        heartbeat();
        if (strncmp(fake_redis_next(), "SCARD", 5) == 0)
            answer_check(1);
    }
    answer("HMGET test:card:7 ", reply_card("7", "other"));
    answer_check(1);
    heartbeat();
    answer_check(1);
}

TEST_CASE_WITH(a_change_that_was_not_told_suspends_the_cache, set_up, tear_down)
{
    suspect_card();
    expect_hit(get(1, QUERY_CARD, 7), CACHE_FOUND);
    heartbeat();
    answer_check(1);
    assert_int_equal(metrics.cache_audit_failures_total, 1);
    assert_int_equal(metrics.cache_suspended, 1);
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(1, QUERY_CARD, 7);
        expect_fetched(a, true, "other");
    }
    heartbeat(); /* no audit any more */
    answer_check(1);
    assert_int_equal(fake_redis.count, 0);
    reconnect();
    assert_int_equal(metrics.cache_suspended, 0);
    cache_card("other");
}

/* --- the queue --- */

enum { LATE_MS = TIMEOUT_MS / 10 + 1, TOO_LATE_MS = TIMEOUT_MS * 3 / 4 + 1 };

static void fetch_slowly(int64_t id, const char *title)
{
    char digits[32];
    const struct asked *a = get(0, QUERY_CARD, id);
    clock_ms += LATE_MS;
    (void)snprintf(digits, sizeof digits, "%d", (int)id);
    answer("HMGET test:card:", reply_linked(digits, title));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
}

/* Redis replies so late that no more than four commands may be in flight, and four are: cards 7 to 10. */
static void fill_window(void)
{
    cache_card("at once");
    push("test:card:7");
    for (int64_t id = 100; id < 110; id++)
        fetch_slowly(id, "slow");
    for (int i = 1; i <= 4; i++)
        assert_false(get(i, QUERY_CARD, 6 + i)->done);
    assert_int_equal(fake_redis.count, 4);
}

static void answer_first(void)
{
    clock_ms += LATE_MS;
    answer("HMGET test:card:7 ", reply_linked("7", "seven"));
    expect(&asked[1], CACHE_FOUND, CACHE_SOURCE_MISS);
}

TEST_CASE_WITH(misses_wait_for_their_turn_where_redis_is_slow, set_up, tear_down)
{
    fill_window();
    const struct asked *other = get(5, QUERY_CARD, 11);
    const struct asked *same = get(6, QUERY_CARD, 11);
    const struct asked *joined = get(7, QUERY_CARD, 8);
    assert_int_equal(fake_redis.count, 4);
    expect_hit(get(0, QUERY_CARD, 100), CACHE_FOUND); /* a hit waits for nothing */
    answer_first();
    assert_int_equal(fake_redis.count, 4); /* the first of the queue; the second waits on */
    answer("HMGET test:card:8 ", reply_linked("8", "eight"));
    expect(joined, CACHE_FOUND, CACHE_SOURCE_COALESCED);
    answer("HMGET test:card:9 ", reply_linked("9", "nine"));
    answer("HMGET test:card:10 ", reply_linked("10", "ten"));
    answer("HMGET test:card:11 ", reply_linked("11", "eleven"));
    expect(other, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect(same, CACHE_FOUND, CACHE_SOURCE_COALESCED);
    assert_int_equal(metrics.request_timeouts_total, 0);
}

TEST_CASE_WITH(a_new_request_is_behind_the_queue, set_up, tear_down)
{
    fill_window();
    const struct asked *first = get(5, QUERY_PAGE, 1);
    assert_false(first->done);
    answer_first(); /* the page takes more room than there is */
    assert_int_equal(fake_redis.count, 5);
    assert_false(get(6, QUERY_CARD, 11)->done);
    assert_int_equal(fake_redis.count, 5);
    lose();
    for (int i = 2; i <= 6; i++) {
        assert_false(asked[i].done);
        cache_cancel(&asked[i].request);
    }
}

TEST_CASE_WITH(what_waited_too_long_is_not_read_but_a_hit_is_served, set_up, tear_down)
{
    fill_window();
    const struct asked *miss = get(5, QUERY_CARD, 11);
    const struct asked *hit = get(6, QUERY_CARD_BY_LINK, 0);
    clock_ms += TOO_LATE_MS;
    answer_first(); /* it has the link */
    expect(miss, CACHE_UNAVAILABLE, CACHE_SOURCE_MISS);
    expect_hit(hit, CACHE_FOUND);
    assert_int_equal(metrics.request_timeouts_total, 1);
    assert_false(get(5, QUERY_CARD, 12)->done); /* there is room again */
    lose();
    for (int i = 2; i <= 5; i++)
        cache_cancel(&asked[i].request);
}

TEST_CASE_WITH(a_full_cache_is_reclaimed_between_polls, set_up, tear_down)
{
    cache_page();
    cache_card("seven");
    reconnect();
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(metrics.cache_entries, 0);
    lose();
}

/* --- a cluster, whose slot may migrate --- */

TEST_CASE_WITH(absence_is_not_cached_in_a_cluster, set_up_in_cluster, tear_down)
{
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_CARD, 8);
        answer("HMGET test:card:8 ", reply_card(NULL, NULL));
        answer_check(1);
        expect(a, CACHE_NOT_FOUND, CACHE_SOURCE_MISS);
        a = get(0, QUERY_CARD_BY_LINK, 0);
        answer(GET_LINK, reply_of("_\r\n"));
        answer_check(1);
        expect(a, CACHE_NOT_FOUND, CACHE_SOURCE_MISS);
    }
    cache_card("seven");
    expect_hit(get(1, QUERY_CARD, 7), CACHE_FOUND);
}

/* While the check of the catalogue is under way, perhaps to another node, that node may create it. */
TEST_CASE_WITH(absence_is_not_shared_with_later_requests_in_a_cluster, set_up_in_cluster, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD, 8);
    const struct asked *b = get(1, QUERY_CARD, 8);
    answer("HMGET test:card:8 ", reply_card(NULL, NULL));
    const struct asked *c = get(2, QUERY_CARD, 8);
    answer("SCARD test:api_keys", ask());
    answer("HMGET test:card:8 ", ask());
    answer("ASKING SCARD test:api_keys", reply_integer(1));
    expect(a, CACHE_NOT_FOUND, CACHE_SOURCE_MISS);
    expect(b, CACHE_NOT_FOUND, CACHE_SOURCE_COALESCED);
    assert_false(c->done);
    answer("ASKING HMGET test:card:8 ", reply_card("8", "eight"));
    expect(c, CACHE_FOUND, CACHE_SOURCE_MISS);
}

TEST_CASE_WITH(page_that_lacks_a_channel_is_not_cached_in_a_cluster, set_up_in_cluster, tear_down)
{
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_PAGE, 1);
        answer("ZCARD", reply_integer(2));
        answer("ZRANGE", reply_words("1 2"));
        if (i == 0)
            answer("HMGET test:card:1 ", reply_summary("1", "one"));
        answer("HMGET test:card:2 ", reply_summary(NULL, NULL));
        answer_check(1);
        answer("ZCARD", reply_integer(2)); /* it is always read once more */
        answer("ZRANGE", reply_words("1 2"));
        answer("HMGET test:card:2 ", reply_summary(NULL, NULL));
        answer_check(1);
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    }
    /* Nor is an index that does not exist. */
    push("test:index");
    answer_check(1);
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_PAGE, 1);
        for (int k = 0; k < 2; k++) {
            answer("ZCARD", reply_integer(0));
            answer("ZRANGE", reply_of("*0\r\n"));
            answer_check(1);
        }
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    }
}

TEST_CASE_WITH(card_on_another_node_is_served_but_not_cached, set_up_in_cluster, tear_down)
{
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_CARD, 7);
        const struct asked *b = get(1, QUERY_CARD, 7); /* which may still join */
        answer("HMGET test:card:7 ", ask());
        const struct asked *c = get(2, QUERY_CARD, 7); /* which may have seen a newer one there */
        answer("ASKING HMGET test:card:7 ", reply_card("7", "seven"));
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
        expect(b, CACHE_FOUND, CACHE_SOURCE_COALESCED);
        assert_non_null(strstr(a->body, "seven"));
        assert_false(c->done);
        answer("HMGET test:card:7 ", ask());
        answer("ASKING HMGET test:card:7 ", reply_card("7", "newer"));
        assert_non_null(strstr(c->body, "newer"));
        expect_idle();
    }
}

/* The slot may have migrated on before that node was asked. */
TEST_CASE_WITH(card_that_another_node_has_not_is_read_once_more, set_up_in_cluster, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD, 7);
    for (int i = 0; i < 2; i++) {
        assert_false(a->done);
        answer("HMGET test:card:7 ", ask());
        answer("ASKING HMGET test:card:7 ", reply_card(NULL, NULL));
        answer_check(1);
    }
    expect(a, CACHE_NOT_FOUND, CACHE_SOURCE_MISS);
    const struct asked *b = get(1, QUERY_CARD, 7);
    answer("HMGET test:card:7 ", ask());
    answer("ASKING HMGET test:card:7 ", reply_card(NULL, NULL));
    answer_check(1);
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    expect(b, CACHE_FOUND, CACHE_SOURCE_MISS);
}

TEST_CASE_WITH(link_on_another_node, set_up_in_cluster, tear_down)
{
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_CARD_BY_LINK, 0);
        answer(GET_LINK, ask());
        const struct asked *b = get(1, QUERY_CARD_BY_LINK, 0); /* which does not join */
        answer("ASKING GET test:link:", reply_string("7"));
        answer(GET_LINK, reply_string("7"));
        answer("HMGET test:card:7 ", ask());
        answer("HMGET test:card:7 ", ask());
        answer("ASKING HMGET test:card:7 ", reply_linked("7", "seven"));
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
        answer("ASKING HMGET test:card:7 ", reply_linked("7", "seven"));
        expect(b, CACHE_FOUND, CACHE_SOURCE_MISS);
    }
    expect_idle();
}

/* Each look begins at the node that is connected. */
TEST_CASE_WITH(link_on_another_node_is_looked_at_twice, set_up_in_cluster, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD_BY_LINK, 0);
    answer(GET_LINK, ask());
    answer("ASKING GET test:link:", reply_string("7"));
    answer("HMGET test:card:7 ", ask());
    answer("ASKING HMGET test:card:7 ", reply_card("7", "seven"));
    answer("HMGET test:card:7 ", ask());
    answer(GET_LINK, ask());
    answer("ASKING HMGET test:card:7 ", reply_card("7", "seven"));
    answer("ASKING GET test:link:", reply_string("8"));
    answer("HMGET test:card:8 ", reply_linked("8", "eight"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_hit(get(0, QUERY_CARD_BY_LINK, 0), CACHE_FOUND); /* that card is of this node */
    expect_idle();
}

/* The card gets the link, and then the link leads to it again: both between two looks at two nodes. */
TEST_CASE_WITH(link_and_card_of_two_nodes_are_looked_at_again, set_up_in_cluster, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD_BY_LINK, 0);
    answer(GET_LINK, ask());
    answer("ASKING GET test:link:", reply_string("7"));
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    answer(GET_LINK, ask());
    answer("ASKING GET test:link:", reply_string("7"));
    answer("HMGET test:card:7 ", reply_linked("7", "seven"));
    answer(GET_LINK, ask());
    answer("ASKING GET test:link:", reply_string("7"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_idle();
}

TEST_CASE_WITH(page_of_two_nodes_keeps_its_order, set_up_in_cluster, tear_down)
{
    const struct asked *a = get(0, QUERY_PAGE, 1);
    answer("ZCARD", reply_integer(4));
    answer("ZRANGE", reply_words("1 2 3 4"));
    answer("HMGET test:card:1 ", ask());
    answer("HMGET test:card:2 ", reply_summary("2", "two"));
    answer("HMGET test:card:3 ", reply_of("-WRONGTYPE x\r\n"));
    answer("HMGET test:card:4 ", ask());
    answer("ASKING HMGET test:card:1 ", reply_summary("1", "one"));
    answer("ASKING HMGET test:card:4 ", reply_summary("4", "four"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    const char *one = strstr(a->body, "\"one\"");
    const char *two = strstr(a->body, "\"two\"");
    const char *four = strstr(a->body, "\"four\"");
    assert_true(one != NULL && one < two && two < four);
    /* What came from here is cached: the second. Then the index moves. */
    push("test:index");
    answer_check(1);
    a = get(0, QUERY_PAGE, 1);
    answer("ZCARD", ask());
    answer("ZRANGE", ask());
    answer("ASKING ZCARD", reply_integer(2));
    answer("ASKING ZRANGE", reply_words("1 2"));
    answer("HMGET test:card:1 ", ask());
    answer("ASKING HMGET test:card:1 ", reply_summary("1", "one"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_idle();
}

TEST_CASE_WITH(index_on_another_node_is_not_cached, set_up_in_cluster, tear_down)
{
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_PAGE, 9); /* not even its size */
        answer("ZCARD", ask());
        answer("ZRANGE", ask());
        answer("ASKING ZCARD", reply_integer(2));
        answer("ASKING ZRANGE", reply_of("*0\r\n"));
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    }
    expect_idle();
}

/* The check of a key: the set has moved, and the infos have not. */
static void answer_moved_key(void)
{
    answer("HLEN", reply_integer(1));
    answer("HMGET test:api_key_info ", reply_of("*1\r\n_\r\n"));
    answer("SMISMEMBER", ask());
}

/* The set of API keys has moved, and the index as well. */
TEST_CASE_WITH(api_keys_on_another_node_are_checked_one_by_one, set_up_in_cluster, tear_down)
{
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_keys");
    answer("SCARD test:api_keys", ask());
    answer("ASKING SCARD test:api_keys", reply_integer(1));
    answer("SSCAN test:api_keys", ask());
    expect_idle();
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_CARD, 7);
        if (i == 0) /* then this is not tried for a while */
            answer_moved_key();
        answer_no_info();
        answer("SISMEMBER", ask());
        answer("HMGET test:card:7 ", reply_card("7", "seven"));
        answer("ASKING SISMEMBER", reply_integer(1));
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
        a = get(0, QUERY_CARD, 7);
        for (int k = 0; k < 2; k++) { /* a check in two steps makes the request be repeated */
            answer_no_info();
            answer("SISMEMBER", ask());
            answer("HMGET test:card:7 ", ask());
            answer("ASKING SISMEMBER", reply_integer(0));
            answer("ASKING HMGET", reply_card("7", "seven"));
            answer("SCARD test:api_keys", ask());
            answer("ASKING SCARD test:api_keys", reply_integer(0));
            answer("ZCARD test:index", ask());
            answer("ASKING ZCARD test:index", reply_integer(1));
        }
        expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
        expect_idle();
    }
}

/* A set without members does not exist. */
TEST_CASE_WITH(empty_set_of_keys_is_not_believed_in_a_cluster, set_up_in_cluster, tear_down)
{
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_keys");
    answer_check(0);
    answer("ZCARD", reply_integer(1));
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
        for (int k = 0; k < 2; k++) { /* it is repeated */
            answer_key_check(0);
            answer_check(0);
            answer("ZCARD", reply_integer(1));
        }
        expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
        clock_ms += 2;
        heartbeat();
        answer_check(0);
        answer("ZCARD", reply_integer(1));
        expect_idle();
    }
}

TEST_CASE_WITH(node_that_does_not_answer_makes_requests_start_again, set_up_in_cluster, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD, 7);
    answer("HMGET test:card:7 ", ask());
    answer("ASKING HMGET test:card:7 ", NULL);
    assert_false(a->done);
    answer("HMGET test:card:7 ", reply_card("7", "seven"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
}

/* The slot has moved for good. */
TEST_CASE_WITH(connection_lost_during_a_redirect, set_up_in_cluster, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD_BY_LINK, 0);
    answer(GET_LINK, ask());
    connection_lose(connection);
    assert_false(a->done);
    expect_idle(); /* what the other node replies is of an earlier connection */
    connect_redis();
    answer_api_keys();
    answer(GET_LINK, reply_string("7"));
    answer("HMGET test:card:7 ", reply_linked("7", "seven"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_idle();
}

/* The connection that the check is of may be lost, and the next one has its own. */
TEST_CASE_WITH(redirected_check_ends_with_its_connection, set_up_in_cluster, tear_down)
{
    connection_lose(connection);
    finish_handshake();
    answer("SCARD test:api_keys", ask());
    assert_string_equal(fake_redis_next(), "ASKING SCARD test:api_keys");
    connection->handshake_done = false; /* lost; the owner is not told */
    finish_handshake();                 /* that is cancelled */
    answer("SCARD test:api_keys", ask());
    answer("ASKING SCARD test:api_keys", reply_integer(1));
    assert_true(connection->ready);
    heartbeat();
    answer("SSCAN test:api_keys", ask());
    answer("SCARD test:api_keys", ask()); /* the check */
    assert_string_equal(fake_redis_next(), "ASKING SCARD test:api_keys");
    connection_lose(connection);
    expect_idle(); /* cancelled */
}

static void ask_for_page_of_master(void)
{
    const struct asked *a = get(0, QUERY_PAGE, 1);
    answer("ZCARD", reply_integer(0));
    answer("ZRANGE", reply_of("*0\r\n"));
    answer("ASKING ZCARD", reply_integer(1));
    answer("ASKING ZRANGE", reply_words("9"));
    answer("HMGET test:card:9 ", reply_summary(NULL, NULL));
    answer("ASKING HMGET test:card:9 ", reply_summary("9", "nine"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    assert_non_null(strstr(a->body, "nine"));
}

/* A replica replies that nothing is there while its master would refer to another node. */
static void answer_absent_link_of_master(void)
{
    answer(GET_LINK, reply_of("_\r\n"));
    answer("ASKING GET test:link:", reply_of("_\r\n"));
    answer("SCARD test:api_keys", reply_integer(0));
    answer("ASKING SCARD test:api_keys", reply_integer(1));
}

TEST_CASE_WITH(what_a_replica_has_not_got_is_asked_of_its_master, set_up_in_cluster, tear_down)
{
    connection->replica = true;
    cache_card("seven");
    expect_hit(get(1, QUERY_CARD, 7), CACHE_FOUND);
    push("test:card:7"); /* which has the link */
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_CARD, 8);
        answer("HMGET test:card:8 ", reply_card(NULL, NULL));
        answer("ASKING HMGET test:card:8 ", reply_card("8", "eight"));
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
        a = get(0, QUERY_CARD_BY_LINK, 0);
        answer_absent_link_of_master();
        answer_absent_link_of_master();
        expect(a, CACHE_NOT_FOUND, CACHE_SOURCE_MISS);
        ask_for_page_of_master();
    }
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_keys");
    answer("SCARD test:api_keys", reply_integer(0));
    answer("ASKING SCARD test:api_keys", reply_integer(1));
    answer("SSCAN test:api_keys", reply_of("*2\r\n$1\r\n0\r\n*0\r\n")); /* of which one is missing */
    answer("SCARD test:api_keys", reply_integer(0));
    answer("ASKING SCARD test:api_keys", reply_integer(1));
    const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
    answer_key_check(0);
    answer_auth(0);
    answer("ASKING HGET test:api_key_info ", reply_of("_\r\n"));
    answer("ASKING SISMEMBER", reply_integer(1));
    answer("SISMEMBER", reply_integer(0)); /* once more, behind the info */
    answer("ASKING SISMEMBER", reply_integer(1));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_idle();
}

/* Reads the set again; its infos do not exist, or are on another node. */
static void read_keys_without_infos(bool elsewhere)
{
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_key_info");
    answer_check(1);
    answer_portion();
    answer("HLEN test:api_key_info", elsewhere ? ask() : reply_integer(0));
    answer("HMGET test:api_key_info", elsewhere ? ask() : reply_of("*1\r\n_\r\n"));
    expect_idle();
}

/* It is refused when this was read twice. */
static void answer_expired_elsewhere(void)
{
    answer("HGET test:api_key_info ", ask());
    answer("SISMEMBER test:api_keys ", reply_integer(1));
    answer("ASKING HGET test:api_key_info ", reply_string("{\"expires\":\"2020-01-01T00:00:00Z\"}"));
    answer_check(1);
}

/*
 * They may come to exist on another node, which announces nothing here: neither the set nor a single key is
 * cached without them.
 */
TEST_CASE_WITH(absent_infos_are_not_believed_in_a_cluster, set_up_in_cluster, tear_down)
{
    wall_s = 1767225600;
    read_keys_without_infos(false);
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
        answer_auth(1);
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
        expect_idle(); /* nor is the set read with each request */
    }
    const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
    answer_expired_elsewhere();
    answer_expired_elsewhere();
    expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
    wall_s = 0;
}

/* A key without an info is one of a hash that exists. */
TEST_CASE_WITH(infos_of_other_keys_suffice_in_a_cluster, set_up_in_cluster, tear_down)
{
    read_keys_without_infos(false);
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_key_info"); /* created at this node */
    answer_check(1);
    answer_api_keys();
    expect_hit(get(0, QUERY_AUTH_ONLY, 0), CACHE_FOUND);
}

/* Infos and members may have moved one before the other. */
TEST_CASE_WITH(a_replica_without_infos_asks_its_master, set_up_in_cluster, tear_down)
{
    connection->replica = true;
    read_keys_without_infos(false);
    const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
    answer_auth(1);
    answer("ASKING HGET test:api_key_info ", reply_string("{\"name\":\"far\"}"));
    answer("SISMEMBER test:api_keys ", reply_integer(1));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect_name(a, "far");
}

/* The info has moved, and the set has not. */
TEST_CASE_WITH(an_info_on_another_node_counts, set_up_in_cluster, tear_down)
{
    wall_s = 1767225600;
    read_keys_without_infos(true);
    const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
    answer_expired_elsewhere();
    answer_expired_elsewhere();
    expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
    wall_s = 0;
}

/* A key had expired and is revoked: from the set behind its first look-up, then from the infos. */
TEST_CASE_WITH(a_key_that_loses_an_info_on_another_node_is_looked_up_again, set_up_in_cluster, tear_down)
{
    read_keys_without_infos(true);
    const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
    for (int i = 0; i < 2; i++) {
        answer("HGET test:api_key_info ", ask());
        answer("SISMEMBER test:api_keys ", reply_integer(1));
        answer("ASKING HGET test:api_key_info ", reply_of("_\r\n"));
        answer("SISMEMBER test:api_keys ", reply_integer(0));
        answer_check(1);
    }
    expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
}
