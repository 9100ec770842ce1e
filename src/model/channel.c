/*
 * Channel fields: their table and their conversion to JSON, dates, the history; see channel.h.
 *
 * Nearly every followers_history is stored in the form in which it is served: without spaces, ascending,
 * numbers in canonical form. If so, the text is copied. Otherwise it goes through a JSON parser, and the
 * latest days are sorted in an array of constant size.
 */
#include "model/channel.h"

#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <yyjson.h>

/* --- dates --- */

enum { DATE_LEN = 10 };

/* The two-digit number at `s`, or -1. */
static inline int channel_number(const char *s)
{
    unsigned tens = (unsigned)(s[0] - '0');
    unsigned ones = (unsigned)(s[1] - '0');
    return tens > 9 || ones > 9 ? -1 : (int)(tens * 10 + ones);
}

static int channel_days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* "2026-11-21" */
static bool channel_date_valid(struct span text)
{
    if (text.len != DATE_LEN || text.data[4] != '-' || text.data[7] != '-')
        return false;
    int century = channel_number(text.data);
    int year = channel_number(text.data + 2);
    int month = channel_number(text.data + 5);
    int day = channel_number(text.data + 8);
    return century >= 0 && year >= 0 && month >= 1 && month <= 12 && day >= 1 &&
           (day <= 28 || day <= channel_days_in_month(century * 100 + year, month));
}

static bool channel_below(const char *s, int limit)
{
    int n = channel_number(s);
    return n >= 0 && n < limit;
}

bool datetime_valid(struct span text)
{
    if (text.len != DATETIME_LEN || !channel_date_valid((struct span){text.data, DATE_LEN}))
        return false;
    const char *t = text.data;
    return t[10] == 'T' && channel_below(t + 11, 24) && t[13] == ':' && channel_below(t + 14, 60) &&
           t[16] == ':' && channel_below(t + 17, 60);
}

int64_t datetime_to_unix(struct span text)
{
    const char *t = text.data;
    struct tm tm = {.tm_year = channel_number(t) * 100 + channel_number(t + 2) - 1900,
                    .tm_mon = channel_number(t + 5) - 1,
                    .tm_mday = channel_number(t + 8),
                    .tm_hour = channel_number(t + 11),
                    .tm_min = channel_number(t + 14),
                    .tm_sec = channel_number(t + 17)};
    return timegm(&tm);
}

/* --- followers_history --- */

struct day {
    struct span date;
    int64_t count;
};

static bool channel_read_day(yyjson_val *key, yyjson_val *value, struct day *out)
{
    out->date = (struct span){yyjson_get_str(key), yyjson_get_len(key)};
    if (!channel_date_valid(out->date))
        return false;
    if (yyjson_is_uint(value) && yyjson_get_uint(value) > (uint64_t)INT64_MAX)
        return false;
    if (!yyjson_is_int(value))
        return false;
    out->count = yyjson_get_sint(value);
    return true;
}

/* By date, equal ones in the order of the text: the parser keeps its strings in this order. */
static int channel_compare_days(const void *a, const void *b)
{
    const struct day *one = a;
    const struct day *other = b;
    int order = memcmp(one->date.data, other->date.data, DATE_LEN);
    return order != 0 ? order : one->date.data < other->date.data ? -1 : 1;
}

/*
 * Appends the days of a history to `days`, sorted. *doc, which they borrow from, is owned by the caller
 * (yyjson_doc_free) in every case. Returns 0, -EINVAL or -ENOMEM.
 */
static int channel_read_days(struct span stored, struct buf *days, yyjson_doc **doc)
{
    char *text = (char *)(uintptr_t)stored.data; /* not written to: YYJSON_READ_INSITU is not set */
    yyjson_read_err problem;
    *doc = yyjson_read_opts(text, stored.len, YYJSON_READ_NOFLAG, NULL, &problem);
    if (*doc == NULL && problem.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return -ENOMEM;
    yyjson_val *object = yyjson_doc_get_root(*doc);
    if (!yyjson_is_obj(object))
        return -EINVAL;
    yyjson_obj_iter iter = yyjson_obj_iter_with(object);
    for (yyjson_val *key = NULL; (key = yyjson_obj_iter_next(&iter)) != NULL;) {
        struct day day;
        if (!channel_read_day(key, yyjson_obj_iter_get_val(key), &day))
            return -EINVAL;
        buf_append(days, &day, sizeof day);
    }
    if (days->len > 0)
        qsort(days->data, days->len / sizeof(struct day), sizeof(struct day), channel_compare_days);
    return buf_error(days);
}

/* Writes the latest days; of those with the same date the last one. */
static void channel_write_days(struct buf *out, struct day *day, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || !span_equal(day[i].date, day[i + 1].date))
            day[kept++] = day[i];
    size_t first = kept > HISTORY_DAYS_MAX ? kept - HISTORY_DAYS_MAX : 0;
    buf_append_char(out, '{');
    for (size_t i = first; i < kept; i++) {
        buf_append_str(out, i > first ? ",\"" : "\"");
        buf_append_span(out, day[i].date);
        buf_append_str(out, "\":");
        buf_append_int(out, day[i].count);
    }
    buf_append_char(out, '}');
}

