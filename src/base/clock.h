/* Time: the monotonic clock for every deadline, the wall clock only for what people read. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds by the monotonic clock. It counts on while the process is stopped. */
uint64_t clock_now_ns(void);

static inline uint64_t clock_now_ms(void)
{
    return clock_now_ns() / 1000000;
}

/* "2026-11-21T10:00:00.123Z": UTC, RFC 3339. Writes CLOCK_STAMP_LEN bytes, without a NUL. */
enum { CLOCK_STAMP_LEN = 24 };
void clock_stamp_utc(char out[CLOCK_STAMP_LEN]);

#endif
