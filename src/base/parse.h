/* Strict parsers of numbers, durations and sizes: the whole text must be the value. */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include "base/span.h"

#include <stdint.h>

/*
 * A decimal integer in its one canonical spelling: `-?(0|[1-9][0-9]*)`, never "-0", within int64.
 * No plus sign, no leading zero, no space: a valid text can be written back byte for byte.
 * Returns 0, -EINVAL or -ERANGE; *out is untouched on error.
 */
int parse_int64(struct span text, int64_t *out) __attribute__((warn_unused_result));

/*
 * A duration: digits and one of ms, s, m, h ("500ms", "30s", "2m"); a bare 0 needs no unit.
 * *out is in milliseconds, 0 to INT64_MAX. Returns 0, -EINVAL or -ERANGE.
 */
int parse_duration_ms(struct span text, int64_t *out) __attribute__((warn_unused_result));

/*
 * A size: digits and none or one of B, KiB, MiB, GiB, without case ("64MiB", "16384").
 * *out is in bytes, 0 to INT64_MAX. Returns 0, -EINVAL or -ERANGE.
 */
int parse_size(struct span text, int64_t *out) __attribute__((warn_unused_result));

#endif
