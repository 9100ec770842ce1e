/*
 * The process under test: its clocks, which replace base/clock.c, and the times at which it does not run. It
 * may be stopped (SIGSTOP, or no processor time). Its machine may be suspended, and its monotonic clock does
 * not count that time.
 */
#ifndef SIMULATION_PROCESS_H
#define SIMULATION_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

void process_begin(void);

/* From now on the process does not run for this time. */
void process_stop(uint64_t duration_ns, bool suspended);

/* The same, but only when it has made so many calls more: in the middle of a turn of its loop. */
void process_stop_behind(unsigned calls, uint64_t duration_ns);

/* The wall clock is set. */
void process_set_wall(int64_t by_s);

/* A call of the process takes this time; longer if the process is stopped. What is due meanwhile happens. */
void process_spend(uint64_t ns);

/* The process has waited, and runs again: at once, or when it is no longer stopped. */
void process_resume(void);

/* How long the process has not run altogether. */
uint64_t process_stopped_ns(void);

/* When the last such time ended; 0: there was none. */
uint64_t process_last_stop_ns(void);

/* When the last stop of process_stop_behind() ends, which begins only as the process runs; 0: there was none.
 */
uint64_t process_stop_behind_ends_ns(void);

/* By the monotonic clock; without taking time. */
uint64_t process_monotonic_ns(void);

/* When the process could begin to notice what happened at that moment, which takes it `within_ns`: then, or
 * when it was resumed from a stop that began meanwhile. */
uint64_t process_noticed_ns(uint64_t at_ns, uint64_t within_ns);

int64_t process_wall_s(void);

/* The least and the greatest that the wall clock has shown since then. */
struct process_walls {
    int64_t least_s, most_s;
};

struct process_walls process_walls_since(uint64_t since_ns);

#endif
