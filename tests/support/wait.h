#ifndef TEST_SUPPORT_WAIT_H
#define TEST_SUPPORT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Time in tests: conditions with deadlines, never a plain sleep.
 *
 * Deadlines are multiplied by TEST_TIME_SCALE (a whole number, default 1), for runs under valgrind and on
 * slow machines. Times that a test *measures* are not scaled.
 */

enum { WAIT_DEADLINE_MS = 10000 }; /* how long anything that ought to happen at once may take */

/* Milliseconds by the monotonic clock. */
int64_t wait_now_ms(void);

/* The deadline that lies `ms` (scaled) ahead, for wait_left_ms(). */
int64_t wait_deadline(int ms);

/* Milliseconds left until the deadline, 0 when it has passed: fit for poll(). */
int wait_left_ms(int64_t deadline);

/*
 * Only tests of latency judge how fast something happens: those labelled "slow", which run alone, with
 * TEST_LATENCY set. Any other test may run on a machine that stands still for a second now and then; what is
 * expected to happen has WAIT_DEADLINE_MS. structure.pace holds the tests to it.
 */
bool wait_judges_latency(void);

/* In tests of latency: what to allow on top of a bound that the product promises, for scheduling. */
int wait_slack_ms(void);

/* The upper bound of a time that a test measures: `ms` and some slack in tests of latency, otherwise none. */
int wait_bound_ms(int ms);

/* Polls the condition every few milliseconds; false when `ms` (scaled) pass without it, WAIT_DEADLINE_MS or
 * more. Any thread. */
bool wait_until(bool (*condition)(void *arg), void *arg, int ms);

/* The same with growing intervals, up to 200 ms: for conditions whose check costs the measured process. */
bool wait_until_politely(bool (*condition)(void *arg), void *arg, int ms);

/* True when the condition holds for the whole time of `ms`: for what must not happen. Any thread. */
bool wait_holds(bool (*condition)(void *arg), void *arg, int ms);

/* Calls turn() until the condition holds; fails the test at the deadline. */
#define WAIT_TURNING(turn, condition)                                               \
    do {                                                                            \
        int64_t until_ = wait_deadline(WAIT_DEADLINE_MS);                           \
        while (!(condition)) {                                                      \
            if (wait_left_ms(until_) == 0)                                          \
                fail_msg("%s:%d: not in time: %s", __FILE__, __LINE__, #condition); \
            turn();                                                                 \
        }                                                                           \
    } while (0)

#endif
