/* redis-server killed and started again under running clients. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { CLIENTS = 8, CHANNELS = 50, REQUEST_TIMEOUT_MS = 1000, RECOVERY_MS = 2000, OUTAGES = 3 };

struct outage;

/* A client at work: its thread alone writes the counters. */
struct client {
    struct outage *outage;
    pthread_t thread;
    size_t next;
    atomic_int good;
    atomic_int failed;      /* 500s */
    atomic_int wrong;       /* anything else, or no answer at all */
    atomic_int last_status; /* or a negative errno */
    atomic_int slowest_ms;
};

struct outage {
    struct fixture *fixture;
    char *bodies[CHANNELS]; /* what every channel's card has to be */
    struct client clients[CLIENTS];
    atomic_bool stopping;
};

static void judge(struct client *client, size_t n, int error, const struct http_response *response)
{
    int status = error != 0 ? error : response->status;
    atomic_store(&client->last_status, status);
    if (status == 200 && strcmp(response->body, client->outage->bodies[n]) == 0)
        atomic_fetch_add(&client->good, 1);
    else if (status == 500)
        atomic_fetch_add(&client->failed, 1);
    else
        atomic_fetch_add(&client->wrong, 1);
}

static void *run_client(void *arg)
{
    struct client *client = arg;
    struct http_conn conn;
    int open_error = http_open(&conn, client->outage->fixture->server.port);
    while (open_error == 0 && !atomic_load(&client->outage->stopping)) {
        struct http_response response = {.status = 0};
        size_t n = client->next++ % CHANNELS;
        char *target = text_printf("/api/channel/by-id/%lld/", (long long)catalogue_id(n));
        int64_t began = wait_now_ms();
        int error = http_exchange(&conn, "GET", target, FIXTURE_AUTH, &response);
        int took = (int)(wait_now_ms() - began);
        if (took > atomic_load(&client->slowest_ms))
            atomic_store(&client->slowest_ms, took);
        judge(client, n, error, &response);
        http_response_free(&response);
        free(target);
        if (error != 0)
            break;
    }
    http_close(&conn);
    return NULL;
}

static void begin(struct outage *outage)
{
    static const char *const env[] = {"CHANNELD_REQUEST_TIMEOUT=1s", NULL};
    memset(outage, 0, sizeof *outage);
    outage->fixture = fixture_new(CHANNELS, env);
    /* There is no automatic persistence: this is what the server loads when it comes back. */
    redis_do(&outage->fixture->redis, "SAVE");
    for (size_t n = 0; n < CHANNELS; n++) {
        char *path = text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
        outage->bodies[n] = fixture_body(outage->fixture, path);
        free(path);
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        outage->clients[i].outage = outage;
        outage->clients[i].next = i;
        assert_int_equal(pthread_create(&outage->clients[i].thread, NULL, run_client, &outage->clients[i]),
                         0);
    }
}

static void stop_clients(struct outage *outage)
{
    atomic_store(&outage->stopping, true);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(outage->clients[i].thread, NULL), 0);
}

static void end(struct outage *outage)
{
    for (size_t n = 0; n < CHANNELS; n++)
        free(outage->bodies[n]);
    fixture_free(outage->fixture);
}

static bool every_client_is_served(void *arg)
{
    struct outage *outage = arg;
    for (size_t i = 0; i < CLIENTS; i++) {
        if (atomic_load(&outage->clients[i].last_status) != 200)
            return false;
    }
    return true;
}

static void assert_nothing_wrong(struct outage *outage)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *client = &outage->clients[i];
        if (atomic_load(&client->wrong) != 0)
            fail_msg("a client got %d", atomic_load(&client->last_status));
        if (atomic_load(&client->slowest_ms) > REQUEST_TIMEOUT_MS + wait_slack_ms())
            fail_msg("an answer took %d ms", atomic_load(&client->slowest_ms));
    }
}

static bool time_is_not_up(void *arg)
{
    return wait_now_ms() < *(int64_t *)arg;
}

/* Lets the clients work for that long; nothing wrong may happen meanwhile. */
static void let_work(struct outage *outage, int ms)
{
    int64_t until = wait_now_ms() + ms;
    (void)wait_holds(time_is_not_up, &until, ms + 1000);
    assert_nothing_wrong(outage);
}

static void only_500s_meanwhile_and_right_answers_in_time_afterwards(void **state)
{
    struct outage outage;
    (void)state;
    begin(&outage);
    for (int i = 0; i < OUTAGES; i++) {
        let_work(&outage, 200);
        redis_kill(&outage.fixture->redis);
        let_work(&outage, 1500);
        redis_restart(&outage.fixture->redis);
        assert_true(wait_until(every_client_is_served, &outage, RECOVERY_MS));
        int failed = 0;
        int good = 0;
        for (size_t c = 0; c < CLIENTS; c++) {
            failed -= atomic_load(&outage.clients[c].failed);
            good -= atomic_load(&outage.clients[c].good);
        }
        let_work(&outage, 300);
        for (size_t c = 0; c < CLIENTS; c++) {
            failed += atomic_load(&outage.clients[c].failed);
            good += atomic_load(&outage.clients[c].good);
        }
        assert_int_equal(failed, 0);
        assert_true(good > 0);
    }
    stop_clients(&outage);
    assert_nothing_wrong(&outage);
    end(&outage);
}

static void short_interruption_does_no_harm(void **state)
{
    struct outage outage;
    (void)state;
    begin(&outage);
    let_work(&outage, 200);
    redis_restart(&outage.fixture->redis);
    let_work(&outage, RECOVERY_MS);
    stop_clients(&outage);
    assert_nothing_wrong(&outage);
    end(&outage);
}

/* A short loss is none of the load balancer's business. */
static void readiness_outlives_redis_by_the_stale_limit(void **state)
{
    static const char *const env[] = {"CHANNELD_STALE_LIMIT=1500ms", NULL};
    struct fixture *fixture = fixture_new(2, env);
    (void)state;
    redis_kill(&fixture->redis);
    int64_t began = wait_now_ms();
    server_await_metric_below(&fixture->server, "channeld_redis_connected", 0.5);
    assert_int_equal(server_admin_status(&fixture->server, "/readyz"), 200);
    server_await_admin(&fixture->server, "/readyz", 503);
    assert_in_range(wait_now_ms() - began, 1000, 1500 + wait_slack_ms());
    assert_int_equal(server_admin_status(&fixture->server, "/livez"), 200);
    redis_restart(&fixture->redis);
    server_await_admin(&fixture->server, "/readyz", 200);
    fixture_free(fixture);
}

static void lost_connections_are_noticed_and_counted(void **state)
{
    struct fixture *fixture = fixture_new(2, NULL);
    (void)state;
    double before = server_metric(&fixture->server, "channeld_redis_disconnects_total");
    redis_do(&fixture->redis, "CLIENT KILL TYPE normal SKIPME yes");
    server_await_metric(&fixture->server, "channeld_redis_disconnects_total", before + 2);
    server_await_metric(&fixture->server, "channeld_redis_connected", 2);
    assert_int_equal(fixture_status(fixture, "channel/by-id/-9223372036854775808/"), 200);
    fixture_free(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_500s_meanwhile_and_right_answers_in_time_afterwards),
        cmocka_unit_test(short_interruption_does_no_harm),
        cmocka_unit_test(readiness_outlives_redis_by_the_stale_limit),
        cmocka_unit_test(lost_connections_are_noticed_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
