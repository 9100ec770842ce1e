/* Background clients and their tallies; see clients.h. */

#include "faults/clients.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/testbed.h"

enum {
    TARGETS_BY_ID = 30,
    TARGETS_BY_LINK = 30,
    TARGETS_PAGES = 2,
    TARGETS = TARGETS_BY_ID + TARGETS_BY_LINK + TARGETS_PAGES,
    PAUSE_MS = 2,
    STALL_MONITOR_MS = 10,
    SETTLED_MS = 300,
    EXCERPT = 120,
};

struct client {
    struct clients *clients;
    enum client_kind kind;
    pthread_t thread;
    unsigned turn;
    atomic_uint served; /* right answers since it was set to 0 */
};

struct clients {
    struct testbed *bed;
    struct client clients[CLIENTS_KINDS][CLIENTS_PER_KIND];
    atomic_bool stopping;
    pthread_t stall_monitor;
    bool stall_monitor_runs;
    atomic_int stall_ms;  /* the longest delay by the scheduler */
    pthread_mutex_t lock; /* of the three below */
    int64_t marked_ms;
    struct client_tally now[CLIENTS_KINDS];
    struct client_tally fault[CLIENTS_KINDS];
};

/* ---- one request ---- */

struct query {
    char *target;
    long long id; /* of the card, or 0 */
    int page;     /* or 0 */
};

static struct query next_query(struct client *client)
{
    struct query q = {0};
    unsigned n = client->turn++ % TARGETS;
    if (client->kind == CLIENTS_UNCACHED) {
        AUTOFREE char *path = testbed_spare_path(&q.id);
        q.target = text_printf("/api/%s", path);
    } else if (n < TARGETS_BY_ID) {
        q.id = n + 1;
        q.target = text_printf("/api/channel/by-id/%lld/", q.id);
    } else if (n < TARGETS_BY_ID + TARGETS_BY_LINK) {
        q.id = n + 1;
        q.target = text_printf("/api/channel/by-link/?link=https://web.max.ru/c%lld", q.id);
    } else {
        q.page = (int)n - TARGETS_BY_ID - TARGETS_BY_LINK + 1;
        q.target = text_printf("/api/channels/?page=%d", q.page);
    }
    return q;
}

static bool is_right(const struct query *q, const char *body)
{
    AUTOFREE char *expected =
        q->page > 0 ? catalogue_version_page(q->page, 1) : catalogue_version_card(q->id, 1);
    return strcmp(body, expected) == 0;
}

static bool is_unavailable(const struct http_response *response)
{
    const char *retry = http_header(response, "Retry-After");
    return response->status == 500 && retry != NULL && strcmp(retry, "1") == 0 &&
           strcmp(response->body, "{\"success\":false,\"error\":\"Internal server error\"}") == 0;
}

struct outcome {
    bool right, failed;
    int took_ms;
    int64_t sent_ms, received_ms;
};

/* An uncached request that was sent before the mark does not count: it may have waited for the fault to end.
 */
static void note(struct client *client, const struct query *q, const struct outcome *outcome, int error,
                 const struct http_response *response)
{
    struct clients *clients = client->clients;
    (void)pthread_mutex_lock(&clients->lock);
    struct client_tally *tally = &clients->now[client->kind];
    int after_mark = (int)(outcome->received_ms - clients->marked_ms);
    bool counts = client->kind == CLIENTS_CACHED || outcome->sent_ms >= clients->marked_ms;
    tally->right += counts && outcome->right;
    tally->failed += counts && outcome->failed;
    if (outcome->right && tally->first_right_ms < 0 && outcome->sent_ms >= clients->marked_ms)
        tally->first_right_ms = after_mark;
    if (outcome->failed)
        tally->last_failed_ms = after_mark;
    if (outcome->took_ms > tally->slowest_ms) {
        tally->slowest_ms = outcome->took_ms;
        (void)snprintf(tally->slowest, sizeof tally->slowest, "%s: error %d, status %d", q->target, error,
                       response->status);
    }
    if (!outcome->right && !outcome->failed && tally->wrong++ == 0)
        (void)snprintf(tally->first_wrong, sizeof tally->first_wrong, "%s: error %d, status %d, %.*s",
                       q->target, error, response->status, EXCERPT, error == 0 ? response->body : "");
    (void)pthread_mutex_unlock(&clients->lock);
    if (outcome->right)
        atomic_fetch_add(&client->served, 1);
}

