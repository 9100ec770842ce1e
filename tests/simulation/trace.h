/*
 * The events of a run, line by line. They are printed on request, and always summed up, so that two runs can
 * be compared. The first violation ends the run.
 */
#ifndef SIMULATION_TRACE_H
#define SIMULATION_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True while lines are printed; to be looked at before the arguments of a line are made. */
extern bool trace_on;

__attribute__((format(printf, 2, 3))) void trace_line(const char *who, const char *format, ...);

#define TRACE(who, ...)                   \
    do {                                  \
        if (trace_on)                     \
            trace_line(who, __VA_ARGS__); \
    } while (0)

/* Adds to the sum, which is compared where lines are not. */
void trace_sum(uint64_t value);
uint64_t trace_total(void);

/* Where the reason of the failure is kept, without what follows its first colon; NULL: nowhere. */
extern char *trace_why;
extern size_t trace_why_size;

/* Prints why, and ends the process with 1. */
__attribute__((format(printf, 1, 2), noreturn)) void trace_fail(const char *format, ...);

#endif
