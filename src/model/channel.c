/* Channel fields: their table and their conversion to JSON, dates, the history; see channel.h. */
#include "model/channel.h"

#include "base/json.h"
#include "base/text.h"

#include <errno.h>
#include <time.h>

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

/* "2026-11-21" as the number 20261121; 0 if it is not a date. */
static int channel_date_of(struct span text)
{
    if (text.len != DATE_LEN || text.data[4] != '-' || text.data[7] != '-')
        return 0;
    int century = channel_number(text.data);
    int year = channel_number(text.data + 2);
    int month = channel_number(text.data + 5);
    int day = channel_number(text.data + 8);
    bool is_valid = century >= 0 && year >= 0 && month >= 1 && month <= 12 && day >= 1 &&
                    (day <= 28 || day <= channel_days_in_month(century * 100 + year, month));
    return is_valid ? ((century * 100 + year) * 100 + month) * 100 + day : 0;
}

static bool channel_below(const char *s, int limit)
{
    int n = channel_number(s);
    return n >= 0 && n < limit;
}

bool datetime_valid(struct span text)
{
    if (text.len != DATETIME_LEN || channel_date_of((struct span){text.data, DATE_LEN}) == 0)
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
    int date;
    const char *text; /* of the date */
    struct span count;
};

/* The latest days, ascending. There is room for one more, before the oldest is dropped. */
struct history {
    size_t days;
    struct day day[HISTORY_DAYS_MAX + 1];
    bool has_negative, has_repeated;
};

static struct span channel_skip_space(struct span text)
{
    while (text.len > 0 &&
           (*text.data == ' ' || *text.data == '\n' || *text.data == '\r' || *text.data == '\t'))
        text = span_skip(text, 1);
    return text;
}

/* Removes `c`, and white space before it. False if another character is there. */
static inline bool channel_skip(struct span *text, char c)
{
    if (text->len == 0 || *text->data != c)
        *text = channel_skip_space(*text);
    if (text->len == 0 || *text->data != c)
        return false;
    *text = span_skip(*text, 1);
    return true;
}

static void channel_keep_day(struct history *h, struct day day)
{
    size_t at = h->days;
    while (at > 0 && h->day[at - 1].date > day.date)
        at--;
    if (at > 0 && h->day[at - 1].date == day.date) {
        h->day[at - 1] = day;
        h->has_repeated = true;
        return;
    }
    for (size_t i = h->days; i > at; i--)
        h->day[i] = h->day[i - 1];
    h->day[at] = day;
    if (h->days < HISTORY_DAYS_MAX)
        h->days++;
    else
        memmove(&h->day[0], &h->day[1], HISTORY_DAYS_MAX * sizeof day);
}

/* Removes `"YYYY-MM-DD":count` from the text. */
static bool channel_read_day(struct span *text, struct history *h)
{
    int64_t count = 0;
    if (!channel_skip(text, '"') || text->len <= DATE_LEN || text->data[DATE_LEN] != '"')
        return false;
    struct day day = {.date = channel_date_of((struct span){text->data, DATE_LEN}), .text = text->data};
    if (day.date == 0)
        return false;
    *text = span_skip(*text, DATE_LEN + 1);
    if (!channel_skip(text, ':'))
        return false;
    *text = channel_skip_space(*text);
    size_t n = 0;
    while (n < text->len && (ascii_is_digit(text->data[n]) || text->data[n] == '-'))
        n++;
    day.count = (struct span){text->data, n};
    *text = span_skip(*text, n);
    if (parse_int64(day.count, &count) != 0)
        return false;
    h->has_negative = h->has_negative || count < 0;
    channel_keep_day(h, day);
    return true;
}

static bool channel_read_history(struct span text, struct history *out)
{
    out->days = 0;
    out->has_negative = out->has_repeated = false;
    if (!channel_skip(&text, '{'))
        return false;
    if (!channel_skip(&text, '}')) {
        do {
            if (!channel_read_day(&text, out))
                return false;
        } while (channel_skip(&text, ','));
        if (!channel_skip(&text, '}'))
            return false;
    }
    return channel_skip_space(text).len == 0;
}