/* Returns the error of the exchange. */
static int send_query(struct client *client, struct http_conn *conn)
{
    struct http_response response = {.status = 0};
    struct query q = next_query(client);
    struct outcome outcome = {.sent_ms = wait_now_ms()};
    int error = http_exchange(conn, "GET", q.target, FIXTURE_AUTH, &response);
    outcome.received_ms = wait_now_ms();
    outcome.took_ms = (int)(outcome.received_ms - outcome.sent_ms);
    outcome.right = error == 0 && response.status == 200 && is_right(&q, response.body);
    outcome.failed = error == 0 && is_unavailable(&response);
    note(client, &q, &outcome, error, &response);
    http_response_free(&response);
    free(q.target);
    return error;
}

static bool is_going_on(void *arg)
{
    struct clients *clients = arg;
    return !atomic_load(&clients->stopping);
}

static void *run_client(void *arg)
{
    struct client *client = arg;
    struct clients *clients = client->clients;
    while (!atomic_load(&clients->stopping)) {
        AUTO(http_close) struct http_conn conn;
        int error = http_open(&conn, clients->bed->fixture.server.port);
        while (error == 0 && !atomic_load(&clients->stopping)) {
            error = send_query(client, &conn);
            (void)wait_holds(is_going_on, clients, PAUSE_MS);
        }
    }
    return NULL;
}

/* Measures by how much the machine prolongs a sleep: the error of every measured time. */
static void *run_stall_monitor(void *arg)
{
    struct clients *clients = arg;
    while (!atomic_load(&clients->stopping)) {
        int64_t began = wait_now_ms();
        (void)poll(NULL, 0, STALL_MONITOR_MS);
        int stall = (int)(wait_now_ms() - began) - STALL_MONITOR_MS;
        if (stall > atomic_load(&clients->stall_ms))
            atomic_store(&clients->stall_ms, stall);
    }
    return NULL;
}

/* ---- start and end ---- */

static const struct client_tally no_tally = {.first_right_ms = -1, .last_failed_ms = -1};

/* Each repeating client has sent each of its requests once, to its own worker. */
static bool is_warm(void *arg)
{
    struct clients *clients = arg;
    for (int i = 0; i < CLIENTS_PER_KIND; i++) {
        if (atomic_load(&clients->clients[CLIENTS_CACHED][i].served) < TARGETS ||
            atomic_load(&clients->clients[CLIENTS_UNCACHED][i].served) == 0)
            return false;
    }
    return true;
}

static void await_warm(struct clients *clients)
{
    for (int i = 0; i < CLIENTS_PER_KIND; i++) {
        atomic_store(&clients->clients[CLIENTS_CACHED][i].served, 0);
        atomic_store(&clients->clients[CLIENTS_UNCACHED][i].served, 0);
    }
    if (!wait_until(is_warm, clients, WAIT_DEADLINE_MS))
        fail_msg("the clients are not served: %s", clients_tally(clients, CLIENTS_CACHED).first_wrong);
}

struct clients *clients_start(struct testbed *bed)
{
    struct clients *clients = calloc(1, sizeof *clients);
    if (clients == NULL)
        abort();
    bed->clients = clients;
    clients->bed = bed;
    assert_int_equal(pthread_mutex_init(&clients->lock, NULL), 0);
    clients_mark(clients);
    clients->stall_monitor_runs =
        pthread_create(&clients->stall_monitor, NULL, run_stall_monitor, clients) == 0;
    assert_true(clients->stall_monitor_runs);
    for (int i = 0; i < CLIENTS_KINDS * CLIENTS_PER_KIND; i++) {
        enum client_kind kind = i % 2 == 0 ? CLIENTS_CACHED : CLIENTS_UNCACHED;
        struct client *client = &clients->clients[kind][i / 2];
        client->clients = clients;
        client->kind = kind;
        assert_int_equal(pthread_create(&client->thread, NULL, run_client, client), 0);
    }
    await_warm(clients);
    return clients;
}

void clients_free(struct clients *clients)
{
    if (clients == NULL)
        return;
    atomic_store(&clients->stopping, true);
    for (int i = 0; i < CLIENTS_KINDS * CLIENTS_PER_KIND; i++) {
        struct client *client = &clients->clients[i % CLIENTS_KINDS][i / CLIENTS_KINDS];
        if (client->clients != NULL)
            (void)pthread_join(client->thread, NULL);
    }
    if (clients->stall_monitor_runs)
        (void)pthread_join(clients->stall_monitor, NULL);
    (void)pthread_mutex_destroy(&clients->lock);
    free(clients);
}

