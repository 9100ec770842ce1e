/* Waiting for conditions, with deadlines. */

#include "support/wait.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

enum { POLL_INTERVAL_MS = 5, POLL_INTERVAL_MAX_MS = 200, SLACK_MS = 700 };

static int wait_scale(void)
{
    const char *text = getenv("TEST_TIME_SCALE");
    long scale = text != NULL ? strtol(text, NULL, 10) : 1;
    return scale >= 1 && scale <= 1000 ? (int)scale : 1;
}

int64_t wait_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t wait_deadline(int ms)
{
    return wait_now_ms() + (int64_t)ms * wait_scale();
}

int wait_left_ms(int64_t deadline)
{
    int64_t left = deadline - wait_now_ms();
    return left > 0 ? (int)left : 0;
}

bool wait_judges_latency(void)
{
    return getenv("TEST_LATENCY") != NULL;
}

int wait_slack_ms(void)
{
    return SLACK_MS * wait_scale();
}

int wait_bound_ms(int ms)
{
    return wait_judges_latency() ? ms + 3 * wait_slack_ms() : INT_MAX;
}

static void wait_interval(int ms)
{
    struct timespec interval = {.tv_nsec = ms * 1000000L};
    nanosleep(&interval, NULL);
}

/* The interval doubles until it is the longest. The condition is checked once more after the deadline: the
 * program may have stood still until then. */
static bool wait_polling(bool (*condition)(void *arg), void *arg, int ms, int longest_ms)
{
    int64_t deadline = wait_deadline(ms);
    int interval_ms = POLL_INTERVAL_MS;
    while (!condition(arg)) {
        if (wait_left_ms(deadline) == 0)
            return condition(arg);
        wait_interval(interval_ms);
        interval_ms = 2 * interval_ms < longest_ms ? 2 * interval_ms : longest_ms;
    }
    return true;
}

bool wait_until(bool (*condition)(void *arg), void *arg, int ms)
{
    return wait_polling(condition, arg, ms, POLL_INTERVAL_MS);
}

bool wait_until_politely(bool (*condition)(void *arg), void *arg, int ms)
{
    return wait_polling(condition, arg, ms, POLL_INTERVAL_MAX_MS);
}

bool wait_holds(bool (*condition)(void *arg), void *arg, int ms)
{
    int64_t end = wait_now_ms() + ms;
    while (condition(arg)) {
        if (wait_left_ms(end) == 0)
            return true;
        wait_interval(POLL_INTERVAL_MS);
    }
    return false;
}
