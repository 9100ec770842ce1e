/* A master that dies, or stalls and wakes up again, is replaced by Sentinels while clients ask. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"
#include "support/sentinel.h"

enum { CLIENTS = 4, CHANNELS = 20, FOLLOW_MS = 1000, PACE_MS = 5, UNKNOWN_IDS = 1000000 };

struct scene;

/* A client at work; its thread alone writes the counters. */
struct client {
    struct scene *scene;
    pthread_t thread;
    bool for_cached;   /* asks for what it has asked for before; otherwise for what nobody ever asked for */
    int next;          /* which channel, or how-maniest unknown id */
    atomic_bool warm;  /* its worker remembers what it will ask for */
    atomic_int good;   /* 200 and right, or 404 for what does not exist */
    atomic_int failed; /* 500 */
    atomic_int wrong;  /* anything else */
    atomic_int last;   /* status, or a negative errno */
    _Atomic int64_t last_failed_ms;
};

struct scene {
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
    return response->status == 200 && strcmp(response->body, client->scene->bodies[n % CHANNELS]) == 0;
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

/* One connection, and so one worker, from beginning to end. */
static void *run_client(void *arg)
{
    struct client *client = arg;
    struct http_conn conn;
    int error = http_open(&conn, client->scene->fixture.server.port);
    while (error == 0 && !atomic_load(&client->scene->stopping)) {
        struct http_response response = {.status = 0};
        int n = client->next;
        char *target = target_of(client);
        error = http_exchange(&conn, "GET", target, FIXTURE_AUTH, &response);
        if (error == 0)
            judge(client, n, &response);
        http_response_free(&response);
        free(target);
        /* Not as fast as can be: Sentinels that get no processor time do nothing for half a minute. */
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
    struct scene *scene = arg;
    for (int i = 0; i < CLIENTS; i++)
        if (!atomic_load(&scene->clients[i].warm))
            return false;
    return true;
}

static void start_clients(struct scene *scene)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &scene->clients[i];
        client->scene = scene;
        client->for_cached = i % 2 == 0;
        client->next = client->for_cached ? 0 : i * UNKNOWN_IDS;
        assert_int_equal(pthread_create(&client->thread, NULL, run_client, client), 0);
        scene->started++;
    }
    assert_true(wait_until(all_are_warm, scene, WAIT_DEADLINE_MS));
}

static void stop_clients(struct scene *scene)
{
    atomic_store(&scene->stopping, true);
    for (int i = 0; i < scene->started; i++)
        assert_int_equal(pthread_join(scene->clients[i].thread, NULL), 0);
    scene->started = 0;
}

static bool everybody_is_served(void *arg)
{
    struct scene *scene = arg;
    for (int i = 0; i < CLIENTS; i++) {
        int last = atomic_load(&scene->clients[i].last);
        if (last != 200 && last != 404)
            return false;
    }
    return true;
}

static bool time_is_not_up(void *arg)
{
    return wait_now_ms() < *(int64_t *)arg;
}

static void let_work(int ms)
{
    int64_t until = wait_now_ms() + ms;
    (void)wait_holds(time_is_not_up, &until, ms + 1000);
}

/* ---- the scene ---- */

static struct scene scene;

static int set_up(void **state)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=1s", "CHANNELD_STALE_LIMIT=2m", NULL};
    (void)state;
    memset(&scene, 0, sizeof scene);
    sentinel_cluster_start(&scene.cluster, 2, 3);
    catalogue_issue_key(&scene.cluster.redis[0], FIXTURE_KEY);
    catalogue_put_samples(&scene.cluster.redis[0], CHANNELS);
    assert_int_equal(redis_integer(&scene.cluster.redis[0], "WAIT 2 %d", WAIT_DEADLINE_MS / 2), 2);
    struct server_spec spec = {.redis_url = scene.cluster.url, .env = env, .wait = SERVER_WAIT_READY};
    server_start(&scene.fixture.server, &spec);
    server_await_metric(&scene.fixture.server, "channeld_sentinels_connected", 2);
    for (size_t n = 0; n < CHANNELS; n++) {
        char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
        scene.bodies[n] = fixture_body(&scene.fixture, path);
        free(path);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    stop_clients(&scene);
    if (scene.fixture.server.process.pid != 0)
        server_stop(&scene.fixture.server);
    server_kill(&scene.fixture.server);
    sentinel_cluster_stop(&scene.cluster);
    for (size_t n = 0; n < CHANNELS; n++)
        free(scene.bodies[n]);
    return 0;
}

