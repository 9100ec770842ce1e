/*
 * Faults of the connections to Redis, injected by a proxy: resets, ends and silence after any number of
 * bytes, black holes in one direction, long and slow lines. Responses take longer and are right, or are 500.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "faults/testbed.h"

enum { KEYS = 20000, KEYS_RATE = 400000 };
enum { HOLE_MS = 3300, RESETS_MS = 1500 };

static int setup(void **state)
{
    *state = testbed_new(&(struct testbed_spec){.proxied = true});
    return 0;
}

static int setup_clients(void **state)
{
    (void)testbed_start(state, &(struct testbed_spec){.proxied = true});
    return 0;
}

static void restore(struct testbed *bed)
{
    proxy_restore(bed->fixture.proxy);
}

/* ---- faults after a number of bytes ---- */

/* Links of channels that were not requested before. */
static const char link_script[] =
    "for i = 0, tonumber(ARGV[2]) - 1 do local id = string.format('%d', tonumber(ARGV[1]) + i) "
    "redis.call('SET', 'channels:link:https://max.ru/c' .. id, id) end return 1";

/* Invalidates a page with all its channels; no value changes. */
static const char touch_script[] =
    "for i = 1, 100 do redis.call('HSET', 'channels:card:' .. i, 'max_channel_id', i) end "
    "redis.call('ZREM', 'channels:index', 1) redis.call('ZADD', 'channels:index', 1, 1) return 1";

static int setup_cuts(void **state)
{
    static const char *const env[] = {"CHANNELD_WORKERS=1", NULL};
    struct testbed *bed = testbed_new(&(struct testbed_spec){.env = env, .proxied = true});
    *state = bed;
    redis_do(&bed->fixture.redis, "EVAL %s 0 %d %d", link_script, CATALOGUE_SPARE, CATALOGUE_SPARES);
    return 0;
}

enum content { CARD, LINK, PAGE };

/* A series of faults: one after each `step` bytes of the replies to a request. */
struct cuts {
    const char *name;
    enum content content;
    enum proxy_fault fault;
    size_t step;
};

struct cut {
    char *path, *body; /* owned */
};

/* An uncached request that succeeds: the connection is there, and all its invalidations have been read. */
static void expect_connected(struct testbed *bed)
{
    long long id = 0;
    AUTOFREE char *path = testbed_spare_path(&id);
    testbed_expect(bed, path, catalogue_version_card(id, 1));
}

/* A request for something that is not cached. */
static struct cut cut_prepare(struct testbed *bed, enum content content)
{
    long long id = 0;
    char *path = content != PAGE ? testbed_spare_path(&id) : text_printf("channels/");
    if (content == LINK) {
        free(path);
        path = text_printf("channel/by-link/?link=https://max.ru/c%lld", id);
    }
    if (content == PAGE)
        redis_do(&bed->fixture.redis, "EVAL %s 0", touch_script);
    expect_connected(bed);
    return (struct cut){path, content == PAGE ? catalogue_version_page(1, 1) : catalogue_version_card(id, 1)};
}

/* The status; fails for a response that is neither right nor a 500, or late. */
static int cut_request(struct testbed *bed, struct cut cut)
{
    AUTO(http_response_free) struct http_response response;
    int64_t began = wait_now_ms();
    fixture_get(&bed->fixture, cut.path, &response);
    assert_in_range(wait_now_ms() - began, 0, wait_bound_ms(TESTBED_TIMEOUT_MS));
    int status = response.status;
    if (status == 200)
        assert_string_equal(response.body, cut.body);
    else if (status != 500)
        fail_msg("%s: %d %.90s", cut.path, status, response.body);
    free(cut.path);
    free(cut.body);
    return status;
}

/* How many bytes Redis replies to such a request. */
static size_t measure(struct testbed *bed, enum content content)
{
    struct cut cut = cut_prepare(bed, content);
    size_t before = proxy_bytes_down(bed->fixture.proxy);
    assert_int_equal(cut_request(bed, cut), 200);
    return proxy_bytes_down(bed->fixture.proxy) - before;
}

/* Without the replies to heartbeats, which come now and then. */
static size_t measure_least(struct testbed *bed, enum content content)
{
    enum { MEASUREMENTS = 4 };
    size_t least = measure(bed, content);
    for (int i = 1; i < MEASUREMENTS; i++) {
        size_t size = measure(bed, content);
        least = size < least ? size : least;
    }
    return least;
}

