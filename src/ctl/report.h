/* Problems found in a file or in Redis, one a line: the first ones are printed, the rest is counted. */
#ifndef CTL_REPORT_H
#define CTL_REPORT_H

#include "base/span.h"

#include <stdint.h>
#include <stdio.h>

enum { REPORT_PRINTED_MAX = 20, REPORT_EXCERPT_MAX = 200 };

struct report {
    FILE *to;
    int64_t problems;
    bool redrawn; /* a progress line may stand where we print: wipe it first */
};

void report_init(struct report *r, FILE *to);

void report_problem(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "and N more", when some were not printed. */
void report_finish(const struct report *r);

/* The "s" behind all numbers but one. */
static inline const char *report_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

/*
 * `text` made fit for a terminal and cut to a reasonable length, NUL-terminated: what stands in a file or in
 * Redis must not move the cursor. `out` takes REPORT_EXCERPT_MAX bytes.
 */
const char *report_excerpt(struct span text, char out[REPORT_EXCERPT_MAX]);

#endif
