/*
 * Values: what a reply of Redis holds of a channel or of a link, the JSON of a channel's row, and what is
 * counted and logged of values that cannot be served.
 *
 * Knows nothing of commands and connections: replies are redisReply as hiredis defines it.
 */
#ifndef CACHE_VALUES_H
#define CACHE_VALUES_H

#include "base/buf.h"
#include "cache/metrics.h"
#include "model/channel.h"
#include "redis/resp.h"

/* What a buffer for bodies may keep of its memory between two of them. */
enum { VALUES_TEXT_KEPT = 256 * 1024 };

/* VALUE_INVALID: a reply of another type than the command's. */
enum value_state { VALUE_INVALID, VALUE_ABSENT, VALUE_PRESENT };

/*
 * Parses the reply to an HMGET of all fields of a shape; *row borrows from it. A channel is present when it
 * has at least one field of a summary.
 */
enum value_state values_parse_row(const redisReply *reply, enum channel_shape shape, struct channel_row *row);

/* Parses the reply to the GET of a link. A value that is not an id counts as absent, and *malformed is set;
 * *id is unchanged then. */
enum value_state values_parse_link(const redisReply *reply, int64_t *id, bool *malformed);

/*
 * Replaces `text` with the body of a card, or with the JSON object of a summary in a page. Returns the set of
 * fields whose value did not parse, as channel_write.
 */
unsigned values_write(struct buf *text, const struct channel_row *row, enum channel_shape shape);

/* --- reports of values that are served as absent --- */

enum { VALUE_REPORTS = 1024 };

enum value_report { VALUE_REPORT_NONE, VALUE_REPORT_INVALID, VALUE_REPORT_LEFT_OUT, VALUE_REPORT_OVERSIZE };

/* Embedded, zeros but for `metrics`; private to values.c. */
struct value_reports {
    struct cache_metrics *metrics; /* borrowed */
    /* What was logged last, by the hash of the channel's id or of the key: nothing is logged twice in a row.
     */
    struct {
        enum value_report kind;
        int64_t id;
    } logged[VALUE_REPORTS];
    char newest_update[DATETIME_LEN]; /* the latest updated_at read from Redis; zeros before the first */
};

/* Sets the metric of the newest updated_at that was read, which shows when the loader last wrote. */
void values_note_update(struct value_reports *r, const struct channel_row *row);

/* Counts, and logs, the fields of a channel whose value did not parse, as values_write returns them. */
void values_report_invalid(struct value_reports *r, int64_t id, unsigned fields);

/* Logs that the reply about a key was too large to be read. */
void values_report_oversize(struct value_reports *r, struct span key);

/* Logs that a member of the index is left out of its page, and why. */
void values_report_left_out(struct value_reports *r, int64_t id, const char *reason);

#endif
