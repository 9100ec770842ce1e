/* followers_history: subscriber counts by day, a JSON object kept as text in Redis. */
#ifndef MODEL_HISTORY_H
#define MODEL_HISTORY_H

#include "base/buf.h"

enum { HISTORY_DAYS_MAX = 10 };

/*
 * Writes `stored` as a JSON object with the latest HISTORY_DAYS_MAX days, ascending. A day that is named
 * twice counts with its last value. Returns 0, or -EINVAL when `stored` is not an object of existing dates
 * and int64 values: then nothing was written. Lack of memory is told by buf_error(out) alone.
 */
int history_write(struct buf *out, struct span stored) __attribute__((warn_unused_result));

#endif
