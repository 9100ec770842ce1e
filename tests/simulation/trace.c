/* Lines on the standard output; see trace.h. */
#include "simulation/trace.h"

#include "simulation/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool trace_on;
char *trace_why;
size_t trace_why_size;
static uint64_t total;

void trace_line(const char *who, const char *format, ...)
{
    uint64_t us = now_ns() / US;
    va_list args;
    printf("%6u.%06u %-10s ", (unsigned)(us / 1000000), (unsigned)(us % 1000000), who);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void trace_sum(uint64_t value)
{
    total = (total ^ value ^ now_ns()) * UINT64_C(0x9E3779B97F4A7C15);
    total ^= total >> 29;
}

uint64_t trace_total(void)
{
    return total;
}

void trace_fail(const char *format, ...)
{
    static char text[4096];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    trace_line("FAILED", "%s", text);
    (void)fflush(stdout);
    if (trace_why != NULL)
        (void)snprintf(trace_why, trace_why_size, "%.*s", (int)strcspn(text, ":"), text);
    _Exit(1);
}
