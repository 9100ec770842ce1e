/* The size of the cache; what is cached is in tests/integration/requests/cache.http. */

#include "support/fixture.h"

/* Both workers fill their share, which together is the setting. */
TEST_CASE(cache_size_is_split_among_the_workers)
{
    enum { CHANNELS = 1500, CONNECTIONS = 12, CACHE_BYTES = 512 * 1024 };
    AUTO(fixture_drop)
    struct fixture *fixture = fixture_new(
        CHANNELS, ENV("CHANNELD_CACHE_SIZE=512KiB", "CHANNELD_WORKERS=2", "CHANNELD_ACCESS_LOG=off"));
    for (int i = 0; i < CONNECTIONS; i++) {
        AUTO(http_close) struct http_conn conn = http_connect(fixture->server.port);
        for (size_t n = 0; n < CHANNELS; n++) {
            AUTO(http_response_free) struct http_response response;
            AUTOFREE char *target = text_printf("/api/channel/by-id/%lld/", (long long)catalogue_id(n));
            assert_int_equal(http_exchange(&conn, "GET", target, FIXTURE_AUTH, &response), 0);
            assert_int_equal(response.status, 200);
        }
    }
    assert_true(server_metric(&fixture->server, "channeld_cache_evictions_total") > 0);
    double bytes = server_metric(&fixture->server, "channeld_cache_bytes");
    if (bytes > CACHE_BYTES || bytes < 0.7 * CACHE_BYTES)
        fail_msg("%g bytes are cached, of %d", bytes, CACHE_BYTES);
}
