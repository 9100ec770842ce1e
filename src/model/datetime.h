/* Local dates and date-times of the contract, ISO 8601 without zone. Only dates that exist are valid. */
#ifndef MODEL_DATETIME_H
#define MODEL_DATETIME_H

#include "base/span.h"

#include <stdint.h>

enum { DATETIME_LEN = 19 };

/* "2026-11-21" */
bool date_valid(struct span text);

/* "2026-11-21T10:06:06"; seconds up to 59. */
bool datetime_valid(struct span text);

/* Seconds since 1970 of a valid date-time taken as UTC; the contract names no zone. */
int64_t datetime_to_unix(struct span text);

#endif
