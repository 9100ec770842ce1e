/* Commands, values, and the reports of invalid ones; see body.h. */
#include "cache/body.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* --- commands --- */

/* Composes all of an HMGET but the key. */
static int body_init_hmget(struct commands *c, enum channel_shape shape)
{
    unsigned fields = channel_shape_fields(shape);
    struct buf *text = &c->hmget[shape].text;
    command_begin(text, 2 + channel_shape_count(shape));
    command_add(text, SPAN("HMGET"));
    c->hmget[shape].head = text->len;
    for (; fields != 0; fields &= fields - 1)
        command_add(text, channel_field_name((enum channel_field)__builtin_ctz(fields)));
    return buf_error(text);
}

const struct buf *commands_channel(struct commands *c, int64_t id, enum channel_shape shape)
{
    struct span text = buf_span(&c->hmget[shape].text);
    size_t head = c->hmget[shape].head;
    buf_clear(&c->key);
    keyspace_card(c->keyspace, &c->key, id);
    buf_clear(&c->command);
    buf_append(&c->command, text.data, head);
    command_add_buf(&c->command, &c->key);
    buf_append_span(&c->command, span_skip(text, head));
    return &c->command;
}

const struct buf *commands_link(struct commands *c, struct span link)
{
    buf_clear(&c->key);
    keyspace_link(c->keyspace, &c->key, link);
    command_begin_with_key(&c->command, SPAN("GET"), &c->key, 0);
    return &c->command;
}

/* Begins a command on the key `name`, with `words` words after it. */
static const struct buf *commands_begin(struct commands *c, struct span command, struct span name,
                                        size_t words)
{
    buf_clear(&c->key);
    keyspace_append(c->keyspace, &c->key, name);
    command_begin_with_key(&c->command, command, &c->key, words);
    return &c->command;
}

const struct buf *commands_page(struct commands *c, int64_t page)
{
    int64_t rank = page_first_rank(page);
    (void)commands_begin(c, SPAN("ZRANGE"), KEYSPACE_INDEX, 2);
    command_add_int(&c->command, rank);
    command_add_int(&c->command, rank + PAGE_SIZE);
    return &c->command;
}

const struct buf *commands_index_size(struct commands *c)
{
    return commands_begin(c, SPAN("ZCARD"), KEYSPACE_INDEX, 0);
}

const struct buf *commands_key_count(struct commands *c)
{
    return commands_begin(c, SPAN("SCARD"), KEYSPACE_API_KEYS, 0);
}

const struct buf *commands_begin_infos(struct commands *c, size_t count)
{
    return commands_begin(c, SPAN("HMGET"), KEYSPACE_API_KEY_INFO, count);
}

const struct buf *commands_begin_members(struct commands *c, size_t count)
{
    return commands_begin(c, SPAN("SMISMEMBER"), KEYSPACE_API_KEYS, count);
}

void commands_add_key(struct commands *c, const char digits[DIGEST_HEX_LEN])
{
    command_add(&c->command, (struct span){digits, DIGEST_HEX_LEN});
}

const struct buf *commands_scan(struct commands *c, const char *cursor, int64_t count)
{
    (void)commands_begin(c, SPAN("SSCAN"), KEYSPACE_API_KEYS, 3);
    command_add(&c->command, span_of(cursor));
    command_add(&c->command, SPAN("COUNT"));
    command_add_int(&c->command, count);
    return &c->command;
}

int commands_init(struct commands *c, const struct keyspace *keyspace)
{
    *c = (struct commands){.keyspace = keyspace};
    int err = body_init_hmget(c, CHANNEL_CARD);
    return err != 0 ? err : body_init_hmget(c, CHANNEL_SUMMARY);
}

/* --- channels and links --- */

