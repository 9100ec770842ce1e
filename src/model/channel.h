/*
 * A channel as Redis holds it and as the API shows it: the one place that knows the field names, their types
 * and their order (contract, "Resources and their fields").
 *
 * Redis gives text; each value is written as its type asks. What is absent becomes null (the history: {});
 * what does not parse is treated as absent and reported, so that one bad value never breaks a response.
 */
#ifndef MODEL_CHANNEL_H
#define MODEL_CHANNEL_H

#include "base/buf.h"

enum channel_type {
    CHANNEL_TEXT,     /* any bytes; bad UTF-8 is repaired when written */
    CHANNEL_INTEGER,  /* canonical decimal int64 */
    CHANNEL_FLAG,     /* 0 or 1 */
    CHANNEL_DATETIME, /* YYYY-MM-DDTHH:MM:SS, a date that exists */
    CHANNEL_HISTORY   /* a JSON object {"YYYY-MM-DD": int64, ...} */
};

/* X(name, type, in_summary), in the order of the members of a card. A summary has the marked ones, same
 * order. */
#define CHANNEL_FIELDS(X)                      \
    X(max_channel_id, CHANNEL_INTEGER, 1)      \
    X(title, CHANNEL_TEXT, 1)                  \
    X(description, CHANNEL_TEXT, 1)            \
    X(avatar, CHANNEL_TEXT, 1)                 \
    X(link, CHANNEL_TEXT, 1)                   \
    X(category, CHANNEL_TEXT, 0)               \
    X(category2, CHANNEL_TEXT, 0)              \
    X(followers_cnt_today, CHANNEL_INTEGER, 0) \
    X(followers_history, CHANNEL_HISTORY, 0)   \
    X(is_a_plus_flag, CHANNEL_FLAG, 0)         \
    X(views_24h, CHANNEL_INTEGER, 0)           \
    X(views_48h, CHANNEL_INTEGER, 0)           \
    X(er_24h, CHANNEL_INTEGER, 0)              \
    X(er_48h, CHANNEL_INTEGER, 0)              \
    X(updated_at, CHANNEL_DATETIME, 1)

enum channel_field {
#define CHANNEL_ENUM(name, type, in_summary) CHANNEL_FIELD_##name,
    CHANNEL_FIELDS(CHANNEL_ENUM)
#undef CHANNEL_ENUM
        CHANNEL_FIELD_COUNT
};

/* The two shapes in which the API shows a channel. */
enum channel_shape { CHANNEL_SUMMARY, CHANNEL_CARD };

/* The name of a field, in Redis and in JSON alike. */
struct span channel_field_name(enum channel_field f);
enum channel_type channel_field_type(enum channel_field f);

/* The fields of a shape, in order; *count says how many. Borrowed for ever. */
const enum channel_field *channel_shape_fields(enum channel_shape shape, size_t *count);

/* The stored text of each field; absent spans for what Redis does not hold. Borrows all of it. */
struct channel_row {
    struct span value[CHANNEL_FIELD_COUNT];
};

/*
 * Writes the JSON object of `row` in the given shape. Returns the set of fields whose value did not parse, as
 * bits (1 << field); 0 when all was well.
 */
unsigned channel_write(struct buf *out, const struct channel_row *row, enum channel_shape shape);

/*
 * True when no field of the shape is present: Redis answers so for a hash that does not exist. A channel
 * exists when its row is not empty as a summary: the list and the card by id go by the same rule.
 */
bool channel_row_is_empty(const struct channel_row *row, enum channel_shape shape);

enum { HISTORY_DAYS_MAX = 10 };

/*
 * Writes `stored`, the text of a followers_history (subscriber counts by day), as a JSON object with the
 * latest HISTORY_DAYS_MAX days, ascending. A day that is named twice has its last value. Returns 0, or
 * -EINVAL when `stored` is not an object of existing dates and int64 values: then nothing was written. Lack
 * of memory is reported by buf_error(out) alone.
 */
int history_write(struct buf *out, struct span stored) __attribute__((warn_unused_result));

#endif
