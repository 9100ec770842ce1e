/* Clients at work; see load.h. */

#include "faults/load.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/stage.h"

enum {
    TARGETS_BY_ID = 30,
    TARGETS_BY_LINK = 30,
    TARGETS_PAGES = 2,
    TARGETS = TARGETS_BY_ID + TARGETS_BY_LINK + TARGETS_PAGES,
    PAUSE_MS = 2,
    METRONOME_MS = 10,
    SETTLED_MS = 300,
    EXCERPT = 120,
};

struct client {
    struct load *load;
    enum load_kind kind;
    pthread_t thread;
    unsigned turn;
    atomic_uint served; /* right answers since it was set to 0 */
};

struct load {
    struct stage *stage;
    struct client clients[LOAD_KINDS][LOAD_CLIENTS];
    atomic_bool stopping;
    pthread_t metronome;
    bool metronome_runs;
    atomic_int stall_ms;       /* the longest that it was kept waiting for a processor */
    atomic_int oldest, newest; /* versions that are right */
    pthread_mutex_t lock;      /* the three below */
    int64_t marked_ms;
    struct load_tally now[LOAD_KINDS];
    struct load_tally fault[LOAD_KINDS];
};

/* ---- one question ---- */

struct question {
    char *target;
    long long id; /* of the card, or 0 */
    int page;     /* or 0 */
};

