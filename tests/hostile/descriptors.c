/*
 * Clients take all descriptors there are: the process does not spin, answers its operator, serves new clients
 * and requests that have begun, keeps its connections to Redis, and goes on by itself when there are
 * descriptors again.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/fixture.h"
#include "support/footprint.h"

enum {
    FEW = 600,
    VERY_FEW = 320 + 2 * 40 + 16, /* the fewest for two workers */
    CLIENTS = 600,
    EATERS = 4,
    HELD = 200,
    HOLD_MS = 500,
    LOOKS = 500,
    MEASURED_MS = 1000,
    CPU_MS = 300,
    WORKERS = 2
};

/* Clients that hold whatever they get, and those that are sent away do not leave before they must. */
struct eaters {
    int port;
    atomic_bool ends;
    atomic_int tries;
    pthread_t thread[EATERS];
};

static bool have_ended(void *arg)
{
    struct eaters *eaters = arg;
    return atomic_load(&eaters->ends);
}

static void *eat(void *arg)
{
    struct eaters *eaters = arg;
    struct http_conn conns[HELD];
    while (!have_ended(eaters)) {
        for (int i = 0; i < HELD; i++) {
            (void)http_open(&conns[i], eaters->port);
            atomic_fetch_add(&eaters->tries, 1);
        }
        (void)wait_until(have_ended, eaters, HOLD_MS);
        for (int i = 0; i < HELD; i++)
            http_close(&conns[i]);
    }
    return NULL;
}

static bool have_eaten(void *arg)
{
    struct eaters *eaters = arg;
    return atomic_load(&eaters->tries) > 2 * EATERS * HELD;
}

static void eaters_begin(struct eaters *eaters, int port)
{
    *eaters = (struct eaters){.port = port};
    for (int i = 0; i < EATERS; i++)
        assert_int_equal(pthread_create(&eaters->thread[i], NULL, eat, eaters), 0);
    assert_true(wait_until(have_eaten, eaters, WAIT_DEADLINE_MS));
}

static void eaters_end(struct eaters *eaters)
{
    atomic_store(&eaters->ends, true);
    for (int i = 0; i < EATERS; i++)
        (void)pthread_join(eaters->thread[i], NULL);
}

static void assert_served(struct http_conn *conn)
{
    AUTO(http_response_free) struct http_response response;
    int error = http_exchange(conn, "GET", "/api/channels/", FIXTURE_AUTH, &response);
    if (error != 0)
        fail_msg("an open connection is not served: %s", strerror(-error));
    assert_int_equal(response.status, 200);
}

static bool is_let_in(void *arg)
{
    struct fixture *fixture = arg;
    struct http_response response;
    if (http_try(fixture->server.port, "GET", "/api/channels/", FIXTURE_AUTH, &response) != 0)
        return false;
    int status = response.status;
    http_response_free(&response);
    return status == 200;
}

static bool second_has_passed(void *arg)
{
    const int64_t *until = arg;
    return wait_left_ms(*until) == 0;
}

/* Processor time of the process in a second. */
static int cpu_of_a_second(pid_t pid)
{
    int64_t until = wait_now_ms() + MEASURED_MS;
    int64_t before = footprint_of(pid).cpu_ms;
    assert_true(wait_until(second_has_passed, &until, WAIT_DEADLINE_MS));
    return (int)(footprint_of(pid).cpu_ms - before);
}

/* How many are taken at worst, while the operator looks again and again. */
static int most_descriptors(struct fixture *fixture, int few)
{
    int most = 0;
    for (int i = 0; i < LOOKS; i++) {
        int taken = footprint_of(fixture->server.process.pid).descriptors;
        most = taken > most ? taken : most;
        assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
        assert_true(server_metric(&fixture->server, "process_open_fds") <= few);
    }
    return most;
}

/* With no more descriptors from its start than a fraction of what it would like to have. */
static void start_with_few(void **state, int few, const char *workers)
{
    assert_int_equal(setenv("TEST_WRAPPER", text_temp("prlimit --nofile=%d:%d", few, few), 1), 0);
    *state = fixture_new(3, ENV("CHANNELD_MAX_CONNECTIONS=10000", "CHANNELD_STALE_LIMIT=0s", workers,
                                "CHANNELD_HEADER_TIMEOUT=5m"));
    assert_int_equal(unsetenv("TEST_WRAPPER"), 0);
}

static void check_few(int few, const char *workers)
{
    AUTO(fixture_drop) struct fixture *fixture = NULL;
    struct eaters eaters;
    struct http_conn kept;
    if (getenv("TEST_WRAPPER") != NULL)
        test_skip("TEST_WRAPPER is in use");
    start_with_few((void **)&fixture, few, workers);
    assert_int_equal(http_open(&kept, fixture->server.port), 0);
    assert_served(&kept);
    assert_int_equal(http_send_text(&kept, "GET /api/channels/ HTTP/1.1\r\n"), 0);
    eaters_begin(&eaters, fixture->server.port);
    int most = most_descriptors(fixture, few);
    assert_true(wait_until(is_let_in, fixture, WAIT_DEADLINE_MS));
    redis_kill(&fixture->redis);
    server_await_admin(&fixture->server, "/readyz", 503);
    redis_restart(&fixture->redis);
    catalogue_issue_key(&fixture->redis, FIXTURE_KEY);
    catalogue_put_samples(&fixture->redis, 3);
    server_await_admin(&fixture->server, "/readyz", 200);
    assert_int_equal(http_send_text(&kept, "Host: a\r\n" FIXTURE_AUTH "\r\n"), 0);
    http_expect(&kept, 200);
    eaters_end(&eaters);
    http_close(&kept);
    AUTOFREE char *log = server_log(&fixture->server);
    print_message("at most %d of %d descriptors taken, %zu times none left\n", most, few,
                  text_count(log, "cannot accept"));
    assert_int_equal(text_count(log, "cannot accept"), 0);
}

TEST_CASE(operator_and_redis_get_descriptors_while_clients_eat_them)
{
    check_few(FEW, "CHANNELD_WORKERS=4");
}

TEST_CASE(so_they_do_where_there_are_hardly_any)
{
    check_few(VERY_FEW, "CHANNELD_WORKERS=2");
}

/* The limit falls while it runs: not even what it has kept for its operator is left. */
TEST_CASE(no_descriptor_at_all_does_not_make_it_spin)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(3, NULL);
    AUTO(http_pool_close) struct http_pool pool;
    struct rlimit all;
    pid_t pid = fixture->server.process.pid;
    AUTO(http_close) struct http_conn kept = http_connect(fixture->server.port);
    assert_served(&kept);
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &all), 0);
    struct rlimit none = {.rlim_cur = 3, .rlim_max = all.rlim_max};
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &none, NULL), 0);
    http_pool_open(&pool, fixture->server.port, CLIENTS, 0);
    int cpu = cpu_of_a_second(pid);
    print_message("%d ms of processor time in a second without descriptors\n", cpu);
    if (footprint_is_meaningful())
        assert_in_range(cpu, 0, CPU_MS);
    assert_served(&kept);
    AUTOFREE char *log = server_log(&fixture->server);
    assert_in_range(text_count(log, "cannot accept"), 1, WORKERS); /* logged once per worker */
    assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &all, NULL), 0);
    server_await_metric(&fixture->server, "channeld_connections_open", CLIENTS + 1);
    assert_served(&kept);
    assert_true(is_let_in(fixture));
}
