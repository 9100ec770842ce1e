/*
 * The connection to Redis when allocations fail: pushes, the reading of the keys, and each step of a
 * reconnection. Whatever fails, no response is older than the data of Redis, a revoked key does not work, and
 * the connection comes back.
 */

#include <stdlib.h>
#include <string.h>

#include "oom/memory.h"
#include "support/certs.h"
#include "support/fixture.h"
#include "support/net.h"

/* An allocation that was not made within THROUGH_MS will not be made: the change has been processed. */
enum { CHANNELS = 20, SAMPLE = 3, ENOUGH = 10000, THROUGH_MS = 1000, TIMES_MAX = 4, SAMPLE_STEP = 7 };

static const char OTHER_KEY[] = "another-key-that-comes-and-goes";

static struct memory memory;

/* Redis by a name, which is looked up for each connection. By broadcast all changes are one long push. */
static int start(void **state)
{
    memory_init(&memory);
    const char *const env[] = {memory.preload,
                               memory.file,
                               "CHANNELD_WORKERS=1",
                               "CHANNELD_STALE_LIMIT=0s",
                               "CHANNELD_TRACKING=broadcast",
                               NULL};
    *state = fixture_new_with(&(struct fixture_spec){.channels = CHANNELS, .env = env, .host = "localhost"});
    return 0;
}

static int start_with_tls(void **state)
{
    struct certs_pair authority;
    struct certs_pair pair;
    memory_init(&memory);
    certs_make_authority(&memory.dir, "authority", &authority);
    certs_make(&memory.dir, "redis", &authority, "IP:127.0.0.1", 1, &pair);
    int port = net_reserve_port();
    AUTOFREE char *url = text_printf("CHANNELD_REDIS_URL=rediss://127.0.0.1:%d/0", port);
    AUTOFREE char *ca = text_printf("CHANNELD_REDIS_CA_FILE=%s", authority.cert);
    const char *const *args = certs_redis_args(port, &pair, &authority, "no");
    const char *const env[] = {
        memory.preload, memory.file, url, ca, "CHANNELD_WORKERS=1", "CHANNELD_STALE_LIMIT=0s", NULL};
    *state = fixture_new_with(&(struct fixture_spec){.channels = CHANNELS, .env = env, .redis_args = args});
    return 0;
}

static int end(void **state)
{
    (void)fixture_teardown(state);
    memory_fini(&memory);
    return 0;
}

static bool has_not_failed(void *arg)
{
    (void)arg;
    return memory_failures(&memory) == 0;
}

/* ---- the changes in Redis, and what must be served then ---- */

struct turn {
    struct fixture *fixture;
    int number;
};

static void change_title(const struct turn *turn)
{
    AUTOFREE char *key = text_printf("channels:card:%lld", (long long)catalogue_id(SAMPLE));
    AUTOFREE char *title = text_printf("turn %d", turn->number);
    const char *const args[] = {"HSET", key, "title", title};
    redis_do_argv(&turn->fixture->redis, TEST_COUNT(args), args, NULL);
}

/* In one transaction with a key of so long a name that the push does not fit into the memory that is kept. */
static void change_much(const struct turn *turn)
{
    enum { LONG = 20000 };
    AUTOFREE char *name = text_repeat('x', LONG);
    redis_do(&turn->fixture->redis, "MULTI");
    change_title(turn);
    redis_do(&turn->fixture->redis, "SET channels:card:%s 1", name);
    redis_do(&turn->fixture->redis, "DEL channels:card:%s", name);
    redis_do(&turn->fixture->redis, "EXEC");
}

/* False for a 500; an old title fails the test. */
static bool shows_title(void *arg)
{
    const struct turn *turn = arg;
    AUTO(http_response_free) struct http_response response;
    AUTOFREE char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(SAMPLE));
    AUTOFREE char *expected = text_printf("\"title\":\"turn %d\"", turn->number);
    fixture_get(turn->fixture, path, &response);
    bool served = response.status == 200;
    assert_true(served || response.status == 500);
    if (served && strstr(response.body, expected) == NULL)
        fail_msg("turn %d: an old answer: %s", turn->number, response.body);
    return served;
}

