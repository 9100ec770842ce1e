/* Parsing and writing of values, and the reports of invalid ones; see values.h. */
#include "cache/values.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "model/channel.h"

#include <string.h>
#include <time.h>

static struct span text_of(const redisReply *reply)
{
    return (struct span){reply->str, reply->len};
}

/* --- single replies --- */

enum value_state values_parse_row(const redisReply *reply, enum channel_shape shape, struct channel_row *row)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    *row = (struct channel_row){0};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
        return VALUE_INVALID;
    for (size_t i = 0; i < count; i++) {
        const redisReply *value = reply->element[i];
        if (value->type == REDIS_REPLY_STRING)
            row->value[fields[i]] = text_of(value);
        else if (value->type != REDIS_REPLY_NIL)
            return VALUE_INVALID;
    }
    return channel_row_is_empty(row, CHANNEL_SUMMARY) ? VALUE_ABSENT : VALUE_PRESENT;
}

enum value_state values_parse_link(const redisReply *reply, int64_t *id, bool *malformed)
{
    *malformed = false;
    if (reply->type == REDIS_REPLY_NIL)
        return VALUE_ABSENT;
    if (reply->type != REDIS_REPLY_STRING)
        return VALUE_INVALID;
    *malformed = parse_int64(text_of(reply), id) != 0;
    return *malformed ? VALUE_ABSENT : VALUE_PRESENT;
}

unsigned values_write(struct buf *text, const struct channel_row *row, enum channel_shape shape)
{
    buf_recycle(text, VALUES_TEXT_KEPT);
    if (shape == CHANNEL_CARD)
        document_begin_card(text);
    unsigned invalid = channel_write(text, row, shape);
    if (shape == CHANNEL_CARD)
        document_end_card(text);
    return invalid;
}

/* --- reports --- */

/* A later date than any time zone explains is a mistake of the loader, and would hide that it has stopped. */
enum { ZONE_MAX_S = 14 * 3600 };

static bool is_due(struct value_reports *r, int64_t id, enum value_report kind)
{
    size_t slot = ((uint64_t)id * 0x9E3779B97F4A7C15U) >> 54; /* the top ten bits of a Fibonacci hash */
    _Static_assert(VALUE_REPORTS == 1 << 10, "as many as ten bits");
    if (r->logged[slot].kind == kind && r->logged[slot].id == id)
        return false;
    r->logged[slot].kind = kind;
    r->logged[slot].id = id;
    return true;
}

/* Valid date-times compare as text. */
void values_note_update(struct value_reports *r, const struct channel_row *row)
{
    struct span updated_at = row->value[CHANNEL_FIELD_updated_at];
    if (updated_at.len != DATETIME_LEN || memcmp(updated_at.data, r->newest_update, DATETIME_LEN) <= 0 ||
        !datetime_valid(updated_at))
        return;
    int64_t updated_s = datetime_to_unix(updated_at);
    if (updated_s < 0 || updated_s > (int64_t)time(NULL) + ZONE_MAX_S)
        return;
    memcpy(r->newest_update, updated_at.data, DATETIME_LEN);
    metric_set(&r->metrics->catalogue_updated_timestamp_seconds, (uint64_t)updated_s);
}

void values_report_invalid(struct value_reports *r, int64_t id, unsigned fields)
{
    if (fields == 0)
        return;
    struct log_line line; /* here, for it is large and the compiler fills it with zeros */
    metric_add(&r->metrics->invalid_values_total, (uint64_t)__builtin_popcount(fields));
    if (!is_due(r, id, VALUE_REPORT_INVALID) ||
        !log_begin(&line, LOG_WARN, "invalid value in redis, served as absent"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "field", channel_field_name((enum channel_field)__builtin_ctz(fields)));
    log_int(&line, "fields", __builtin_popcount(fields));
    log_end(&line);
}

void values_report_oversize(struct value_reports *r, struct span key)
{
    struct log_line line;
    if (!is_due(r, (int64_t)hash_bytes(key, 0), VALUE_REPORT_OVERSIZE) ||
        !log_begin(&line, LOG_ERROR, resp_oversize.str))
        return;
    log_str(&line, "key", key);
    log_end(&line);
}

void values_report_left_out(struct value_reports *r, int64_t id, const char *reason)
{
    struct log_line line;
    if (!is_due(r, id, VALUE_REPORT_LEFT_OUT) ||
        !log_begin(&line, LOG_WARN, "index member left out of its page"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "reason", span_of(reason));
    log_end(&line);
}
