/*
 * A Redis that is too slow for the misses: these are read or fail in time, and hits are served all the while.
 */

#include <stdio.h>
#include <unistd.h>

#include "support/fixture.h"

enum { MISSES = 300, HITS = 10, WINDOW = 102, RATE = 20000, PROBED_MS = 6000 };

static char *path_of(size_t n)
{
    return text_printf("channel/by-id/%lld/", (long long)catalogue_id(n));
}

static void expect_hits(struct fixture *fixture)
{
    for (size_t n = 0; n < HITS; n++)
        fixture_expect_sample(fixture, n);
}

/*
 * Some twenty cards per second pass. If all misses were sent, the heartbeat would wait behind them for longer
 * than the lease, and what is cached could not be served. A machine that stands still does the same, so the
 * test is slow.
 */
SLOW_TEST(hits_are_served_while_misses_are_more_than_redis_can_do)
{
    static struct http_conn conns[MISSES];
    int counts[2] = {0};
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new_with(
        &(struct fixture_spec){.channels = HITS + MISSES, .env = ENV("CHANNELD_WORKERS=1"), .proxied = true});
    expect_hits(fixture);
    double before = fixture_commands(fixture);
    proxy_set_rate(fixture->proxy, RATE);
    for (size_t n = 0; n < MISSES; n++) {
        AUTOFREE char *path = path_of(HITS + n);
        fixture_start_get(fixture, &conns[n], path);
    }
    for (int64_t until = wait_now_ms() + PROBED_MS; wait_now_ms() < until; (void)usleep(50000))
        expect_hits(fixture);
    for (size_t n = 0; n < MISSES; n++) {
        AUTO(http_response_free) struct http_response response;
        assert_int_equal(http_read(&conns[n], false, &response), 0);
        assert_true(response.status == 200 || response.status == 500);
        counts[response.status == 500]++;
        http_close(&conns[n]);
    }
    (void)printf("%d misses were read, %d failed\n", counts[0], counts[1]);
    assert_true(counts[0] > 0 && counts[1] > 0);
    fixture_expect_metric(fixture, "channeld_request_timeouts_total", counts[1]);
    /* Those of the first window, and one more for each that was read. */
    assert_true(fixture_commands(fixture) - before <= WINDOW + counts[0]);
    proxy_restore(fixture->proxy);
    for (size_t n = 0; n < MISSES; n++) {
        AUTOFREE char *path = path_of(HITS + n);
        fixture_await(fixture, path, 200);
    }
    fixture_expect_metric(fixture, "channeld_redis_disconnects_total", 0);
}
