/* Twenty thousand clients that connect and leave: nothing stays behind of any of them. */

#include "hostile/monitor.h"

enum { ROUNDS = 4, ROUND = 5000, GROWTH_KIB = 256 };

FIXTURE(3, NULL)

static void connect_and_leave(struct fixture *fixture)
{
    double accepted = server_metric(&fixture->server, "channeld_connections_accepted_total");
    http_connect_and_leave(fixture->server.port, ROUND);
    server_await_metric(&fixture->server, "channeld_connections_accepted_total", accepted + ROUND);
    server_await_metric_below(&fixture->server, "channeld_connections_open", 8);
}

TEST_CASE(short_connections_leave_nothing_behind)
{
    struct fixture *fixture = *state;
    pid_t pid = fixture->server.process.pid;
    struct monitored monitored = monitor_begin(fixture);
    connect_and_leave(fixture); /* allocates what is kept for reuse */
    struct footprint before = footprint_of(pid);
    for (int i = 1; i < ROUNDS; i++)
        connect_and_leave(fixture);
    struct footprint after = monitor_end(&monitored);
    footprint_print("after the first round", &before);
    footprint_await_descriptors(pid, before.descriptors);
    if (footprint_is_meaningful())
        assert_in_range(after.resident_kib, 0, before.resident_kib + GROWTH_KIB);
}
