/* The age at which a connection ends. What else connections do is in tests/simulation/http. */
#include "http/server.h"

#include "unit/check.h"

TEST_CASE(ages_differ_by_up_to_a_fifth)
{
    enum { COUNT = 100, LONG_MS = 1000000 };
    uint64_t random = 1;
    uint64_t low = UINT64_MAX;
    uint64_t high = 0;
    for (int i = 0; i < COUNT; i++) {
        uint64_t age = http_connection_age_ms(LONG_MS, &random);
        assert_in_range(age, LONG_MS - LONG_MS / 10, LONG_MS + LONG_MS / 10);
        low = age < low ? age : low;
        high = age > high ? age : high;
    }
    assert_true(high - low > LONG_MS / 10);
    assert_int_equal(http_connection_age_ms(1, &random), 1);
}
