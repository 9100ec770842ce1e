/*
 * Time: the monotonic clock for every deadline and duration, the boot clock for how old data is, the wall
 * clock only for what people read. What one of them says is never compared with what another does.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds by the monotonic clock. It counts on while the process is stopped, but not while the machine is
 * suspended: libuv's timers are by this clock. */
uint64_t clock_now_ns(void);

static inline uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

/* Milliseconds by the boot clock, which is monotonic and counts on while the machine is suspended. */
uint64_t clock_boot_ms(void);

/* "2026-11-21T10:00:00.123Z": UTC, RFC 3339. Writes CLOCK_STAMP_LEN bytes, without a NUL. */
enum { CLOCK_STAMP_LEN = 24 };
void clock_stamp_utc(char out[CLOCK_STAMP_LEN]);

#endif
