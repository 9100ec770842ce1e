/* Clocks; see clock.h. A separate file, so that tests can replace it by a clock that they set. */
#include "base/clock.h"

#include <time.h>

static uint64_t clock_read_ns(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ms(void)
{
    return clock_read_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_wall_s(void)
{
    return (int64_t)(clock_read_ns(CLOCK_REALTIME) / 1000000000U);
}