static struct question question_of(struct client *client)
{
    struct question q = {0};
    unsigned n = client->turn++ % TARGETS;
    if (client->kind == LOAD_UNCACHED) {
        char *path = stage_spare_path(&q.id);
        q.target = text_printf("/api/%s", path);
        free(path);
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

/* True when it is the right body in one of the versions. */
static bool is_right(const struct question *q, const char *body, int oldest, int newest)
{
    bool right = false;
    for (int version = oldest; version <= newest && !right; version++) {
        char *expected = q->page > 0 ? stage_page(q->page, version) : stage_card(q->id, version);
        right = strcmp(body, expected) == 0;
        free(expected);
    }
    return right;
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

/* An uncached question that was asked before the mark may rightly wait for what has ended meanwhile. */
static void note(struct client *client, const struct question *q, const struct outcome *outcome, int error,
                 const struct http_response *response)
{
    struct load *load = client->load;
    (void)pthread_mutex_lock(&load->lock);
    struct load_tally *tally = &load->now[client->kind];
    int after_mark = (int)(outcome->received_ms - load->marked_ms);
    bool counts = client->kind == LOAD_CACHED || outcome->sent_ms >= load->marked_ms;
    tally->right += counts && outcome->right;
    tally->failed += counts && outcome->failed;
    if (outcome->right && tally->first_right_ms < 0 && outcome->sent_ms >= load->marked_ms)
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
    (void)pthread_mutex_unlock(&load->lock);
    if (outcome->right)
        atomic_fetch_add(&client->served, 1);
}

/* Returns the error of the exchange. The version that had to be known when the question was sent counts. */
static int ask(struct client *client, struct http_conn *conn)
{
    struct load *load = client->load;
    struct http_response response = {.status = 0};
    struct question q = question_of(client);
    int oldest = atomic_load(&load->oldest);
    struct outcome outcome = {.sent_ms = wait_now_ms()};
    int error = http_exchange(conn, "GET", q.target, FIXTURE_AUTH, &response);
    outcome.received_ms = wait_now_ms();
    outcome.took_ms = (int)(outcome.received_ms - outcome.sent_ms);
    outcome.right = error == 0 && response.status == 200 &&
                    is_right(&q, response.body, oldest, atomic_load(&load->newest));
    outcome.failed = error == 0 && is_unavailable(&response);
    note(client, &q, &outcome, error, &response);
    http_response_free(&response);
    free(q.target);
    return error;
}

static bool is_going_on(void *arg)
{
    struct load *load = arg;
    return !atomic_load(&load->stopping);
}

static void *run_client(void *arg)
{
    struct client *client = arg;
    struct load *load = client->load;
    while (!atomic_load(&load->stopping)) {
        struct http_conn conn;
        int error = http_open(&conn, load->stage->fixture.server.port);
        while (error == 0 && !atomic_load(&load->stopping)) {
            error = ask(client, &conn);
            (void)wait_holds(is_going_on, load, PAUSE_MS);
        }
        http_close(&conn);
    }
    return NULL;
}

/* What the machine adds to every time that is measured: how much longer than asked for a sleep can take. */
static void *run_metronome(void *arg)
{
    struct load *load = arg;
    while (!atomic_load(&load->stopping)) {
        int64_t began = wait_now_ms();
        (void)poll(NULL, 0, METRONOME_MS);
        int stall = (int)(wait_now_ms() - began) - METRONOME_MS;
        if (stall > atomic_load(&load->stall_ms))
            atomic_store(&load->stall_ms, stall);
    }
    return NULL;
}

/* ---- all of them ---- */

static const struct load_tally no_tally = {.first_right_ms = -1, .last_failed_ms = -1};

/* Each client of what is to be remembered has been once around, on its own worker. */
static bool is_warm(void *arg)
{
    struct load *load = arg;
    for (int i = 0; i < LOAD_CLIENTS; i++) {
        if (atomic_load(&load->clients[LOAD_CACHED][i].served) < TARGETS ||
            atomic_load(&load->clients[LOAD_UNCACHED][i].served) == 0)
            return false;
    }
    return true;
}

static void await_warm(struct load *load)
{
    for (int i = 0; i < LOAD_CLIENTS; i++) {
        atomic_store(&load->clients[LOAD_CACHED][i].served, 0);
        atomic_store(&load->clients[LOAD_UNCACHED][i].served, 0);
    }
    if (!wait_until(is_warm, load, WAIT_DEADLINE_MS))
        fail_msg("the clients are not served: %s", load_tally(load, LOAD_CACHED).first_wrong);
}

struct load *load_start(struct stage *stage)
{
    struct load *load = calloc(1, sizeof *load);
    if (load == NULL)
        abort();
    stage->load = load;
    load->stage = stage;
    atomic_store(&load->oldest, 1);
    atomic_store(&load->newest, 1);
    assert_int_equal(pthread_mutex_init(&load->lock, NULL), 0);
    load_mark(load);
    load->metronome_runs = pthread_create(&load->metronome, NULL, run_metronome, load) == 0;
    assert_true(load->metronome_runs);
    for (int i = 0; i < LOAD_KINDS * LOAD_CLIENTS; i++) {
        enum load_kind kind = i % 2 == 0 ? LOAD_CACHED : LOAD_UNCACHED;
        struct client *client = &load->clients[kind][i / 2];
        client->load = load;
        client->kind = kind;
        assert_int_equal(pthread_create(&client->thread, NULL, run_client, client), 0);
    }
    await_warm(load);
    return load;
}

void load_free(struct load *load)
{
    if (load == NULL)
        return;
    atomic_store(&load->stopping, true);
    for (int i = 0; i < LOAD_KINDS * LOAD_CLIENTS; i++) {
        struct client *client = &load->clients[i % LOAD_KINDS][i / LOAD_KINDS];
        if (client->load != NULL)
            (void)pthread_join(client->thread, NULL);
    }
    if (load->metronome_runs)
        (void)pthread_join(load->metronome, NULL);
    (void)pthread_mutex_destroy(&load->lock);
    free(load);
}

void load_require_version(struct load *load, int version)
{
    load_permit_version(load, version);
    atomic_store(&load->oldest, version);
}

void load_permit_version(struct load *load, int version)
{
    atomic_store(&load->newest, version);
}

static void begin_tallies(struct load *load, bool keep)
{
    (void)pthread_mutex_lock(&load->lock);
    load->marked_ms = wait_now_ms();
    for (int kind = 0; kind < LOAD_KINDS; kind++) {
        if (keep)
            load->fault[kind] = load->now[kind];
        load->now[kind] = no_tally;
    }
    (void)pthread_mutex_unlock(&load->lock);
}

void load_mark(struct load *load)
{
    begin_tallies(load, false);
}

void load_mark_end(struct load *load)
{
    begin_tallies(load, true);
}

struct load_tally load_tally(struct load *load, enum load_kind kind)
{
    (void)pthread_mutex_lock(&load->lock);
    struct load_tally tally = load->now[kind];
    (void)pthread_mutex_unlock(&load->lock);
    return tally;
}

struct load_tally load_tally_of_fault(struct load *load, enum load_kind kind)
{
    (void)pthread_mutex_lock(&load->lock);
    struct load_tally tally = load->fault[kind];
    (void)pthread_mutex_unlock(&load->lock);
    return tally;
}

/* ---- judging ---- */

int load_slack_ms(struct load *load)
{
    return wait_slack_ms() + 2 * atomic_load(&load->stall_ms); /* channeld's, and ours */
}

static bool nothing_is_wrong(void *arg)
{
    return load_tally(arg, LOAD_CACHED).wrong == 0 && load_tally(arg, LOAD_UNCACHED).wrong == 0;
}

static void expect_nothing_wrong(struct load *load)
{
    for (int kind = 0; kind < LOAD_KINDS; kind++) {
        struct load_tally tally = load_tally(load, (enum load_kind)kind);
        if (tally.wrong != 0)
            fail_msg("%d wrong answers, the first to %s", tally.wrong, tally.first_wrong);
        if (tally.slowest_ms > STAGE_TIMEOUT_MS + load_slack_ms(load))
            fail_msg("an answer took %d ms: %s", tally.slowest_ms, tally.slowest);
    }
}

void load_watch(struct load *load, int ms)
{
    (void)wait_holds(nothing_is_wrong, load, ms);
    expect_nothing_wrong(load);
}

void load_expect_cached_right(struct load *load)
{
    struct load_tally tally = load_tally(load, LOAD_CACHED);
    expect_nothing_wrong(load);
    if (tally.failed != 0)
        fail_msg("%d of %d answers from memory failed, the last %d ms after the mark", tally.failed,
                 tally.failed + tally.right, tally.last_failed_ms);
}

static bool is_recovered(void *arg)
{
    return load_tally(arg, LOAD_UNCACHED).first_right_ms >= 0 || !nothing_is_wrong(arg);
}

int load_await_recovery(struct load *load, int bound_ms)
{
    bool recovered = wait_until(is_recovered, load, WAIT_DEADLINE_MS);
    expect_nothing_wrong(load);
    if (!recovered)
        fail_msg("no right answer to an uncached question within %d ms", WAIT_DEADLINE_MS);
    int took = load_tally(load, LOAD_UNCACHED).first_right_ms;
    assert_in_range(took, 0, bound_ms + load_slack_ms(load));
    return took;
}

void load_expect_all_right(struct load *load)
{
    (void)stage_await_connected(load->stage, 0);
    load_mark(load);
    load_watch(load, SETTLED_MS);
    await_warm(load);
    expect_nothing_wrong(load);
    assert_int_equal(load_tally(load, LOAD_CACHED).failed, 0);
    assert_int_equal(load_tally(load, LOAD_UNCACHED).failed, 0);
}
