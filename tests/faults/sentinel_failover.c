/* A master that dies, or stalls and wakes up again, is replaced by Sentinels while clients send requests. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/sentinel.h"

enum { CLIENTS = 4, CHANNELS = 20, FOLLOW_MS = 1000, PACE_MS = 5, UNKNOWN_IDS = 1000000 };

struct failover;

/* A client; its thread alone writes the counters. */
struct client {
    struct failover *failover;
    pthread_t thread;
    bool for_cached;   /* repeats requests; otherwise each is for another id that does not exist */
    int next;          /* index of the channel, or of the unknown id */
    atomic_bool warm;  /* its worker has cached what it requests */
    atomic_int good;   /* 200 and right, or 404 for what does not exist */
    atomic_int failed; /* 500 */
    atomic_int wrong;  /* any other response */
    atomic_int last;   /* status, or a negative errno */
    _Atomic int64_t last_failed_ms;
};

struct failover {
    struct sentinel_cluster cluster;
    struct fixture fixture;
    char *bodies[CHANNELS];
    struct client clients[CLIENTS];
    int started;
    atomic_bool stopping;
};

/* ---- clients ---- */

static char *target_of(struct client *client)
{
    int n = client->next++;
    if (client->for_cached)
        return text_printf("/api/channel/by-id/%lld/", (long long)catalogue_id((size_t)(n % CHANNELS)));
    return text_printf("/api/channel/by-id/%d/", UNKNOWN_IDS + n);
}

static bool is_right(const struct client *client, int n, const struct http_response *response)
{
    if (!client->for_cached)
        return response->status == 404;
    return response->status == 200 && strcmp(response->body, client->failover->bodies[n % CHANNELS]) == 0;
}

static void judge(struct client *client, int n, const struct http_response *response)
{
    if (is_right(client, n, response)) {
        atomic_fetch_add(&client->good, 1);
    } else if (response->status == 500) {
        atomic_fetch_add(&client->failed, 1);
        atomic_store(&client->last_failed_ms, wait_now_ms());
    } else {
        atomic_fetch_add(&client->wrong, 1);
    }
    atomic_store(&client->last, response->status);
}

/* One connection, and so one worker, for the whole test. */
static void *run_client(void *arg)
{
    struct client *client = arg;
    struct http_conn conn;
    int error = http_open(&conn, client->failover->fixture.server.port);
    while (error == 0 && !atomic_load(&client->failover->stopping)) {
        struct http_response response = {.status = 0};
        int n = client->next;
        char *target = target_of(client);
        error = http_exchange(&conn, "GET", target, FIXTURE_AUTH, &response);
        if (error == 0)
            judge(client, n, &response);
        http_response_free(&response);
        free(target);
        /* Paced: Sentinels that get no processor time do nothing for half a minute. */
        (void)http_is_readable(&conn, PACE_MS);
        if (client->next % UNKNOWN_IDS == CHANNELS)
            atomic_store(&client->warm, true);
    }
    if (error != 0) {
        atomic_store(&client->last, error);
        atomic_fetch_add(&client->wrong, 1);
    }
    http_close(&conn);
    return NULL;
}

static bool all_are_warm(void *arg)
{
    struct failover *failover = arg;
    for (int i = 0; i < CLIENTS; i++)
        if (!atomic_load(&failover->clients[i].warm))
            return false;
    return true;
}

static void start_clients(struct failover *failover)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &failover->clients[i];
        client->failover = failover;
        client->for_cached = i % 2 == 0;
        client->next = client->for_cached ? 0 : i * UNKNOWN_IDS;
        assert_int_equal(pthread_create(&client->thread, NULL, run_client, client), 0);
        failover->started++;
    }
    assert_true(wait_until(all_are_warm, failover, WAIT_DEADLINE_MS));
}

static void stop_clients(struct failover *failover)
{
    atomic_store(&failover->stopping, true);
    for (int i = 0; i < failover->started; i++)
        assert_int_equal(pthread_join(failover->clients[i].thread, NULL), 0);
    failover->started = 0;
}

static bool all_clients_are_served(void *arg)
{
    struct failover *failover = arg;
    for (int i = 0; i < CLIENTS; i++) {
        int last = atomic_load(&failover->clients[i].last);
        if (last != 200 && last != 404)
            return false;
    }
    return true;
}

static bool time_is_not_up(void *arg)
{
    return wait_now_ms() < *(int64_t *)arg;
}

static void let_pass(int ms)
{
    int64_t until = wait_now_ms() + ms;
    (void)wait_holds(time_is_not_up, &until, ms + 1000);
}

/* ---- set-up ---- */

static struct failover failover;

static int set_up(void **state)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=1s", "CHANNELD_STALE_LIMIT=2m", NULL};
    (void)state;
    memset(&failover, 0, sizeof failover);
    sentinel_cluster_start(&failover.cluster, 2, 3);
    catalogue_issue_key(&failover.cluster.redis[0], FIXTURE_KEY);
    catalogue_put_samples(&failover.cluster.redis[0], CHANNELS);
    assert_int_equal(redis_integer(&failover.cluster.redis[0], "WAIT 2 %d", WAIT_DEADLINE_MS / 2), 2);
    fixture_serve(&failover.fixture, failover.cluster.url, env, SERVER_WAIT_READY);
    server_await_metric(&failover.fixture.server, "channeld_sentinels_connected", 2);
    for (size_t n = 0; n < CHANNELS; n++) {
        char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
        failover.bodies[n] = fixture_body(&failover.fixture, path);
        free(path);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stop_clients(&failover);
    fixture_fini(&failover.fixture);
    sentinel_cluster_stop(&failover.cluster);
    for (size_t n = 0; n < CHANNELS; n++)
        free(failover.bodies[n]);
    return 0;
}

