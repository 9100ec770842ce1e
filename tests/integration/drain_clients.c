/*
 * A stop under load: 64 keep-alive clients at work, and not one request fails.
 *
 * The clients do what a load balancer does: they go on over kept connections until these are closed after an
 * answer that says so, connect again while the drain delay lasts, and send nothing new once they were told to
 * stay away.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/fixture.h"

enum { CLIENTS = 64 };

struct load {
    struct fixture *fixture;
    atomic_bool stay_away; /* no new connection, no new request */
    atomic_int answered;
    atomic_int failed;
    atomic_int last_error; /* a status, or a negative errno */
    atomic_int told_to_close;
};

static void note_failure(struct load *load, int what)
{
    atomic_fetch_add(&load->failed, 1);
    atomic_store(&load->last_error, what);
}

/* One request; true when the connection can be used again. */
static bool exchange_once(struct load *load, struct http_conn *conn, unsigned *seed)
{
    static const char *const targets[] = {"/api/channels/", "/api/channel/by-id/0/",
                                          "/api/channel/by-link/?link=https://max.ru/sample_7"};
    struct http_response response = {.status = 0};
    int error = http_exchange(conn, "GET", targets[(size_t)rand_r(seed) % TEST_COUNT(targets)], FIXTURE_AUTH,
                              &response);
    if (error != 0 || response.status != 200) {
        note_failure(load, error != 0 ? error : response.status);
        http_response_free(&response);
        return false;
    }
    const char *connection = http_header(&response, "Connection");
    bool closes = connection != NULL && strcasecmp(connection, "close") == 0;
    http_response_free(&response);
    atomic_fetch_add(&load->answered, 1);
    if (!closes)
        return true;
    atomic_fetch_add(&load->told_to_close, 1);
    int end = http_read_eof(conn);
    if (end != 0)
        note_failure(load, end);
    return false;
}

static void *run_client(void *arg)
{
    struct load *load = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    while (!atomic_load(&load->stay_away)) {
        struct http_conn conn;
        int error = http_open(&conn, load->fixture->server.port);
        if (error != 0) {
            note_failure(load, error);
            return NULL;
        }
        while (!atomic_load(&load->stay_away) && exchange_once(load, &conn, &seed))
            continue;
        http_close(&conn);
    }
    return NULL;
}

struct progress {
    struct load *load;
    int answered;
    int told_to_close;
};

static bool has_progressed(void *arg)
{
    struct progress *progress = arg;
    return atomic_load(&progress->load->answered) >= progress->answered &&
           atomic_load(&progress->load->told_to_close) >= progress->told_to_close;
}

static void run(const char *drain_delay)
{
    char *delay = text_printf("CHANNELD_DRAIN_DELAY=%s", drain_delay);
    const char *env[] = {delay, NULL};
    struct load load = {.fixture = fixture_new(150, env)};
    struct progress warm = {.load = &load, .answered = CLIENTS * 20};
    pthread_t threads[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_client, &load), 0);
    assert_true(wait_until(has_progressed, &warm, WAIT_DEADLINE_MS * 2));
    process_signal(&load.fixture->server.process, SIGTERM);
    struct progress drained = {.load = &load, .told_to_close = CLIENTS * 4};
    assert_true(wait_until(has_progressed, &drained, WAIT_DEADLINE_MS));
    atomic_store(&load.stay_away, true);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    server_expect_exit(&load.fixture->server, 0);
    print_message("%d answers, %d after the signal\n", atomic_load(&load.answered),
                  atomic_load(&load.told_to_close));
    if (atomic_load(&load.failed) != 0)
        fail_msg("%d requests failed, one with %d", atomic_load(&load.failed), atomic_load(&load.last_error));
    fixture_free(load.fixture);
    free(delay);
}

TEST_CASE(not_one_request_fails)
{
    for (int round = 0; round < 3; round++)
        run("2s");
}
