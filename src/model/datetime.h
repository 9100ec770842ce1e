/* The contract's local dates and date-times, ISO 8601 without zone: only dates that exist are valid. */
#ifndef MODEL_DATETIME_H
#define MODEL_DATETIME_H

#include "base/span.h"

/* "2026-11-21" */
bool date_valid(struct span text);

/* "2026-11-21T10:06:06"; seconds go to 59. */
bool datetime_valid(struct span text);

#endif