int history_write(struct buf *out, struct span stored)
{
    enum { DAY_ROOM = DATE_LEN + INT64_DIGITS_MAX + 4 };
    struct history h;
    if (!channel_read_history(stored, &h))
        return -EINVAL;
    if (buf_reserve(out, 2 + h.days * DAY_ROOM) != 0)
        return 0;
    char *at = out->data + out->len;
    *at++ = '{';
    for (const struct day *day = h.day; day < h.day + h.days; day++) {
        if (day > h.day)
            *at++ = ',';
        *at++ = '"';
        at = span_put((struct span){day->text, DATE_LEN}, at);
        at = span_put(SPAN("\":"), at);
        at = span_put(day->count, at);
    }
    *at++ = '}';
    out->len = (size_t)(at - out->data);
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

struct span channel_field_name(enum channel_field f)
{
    return FIELDS[f].name;
}

enum channel_type channel_field_type(enum channel_field f)
{
    return FIELDS[f].type;
}

bool channel_row_is_empty(const struct channel_row *row)
{
    for (unsigned rest = channel_shape_fields(CHANNEL_SUMMARY); rest != 0; rest &= rest - 1)
        if (row->value[__builtin_ctz(rest)].data != NULL)
            return false;
    return true;
}

const char *channel_find_fault(const struct channel_row *row, enum channel_field f)
{
    int64_t value = 0;
    int64_t of_24h = 0;
    struct history history;
    struct span text = row->value[f];
    if (f == CHANNEL_FIELD_followers_history && channel_read_history(text, &history))
        return history.has_negative ? "has a count below 0" : history.has_repeated ? "has a day twice" : NULL;
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

/* A function of its own, since the compiler fills the history with zeros. */
static bool channel_history_is_valid(struct span text)
{
    struct history history;
    return channel_read_history(text, &history);
}

/* The text of an integer is canonical, and so valid JSON. */
bool channel_value_is_valid(enum channel_field f, struct span text)
{
    int64_t value = 0;
    switch (FIELDS[f].type) {
    case CHANNEL_INTEGER:
        return parse_int64(text, &value) == 0;
    case CHANNEL_FLAG:
        return span_equal(text, SPAN("0")) || span_equal(text, SPAN("1"));
    case CHANNEL_DATETIME:
        return datetime_valid(text);
    case CHANNEL_HISTORY:
        return channel_history_is_valid(text);
    case CHANNEL_TEXT:
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

/* False when the stored text is not valid: then what was written has no meaning. */
static bool channel_write_present(struct buf *out, enum channel_field f, struct span text)
{
    enum channel_type type = FIELDS[f].type;
    bool quoted = type == CHANNEL_TEXT || type == CHANNEL_DATETIME;
    if (type != CHANNEL_HISTORY && !channel_value_is_valid(f, text))
        return false;
    channel_begin_member(out, &FIELDS[f], quoted);
    if (type == CHANNEL_HISTORY)
        return history_write(out, text) == 0;
    if (type == CHANNEL_TEXT)
        json_write_text(out, text);
    else
        buf_append_span(out, text);
    if (quoted)
        buf_append_char(out, '"');
    return true;
}

unsigned channel_write(struct buf *out, const struct channel_row *row, enum channel_shape shape)
{
    size_t start = out->len;
    unsigned invalid = 0;
    for (unsigned rest = channel_shape_fields(shape); rest != 0; rest &= rest - 1) {
        enum channel_field f = (enum channel_field)__builtin_ctz(rest);
        size_t member = out->len;
        if (row->value[f].data != NULL && channel_write_present(out, f, row->value[f]))
            continue;
        out->len = member;
        channel_begin_member(out, &FIELDS[f], false);
        buf_append_str(out, FIELDS[f].type == CHANNEL_HISTORY ? "{}" : "null");
        if (row->value[f].data != NULL)
            invalid |= 1U << f;
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
