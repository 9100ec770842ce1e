/* Ten thousand connections that never say a word: what they cost, what others notice, when they are gone. */

#include <stdlib.h>
#include <string.h>

#include "hostile/attacks.h"
#include "hostile/witness.h"
#include "support/fixture.h"
#include "support/footprint.h"

enum { WANTED = 10000, RESERVE = 1500, TIMEOUT_MS = 4000, LATE_MS = 1000, KIB_EACH = 2, WAVES = 2 };

FIXTURE(3, "CHANNELD_HEADER_TIMEOUT=4s", "CHANNELD_MAX_CONNECTIONS=12000", NULL)

/* As many as the descriptors of this process and of the server, which are granted alike, allow. */
static size_t affordable(void)
{
    size_t limit = attack_take_descriptors();
    if (limit <= (size_t)2 * RESERVE)
        skip();
    return limit < WANTED + RESERVE ? limit - RESERVE : WANTED;
}

/* Returns what the server held resident while they were there. */
static long withstand_wave(struct fixture *fixture, size_t size)
{
    struct http_pool pool;
    pid_t pid = fixture->server.process.pid;
    struct footprint before = footprint_of(pid);
    double accepted = server_metric(&fixture->server, "channeld_connections_accepted_total");
    http_pool_open(&pool, fixture->server.port, size, 0);
    server_await_metric(&fixture->server, "channeld_connections_accepted_total", accepted + (double)size);
    struct footprint during = footprint_of(pid);
    struct http_pool_end end = http_pool_await_end(&pool, 0, NULL, 0, TIMEOUT_MS + WAIT_DEADLINE_MS);
    print_message("%zu silent connections: %ld KiB, ended between %d and %d ms after the last had come\n",
                  size, during.resident_kib - before.resident_kib, (int)end.first_ms, (int)end.last_ms);
    assert_int_equal(end.left, 0);
    assert_int_equal(end.reset, 0);
    assert_in_range(end.last_ms, 0, TIMEOUT_MS + LATE_MS + 3 * wait_slack_ms());
    http_pool_close(&pool);
    footprint_await_descriptors(pid, before.descriptors);
    return during.resident_kib;
}

TEST_CASE(thousands_of_silent_connections_are_cheap_and_gone_in_time)
{
    struct fixture *fixture = *state;
    pid_t pid = fixture->server.process.pid;
    size_t size = affordable();
    long peak[WAVES];
    struct witness *witness = witness_new(fixture->server.port, fixture->server.process.pid);
    struct witness_view calm = witness_look_long(witness);
    struct footprint before = footprint_of(pid);
    for (int i = 0; i < WAVES; i++)
        peak[i] = withstand_wave(fixture, size);
    struct witness_view attacked = witness_look(witness);
    struct footprint after = footprint_of(pid);
    footprint_print("before", &before);
    footprint_print("after", &after);
    witness_expect_unharmed(&calm, &attacked);
    witness_free(witness);
    if (!footprint_is_meaningful())
        return;
    assert_in_range(peak[0] - before.resident_kib, 0, (long)size * KIB_EACH);
    /* Memory that was not given back would add up. */
    assert_in_range(peak[WAVES - 1], 0, peak[0] + (long)size * KIB_EACH / 4);
}
