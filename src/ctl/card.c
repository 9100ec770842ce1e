/* Reading a line of a file of channels; see card.h. */
#include "ctl/card.h"

#include "model/channel.h"
#include "model/datetime.h"

#include <errno.h>
#include <stdlib.h>
#include <yyjson.h>

/* The work on one line. */
struct reader {
    const struct card_source *from;
    const struct link_hosts *hosts;
    struct buf *arena;
    struct card *card;
    unsigned seen; /* fields, as bits */
    bool refused;
    int error; /* -ENOMEM */
};

static void refuse(struct reader *r, struct span field, const char *what)
{
    char name[REPORT_EXCERPT_MAX];
    report_problem(r->from->report, "%s:%lld: %s: %s", r->from->file, (long long)r->from->line,
                   report_excerpt(field, name), what);
    r->refused = true;
}

/* For what is wrong with the line as a whole. */
static void refuse_line(struct reader *r, const char *what)
{
    report_problem(r->from->report, "%s:%lld: %s", r->from->file, (long long)r->from->line, what);
    r->refused = true;
}

static struct span keep(struct reader *r, struct span text)
{
    size_t at = r->arena->len;
    buf_append_span(r->arena, text);
    if (buf_error(r->arena) != 0) {
        r->error = buf_error(r->arena);
        return SPAN_ABSENT;
    }
    return (struct span){r->arena->data + at, text.len};
}

static bool is_int64(yyjson_val *value)
{
    return yyjson_is_sint(value) || (yyjson_is_uint(value) && yyjson_get_uint(value) <= (uint64_t)INT64_MAX);
}

/* Each of these sets *out and returns NULL, or returns what was expected. */
static const char *read_text(struct reader *r, enum channel_field f, yyjson_val *value, struct span *out)
{
    if (!yyjson_is_str(value))
        return "a string or null is expected";
    struct span text = {yyjson_get_str(value), yyjson_get_len(value)};
    if (f == CHANNEL_FIELD_link && !link_is_stored_shape(r->hosts, text))
        return "https://<channel-host>/<slug> or null is expected";
    *out = keep(r, text);
    return NULL;
}

static const char *read_integer(struct reader *r, enum channel_field f, yyjson_val *value, struct span *out)
{
    if (f == CHANNEL_FIELD_is_a_plus_flag && !(yyjson_is_uint(value) && yyjson_get_uint(value) <= 1))
        return "0, 1 or null is expected";
    if (!is_int64(value))
        return f == CHANNEL_FIELD_max_channel_id ? "a 64-bit integer is expected"
                                                 : "a 64-bit integer or null is expected";
    char digits[INT64_DIGITS_MAX];
    *out = keep(r, (struct span){digits, format_int64(yyjson_get_sint(value), digits)});
    if (f == CHANNEL_FIELD_max_channel_id)
        r->card->id = yyjson_get_sint(value);
    return NULL;
}

static const char *read_datetime(struct reader *r, yyjson_val *value, struct span *out)
{
    struct span text = {yyjson_get_str(value), yyjson_get_len(value)};
    if (text.data == NULL || !datetime_valid(text))
        return "YYYY-MM-DDTHH:MM:SS or null is expected";
    *out = keep(r, text);
    return NULL;
}

/* Kept as compact JSON with all its days; whether it can be read is for the code to say that will read it. */
static const char *read_history(struct reader *r, yyjson_val *value, struct span *out)
{
    static const char pending[] = "an object of YYYY-MM-DD dates and 64-bit integers, or null, is expected";
    if (!yyjson_is_obj(value))
        return pending;
    struct buf days = BUF_INIT;
    size_t length = 0;
    char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &length); /* what was read can be written */
    bool valid = text != NULL && history_write(&days, (struct span){text, length}) == 0;
    if (text == NULL || buf_error(&days) != 0)
        r->error = -ENOMEM;
    else if (valid)
        *out = keep(r, (struct span){text, length});
    buf_fini(&days);
    free(text);
    return valid || r->error != 0 ? NULL : pending;
}

static const char *read_value(struct reader *r, enum channel_field f, yyjson_val *value, struct span *out)
{
    switch (channel_field_type(f)) {
    case CHANNEL_TEXT:
        return read_text(r, f, value, out);
    case CHANNEL_INTEGER:
    case CHANNEL_FLAG:
        return read_integer(r, f, value, out);
    case CHANNEL_DATETIME:
        return read_datetime(r, value, out);
    case CHANNEL_HISTORY:
        return read_history(r, value, out);
    }
    return "an unknown type";
}

static int find_field(struct span name)
{
    for (int f = 0; f < CHANNEL_FIELD_COUNT; f++)
        if (span_equal(channel_field_name((enum channel_field)f), name))
            return f;
    return -ENOENT;
}

static void read_member(struct reader *r, yyjson_val *key, yyjson_val *value)
{
    struct span name = {unsafe_yyjson_get_str(key), unsafe_yyjson_get_len(key)}; /* keys are strings */
    int f = find_field(name);
    if (f < 0) {
        refuse(r, name, "no such field");
        return;
    }
    if ((r->seen & 1U << f) != 0) {
        refuse(r, name, "given twice");
        return;
    }
    r->seen |= 1U << f;
    if (yyjson_is_null(value) && f != CHANNEL_FIELD_max_channel_id)
        return;
    const char *pending = read_value(r, (enum channel_field)f, value, &r->card->row.value[f]);
    if (pending != NULL)
        refuse(r, name, pending);
}

static void read_object(struct reader *r, yyjson_val *object)
{
    yyjson_obj_iter iter;
    if (!yyjson_obj_iter_init(object, &iter)) {
        refuse_line(r, "a JSON object is expected");
        return;
    }
    yyjson_val *key = NULL;
    while ((key = yyjson_obj_iter_next(&iter)) != NULL)
        read_member(r, key, yyjson_obj_iter_get_val(key));
    if ((r->seen & 1U << CHANNEL_FIELD_max_channel_id) == 0)
        refuse(r, channel_field_name(CHANNEL_FIELD_max_channel_id), "missing, a 64-bit integer is expected");
}

static void refuse_syntax(struct reader *r, const yyjson_read_err *error)
{
    char what[128];
    (void)snprintf(what, sizeof what, "a JSON object is expected (%s at byte %zu)", error->msg,
                   error->pos + 1);
    refuse_line(r, what);
}

int card_read(const struct card_source *from, const struct link_hosts *hosts, struct span line,
              struct buf *arena, struct card *out)
{
    *out = (struct card){0};
    struct reader r = {.from = from, .hosts = hosts, .arena = arena, .card = out};
    size_t arena_was = arena->len;
    yyjson_read_err error;
    char *text = (char *)(uintptr_t)line.data; /* not written to: YYJSON_READ_INSITU is not set */
    yyjson_doc *doc = yyjson_read_opts(text, line.len, YYJSON_READ_NOFLAG, NULL, &error);
    if (doc != NULL)
        read_object(&r, yyjson_doc_get_root(doc));
    else if (error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        r.error = -ENOMEM;
    else
        refuse_syntax(&r, &error);
    yyjson_doc_free(doc);
    if (r.refused || r.error != 0)
        arena->len = arena_was;
    return r.error != 0 ? r.error : (r.refused ? -EINVAL : 0);
}