static int channel_write_parsed(struct buf *out, struct span stored)
{
    struct buf days = BUF_INIT;
    yyjson_doc *doc = NULL;
    int err = channel_read_days(stored, &days, &doc);
    if (err == 0)
        channel_write_days(out, (void *)days.data, days.len / sizeof(struct day));
    else if (err == -ENOMEM)
        out->error = err;
    yyjson_doc_free(doc);
    buf_fini(&days);
    return err == -EINVAL ? err : 0;
}

static const char *channel_check_history(struct span stored, struct buf *scratch)
{
    const char *fault = NULL;
    yyjson_doc *doc = NULL;
    int err = channel_read_days(stored, scratch, &doc);
    const struct day *day = (const void *)scratch->data;
    for (size_t i = 0; err == 0 && i < scratch->len / sizeof *day && fault == NULL; i++) {
        bool repeated = i > 0 && span_equal(day[i - 1].date, day[i].date);
        fault = day[i].count < 0 ? "has a count below 0" : repeated ? "has a day twice" : NULL;
    }
    if (err == -ENOMEM)
        scratch->error = err;
    yyjson_doc_free(doc);
    return fault;
}

/* The form in which a history is served. */

enum { DAY_HEAD = DATE_LEN + 3 }; /* "YYYY-MM-DD": */

/* The length of the day at the start of `text`, or 0 when there is none. */
static size_t channel_canonical_day(struct span text)
{
    if (text.len <= DAY_HEAD || text.data[0] != '"' || text.data[DAY_HEAD - 2] != '"' ||
        text.data[DAY_HEAD - 1] != ':' || !channel_date_valid((struct span){text.data + 1, DATE_LEN}))
        return 0;
    size_t end = DAY_HEAD;
    while (end < text.len && text.data[end] != ',' && text.data[end] != '}')
        end++;
    int64_t count = 0;
    return parse_int64((struct span){text.data + DAY_HEAD, end - DAY_HEAD}, &count) == 0 ? end : 0;
}

/* The latest days of a text in that form, with their commas; absent when it has another form, or no days. */
static struct span channel_canonical_days(struct span text)
{
    size_t start[HISTORY_DAYS_MAX]; /* offsets of the latest days; a ring */
    size_t count = 0;
    size_t at = 1;
    for (;; at++) {
        size_t len = at < text.len ? channel_canonical_day(span_skip(text, at)) : 0;
        size_t before = count == 0 ? 0 : start[(count - 1) % HISTORY_DAYS_MAX];
        if (len == 0 || (count > 0 && memcmp(text.data + before, text.data + at, DATE_LEN + 1) >= 0))
            return SPAN_ABSENT;
        start[count++ % HISTORY_DAYS_MAX] = at;
        at += len;
        if (at == text.len || text.data[at] == '}')
            break;
    }
    size_t first = count > HISTORY_DAYS_MAX ? start[count % HISTORY_DAYS_MAX] : 1;
    bool whole = at + 1 == text.len && text.data[0] == '{';
    return whole ? (struct span){text.data + first, at - first} : SPAN_ABSENT;
}

int history_write(struct buf *out, struct span stored)
{
    struct span days = channel_canonical_days(stored);
    if (days.data == NULL)
        return channel_write_parsed(out, stored);
    buf_append_char(out, '{');
    buf_append_span(out, days);
    buf_append_char(out, '}');
    return 0;
}

/* --- fields --- */

/* The text before a value has less. It is copied whole: a copy of constant size is a few instructions. */
enum { MEMBER_ROOM = 32 };

struct field_info {
    struct span name;
    enum channel_type type;
    size_t member_len;
    char member[MEMBER_ROOM]; /* `,"name":"` */
};

