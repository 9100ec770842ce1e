/* Clocks; see clock.h. */
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

void clock_stamp_utc(char out[CLOCK_STAMP_LEN])
{
    struct timespec ts;
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    (void)gmtime_r(&ts.tv_sec, &tm);
    char text[96]; /* room for what the compiler thinks an int can print as */
    (void)snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, ts.tv_nsec / 1000000);
    memcpy(out, text, CLOCK_STAMP_LEN);
}
