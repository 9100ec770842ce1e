/* Clients, each in its own thread; see load.h. */

#include "support/load.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/fixture.h"

static void load_note_failure(struct load *load, int what)
{
    atomic_fetch_add(&load->failed, 1);
    atomic_store(&load->last_error, what);
}

/* One request; true when the connection can be used again. */
static bool load_exchange(struct load *load, struct http_conn *conn, unsigned *seed)
{
    struct http_response response = {.status = 0};
    const char *target = load->targets[(size_t)rand_r(seed) % load->target_count];
    int error = http_exchange(conn, "GET", target, FIXTURE_AUTH, &response);
    if (error != 0 || response.status != 200) {
        load_note_failure(load, error != 0 ? error : response.status);
        http_response_free(&response);
        return false;
    }
    const char *connection = http_header(&response, "Connection");
    bool closes = connection != NULL && strcasecmp(connection, "close") == 0;
    http_response_free(&response);
    atomic_fetch_add(&load->answered, 1);
    if (!closes)
        return true;
    atomic_fetch_add(&load->last_answers, 1);
    int end = http_read_eof(conn);
    if (end != 0)
        load_note_failure(load, end);
    return false;
}

static void *load_run(void *arg)
{
    struct load *load = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    while (!atomic_load(&load->stopping)) {
        struct http_conn conn;
        int error = http_open(&conn, load->port);
        if (error != 0) {
            load_note_failure(load, error);
            return NULL;
        }
        while (!atomic_load(&load->stopping) && load_exchange(load, &conn, &seed))
            continue;
        http_close(&conn);
    }
    return NULL;
}

void load_start(struct load *load, int port, const char *const *targets, size_t target_count, int clients)
{
    memset(load, 0, sizeof *load);
    load->port = port;
    load->targets = targets;
    load->target_count = target_count;
    for (; load->clients < clients; load->clients++)
        assert_int_equal(pthread_create(&load->thread[load->clients], NULL, load_run, load), 0);
}

struct load_progress {
    struct load *load;
    int answered, last_answers;
};

static bool load_has_progressed(void *arg)
{
    const struct load_progress *p = arg;
    return (atomic_load(&p->load->answered) >= p->answered &&
            atomic_load(&p->load->last_answers) >= p->last_answers) ||
           atomic_load(&p->load->failed) > 0;
}

void load_await(struct load *load, int answers, int last_answers, int ms)
{
    struct load_progress p = {load, atomic_load(&load->answered) + answers,
                              atomic_load(&load->last_answers) + last_answers};
    assert_true(wait_until(load_has_progressed, &p, ms));
}

void load_stop(struct load *load)
{
    atomic_store(&load->stopping, true);
    for (int i = 0; i < load->clients; i++)
        assert_int_equal(pthread_join(load->thread[i], NULL), 0);
    print_message("%d answers, %d of them the last\n", atomic_load(&load->answered),
                  atomic_load(&load->last_answers));
    if (atomic_load(&load->failed) != 0)
        fail_msg("%d requests failed, one with %d", atomic_load(&load->failed),
                 atomic_load(&load->last_error));
}
