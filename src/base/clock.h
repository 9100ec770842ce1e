/*
 * Time: the monotonic clock for deadlines and durations, the boot clock for the age of data, the wall clock
 * for text that people read. Times of different clocks are never compared.
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

/* Milliseconds of the boot clock, which is monotonic and also runs while the machine is suspended. */
uint64_t clock_boot_ms(void);

/* "2026-11-21T10:00:00.123Z": UTC, RFC 3339. Writes CLOCK_STAMP_LEN bytes, without a NUL. */
enum { CLOCK_STAMP_LEN = 24 };
void clock_stamp_utc(char out[CLOCK_STAMP_LEN]);

#endif
