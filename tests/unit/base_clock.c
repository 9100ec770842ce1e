/* Clocks: the monotonic one goes forward, and the boot clock is never behind it. */
#include "base/clock.h"

#include <time.h>

#include "unit/check.h"

TEST_CASE(monotonic_clock_never_goes_back)
{
    uint64_t last = clock_now_ns();
    assert_true(last > 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t now = clock_now_ns();
        assert_true(now >= last);
        last = now;
    }
}

TEST_CASE(sleep_of_20_ms_shows_in_both_units)
{
    uint64_t ns = clock_now_ns();
    uint64_t ms = clock_now_ms();
    assert_int_equal(nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL), 0);
    assert_true(clock_now_ns() - ns >= 20000000);
    assert_true(clock_now_ms() - ms >= 19);
    assert_true(clock_now_ms() - ms < 10000);
}

/* Which counts what the machine was suspended for, and the monotonic clock does not. */
TEST_CASE(boot_clock_is_never_behind_the_monotonic_one)
{
    for (int i = 0; i < 1000; i++) {
        uint64_t ms = clock_now_ms();
        uint64_t boot_ms = clock_boot_ms();
        assert_true(boot_ms >= ms);
        assert_true(clock_boot_ms() >= boot_ms);
    }
}
