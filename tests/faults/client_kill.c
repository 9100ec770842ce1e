/* Connections that Redis closes (CLIENT KILL), once and again and again, and those it suspends (CLIENT
 * PAUSE). */

#include <stdlib.h>
#include <string.h>

#include "faults/testbed.h"

enum { KILLS = 25, KILL_INTERVAL_MS = 25 };

/* Runs the command for each connection of channeld; `key` is a field of CLIENT LIST, "id" or "addr". */
static int kill_each(struct testbed *bed, const char *key, const char *command)
{
    int killed = 0;
    char *rest = NULL;
    AUTOFREE char *list = redis_text(&bed->fixture.redis, "CLIENT LIST");
    for (char *line = strtok_r(list, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char value[64] = "";
        AUTOFREE char *pattern = text_printf(" %s=", key);
        const char *at = strstr(text_temp(" %s", line), pattern);
        if (at != NULL && strstr(line, " name=channeld-") != NULL) {
            at += strlen(pattern);
            memcpy(value, at, strcspn(at, " ") % sizeof value);
            redis_do(&bed->fixture.redis, command, value);
            killed++;
        }
    }
    return killed;
}

static void expect_no_failure(struct testbed *bed, const char *what)
{
    (void)testbed_await_connected(bed, 0);
    clients_watch(bed->clients, 0);
    outage_finish(bed, what, -1, TESTBED_RECOVERY_MS);
    assert_int_equal(clients_tally_of_fault(bed->clients, CLIENTS_UNCACHED).failed, 0);
}

TEST_CASE_WITH(no_request_fails_when_connections_are_killed, testbed_setup_clients, testbed_teardown)
{
    struct testbed *bed = *state;
    struct server *server = &bed->fixture.server;
    clients_mark(bed->clients);
    fixture_kill_connections(&bed->fixture);
    expect_no_failure(bed, "CLIENT KILL TYPE normal");
    clients_mark(bed->clients);
    assert_int_equal(kill_each(bed, "id", "CLIENT KILL ID %s"), 2);
    expect_no_failure(bed, "CLIENT KILL ID, both");
    clients_mark(bed->clients);
    assert_int_equal(kill_each(bed, "addr", "CLIENT KILL ADDR %s"), 2);
    expect_no_failure(bed, "CLIENT KILL ADDR, both");
    clients_mark(bed->clients);
    double before = server_metric(server, "channeld_redis_disconnects_total");
    for (int i = 0; i < KILLS; i++) {
        fixture_kill_connections(&bed->fixture);
        clients_watch(bed->clients, KILL_INTERVAL_MS);
    }
    assert_true(server_metric(server, "channeld_redis_disconnects_total") > before + 2);
    expect_no_failure(bed, "CLIENT KILL every 25 ms");
}

/* Not answered before the pause is over. */
static void await_end_of_pause(struct testbed *bed)
{
    redis_do(&bed->fixture.redis, "DEL channels:nothing");
}

TEST_CASE_WITH(paused_writes_have_no_effect, testbed_setup_clients, testbed_teardown)
{
    outage_run(*state, &(struct outage){.name = "CLIENT PAUSE WRITE",
                                        .begin_command = "CLIENT PAUSE 1000 WRITE",
                                        .end = await_end_of_pause,
                                        .lasts_ms = 1000,
                                        .unnoticed = true,
                                        .harmless = true});
}

TEST_CASE_WITH(paused_clients_are_an_outage, testbed_setup_clients, testbed_teardown)
{
    outage_run(*state, &(struct outage){.name = "CLIENT PAUSE ALL",
                                        .begin_command = "CLIENT PAUSE 3200 ALL",
                                        .end = await_end_of_pause,
                                        .lasts_ms = 3200});
}
