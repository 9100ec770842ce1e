/* Ten thousand connections without a request: their memory, the latency of others, and their timeout. */

#include "hostile/monitor.h"

enum { WANTED = 10000, RESERVE = 1500, TIMEOUT_MS = 4000, LATE_MS = 1000, KIB_EACH = 2, WAVES = 2 };

FIXTURE(3, "CHANNELD_HEADER_TIMEOUT=4s", "CHANNELD_MAX_CONNECTIONS=12000", NULL)

/* As many as the limit of descriptors allows, which this process and the server have alike. */
static size_t affordable(void)
{
    size_t limit = process_raise_descriptor_limit();
    if (limit <= (size_t)2 * RESERVE)
        test_skip("the limit of descriptors is too low");
    return limit < WANTED + RESERVE ? limit - RESERVE : WANTED;
}

/* Returns the server's resident memory while they were open. */
static long run_wave(struct fixture *fixture, size_t size)
{
    struct http_pool pool;
    pid_t pid = fixture->server.process.pid;
    struct footprint before = footprint_of(pid);
    double accepted = server_metric(&fixture->server, "channeld_connections_accepted_total");
    http_pool_open(&pool, fixture->server.port, size, 0);
    server_await_metric(&fixture->server, "channeld_connections_accepted_total", accepted + (double)size);
    struct footprint during = footprint_of(pid);
    struct http_pool_end end = http_pool_await_end(&pool, 0, NULL, 0, TIMEOUT_MS + WAIT_DEADLINE_MS);
    print_message("%zu connections: %ld KiB, closed between %d and %d ms after the last was opened\n", size,
                  during.resident_kib - before.resident_kib, (int)end.first_ms, (int)end.last_ms);
    assert_int_equal(end.left, 0);
    assert_int_equal(end.reset, 0);
    assert_in_range(end.last_ms, 0, wait_bound_ms(TIMEOUT_MS + LATE_MS));
    http_pool_close(&pool);
    footprint_await_descriptors(pid, before.descriptors);
    return during.resident_kib;
}

SLOW_TEST(silent_connections_are_cheap_and_time_out)
{
    struct fixture *fixture = *state;
    size_t size = affordable();
    long peak[WAVES];
    struct monitored monitored = monitor_begin(fixture);
    for (int i = 0; i < WAVES; i++)
        peak[i] = run_wave(fixture, size);
    (void)monitor_end(&monitored);
    if (!footprint_is_meaningful())
        return;
    assert_in_range(peak[0] - monitored.before.resident_kib, 0, (long)size * KIB_EACH);
    /* Memory that is not given back would add up. */
    assert_in_range(peak[WAVES - 1], 0, peak[0] + (long)size * KIB_EACH / 4);
}