/* It is valid in odd turns. */
static void change_keys(const struct turn *turn)
{
    char digest[65];
    catalogue_digest(OTHER_KEY, digest);
    redis_do(&turn->fixture->redis, "%s channels:api_keys %s", turn->number % 2 == 1 ? "SADD" : "SREM",
             digest);
}

static bool judges_the_key(void *arg)
{
    const struct turn *turn = arg;
    AUTOFREE char *header = text_printf("X-Api-Key: %s\r\n", OTHER_KEY);
    int status = http_get_status(turn->fixture->server.port, "/api/channels/", header);
    if (status != 500)
        assert_int_equal(status, turn->number % 2 == 1 ? 200 : 401);
    return status != 500;
}

/* Redis closes the connection of the only worker. */
static void end_connection(const struct turn *turn)
{
    change_title(turn);
    redis_do(&turn->fixture->redis, "CLIENT KILL TYPE normal SKIPME yes");
    redis_do(&turn->fixture->redis, "CLIENT KILL TYPE pubsub SKIPME yes");
}

/* ---- each allocation that follows a change ---- */

static void expect_recovery(struct turn *turn, bool (*is_right)(void *arg), int n)
{
    if (!process_is_running(&turn->fixture->server.process))
        fail_msg("allocation %d failed, and the server has ended with %d", n,
                 turn->fixture->server.process.status);
    if (!wait_until(is_right, turn, WAIT_DEADLINE_MS))
        fail_msg("allocation %d failed, and the server does not recover", n);
    server_await_metric(&turn->fixture->server, "channeld_redis_connected", 1);
    assert_true(is_right(turn));
}

/* Each or, with a step, some of them. Returns how many there were. */
static int fail_each(struct fixture *fixture, void (*change)(const struct turn *turn),
                     bool (*is_right)(void *arg), enum memory_failure how, int step)
{
    static struct turn turn;
    bool failed = true;
    int n = 1 - step;
    turn.fixture = fixture;
    while (failed) {
        turn.number++;
        n += step;
        memory_fail(&memory, n, how);
        change(&turn);
        failed = !wait_holds(has_not_failed, NULL, THROUGH_MS);
        (void)memory_restore(&memory);
        expect_recovery(&turn, is_right, n);
        assert_true(n < ENOUGH);
    }
    return n - 1;
}

/* Something may be left for good after the first times (a thread's own), but not each time. */
static void fail_all(struct fixture *fixture, const char *what, void (*change)(const struct turn *turn),
                     bool (*is_right)(void *arg), int step)
{
    int total = 0;
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++) {
        int count = fail_each(fixture, change, is_right, how, step);
        total += count;
        for (int times = 1, kept = true; kept; times++) {
            int64_t live = memory_live(&memory);
            (void)fail_each(fixture, change, is_right, how, step);
            kept = !memory_await_live(&memory, live);
            if (kept && times == TIMES_MAX)
                fail_msg("%s: each time more is left: %lld blocks", what, (long long)memory_live(&memory));
        }
        print_message("%s: one in %d of about %d allocations failed\n", what, step, count);
    }
    assert_true(total > 0); /* buffers that are kept may need no memory any more */
}

static void fail_each_kind(struct fixture *fixture, int step)
{
    fail_all(fixture, "a card changes", change_much, shows_title, step);
    fail_all(fixture, "the keys change", change_keys, judges_the_key, step);
    fail_all(fixture, "a reconnection", end_connection, shows_title, step);
}

TEST_CASE_WITH(changes_and_a_lost_connection_survive_a_sample_of_failures, start, end)
{
    fail_each_kind(*state, SAMPLE_STEP);
}

SLOW_TEST_WITH(changes_and_a_lost_connection_survive_any_failure, start, end)
{
    fail_each_kind(*state, 1);
}

/* A handshake takes hundreds of allocations, nearly all of OpenSSL: some of them fail here. */
SLOW_TEST_WITH(lost_connection_with_tls_comes_back, start_with_tls, end)
{
    enum { STEP = 17 };
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
        print_message("a reconnection with TLS: one in %d of %d allocations\n", STEP,
                      fail_each(*state, end_connection, shows_title, how, STEP));
}
