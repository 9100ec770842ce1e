/*
 * The connection to Redis while memory runs out: what Redis pushes, the reading of the keys, and each step of
 * a reconnection. Whatever fails, no answer is older than what Redis holds, a revoked key does not work, and
 * the connection comes back.
 */

#include <stdlib.h>
#include <string.h>

#include "oom/memory.h"
#include "support/fixture.h"
#include "support/net.h"

/* A failure that has not come within THROUGH_MS will not: what is tried is through. */
enum { CHANNELS = 20, SAMPLE = 3, ENOUGH = 10000, THROUGH_MS = 1000, TIMES_MAX = 4 };

static const char OTHER_KEY[] = "another-key-that-comes-and-goes";

static struct memory memory;

static int start(void **state)
{
    memory_init(&memory);
    const char *const env[] = {memory.preload, memory.file, "CHANNELD_WORKERS=1", "CHANNELD_STALE_LIMIT=0s",
                               NULL};
    *state = fixture_new(CHANNELS, env);
    return 0;
}

/* Redis by a name, which is looked up anew for each connection. */
static int start_named(void **state)
{
    memory_init(&memory);
    struct fixture *fixture = calloc(1, sizeof *fixture);
    const char *const env[] = {memory.preload, memory.file, "CHANNELD_WORKERS=1", "CHANNELD_STALE_LIMIT=0s",
                               NULL};
    assert_non_null(fixture);
    redis_start(&fixture->redis, NULL);
    catalogue_issue_key(&fixture->redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture->redis, CHANNELS);
    char *url = text_printf("redis://localhost:%d/0", fixture->redis.port);
    const struct server_spec spec = {.redis_url = url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&fixture->server, &spec);
    free(url);
    *state = fixture;
    return 0;
}

static void make_certificate(const char *cert, const char *key)
{
    struct process process;
    const char *const argv[] = {"openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:prime256v1",
                                "-nodes",
                                "-keyout",
                                key,
                                "-out",
                                cert,
                                "-subj",
                                "/CN=redis",
                                "-addext",
                                "subjectAltName=IP:127.0.0.1",
                                NULL};
    const struct process_spec spec = {.name = "openssl", .dir = memory.dir.path, .argv = argv};
    assert_int_equal(process_run(&process, &spec), 0);
}

static int start_with_tls(void **state)
{
    memory_init(&memory);
    char *cert = text_printf("%s/cert.pem", memory.dir.path);
    char *key = text_printf("%s/key.pem", memory.dir.path);
    char *port = text_printf("%d", net_reserve_port());
    char *url = text_printf("CHANNELD_REDIS_URL=rediss://127.0.0.1:%s/0", port);
    char *ca = text_printf("CHANNELD_REDIS_CA_FILE=%s", cert);
    const char *const args[] = {"--tls-port",
                                port,
                                "--tls-cert-file",
                                cert,
                                "--tls-key-file",
                                key,
                                "--tls-ca-cert-file",
                                cert,
                                "--tls-auth-clients",
                                "no",
                                NULL};
    const char *const env[] = {
        memory.preload, memory.file, url, ca, "CHANNELD_WORKERS=1", "CHANNELD_STALE_LIMIT=0s", NULL};
    make_certificate(cert, key);
    *state = fixture_new_with(&(struct fixture_spec){.channels = CHANNELS, .env = env, .redis_args = args});
    free(cert);
    free(key);
    free(port);
    free(url);
    free(ca);
    return 0;
}

static int end(void **state)
{
    (void)fixture_teardown(state);
    memory_fini(&memory);
    return 0;
}

static bool has_failed(void *arg)
{
    (void)arg;
    return memory_failures(&memory) > 0;
}

/* --- what is changed in Redis, and what must be seen of it then --- */

struct turn {
    struct fixture *fixture;
    int number;
};

static void change_title(const struct turn *turn)
{
    char *key = text_printf("channels:card:%lld", (long long)catalogue_id(SAMPLE));
    char *title = text_printf("turn %d", turn->number);
    const char *const args[] = {"HSET", key, "title", title};
    redis_do_argv(&turn->fixture->redis, TEST_COUNT(args), args, NULL);
    free(title);
    free(key);
}

