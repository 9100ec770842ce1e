/*
 * A channel as stored in Redis and as served by the API: the names, types and order of its fields, and the
 * response bodies around them.
 *
 * Redis holds text. An absent value becomes null (the history: {}), and one that does not parse is treated as
 * absent and reported, so that it never breaks a response.
 */
#ifndef MODEL_CHANNEL_H
#define MODEL_CHANNEL_H

#include "base/buf.h"

enum channel_type {
    CHANNEL_TEXT,     /* any bytes; ill-formed UTF-8 is replaced when written */
    CHANNEL_INTEGER,  /* canonical decimal int64 */
    CHANNEL_FLAG,     /* 0 or 1 */
    CHANNEL_DATETIME, /* YYYY-MM-DDTHH:MM:SS, a date that exists */
    CHANNEL_HISTORY   /* a JSON object {"YYYY-MM-DD": int64, ...} */
};

/* X(name, type, in_summary), in the order of the members of a card. A summary has the marked fields in the
 * same order. */
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

enum channel_shape { CHANNEL_SUMMARY, CHANNEL_CARD };

struct span channel_field_name(enum channel_field f);
enum channel_type channel_field_type(enum channel_field f);

/* The fields of a shape, as bits (1 << field). */
static inline unsigned channel_shape_fields(enum channel_shape shape)
{
#define CHANNEL_BIT(name, type, in_summary) | (in_summary##U << CHANNEL_FIELD_##name)
    return shape == CHANNEL_CARD ? (1U << CHANNEL_FIELD_COUNT) - 1 : 0U CHANNEL_FIELDS(CHANNEL_BIT);
#undef CHANNEL_BIT
}

/* Both numbers are constants. */
static inline size_t channel_shape_count(enum channel_shape shape)
{
    return shape == CHANNEL_CARD ? CHANNEL_FIELD_COUNT
                                 : (size_t)__builtin_popcount(channel_shape_fields(CHANNEL_SUMMARY));
}

/* The stored text of each field, borrowed; absent where Redis holds none. */
struct channel_row {
    struct span value[CHANNEL_FIELD_COUNT];
};

/* Writes the JSON object of `row`. Returns the fields whose value did not parse, as bits. */
unsigned channel_write(struct buf *out, const struct channel_row *row, enum channel_shape shape);

bool channel_value_is_valid(enum channel_field f, struct span text);

/* True when no field of the summary is present: no such channel exists, for the list and the card by id. */
bool channel_row_is_empty(const struct channel_row *row);

/*
 * The error in a value that channeld serves as it is, but that loaders should not write: a count below 0,
 * views_48h below views_24h, a repeated day among the latest of the history. Static, the rest of a sentence
 * that begins with the value; NULL when the value is correct or does not parse.
 */
const char *channel_find_fault(const struct channel_row *row, enum channel_field f);

enum { HISTORY_DAYS_MAX = 10 };

/*
 * Writes `stored`, the text of a followers_history (subscriber counts by day), as a JSON object with the
 * latest HISTORY_DAYS_MAX days, ascending. A day that is named twice has its last value. Returns 0, or
 * -EINVAL when `stored` is not a JSON object of existing dates, without escapes, and canonical int64 values:
 * then nothing was written.
 */
int history_write(struct buf *out, struct span stored) __attribute__((warn_unused_result));

/* --- Dates: ISO 8601 without zone; only those that exist are valid --- */

enum { DATETIME_LEN = 19 };

/* "2026-11-21T10:06:06"; seconds up to 59. */
bool datetime_valid(struct span text);

/* Seconds since 1970 of a valid date-time taken as UTC; the contract names no zone. */
int64_t datetime_to_unix(struct span text);

/* --- Response bodies: the contract's envelope; the caller writes the data between its beginning and end ---
 */

enum { PAGE_SIZE = 100 };

/* The position of a page: `page` from 1, `last` at least 1, `count` items on it (at most PAGE_SIZE). */
struct page_info {
    int64_t page;
    int64_t last;
    int count;
    bool has_next;
};

/* The number of the last page of an index of `entries` members; an empty index has one, empty page. */
static inline int64_t page_last(int64_t entries)
{
    return entries <= 0 ? 1 : (entries - 1) / PAGE_SIZE + 1;
}

/* The rank of the first item of `page` (from 1), limited to less than INT64_MAX - PAGE_SIZE. */
static inline int64_t page_first_rank(int64_t page)
{
    int64_t farthest = INT64_MAX / PAGE_SIZE - 1;
    return (page - 1 < farthest ? page - 1 : farthest) * PAGE_SIZE;
}

#define DOCUMENT_BEGIN      "{\"success\":true,\"data\":"
#define DOCUMENT_BEGIN_PAGE DOCUMENT_BEGIN "["
#define DOCUMENT_END_CARD   "}"

void document_end_page(struct buf *out, const struct page_info *info);

#endif