static void begin_tallies(struct clients *clients, bool keep)
{
    (void)pthread_mutex_lock(&clients->lock);
    clients->marked_ms = wait_now_ms();
    for (int kind = 0; kind < CLIENTS_KINDS; kind++) {
        if (keep)
            clients->fault[kind] = clients->now[kind];
        clients->now[kind] = no_tally;
    }
    (void)pthread_mutex_unlock(&clients->lock);
}

void clients_mark(struct clients *clients)
{
    begin_tallies(clients, false);
}

void clients_mark_end(struct clients *clients)
{
    begin_tallies(clients, true);
}

struct client_tally clients_tally(struct clients *clients, enum client_kind kind)
{
    (void)pthread_mutex_lock(&clients->lock);
    struct client_tally tally = clients->now[kind];
    (void)pthread_mutex_unlock(&clients->lock);
    return tally;
}

struct client_tally clients_tally_of_fault(struct clients *clients, enum client_kind kind)
{
    (void)pthread_mutex_lock(&clients->lock);
    struct client_tally tally = clients->fault[kind];
    (void)pthread_mutex_unlock(&clients->lock);
    return tally;
}

/* ---- assertions ---- */

int clients_bound_ms(struct clients *clients, int ms)
{
    int stalls_ms = 2 * atomic_load(&clients->stall_ms); /* of channeld's thread and of ours */
    return wait_judges_latency() ? ms + wait_slack_ms() + stalls_ms : INT_MAX;
}

static bool nothing_is_wrong(void *arg)
{
    return clients_tally(arg, CLIENTS_CACHED).wrong == 0 && clients_tally(arg, CLIENTS_UNCACHED).wrong == 0;
}

static void expect_nothing_wrong(struct clients *clients)
{
    for (int kind = 0; kind < CLIENTS_KINDS; kind++) {
        struct client_tally tally = clients_tally(clients, (enum client_kind)kind);
        if (tally.wrong != 0)
            fail_msg("%d wrong responses, the first to %s", tally.wrong, tally.first_wrong);
        if (tally.slowest_ms > clients_bound_ms(clients, TESTBED_TIMEOUT_MS))
            fail_msg("a response took %d ms: %s", tally.slowest_ms, tally.slowest);
    }
}

void clients_watch(struct clients *clients, int ms)
{
    (void)wait_holds(nothing_is_wrong, clients, ms);
    expect_nothing_wrong(clients);
}

void clients_expect_cached_right(struct clients *clients)
{
    struct client_tally tally = clients_tally(clients, CLIENTS_CACHED);
    expect_nothing_wrong(clients);
    if (tally.failed != 0)
        fail_msg("%d of %d cached responses failed, the last %d ms after the mark", tally.failed,
                 tally.failed + tally.right, tally.last_failed_ms);
}

static bool cached_is_right(void *arg)
{
    return clients_tally(arg, CLIENTS_CACHED).right > 0;
}

static bool uncached_is_right(void *arg)
{
    return clients_tally(arg, CLIENTS_UNCACHED).right > 0;
}

void clients_await_right(struct clients *clients, enum client_kind kind)
{
    bool right =
        wait_until(kind == CLIENTS_CACHED ? cached_is_right : uncached_is_right, clients, WAIT_DEADLINE_MS);
    expect_nothing_wrong(clients);
    if (!right)
        fail_msg("no right response to %s requests", kind == CLIENTS_CACHED ? "cached" : "uncached");
}

static bool is_recovered(void *arg)
{
    return clients_tally(arg, CLIENTS_UNCACHED).first_right_ms >= 0 || !nothing_is_wrong(arg);
}

int clients_await_recovery(struct clients *clients, int bound_ms)
{
    bool recovered = wait_until(is_recovered, clients, WAIT_DEADLINE_MS);
    expect_nothing_wrong(clients);
    if (!recovered)
        fail_msg("no right response to an uncached request within %d ms", WAIT_DEADLINE_MS);
    int took = clients_tally(clients, CLIENTS_UNCACHED).first_right_ms;
    assert_in_range(took, 0, clients_bound_ms(clients, bound_ms));
    return took;
}

void clients_expect_all_right(struct clients *clients)
{
    (void)testbed_await_connected(clients->bed, 0);
    clients_mark(clients);
    clients_watch(clients, SETTLED_MS);
    await_warm(clients);
    expect_nothing_wrong(clients);
    assert_int_equal(clients_tally(clients, CLIENTS_CACHED).failed, 0);
    assert_int_equal(clients_tally(clients, CLIENTS_UNCACHED).failed, 0);
}