static void run_cuts(struct testbed *bed, const struct cuts *cuts)
{
    struct proxy *proxy = bed->fixture.proxy;
    size_t size = measure_least(bed, cuts->content);
    assert_true(size > 200);
    int made = 0;
    int injected = 0;
    int failed = 0;
    int slowest = 0;
    for (size_t at = 0; at <= size; at += cuts->step) {
        struct cut cut = cut_prepare(bed, cuts->content);
        int64_t began = wait_now_ms();
        proxy_inject_after(proxy, at, cuts->fault);
        failed += cut_request(bed, cut) == 500;
        injected += proxy_has_injected(proxy);
        made++;
        proxy_restore(proxy);
        expect_connected(bed);
        int took = (int)(wait_now_ms() - began);
        slowest = took > slowest ? took : slowest;
    }
    assert_true(injected >= made - 1); /* the last one may come after the response */
    if (cuts->fault != PROXY_DROP)
        assert_int_equal(failed, 0);
    print_message("%-40s %d faults in %zu bytes: %d right, %d failed | the next request took %d ms at most\n",
                  cuts->name, injected, size, made - failed, failed, slowest);
}

static void run_each(struct testbed *bed, const struct cuts *cuts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        run_cuts(bed, &cuts[i]);
}

TEST_CASE_WITH(redis_connection_cut_within_a_reply, setup_cuts, testbed_teardown)
{
    static const struct cuts cuts[] = {{"reset within a card", CARD, PROXY_RESET, 19},
                                       {"reset within a link and its card", LINK, PROXY_RESET, 23},
                                       {"reset within a page", PAGE, PROXY_RESET, 2311},
                                       {"end within a card", CARD, PROXY_FINISH, 17},
                                       {"end within a page", PAGE, PROXY_FINISH, 2309},
                                       {"silence within a card", CARD, PROXY_DROP, 250}};
    run_each(*state, cuts, TEST_COUNT(cuts));
}

/* ---- black holes ---- */

static void hole_up(struct testbed *bed)
{
    proxy_set_blackhole(bed->fixture.proxy, PROXY_UP);
}

static void reset_all(struct testbed *bed)
{
    proxy_set_refusing(bed->fixture.proxy, true);
    proxy_inject(bed->fixture.proxy, PROXY_RESET);
}

TEST_CASE_WITH(redis_connections_reset, setup_clients, testbed_teardown)
{
    outage_run(*state,
               &(struct outage){"connections reset, old and new", reset_all, restore, .lasts_ms = RESETS_MS});
}

/* A client that writes as fast as it can to a key that is never requested; channeld gets an invalidation for
 * each change. */
static struct {
    struct redis redis;
    pthread_t thread;
    bool running;
    atomic_bool stopping;
} writer;

static void *run_writer(void *arg)
{
    (void)arg;
    while (!atomic_load(&writer.stopping))
        redis_do(&writer.redis, "HSET channels:card:777 title busy");
    redis_disconnect(&writer.redis);
    return NULL;
}

static int setup_writer(void **state)
{
    (void)setup_clients(state);
    struct testbed *bed = *state;
    writer.redis = bed->fixture.redis;
    writer.redis.connection = NULL;
    writer.running = pthread_create(&writer.thread, NULL, run_writer, NULL) == 0;
    return writer.running ? 0 : -1;
}

static int teardown_writer(void **state)
{
    atomic_store(&writer.stopping, true);
    if (writer.running)
        (void)pthread_join(writer.thread, NULL);
    return testbed_teardown(state);
}

/* Invalidations keep coming, so the connection is not silent; but no query is answered. */
TEST_CASE_WITH(redis_queries_lost_while_invalidations_arrive, setup_writer, teardown_writer)
{
    outage_run(*state, &(struct outage){"black hole for queries, invalidations arrive", hole_up, restore,
                                        .lasts_ms = HOLE_MS});
}

/* ---- long and slow lines ---- */

static bool is_refused_by_all(void *bed)
{
    return testbed_fan_out(bed, "channel/by-id/1/", 401, NULL, NULL) == TESTBED_FAN_OUT;
}

/* More keys than arrive within a request timeout: they are read in portions, with requests in between. */
TEST_CASE_WITH(many_api_keys_over_a_slow_redis_connection, setup, testbed_teardown)
{
    static const char disconnects[] = "channeld_redis_disconnects_total";
    struct testbed *bed = *state;
    struct fixture *fixture = &bed->fixture;
    catalogue_issue_keys(&fixture->redis, KEYS);
    double lost = server_metric(&fixture->server, disconnects);
    proxy_set_rate(fixture->proxy, KEYS_RATE);
    proxy_inject(fixture->proxy, PROXY_RESET);
    server_await_metric(&fixture->server, disconnects, lost + 2);
    int rounds = 0;
    while (!testbed_has_cached(bed)) /* each response is right */
        rounds++;
    print_message("%d keys at %d kB/s: cached after %d rounds of requests\n", KEYS, KEYS_RATE / 1000, rounds);
    assert_true(rounds > 0);
    assert_int_equal(http_get_status(fixture->server.port, "/api/channels/", FIXTURE_WRONG), 401);
    redis_do(&fixture->redis, "DEL channels:api_keys");
    assert_true(wait_until(is_refused_by_all, bed, WAIT_DEADLINE_MS));
    assert_true(server_metric(&fixture->server, disconnects) <= lost + 2);
}
