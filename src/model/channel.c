/* Channel fields: their table and how each type becomes JSON; see channel.h. */
#include "model/channel.h"

#include "base/json.h"
#include "base/parse.h"
#include "model/datetime.h"
#include "model/history.h"

struct field_info {
    struct span name;
    struct span member; /* `,"name":` */
    enum channel_type type;
};

static const struct field_info FIELDS[CHANNEL_FIELD_COUNT] = {
#define INFO(name, type, in_summary) {{#name, sizeof #name - 1}, {",\"" #name "\":", sizeof #name + 3}, type},
    CHANNEL_FIELDS(INFO)
#undef INFO
};

static const enum channel_field CARD_FIELDS[] = {
#define CARD_FIELD(name, type, in_summary) CHANNEL_FIELD_##name,
    CHANNEL_FIELDS(CARD_FIELD)
#undef CARD_FIELD
};

static const enum channel_field SUMMARY_FIELDS[] = {CHANNEL_FIELD_max_channel_id, CHANNEL_FIELD_title,
                                                    CHANNEL_FIELD_description,    CHANNEL_FIELD_avatar,
                                                    CHANNEL_FIELD_link,           CHANNEL_FIELD_updated_at};

#define COUNT_SUMMARY(name, type, in_summary) \
    +(in_summary) /* NOLINT(bugprone-macro-parentheses): a summand */
_Static_assert(sizeof SUMMARY_FIELDS / sizeof SUMMARY_FIELDS[0] == 0 CHANNEL_FIELDS(COUNT_SUMMARY),
               "SUMMARY_FIELDS must list the fields marked in the table");
#undef COUNT_SUMMARY

struct span channel_field_name(enum channel_field f)
{
    return FIELDS[f].name;
}

enum channel_type channel_field_type(enum channel_field f)
{
    return FIELDS[f].type;
}

const enum channel_field *channel_shape_fields(enum channel_shape shape, size_t *count)
{
    bool card = shape == CHANNEL_CARD;
    *count =
        card ? sizeof CARD_FIELDS / sizeof CARD_FIELDS[0] : sizeof SUMMARY_FIELDS / sizeof SUMMARY_FIELDS[0];
    return card ? CARD_FIELDS : SUMMARY_FIELDS;
}

bool channel_row_is_empty(const struct channel_row *row, enum channel_shape shape)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    for (size_t i = 0; i < count; i++)
        if (row->value[fields[i]].data != NULL)
            return false;
    return true;
}

static bool write_integer(struct buf *out, struct span text)
{
    int64_t value = 0;
    if (parse_int64(text, &value) != 0)
        return false;
    buf_append_span(out, text); /* canonical, so what was stored is what JSON wants */
    return true;
}

static bool write_flag(struct buf *out, struct span text)
{
    if (!span_equal(text, SPAN("0")) && !span_equal(text, SPAN("1")))
        return false;
    buf_append_span(out, text);
    return true;
}

static bool write_datetime(struct buf *out, struct span text)
{
    if (!datetime_valid(text))
        return false;
    buf_append_char(out, '"');
    buf_append_span(out, text); /* nothing in it needs an escape */
    buf_append_char(out, '"');
    return true;
}

static bool write_present(struct buf *out, enum channel_type type, struct span text)
{
    switch (type) {
    case CHANNEL_TEXT:
        json_write_string(out, text);
        return true;
    case CHANNEL_INTEGER:
        return write_integer(out, text);
    case CHANNEL_FLAG:
        return write_flag(out, text);
    case CHANNEL_DATETIME:
        return write_datetime(out, text);
    case CHANNEL_HISTORY:
        return history_write(out, text) == 0;
    }
    return false;
}

static void write_absent(struct buf *out, enum channel_type type)
{
    buf_append_str(out, type == CHANNEL_HISTORY ? "{}" : "null");
}

unsigned channel_write(struct buf *out, const struct channel_row *row, enum channel_shape shape)
{
    size_t count = 0;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    unsigned unreadable = 0;
    buf_append_char(out, '{');
    for (size_t i = 0; i < count; i++) {
        const struct field_info *info = &FIELDS[fields[i]];
        struct span text = row->value[fields[i]];
        buf_append_span(out, i == 0 ? span_skip(info->member, 1) : info->member);
        if (text.data != NULL && write_present(out, info->type, text))
            continue;
        write_absent(out, info->type);
        if (text.data != NULL)
            unreadable |= 1U << fields[i];
    }
    buf_append_char(out, '}');
    return unreadable;
}