enum value_state body_parse_row(const struct redis_reply *reply, enum channel_shape shape,
                                struct channel_row *row)
{
    unsigned fields = channel_shape_fields(shape);
    *row = (struct channel_row){0};
    if (reply->type != REPLY_ARRAY || reply->elements != channel_shape_count(shape))
        return VALUE_INVALID;
    const struct redis_reply *value = reply_first(reply);
    for (; fields != 0; fields &= fields - 1, value++) { /* an array ends it */
        if (value->type == REPLY_STRING)
            row->value[__builtin_ctz(fields)] = reply_text(value);
        else if (value->type != REPLY_NIL)
            return VALUE_INVALID;
    }
    return channel_row_is_empty(row) ? VALUE_ABSENT : VALUE_PRESENT;
}

enum value_state body_parse_link(const struct redis_reply *reply, int64_t *id, bool *malformed)
{
    *malformed = false;
    if (reply->type == REPLY_NIL)
        return VALUE_ABSENT;
    if (reply->type != REPLY_STRING)
        return VALUE_INVALID;
    *malformed = parse_int64(reply_text(reply), id) != 0;
    return *malformed ? VALUE_ABSENT : VALUE_PRESENT;
}

unsigned body_write(struct buf *text, const struct channel_row *row, enum channel_shape shape)
{
    buf_recycle(text, BODY_TEXT_KEPT);
    if (shape == CHANNEL_CARD)
        buf_append_str(text, DOCUMENT_BEGIN);
    unsigned invalid = channel_write(text, row, shape);
    if (shape == CHANNEL_CARD)
        buf_append_str(text, DOCUMENT_END_CARD);
    return invalid;
}

/* --- reports --- */

/* A later date than any time zone explains is an error, and would hide that the loader has stopped. */
enum { ZONE_MAX_S = 14 * 3600 };

static bool body_is_due(struct value_reports *r, int64_t id, enum value_report kind)
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
void value_reports_note_update(struct value_reports *r, const struct channel_row *row)
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

void value_reports_invalid(struct value_reports *r, int64_t id, unsigned fields)
{
    if (fields == 0)
        return;
    struct log_line line; /* declared here, since it is large and the compiler fills it with zeros */
    metric_add(&r->metrics->invalid_values_total, (uint64_t)__builtin_popcount(fields));
    if (!body_is_due(r, id, VALUE_REPORT_INVALID) ||
        !log_begin(&line, LOG_WARN, "invalid value in redis, served as absent"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "field", channel_field_name((enum channel_field)__builtin_ctz(fields)));
    log_int(&line, "fields", __builtin_popcount(fields));
    log_end(&line);
}

void value_reports_key_info(struct value_reports *r, const struct digest *key)
{
    enum { SHOWN = 8 };
    char digits[DIGEST_HEX_LEN];
    metric_add(&r->metrics->invalid_values_total, 1);
    digest_hex(key, digits);
    digits[SHOWN] = '\0';
    if (body_is_due(r, (int64_t)digest_hash(key, 0), VALUE_REPORT_KEY_INFO))
        log_text(LOG_WARN,
                 "invalid API key info in redis: without a readable expiry the key is refused, "
                 "without a readable name it has none",
                 "key", digits);
}

void value_reports_oversize(struct value_reports *r, struct buf *key)
{
    if (body_is_due(r, (int64_t)hash_bytes(buf_span(key), 0), VALUE_REPORT_OVERSIZE))
        log_text(LOG_ERROR, resp_oversize.str, "key", buf_c_str(key));
}

void value_reports_error(struct value_reports *r, const struct redis_reply *reply)
{
    enum { INTERVAL_MS = 1000 };
    metric_add(&r->metrics->redis_error_replies_total, 1);
    uint64_t now = clock_now_ms();
    if (now - r->error_logged_ms < INTERVAL_MS)
        return;
    r->error_logged_ms = now;
    log_text(LOG_ERROR, "redis answered with an error", "reply", reply->str);
}

void value_reports_left_out(struct value_reports *r, int64_t id, const char *reason)
{
    struct log_line line;
    if (!body_is_due(r, id, VALUE_REPORT_LEFT_OUT) ||
        !log_begin(&line, LOG_WARN, "index member left out of its page"))
        return;
    log_int(&line, "channel", id);
    log_str(&line, "reason", span_of(reason));
    log_end(&line);
}
