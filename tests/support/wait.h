#ifndef TEST_SUPPORT_WAIT_H
#define TEST_SUPPORT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Time in tests: conditions with deadlines, never a plain sleep.
 *
 * Deadlines are multiplied by TEST_TIME_SCALE (a whole number, default 1), for runs under valgrind and on
 * slow machines. Times that a test *measures* are not scaled; wait_slack_ms() is the tolerance to add.
 */

enum { WAIT_DEADLINE_MS = 10000 }; /* how long anything that ought to happen at once may take */

/* Milliseconds by the monotonic clock. */
int64_t wait_now_ms(void);

/* The deadline that lies `ms` (scaled) ahead, for wait_left_ms(). */
int64_t wait_deadline(int ms);

/* Milliseconds left until the deadline, 0 when it has passed: fit for poll(). */
int wait_left_ms(int64_t deadline);

/* What to allow on top of a bound that the product promises, for scheduling on a busy machine. */
int wait_slack_ms(void);

/*
 * The upper bound of a time that a test measures. With TEST_LATENCY, as in the slow tests, which run alone,
 * it is `ms` and the slack. Otherwise it is so long that a busy machine does not matter.
 */
int wait_bound_ms(int ms);

/* Polls the condition every few milliseconds; false when `ms` (scaled) pass without it. Any thread. */
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