/* What clients saw from the fault to now: cached channels without fail, others again within a second of the
 * switch. */
static void assert_bounds(int64_t fault_ms, int64_t switched_ms)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct client *client = &scene.clients[i];
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

/* The card has this title; asked over connections of their own, so that all workers are asked. */
static bool has_title(const char *title)
{
    for (int i = 0; i < 8; i++) {
        struct http_response response;
        fixture_get(&scene.fixture, "channel/by-id/0/", &response);
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
    redis_disconnect(&scene.cluster.redis[master]); /* Sentinel ends the connections of whom it promotes */
    redis_do(&scene.cluster.redis[master], "HSET channels:card:0 title %s", "after the failover");
}

/* What is written there is answered. On a busy machine Sentinels may replace the new master too: then there.
 */
static void expect_answers_of(int master)
{
    for (;;) {
        change_title(master);
        if (wait_until(is_of_the_new_master, NULL, FOLLOW_MS + wait_slack_ms()))
            return;
        int now = sentinel_cluster_await_other(&scene.cluster, 0);
        if (now == master)
            break;
        master = now;
    }
    char *log = server_log(&scene.fixture.server);
    print_error("%s", log);
    free(log);
    fail_msg("not all answers are those of master %d", master);
}

static void expect_killed_master_replaced(void)
{
    int64_t fault_ms = wait_now_ms();
    redis_kill(&scene.cluster.redis[0]);
    int master = sentinel_cluster_await_other(&scene.cluster, 0);
    int64_t switched_ms = wait_now_ms();
    print_message("failover: %lld ms\n", (long long)(switched_ms - fault_ms));
    assert_true(wait_until(everybody_is_served, &scene, FOLLOW_MS + wait_slack_ms()));
    let_work(FOLLOW_MS);
    stop_clients(&scene);
    assert_bounds(fault_ms, switched_ms);
    expect_answers_of(master);
}

TEST_CASE_WITH(killed_master_costs_no_cached_answer_and_others_a_second_more_than_the_failover, set_up,
               tear_down)
{
    start_clients(&scene);
    expect_killed_master_replaced();
}

/* The first of the list, to which all workers speak, goes with the master: as with one machine for both. */
TEST_CASE_WITH(sentinel_that_goes_with_the_master_changes_nothing, set_up, tear_down)
{
    start_clients(&scene);
    redis_kill(&scene.cluster.sentinel[0]);
    expect_killed_master_replaced();
    server_await_metric(&scene.fixture.server, "channeld_sentinels_connected", 2);
}

/* It wakes up with the connections and the data that it had. */
TEST_CASE_WITH(stalled_master_that_wakes_up_is_not_listened_to, set_up, tear_down)
{
    start_clients(&scene);
    int64_t fault_ms = wait_now_ms();
    redis_pause(&scene.cluster.redis[0]);
    int master = sentinel_cluster_await_other(&scene.cluster, 0);
    int64_t switched_ms = wait_now_ms();
    print_message("failover: %lld ms\n", (long long)(switched_ms - fault_ms));
    assert_true(wait_until(everybody_is_served, &scene, FOLLOW_MS + wait_slack_ms()));
    stop_clients(&scene);
    assert_bounds(fault_ms, switched_ms);
    expect_answers_of(master);
    assert_in_range(wait_now_ms() - switched_ms, 0, 2 * FOLLOW_MS + 2 * wait_slack_ms());
    redis_resume(&scene.cluster.redis[0]);
    assert_true(wait_holds(is_of_the_new_master, NULL, 3 * FOLLOW_MS));
}

/* An operator's own failover, with everybody alive: nobody notices. */
TEST_CASE_WITH(ordered_failover_costs_nothing, set_up, tear_down)
{
    start_clients(&scene);
    int64_t fault_ms = wait_now_ms();
    int master = sentinel_cluster_fail_over(&scene.cluster, 0);
    int64_t switched_ms = wait_now_ms();
    print_message("failover: %lld ms\n", (long long)(switched_ms - fault_ms));
    let_work(FOLLOW_MS);
    stop_clients(&scene);
    assert_bounds(fault_ms, switched_ms);
    expect_answers_of(master);
}
