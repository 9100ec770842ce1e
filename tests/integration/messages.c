/* Pipelined requests are read no faster than the client reads their responses, and all are answered. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/fixture.h"

enum { FLOOD = 4000, PADDING = 8000 };

struct flood {
    struct http_conn conn;
    char *request;
    atomic_int sent;
    atomic_int error;
    int seen; /* by the stalled() below */
};

/* Blocks as soon as the server stops reading. */
static void *send_flood(void *arg)
{
    struct flood *flood = arg;
    for (int i = 0; i < FLOOD && atomic_load(&flood->error) == 0; i++) {
        atomic_store(&flood->error, http_send_text(&flood->conn, flood->request));
        atomic_fetch_add(&flood->sent, 1);
    }
    return NULL;
}

static bool has_not_moved(void *arg)
{
    struct flood *flood = arg;
    return atomic_load(&flood->sent) == flood->seen;
}

static bool has_stalled(void *arg)
{
    struct flood *flood = arg;
    flood->seen = atomic_load(&flood->sent);
    return wait_holds(has_not_moved, flood, 300);
}

TEST_CASE(client_that_does_not_read_is_not_read_from)
{
    AUTO(fixture_drop) struct fixture *fixture = fixture_new(120, NULL);
    struct flood flood = {.seen = 0};
    pthread_t thread;
    AUTOFREE char *padding = text_repeat('x', PADDING);
    AUTOFREE char *headers = text_printf("%sX-Padding: %s\r\n", FIXTURE_AUTH, padding);
    flood.request = http_format("GET", "/api/channels/", headers);
    assert_int_equal(http_open(&flood.conn, fixture->server.port), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_flood, &flood), 0);
    assert_true(wait_until(has_stalled, &flood, WAIT_DEADLINE_MS / 2));
    assert_in_range(flood.seen, 1, FLOOD - 1);
    for (int i = 0; i < FLOOD; i++) {
        http_expect(&flood.conn, 200);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&flood.error), 0);
    http_close(&flood.conn);
    free(flood.request);
}