/* In one transaction with a key of so long a name that the push does not fit into the memory that is kept. */
static void change_much(const struct turn *turn)
{
    enum { LONG = 20000 };
    char *name = text_repeat('x', LONG);
    redis_do(&turn->fixture->redis, "MULTI");
    change_title(turn);
    redis_do(&turn->fixture->redis, "SET channels:link:%s 1", name);
    redis_do(&turn->fixture->redis, "DEL channels:link:%s", name);
    redis_do(&turn->fixture->redis, "EXEC");
    free(name);
}

/* False for a 500; an old title is none of the answers that are allowed. */
static bool shows_title(void *arg)
{
    const struct turn *turn = arg;
    struct http_response response;
    char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(SAMPLE));
    char *expected = text_printf("\"title\":\"turn %d\"", turn->number);
    fixture_get(turn->fixture, path, &response);
    bool served = response.status == 200;
    assert_true(served || response.status == 500);
    if (served && strstr(response.body, expected) == NULL)
        fail_msg("turn %d: an old answer: %s", turn->number, response.body);
    http_response_free(&response);
    free(expected);
    free(path);
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
    char *header = text_printf("X-Api-Key: %s\r\n", OTHER_KEY);
    int status = http_get_status(turn->fixture->server.port, "/api/channels/", header);
    free(header);
    if (status != 500)
        assert_int_equal(status, turn->number % 2 == 1 ? 200 : 401);
    return status != 500;
}

/* Redis ends the connection of the server: all it has is that of the worker. */
static void end_connection(const struct turn *turn)
{
    change_title(turn);
    redis_do(&turn->fixture->redis, "CLIENT KILL TYPE normal SKIPME yes");
    redis_do(&turn->fixture->redis, "CLIENT KILL TYPE pubsub SKIPME yes");
}

/* --- each allocation that follows a change --- */

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
        failed = wait_until(has_failed, NULL, THROUGH_MS);
        (void)memory_restore(&memory);
        expect_recovery(&turn, is_right, n);
        assert_true(n < ENOUGH);
    }
    return n - 1;
}

/* Something may be left for good after the first times (a thread's own), but not each time. */
static void fail_all(struct fixture *fixture, const char *what, void (*change)(const struct turn *turn),
                     bool (*is_right)(void *arg))
{
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++) {
        int count = fail_each(fixture, change, is_right, how, 1);
        for (int times = 1, kept = true; kept; times++) {
            int64_t live = memory_live(&memory);
            (void)fail_each(fixture, change, is_right, how, 1);
            kept = !memory_await_live(&memory, live);
            if (kept && times == TIMES_MAX)
                fail_msg("%s: each time more is left: %lld blocks", what, (long long)memory_live(&memory));
        }
        print_message("%s: %d allocations, each failed\n", what, count);
        assert_true(count > 0);
    }
}

TEST_CASE_WITH(no_change_of_a_card_is_missed, start, end)
{
    fail_all(*state, "a card changes", change_much, shows_title);
}

TEST_CASE_WITH(no_change_of_the_keys_is_missed, start, end)
{
    fail_all(*state, "the keys change", change_keys, judges_the_key);
}

TEST_CASE_WITH(a_lost_connection_comes_back, start, end)
{
    fail_all(*state, "a reconnection", end_connection, shows_title);
}

TEST_CASE_WITH(a_lost_connection_to_a_named_redis_comes_back, start_named, end)
{
    fail_all(*state, "a reconnection by name", end_connection, shows_title);
}

/* A handshake takes hundreds of allocations, nearly all of them OpenSSL's: some are tried. */
TEST_CASE_WITH(a_lost_connection_with_tls_comes_back, start_with_tls, end)
{
    enum { STEP = 17 };
    for (enum memory_failure how = MEMORY_ONCE; how < MEMORY_FAILURES; how++)
        print_message("a reconnection with TLS: one in %d of %d allocations\n", STEP,
                      fail_each(*state, end_connection, shows_title, how, STEP));
}