/* From the fault until now, cached requests did not fail, the others not later than a second after the
 * switch. */
static void assert_bounds(int64_t fault_ms, int64_t switched_ms)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &failover.clients[i];
        int failed = atomic_load(&client->failed);
        int64_t last = atomic_load(&client->last_failed_ms);
        print_message("client %d (%s): %d good, %d failed", i, client->for_cached ? "cached" : "others",
                      atomic_load(&client->good), failed);
        if (failed > 0)
            print_message(", the last one %lld ms after the fault", (long long)(last - fault_ms));
        print_message("\n");
        if (atomic_load(&client->wrong) != 0)
            fail_msg("client %d got %d", i, atomic_load(&client->last));
        if (client->for_cached)
            assert_int_equal(failed, 0);
        else if (failed > 0)
            assert_in_range(last - fault_ms, 0, switched_ms - fault_ms + FOLLOW_MS + wait_slack_ms());
    }
}

/* True when every worker serves the card with this title: each request has a connection of its own. */
static bool has_title(const char *title)
{
    for (int i = 0; i < 8; i++) {
        struct http_response response;
        fixture_get(&failover.fixture, "channel/by-id/0/", &response);
        bool same = response.status == 200 && strstr(response.body, title) != NULL;
        http_response_free(&response);
        if (!same)
            return false;
    }
    return true;
}

static bool is_of_the_new_master(void *arg)
{
    (void)arg;
    return has_title("\"after the failover\"");
}

static void change_title(int master)
{
    redis_disconnect(
        &failover.cluster.redis[master]); /* Sentinel closes the connections of a replica that it promotes */
    redis_do(&failover.cluster.redis[master], "HSET channels:card:0 title %s", "after the failover");
}

/* What is written to that master is served. On a busy machine Sentinels may replace the new master too. */
static void expect_answers_of(int master)
{
    for (;;) {
        change_title(master);
        if (wait_until(is_of_the_new_master, NULL, FOLLOW_MS + wait_slack_ms()))
            return;
        int now = sentinel_cluster_await_other(&failover.cluster, 0);
        if (now == master)
            break;
        master = now;
    }
    char *log = server_log(&failover.fixture.server);
    print_error("%s", log);
    free(log);
    fail_msg("not all responses are those of master %d", master);
}

static void expect_killed_master_replaced(void)
{
    int64_t fault_ms = wait_now_ms();
    redis_kill(&failover.cluster.redis[0]);
    int master = sentinel_cluster_await_other(&failover.cluster, 0);
    int64_t switched_ms = wait_now_ms();
    print_message("failover: %lld ms\n", (long long)(switched_ms - fault_ms));
    assert_true(wait_until(all_clients_are_served, &failover, FOLLOW_MS + wait_slack_ms()));
    let_pass(FOLLOW_MS);
    stop_clients(&failover);
    assert_bounds(fault_ms, switched_ms);
    expect_answers_of(master);
}

SLOW_TEST_WITH(killed_master_is_replaced, set_up, tear_down)
{
    start_clients(&failover);
    expect_killed_master_replaced();
}

/* The first of the list, which all workers use, is lost with the master: both are on one machine. */
SLOW_TEST_WITH(sentinel_lost_with_the_master, set_up, tear_down)
{
    start_clients(&failover);
    redis_kill(&failover.cluster.sentinel[0]);
    expect_killed_master_replaced();
    server_await_metric(&failover.fixture.server, "channeld_sentinels_connected", 2);
}

/* It wakes up with its former connections and data. */
SLOW_TEST_WITH(stalled_master_that_wakes_up_is_ignored, set_up, tear_down)
{
    start_clients(&failover);
    int64_t fault_ms = wait_now_ms();
    redis_pause(&failover.cluster.redis[0]);
    int master = sentinel_cluster_await_other(&failover.cluster, 0);
    int64_t switched_ms = wait_now_ms();
    print_message("failover: %lld ms\n", (long long)(switched_ms - fault_ms));
    assert_true(wait_until(all_clients_are_served, &failover, FOLLOW_MS + wait_slack_ms()));
    stop_clients(&failover);
    assert_bounds(fault_ms, switched_ms);
    expect_answers_of(master);
    assert_in_range(wait_now_ms() - switched_ms, 0, 2 * FOLLOW_MS + 2 * wait_slack_ms());
    redis_resume(&failover.cluster.redis[0]);
    assert_true(wait_holds(is_of_the_new_master, NULL, 3 * FOLLOW_MS));
}

/* A failover by an operator's order, with all servers running: no request fails. */
SLOW_TEST_WITH(ordered_failover, set_up, tear_down)
{
    start_clients(&failover);
    int64_t fault_ms = wait_now_ms();
    int master = sentinel_cluster_fail_over(&failover.cluster, 0);
    int64_t switched_ms = wait_now_ms();
    print_message("failover: %lld ms\n", (long long)(switched_ms - fault_ms));
    let_pass(FOLLOW_MS);
    stop_clients(&failover);
    assert_bounds(fault_ms, switched_ms);
    expect_answers_of(master);
}