static const struct field_info FIELDS[CHANNEL_FIELD_COUNT] = {
#define INFO(name, type, in_summary) \
    {{#name, sizeof #name - 1}, type, sizeof(",\"" #name "\":\"") - 1, ",\"" #name "\":\""},
    CHANNEL_FIELDS(INFO)
#undef INFO
};

static const enum channel_field CARD_FIELDS[] = {
#define CARD_FIELD(name, type, in_summary) CHANNEL_FIELD_##name,
    CHANNEL_FIELDS(CARD_FIELD)
#undef CARD_FIELD
};

static const enum channel_field SUMMARY_FIELDS[] = {
#define SUMMARY_FIELD_0(name)
#define SUMMARY_FIELD_1(name)                 CHANNEL_FIELD_##name,
#define SUMMARY_FIELD(name, type, in_summary) SUMMARY_FIELD_##in_summary(name)
    CHANNEL_FIELDS(SUMMARY_FIELD)
#undef SUMMARY_FIELD
#undef SUMMARY_FIELD_0
#undef SUMMARY_FIELD_1
};

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

const char *channel_find_fault(const struct channel_row *row, enum channel_field f, struct buf *scratch)
{
    int64_t value = 0;
    int64_t of_24h = 0;
    struct span text = row->value[f];
    buf_clear(scratch);
    if (f == CHANNEL_FIELD_followers_history)
        return text.data != NULL ? channel_check_history(text, scratch) : NULL;
    bool is_count = f == CHANNEL_FIELD_followers_cnt_today || f == CHANNEL_FIELD_views_24h ||
                    f == CHANNEL_FIELD_views_48h;
    if (!is_count || parse_int64(text, &value) != 0)
        return NULL;
    if (value < 0)
        return "is below 0";
    bool is_less = f == CHANNEL_FIELD_views_48h &&
                   parse_int64(row->value[CHANNEL_FIELD_views_24h], &of_24h) == 0 && value < of_24h;
    return is_less ? "is less than views_24h" : NULL;
}

static bool channel_is_quoted(enum channel_type type)
{
    return type == CHANNEL_TEXT || type == CHANNEL_DATETIME;
}

/* True when the stored text is a value of its type. The text of an integer is canonical, and so valid JSON.
 */
static bool channel_is_valid(enum channel_type type, struct span text)
{
    int64_t value = 0;
    switch (type) {
    case CHANNEL_INTEGER:
        return parse_int64(text, &value) == 0;
    case CHANNEL_FLAG:
        return span_equal(text, SPAN("0")) || span_equal(text, SPAN("1"));
    case CHANNEL_DATETIME:
        return datetime_valid(text);
    case CHANNEL_TEXT:
    case CHANNEL_HISTORY: /* known when it is written */
        return true;
    }
    return false;
}

/* Writes the name, and the quotation mark that a quoted value begins with. */
static void channel_begin_member(struct buf *out, const struct field_info *info, bool quoted)
{
    if (buf_reserve(out, MEMBER_ROOM) != 0)
        return;
    memcpy(out->data + out->len, info->member, MEMBER_ROOM);
    out->len += info->member_len - !quoted;
}

static void channel_write_absent(struct buf *out, const struct field_info *info)
{
    channel_begin_member(out, info, false);
    buf_append_str(out, info->type == CHANNEL_HISTORY ? "{}" : "null");
}

/* False when the stored text is not valid: then nothing was written. */
static bool channel_write_present(struct buf *out, const struct field_info *info, struct span text)
{
    size_t start = out->len;
    if (!channel_is_valid(info->type, text))
        return false;
    channel_begin_member(out, info, channel_is_quoted(info->type));
    if (info->type == CHANNEL_HISTORY) {
        if (history_write(out, text) != 0)
            out->len = start;
        return out->len != start || buf_error(out) != 0;
    }
    if (info->type == CHANNEL_TEXT)
        json_write_text(out, text);
    else
        buf_append_span(out, text);
    if (channel_is_quoted(info->type))
        buf_append_char(out, '"');
    return true;
}

bool channel_value_is_valid(enum channel_field f, struct span text, struct buf *scratch)
{
    buf_clear(scratch);
    return channel_write_present(scratch, &FIELDS[f], text);
}

unsigned channel_write(struct buf *out, const struct channel_row *row, enum channel_shape shape)
{
    size_t count = 0;
    size_t start = out->len;
    const enum channel_field *fields = channel_shape_fields(shape, &count);
    unsigned invalid = 0;
    for (size_t i = 0; i < count; i++) {
        const struct field_info *info = &FIELDS[fields[i]];
        struct span text = row->value[fields[i]];
        if (text.data != NULL && channel_write_present(out, info, text))
            continue;
        channel_write_absent(out, info);
        if (text.data != NULL)
            invalid |= 1U << fields[i];
    }
    buf_append_char(out, '}');
    if (buf_error(out) == 0)
        out->data[start] = '{'; /* in place of the first comma */
    return invalid;
}

/* --- response bodies --- */

void document_end_page(struct buf *out, const struct page_info *info)
{
    buf_append_str(out, "],\"pagination\":{\"page\":");
    buf_append_int(out, info->page);
    buf_append_str(out, ",\"per_page\":");
    buf_append_int(out, PAGE_SIZE);
    buf_append_str(out, ",\"count\":");
    buf_append_int(out, info->count);
    buf_append_str(out, info->has_next ? ",\"has_next\":true}}" : ",\"has_next\":false}}");
}
