/* Clocks; see clock.h. */
#include "base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

/* No system call since Linux 5.3: the vDSO reads it, like the monotonic clock. */
uint64_t clock_boot_ms(void)
{
    return read_ns(CLOCK_BOOTTIME) / 1000000;
}

static char *put_digits(char *out, int value, int count, char separator)
{
    for (int i = count - 1; i >= 0; i--) {
        out[i] = (char)('0' + value % 10);
        value /= 10;
    }
    out[count] = separator;
    return out + count + 1;
}

/* Without printf, which would take longer for the time stamp than for the rest of a log line. */
void clock_stamp_utc(char out[CLOCK_STAMP_LEN])
{
    struct timespec ts;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    (void)gmtime_r(&ts.tv_sec, &tm);
    out = put_digits(out, tm.tm_year + 1900, 4, '-');
    out = put_digits(out, tm.tm_mon + 1, 2, '-');
    out = put_digits(out, tm.tm_mday, 2, 'T');
    out = put_digits(out, tm.tm_hour, 2, ':');
    out = put_digits(out, tm.tm_min, 2, ':');
    out = put_digits(out, tm.tm_sec, 2, '.');
    (void)put_digits(out, (int)(ts.tv_nsec / 1000000), 3, 'Z');
}
