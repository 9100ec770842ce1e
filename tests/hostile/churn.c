/* Twenty thousand clients that connect and are gone again: nothing may stay behind of any of them. */

#include "hostile/attacks.h"
#include "hostile/witness.h"
#include "support/fixture.h"
#include "support/footprint.h"

enum { ROUNDS = 4, ROUND = 5000, GROWTH_KIB = 256 };

FIXTURE(3, NULL)

static void come_and_go(struct fixture *fixture)
{
    double accepted = server_metric(&fixture->server, "channeld_connections_accepted_total");
    attack_come_and_go(fixture->server.port, ROUND);
    server_await_metric(&fixture->server, "channeld_connections_accepted_total", accepted + ROUND);
    server_await_metric_below(&fixture->server, "channeld_connections_open", 8);
}

TEST_CASE(clients_that_come_and_go_leave_nothing)
{
    struct fixture *fixture = *state;
    pid_t pid = fixture->server.process.pid;
    struct witness *witness = witness_new(fixture->server.port, fixture->server.process.pid);
    struct witness_view calm = witness_look_long(witness);
    come_and_go(fixture); /* what is kept for reuse is there from now on */
    struct footprint before = footprint_of(pid);
    for (int i = 1; i < ROUNDS; i++)
        come_and_go(fixture);
    struct witness_view attacked = witness_look(witness);
    struct footprint after = footprint_of(pid);
    footprint_print("after 5000", &before);
    footprint_print("after 20000", &after);
    witness_expect_unharmed(&calm, &attacked);
    footprint_await_descriptors(pid, before.descriptors);
    witness_free(witness);
    if (footprint_is_meaningful())
        assert_in_range(after.resident_kib, 0, before.resident_kib + GROWTH_KIB);
}
