/*
 * The monotonic clock for deadlines and durations, the boot clock for the age of data, the wall clock for
 * times that are stored. Times of different clocks are never compared.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds of the monotonic clock. It runs while the process is stopped, but not while the machine is
 * suspended. libuv's timers use it. */
uint64_t clock_now_ns(void);

static inline uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

/* Seconds since 1970 by the wall clock, which may be set: for times that are stored. */
int64_t clock_wall_s(void);

/* Milliseconds of the boot clock, which is monotonic and also runs while the machine is suspended. */
uint64_t clock_boot_ms(void);

#endif
