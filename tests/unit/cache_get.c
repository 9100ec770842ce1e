/*
 * The cache through its door, on a connection to Redis that the test plays: which requests cost commands,
 * which share them, and which wait; and what API keys cost in a cluster. Whether a
 * response is true, in whatever order things happen, is told by tests/simulation.
 */
#include "cache/cache.h"

#include "cache/key_reader.h"
#include "cache/upstream.h"
#define ENTRIES_CHECK_WRAP
#include "unit/entries_check.h"
#include "unit/fixtures/cache_connection.h"
#include "unit/fixtures/redis_config.h"

enum { BUDGET = 1 << 20, STALE_LIMIT_MS = 30000, STALE_KEYS_LIMIT_MS = 10000, TIMEOUT_MS = 500 };

static struct redis_connection *const connection = &the_connection;

/* With all that was sent on it. */
static void lose(void)
{
    connection_lose();
    fake_redis_fail_all(connection);
    fake_redis_fail_all(&other_node);
}

/* --- the cache, and requests --- */

enum { REQUESTS = 8 };

static uv_loop_t loop;
static struct keyspace keyspace;
static struct cache_metrics metrics;
static struct redis_metrics redis_metrics;
static struct loop_lag loop_lag;
static struct cache *cache;

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

static void answer_check(int64_t keys)
{
    answer("SCARD test:api_keys", reply_integer(keys));
}

static bool in_cluster; /* the next one */
static bool is_closed;

static void expect_idle(void)
{
    if (fake_redis.count > 0)
        fail_msg("%s", fake_redis_next());
}

/* Of one key. In a cluster some key has an info: otherwise they are checked one by one. */
static void answer_infos(void)
{
    answer("HLEN test:api_key_info", reply_integer(in_cluster));
    answer("HMGET test:api_key_info ", reply_of("*1\r\n_\r\n"));
}

/* A check of the key, which is valid. */
static void answer_api_keys(void)
{
    answer_infos();
    answer("SMISMEMBER test:api_keys ", reply_of("*1\r\n:1\r\n"));
}

/* Of a key that is none. */
static void refuse_key(void)
{
    const struct asked *a = get_as(0, 'x', QUERY_CARD, 7);
    answer_infos();
    answer("SMISMEMBER test:api_keys ", reply_of("*1\r\n:0\r\n"));
    answer_check(1);
    expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
}

static void finish_handshake(void)
{
    connection_shake_hands();
    if (!connection->was_ready)
        answer_permissions();
}

/* One turn of the loop: requests that wait for room, or for the socket to be read, are looked at again. */
static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

/* The handshake is over; the catalogue is there. */
static void connect_redis(void)
{
    connection->last_pong_ms = clock_ms;
    finish_handshake();
    answer_check(1);
    assert_true(connection->ready);
    turn();
}

static void push(const char *key)
{
    const struct redis_reply *reply = key == NULL ? reply_of("_\r\n") : reply_string(key);
    the_session.options.on_push(the_session.options.arg, SPAN("invalidate"), reply);
}

/* Connected, and the API keys are known. */
static int set_up(void **state)
{
    (void)state;
    connections_init();
    is_closed = false;
    clock_ms = 1000000;
    metrics = (struct cache_metrics){0};
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
                                          .cache_size = BUDGET,
                                          .stale_limit_ms = STALE_LIMIT_MS,
                                          .stale_keys_limit_ms = STALE_KEYS_LIMIT_MS,
                                          .on_connection = on_connection};
    assert_int_equal(cache_new(&loop, &options, &cache), 0);
    redis_config_unref(config);
    connect_redis();
    const struct asked *a = get(0, QUERY_AUTH_ONLY, 0);
    answer_api_keys();
    expect_hit(a, CACHE_FOUND);
    metrics = (struct cache_metrics){0};
    assert_int_equal(fake_redis.count, 0);
    return 0;
}

