/*
 * The monotonic clock for deadlines and durations, the boot clock for the age of data, the wall clock for
 * times that are stored. Times of different clocks are never compared.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* The monotonic clock, which libuv's timers use. It does not run while the machine is suspended. */
uint64_t clock_now_ns(void);

static inline uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

/* Since 1970. */
int64_t clock_wall_s(void);

/* It also runs while the machine is suspended. */
uint64_t clock_boot_ms(void);

#endif