static void on_closed(void *arg)
{
    (void)arg;
    is_closed = true;
}

static int tear_down(void **state)
{
    (void)state;
    entries_check(cache_entries);
    cache_close(cache, on_closed, NULL);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(is_closed);
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

static void expect_fetched(const struct asked *a, const char *title)
{
    answer("HMGET test:card:7 ", reply_linked("7", title));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
}

/* Puts card 7 into the cache. */
static void cache_card(const char *title)
{
    const struct asked *a = get(0, QUERY_CARD, 7);
    assert_false(a->done);
    expect_fetched(a, title);
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
    refuse_key();
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
    expect_fetched(first, "seven");
    expect(second, CACHE_FOUND, CACHE_SOURCE_COALESCED);
    assert_false(third->done);
    assert_string_equal(first->body, second->body);
}

/* Later the link may lead elsewhere, which nothing would tell. */
TEST_CASE_WITH(requests_for_a_link_share_its_fetch_until_the_link_is_read, set_up, tear_down)
{
    const struct asked *a = get(0, QUERY_CARD_BY_LINK, 0);
    const struct asked *b = get(1, QUERY_CARD_BY_LINK, 0);
    answer(GET_LINK, reply_string("7"));
    const struct asked *c = get(2, QUERY_CARD_BY_LINK, 0);
    const struct asked *d = get(3, QUERY_CARD_BY_LINK, 0); /* which joins the one before */
    answer("HMGET test:card:7 ", reply_linked("7", "seven"));
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect(b, CACHE_FOUND, CACHE_SOURCE_COALESCED);
    answer(GET_LINK, reply_string("7"));
    answer("HMGET test:card:7 ", reply_linked("7", "seven"));
    expect(c, CACHE_FOUND, CACHE_SOURCE_MISS);
    expect(d, CACHE_FOUND, CACHE_SOURCE_COALESCED);
    assert_int_equal(metrics.cache_coalesced_total, 2);
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

/* Redis need not be asked: it may be busy. */
TEST_CASE_WITH(what_is_cached_is_served_once_the_socket_is_read, set_up, tear_down)
{
    cache_card("seven");
    cache_page();
    refuse_key();
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

static void cancel_all(int count)
{
    lose();
    for (int i = 0; i < count; i++)
        cache_cancel(&asked[i].request);
}

/* Redis replies so late that no more than four commands may be in flight. */
static void narrow_window(void)
{
    cache_card("at once");
    push("test:card:7");
    for (int64_t id = 100; id < 110; id++)
        fetch_slowly(id, "slow");
}

/* And four are: cards 7 to 10. */
static void fill_window(void)
{
    narrow_window();
    for (int i = 1; i <= 4; i++)
        assert_false(get(i, QUERY_CARD, 6 + i)->done);
    assert_int_equal(fake_redis.count, 4);
}

static void answer_first(void)
{
    clock_ms += LATE_MS;
    answer("HMGET test:card:7 ", reply_linked("7", "seven"));
    expect(&asked[1], CACHE_FOUND, CACHE_SOURCE_MISS);
    turn();
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
    turn();
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
    answer_first(); /* the page takes the room that there is */
    assert_int_equal(fake_redis.count, 5);
    assert_false(get(6, QUERY_CARD, 11)->done);
    assert_int_equal(fake_redis.count, 5);
    lose();
    for (int i = 2; i <= 6; i++) {
        assert_false(asked[i].done);
        cache_cancel(&asked[i].request);
    }
}

TEST_CASE_WITH(a_request_in_the_queue_does_not_wait_for_the_check_of_others, set_up, tear_down)
{
    fill_window();
    (void)get(5, QUERY_CARD, 11);
    for (int i = 0; i < 4; i++)
        answer("HMGET test:card:", reply_card(NULL, NULL));
    turn();
    assert_string_equal(fake_redis_next(), "SCARD test:api_keys"); /* for the four */
    assert_int_equal(fake_redis.count, 2);
    cancel_all(6);
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
    lose();
    connect_redis();
    answer_api_keys();
    turn();
    assert_int_equal(metrics.cache_entries, 0);
    lose();
}

/* --- a cluster, whose slot may migrate --- */

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

/* The check of a key: the set has moved, and the infos have not. */
static void answer_moved_key(void)
{
    answer("HLEN", reply_integer(1));
    answer("HMGET test:api_key_info ", reply_of("*1\r\n_\r\n"));
    answer("SMISMEMBER", ask());
}

/* It does not wait for its deadline. */
TEST_CASE_WITH(attempt_ends_when_another_node_does_not_reply_to_its_check, set_up_in_cluster, tear_down)
{
    lose();
    finish_handshake();
    answer("SCARD test:api_keys", ask());
    answer("ASKING SCARD test:api_keys", NULL);
    assert_string_equal(connection->failure, UPSTREAM_NOT_CHECKED);
    connect_redis();
    answer_api_keys();
}

/* Neither the set of API keys nor the index is here. */
static void answer_moved_absence(void)
{
    answer("SCARD test:api_keys", ask());
    answer("ASKING SCARD test:api_keys", reply_integer(0));
    answer("ZCARD test:index", ask());
    answer("ASKING ZCARD test:index", reply_integer(1));
}

/* The set of API keys has moved, and the index as well. */
TEST_CASE_WITH(api_keys_on_another_node_are_checked_one_by_one, set_up_in_cluster, tear_down)
{
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_keys");
    answer("SCARD test:api_keys", ask());
    answer("ASKING SCARD test:api_keys", reply_integer(1));
    answer_moved_key(); /* which is not tried by requests then */
    expect_idle();
    for (int i = 0; i < 2; i++) {
        const struct asked *a = get(0, QUERY_CARD, 7);
        answer_no_info();
        answer("SISMEMBER", ask());
        if (i == 0) /* the key was valid when it was last checked; this is read again behind the check */
            answer("HMGET test:card:7 ", reply_card("7", "seven"));
        answer("ASKING SISMEMBER", reply_integer(1));
        answer("HMGET test:card:7 ", reply_card("7", "seven"));
        expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
        a = get(0, QUERY_CARD, 7);
        for (int k = 0; k < 2; k++) { /* a check in two steps makes the request be repeated */
            answer_no_info();
            answer("SISMEMBER", ask());
            if (k == 0) /* the key was valid when it was last checked */
                answer("HMGET test:card:7 ", ask());
            answer("ASKING SISMEMBER", reply_integer(0));
            if (k == 0)
                answer("ASKING HMGET", reply_card("7", "seven"));
            answer_moved_absence();
        }
        expect(a, CACHE_KEY_INVALID, CACHE_SOURCE_MISS);
        expect_idle();
    }
}

/* Reads the set again; its infos do not exist. */
static void read_keys_without_infos(void)
{
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_key_info");
    answer_check(1);
    answer("HLEN test:api_key_info", reply_integer(0));
    answer("HMGET test:api_key_info", reply_of("*1\r\n_\r\n"));
    answer("SMISMEMBER test:api_keys ", reply_of("*1\r\n:1\r\n"));
    expect_idle();
}

/* A key without an info is one of a hash that exists. */
TEST_CASE_WITH(infos_of_other_keys_suffice_in_a_cluster, set_up_in_cluster, tear_down)
{
    read_keys_without_infos();
    clock_ms += KEY_READER_RECENT_INTERVAL_MS;
    push("test:api_key_info"); /* created at this node */
    answer_check(1);
    answer_api_keys();
    expect_hit(get(0, QUERY_AUTH_ONLY, 0), CACHE_FOUND);
}

enum { NARROW = 4 }; /* the narrowest window */

/* A request for a card that is at another node, which does not reply. */
static void get_moved(int i)
{
    (void)get(i, QUERY_CARD, 200 + i);
    assert_true(fake_redis_answer_to(connection, ask()));
}

TEST_CASE_WITH(commands_at_another_node_leave_room_for_those_of_this_one, set_up_in_cluster, tear_down)
{
    narrow_window();
    for (int i = 0; i < NARROW; i++)
        get_moved(i);
    (void)get(NARROW, QUERY_CARD, 8);
    assert_int_equal(fake_redis.count, NARROW + 1);
    cancel_all(NARROW + 1);
}

/* The commands are held there, and fail after a while. */
TEST_CASE_WITH(another_node_that_does_not_reply_is_no_busy_redis, set_up_in_cluster, tear_down)
{
    enum { HELD_MS = 2000 };
    cache_card("at once");
    for (int i = 0; i < NARROW; i++) {
        get_moved(0);
        cache_cancel(&asked[0].request);
        clock_ms += HELD_MS;
        connection->last_pong_ms = clock_ms;
        the_session.options.on_heartbeat(the_session.options.arg);
        fake_redis_fail_all(&other_node);
        while (fake_redis.count > 0) /* what the heartbeat has sent */
            fake_redis_answer(reply_integer(1));
    }
    for (int i = 0; i <= NARROW; i++)
        (void)get(i, QUERY_CARD, 100 + i);
    assert_int_equal(fake_redis.count, NARROW + 1);
    cancel_all(NARROW + 1);
}

/* Keys and index are deleted, one after the other. Nothing was read of the index, so only one is announced.
 */
TEST_CASE_WITH(an_index_that_is_lost_with_the_keys_is_not_known_to_be_empty, set_up, tear_down)
{
    (void)get(0, QUERY_PAGE, 3);
    push("test:api_keys");
    answer("ZCARD", reply_integer(0));
    answer("ZRANGE", reply_words(""));
    answer_check(0);
    answer("ZCARD", reply_integer(0));
    assert_int_equal(connection->failures, 1); /* no catalogue: what was cached before is served */
    assert_false(get(1, QUERY_PAGE, 2)->done);
    for (int i = 0; i < 2; i++) {
        assert_false(asked[i].done);
        cache_cancel(&asked[i].request);
    }
}

TEST_CASE_WITH(an_empty_page_is_not_served_when_the_keys_are_lost_too, set_up, tear_down)
{
    const struct asked *a = get(0, QUERY_PAGE, 1);
    for (int i = 0; i < 2; i++) {
        answer("ZCARD", reply_integer(0));
        answer("ZRANGE", reply_words(""));
        answer_check(1);
    }
    expect(a, CACHE_FOUND, CACHE_SOURCE_MISS);
    push("test:api_keys");
    answer_check(0);
    answer("ZCARD", reply_integer(0));
    assert_int_equal(connection->failures, 1);
    assert_false(get(1, QUERY_PAGE, 1)->done);
    cache_cancel(&asked[1].request);
}

/* After a loss; the key is read first: as one that was used last, and for the requests that wait. */
static void connect_again(void)
{
    connect_redis();
    for (int i = 0; i < 2; i++)
        answer_api_keys();
    turn();
}

/* Its reply exceeds client-output-buffer-limit, for example. */
TEST_CASE_WITH(a_read_that_ends_connections_is_repeated_alone_and_given_up, set_up, tear_down)
{
    const struct asked *other = get(0, QUERY_CARD, 8);
    const struct asked *bad = get(1, QUERY_CARD, 7);
    for (int i = 0; i < 2; i++) {
        lose();
        connect_again();
        assert_int_equal(fake_redis.count, 1); /* the bad one; the other waits */
        assert_non_null(strstr(fake_redis_next(), "test:card:7 "));
    }
    lose();
    expect(bad, CACHE_UNAVAILABLE, CACHE_SOURCE_MISS);
    connect_again();
    answer("HMGET test:card:8 ", reply_linked("8", "eight"));
    expect(other, CACHE_FOUND, CACHE_SOURCE_MISS);
}
